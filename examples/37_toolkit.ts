/**
 * @title A toolkit of effect/ai: its calls are held, and Fermata's tools go the other way
 *
 * The toolkit and its handlers stay as they are. In a run, a call of `refund` is held until it is approved, in this process or another, and
 * its handler runs once. `toToolkit` gives tools to a `LanguageModel` outside of a run. The model is scripted.
 */
import assert from "node:assert/strict"
import { Agent, approve, decideStored, RunStore, Runtime, runPromptStored, Tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"
import { fromToolkit, toToolkit } from "@fermata/sdk/toolkit"
import { Context, Effect, Layer, Schema, Stream } from "effect"
import { Tool as AiTool, Toolkit } from "effect/ai"

class Bank extends Context.Service<
  Bank,
  { readonly pay: (to: string, euros: number) => Effect.Effect<string> }
>()("example/Bank") {}
class NoSuchOrder extends Schema.TaggedError<NoSuchOrder>()("NoSuchOrder", { order: Schema.String }) {}

const Refund = AiTool.make("refund", {
  description: "Refunds an order",
  parameters: Schema.Struct({ order: Schema.String }),
  success: Schema.Struct({ receipt: Schema.String, at: Schema.DateFromString }),
  failure: NoSuchOrder
})
const Orders = AiTool.make("orders", { success: Schema.Array(Schema.String) }).annotate(AiTool.Readonly, true)
const Support = Toolkit.make(Refund, Orders)

const handlers = Support.toLayer(
  Effect.gen(function* () {
    const bank = yield* Bank
    return {
      orders: () => Effect.succeed(["A-17"]),
      refund: ({ order }) =>
        order === "A-17"
          ? Effect.map(bank.pay("Mr. Olsen", 50), (receipt) => ({ receipt, at: new Date(0) }))
          : Effect.fail(new NoSuchOrder({ order }))
    }
  })
)

const payments: Array<string> = []
const bank = Layer.succeed(Bank, {
  pay: (to, euros) => Effect.sync(() => `receipt ${payments.push(`${euros} to ${to}`)}`)
})
const model = ScriptedModel.make([
  { calls: [{ tool: "orders" }] },
  { calls: [{ tool: "refund", arguments: { order: "A-17" } }] },
  "It is on its way."
])

const program = Effect.gen(function* () {
  const tools = fromToolkit(Support, { refund: { preview: ({ order }) => `the order ${order}` } })
  const runtime = yield* Runtime.make({ agent: Agent.make("support", { tools }) })
  const held = yield* runPromptStored(runtime, { prompt: "Refund my order." })
  assert.deepEqual(payments, [])
  if (held.status !== "interrupted") return assert.fail(held.status)
  const { requestId } = held.interruptions[0]!
  yield* decideStored([runtime], { ...approve(), requestId, by: "ana" })
  const done = yield* runPromptStored(runtime, { runId: held.runId })
  assert.equal(done.status, "completed")
  assert.deepEqual(payments, ["50 to Mr. Olsen"])

  // The other way: a tool of Fermata where a program takes a toolkit. `success` is the schema of what the model receives.
  const clock = Tool.make("clock", {
    safety: "readOnly",
    success: Schema.DateFromString,
    handler: () => new Date(0)
  })
  const toolkit = yield* toToolkit([clock])
  const [result] = yield* Stream.runCollect(yield* toolkit.handle("clock", {}))
  console.log(payments.join(), result?.encodedResult)
})

const services = Layer.mergeAll(Layer.provide(handlers, bank), model.layer, RunStore.layerMemory)

export const main = () => Effect.runPromise(Effect.provide(program, services))

if (import.meta.main) await main()
