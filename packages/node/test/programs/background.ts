/**
 * A process with a background run. Arguments: `dispatch` or `attach`, the database, the log of effects, the run's id, and a file whose
 * existence lets the slow tool continue. Prints `begun`, then every status of the run.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"
import { agent, attach, dispatchPromptStored, Runtime, SqliteStore, tool } from "@fermata/node"
import type { BoundAgent, RuntimeError } from "@fermata/sdk/agent"
import { ModelClient } from "@fermata/sdk/model"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"

/** An agent that looks slowly and then charges a card, which needs approval. Both tools write to the log. */
export const makeRuntime = (options: {
  readonly log: string
  readonly gate: string
  readonly owner: string
}): Effect.Effect<
  Runtime.Runtime<undefined>,
  BoundAgent.DefinitionError | RuntimeError.RuntimeOptionsInvalid
> => {
  const note = (line: string) => Fs.appendFileSync(options.log, `${line}\n`)
  const look = tool("look", {
    safety: "readOnly",
    handler: () => {
      note(`${options.owner} looks`)
      return Effect.as(opened(options.gate), "seen")
    }
  })
  const charge = tool("charge", {
    handler: (_, { idempotencyKey }) => {
      note(`charged ${idempotencyKey}`)
      return "charged"
    }
  })
  const model = ScriptedModel.make(({ turn }) =>
    turn === 1
      ? { calls: [{ tool: "look" }] }
      : turn === 2
        ? { calls: [{ tool: "charge" }] }
        : "The card is charged."
  )
  return Effect.provideService(
    Runtime.make({
      agent: agent("cashier", { tools: [look, charge] }),
      owner: options.owner,
      leaseTtl: "1 second"
    }),
    ModelClient.ModelClient,
    model.client
  )
}

/** Waits until the file exists. */
const opened = (gate: string) =>
  Effect.callback<void>((resume) => {
    const watcher = Fs.watch(Path.dirname(gate), () => look())
    const look = () => {
      if (!Fs.existsSync(gate)) return
      watcher.close()
      resume(Effect.void)
    }
    look()
    return Effect.sync(() => watcher.close())
  })

if (import.meta.main) {
  const [what, store, log, runId, gate] = process.argv.slice(2)
  const program = Effect.gen(function* () {
    const runtime = yield* makeRuntime({ log: log!, gate: gate!, owner: `${what}-${process.pid}` })
    const handle = yield* what === "dispatch"
      ? dispatchPromptStored(runtime, { prompt: "Charge it.", runId: runId as never })
      : attach([runtime], runId as never)
    process.stdout.write("begun\n")
    yield* Stream.runForEach(handle.status.changes, (status) =>
      Effect.sync(() => process.stdout.write(`${status}\n`))
    )
  })
  await Effect.runPromise(
    program.pipe(
      Effect.scoped,
      Effect.provide(Layer.fresh(SqliteStore.layer({ filename: store!, synchronous: "normal" })))
    )
  )
}
