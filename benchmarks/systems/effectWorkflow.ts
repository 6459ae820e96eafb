/**
 * Effect's workflow engine: an agent's loop as a workflow whose model calls and tool calls are activities. In memory by its own layer,
 * stored by `effect/cluster` with one runner.
 */
import * as Path from "node:path"
import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import * as ClusterWorkflowEngine from "effect/cluster/ClusterWorkflowEngine"
import * as SingleRunner from "effect/cluster/SingleRunner"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import * as Activity from "effect/workflow/Activity"
import * as Workflow from "effect/workflow/Workflow"
import * as WorkflowEngine from "effect/workflow/WorkflowEngine"
// oxlint-disable-next-line no-restricted-imports -- This measures another system than Fermata, and Effect has no client of this version yet.
import * as SqliteClient from "../../packages/node/src/internal/sqlite/client.ts"
import type { Adapter, Script } from "../System.ts"

const Answer = Schema.Struct({
  text: Schema.optionalKey(Schema.String),
  calls: Schema.optionalKey(
    Schema.Array(Schema.Struct({ id: Schema.String, name: Schema.String, arguments: Schema.String }))
  )
})

const Worker = Workflow.make("worker", {
  payload: { run: Schema.String },
  idempotencyKey: ({ run }) => run,
  success: Schema.String
})

/** The loop: each model call and each tool call is an activity. */
const loopOf = ({ answer, pause, tools }: Script) =>
  Worker.toLayer(() =>
    Effect.gen(function* () {
      for (let turn = 1; ; turn++) {
        const { calls = [], text = "" } = yield* Activity.make({
          name: `model-${turn}`,
          success: Answer,
          execute:
            pause === undefined
              ? Effect.sync(() => answer(turn))
              : Effect.map(Effect.promise(pause), () => answer(turn))
        })
        if (calls.length === 0) return text
        yield* Effect.forEach(
          calls,
          (call) =>
            Activity.make({
              name: `tool-${turn}-${call.id}`,
              success: Schema.String,
              execute: Effect.promise(async () =>
                tools
                  .find(({ name }) => name === call.name)!
                  .run(JSON.parse(call.arguments) as Readonly<Record<string, number>>)
              )
            }),
          { concurrency: "unbounded", discard: true }
        )
      }
    })
  )

type Engine = Layer.Layer<WorkflowEngine.WorkflowEngine, unknown>

const open = async (script: Script, engine: Engine) => {
  const runtime = ManagedRuntime.make(Layer.provideMerge(loopOf(script), engine))
  let runs = 0
  await runtime.context()
  return {
    run: () => runtime.runPromise(Worker.execute({ run: `run-${++runs}` })),
    close: () => runtime.dispose()
  }
}

const inMemory = async (script: Script) => (await open(script, WorkflowEngine.layerMemory)).run

/** Fermata's own client: Effect's has no release for this version of Effect yet. */
const sqlite = (filename: string) =>
  Layer.provide(
    Layer.effect(
      SqlClient.SqlClient,
      SqliteClient.make({ filename, settings: "PRAGMA synchronous = FULL;" })
    ),
    Reactivity.layer
  )

const noConversation =
  "it stores the steps of one execution, and no conversation that a prompt could continue."

export const adapter: Adapter = {
  step: inMemory,
  fanOut: inMemory,
  parallel: inMemory,
  stored: async (folder, script) =>
    open(
      script,
      ClusterWorkflowEngine.layer.pipe(
        Layer.provideMerge(SingleRunner.layer({ runnerStorage: "memory" })),
        Layer.provide([sqlite(Path.join(folder, "cluster.db")), NodeCrypto.layerDigest])
      )
    ),
  hold: { cannot: noConversation },
  stream: { cannot: "an execution has one result at its end, and no stream." },
  conversation: { cannot: noConversation },
  inbox: { cannot: "it cannot list what executions wait for: the program must know their ids." }
}
