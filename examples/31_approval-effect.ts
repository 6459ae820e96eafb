/**
 * @title The same approval in Effect
 *
 * The Promise API uses the same services: a `RunStore` (here a SQLite file), a `ModelClient` (scripted here), and a `Runtime` that
 * binds an agent to them. A tool's handler may be an effect. Its requirements become requirements of `Runtime.make`, so the program
 * does not compile without the `Payments` service below. It also needs `@effect/platform-node`.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Agent, approve, decideStored, RunStore, Runtime } from "@fermata/node"
import { runPromptStored, SqliteStore, Tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"
import { Console, Context, Deferred, Effect, Fiber, Layer, Schema } from "effect"

class Payments extends Context.Service<
  Payments,
  { readonly refund: (customer: string, euros: number, key: string) => Effect.Effect<string> }
>()("example/Payments") {}

const refund = Tool.make("refund", {
  parameters: Schema.Struct({ customer: Schema.String, euros: Schema.Finite }),
  handler: ({ customer, euros }, { idempotencyKey }) =>
    Effect.flatMap(Payments, (payments) => payments.refund(customer, euros, idempotencyKey))
})
const support = Agent.make("support", { tools: [refund] })

const model = ScriptedModel.make([
  { calls: [{ tool: "refund", arguments: { customer: "Mr. Olsen", euros: 500 } }] },
  "The refund is on its way."
])

const program = Effect.gen(function* () {
  const moved: Array<string> = []
  const started = yield* Deferred.make<void>()
  const bank = yield* Deferred.make<void>()
  const payments = Payments.of({
    refund: Effect.fnUntraced(function* (customer, euros) {
      yield* Deferred.succeed(started, undefined)
      yield* Deferred.await(bank)
      moved.push(`${euros} to ${customer}`)
      return "paid"
    })
  })
  const runtimeOf = (owner: string) =>
    Effect.provideService(Runtime.make({ agent: support, owner }), Payments, payments)
  const ana = yield* runtimeOf("ana")
  const ben = yield* runtimeOf("ben")

  const held = yield* runPromptStored(ana, { prompt: "Mr. Olsen wants his money back." })
  const store = yield* RunStore.RunStore
  const [asked] = yield* store.pending({ runId: held.runId })
  if (asked === undefined) return yield* Effect.die("There is no open request.")
  const { requestId } = asked.request
  const edited = approve({ arguments: { customer: "Mr. Olsen", euros: 50 } })
  yield* decideStored([ana], { ...edited, requestId, by: "ana" })
  const late = yield* Effect.flip(decideStored([ben], { ...approve(), requestId, by: "ben" }))
  yield* Console.log(`ben: ${late.message}`)

  const won = yield* Effect.forkChild(runPromptStored(ana, { runId: held.runId }))
  yield* Deferred.await(started)
  const busy = yield* Effect.flip(runPromptStored(ben, { runId: held.runId }))
  yield* Console.log(`ben: ${busy.message}`)
  yield* Deferred.succeed(bank, undefined)
  const done = yield* Fiber.join(won)

  const asTold = [late._tag, busy._tag, done.status, ...moved].join(", ")
  if (asTold !== "AlreadyDecided, RunBusy, completed, 50 to Mr. Olsen") return yield* Effect.die(asTold)
  yield* Console.log(asTold)
})

export const main: Effect.Effect<void, unknown> = program.pipe(
  Effect.provide(Layer.merge(SqliteStore.layer({ filename: "fermata.db" }), model.layer))
)

if (import.meta.main) NodeRuntime.runMain(main)
