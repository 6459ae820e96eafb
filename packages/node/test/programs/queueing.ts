/**
 * A process with a conductor of two slots. Arguments: `dispatch` or `adopt`, the database, and the log of effects. `dispatch` fills the slots
 * with runs that never end and queues twelve runs, each of which charges a card; `adopt` adopts the runs. Prints the id of each
 * queued run, `ready`, and `charged` after each charge.
 */
import * as Fs from "node:fs"
import { agent, Conductor, Runtime, SqliteStore, tool } from "@fermata/node"
import type { BoundAgent, RuntimeError } from "@fermata/sdk/agent"
import { ModelClient } from "@fermata/sdk/model"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** An agent that charges a card without approval. The log tells whether a charge has happened. */
export const makeRuntime = (options: {
  readonly log: string
  readonly owner: string
  readonly onCharged?: () => void
}): Effect.Effect<
  Runtime.Runtime<undefined>,
  BoundAgent.DefinitionError | RuntimeError.RuntimeOptionsInvalid
> => {
  const charge = tool("charge", {
    needsApproval: false,
    handler: (_, { idempotencyKey }) => {
      Fs.appendFileSync(options.log, `${idempotencyKey}\n`)
      options.onCharged?.()
      return "charged"
    },
    reconcile: (key) =>
      Fs.readFileSync(options.log, "utf8").split("\n").includes(key)
        ? { _tag: "happened", result: "charged" }
        : { _tag: "notHappened" }
  })
  const model = ScriptedModel.make(({ messages, turn }) => {
    if (JSON.stringify(messages).includes("hang")) return { hang: true }
    return turn === 1 ? { calls: [{ tool: "charge" }] } : "The card is charged."
  })
  return Effect.provideService(
    Runtime.make({
      agent: agent("cashier", { tools: [charge] }),
      owner: options.owner,
      leaseTtl: "1 second"
    }),
    ModelClient.ModelClient,
    model.client
  )
}

if (import.meta.main) {
  const [what, store, log] = process.argv.slice(2)
  const program = Effect.gen(function* () {
    const runtime = yield* makeRuntime({
      log: log!,
      owner: `${what}-${process.pid}`,
      onCharged: () => process.stdout.write("charged\n")
    })
    const conductor = yield* Conductor.make({ name: "cards", concurrency: 2 })
    const say = ({ runId }: { readonly runId: string }) => process.stdout.write(`${runId}\n`)
    if (what === "adopt") {
      const adopted = yield* conductor.adopt([runtime])
      adopted.forEach(say)
    } else {
      for (const _ of [1, 2]) yield* conductor.dispatchStored(runtime, { prompt: "hang" })
      for (let card = 1; card <= 12; card++) {
        say(
          yield* conductor.dispatchStored(
            runtime,
            { prompt: `Charge card ${card}.` },
            { name: `card/${card}` }
          )
        )
      }
    }
    process.stdout.write("ready\n")
    return yield* Effect.never
  })
  await Effect.runPromise(
    program.pipe(
      Effect.scoped,
      Effect.provide(Layer.fresh(SqliteStore.layer({ filename: store!, synchronous: "normal" })))
    )
  )
}
