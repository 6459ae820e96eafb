/**
 * A program on Effect that exports everything it makes and gets, with inferred types. Compiled with `declaration: true` outside the
 * workspace, never run: a type without a public name is an error there. A spread spells the members of its type out.
 */
import { AiSdkModel } from "@fermata/ai-sdk"
import {
  Agent,
  attach,
  captureState,
  checkResume,
  Conductor,
  createRuntime,
  decideStored,
  dispatchPrompt,
  dispatchPromptStored,
  explain,
  explainState,
  exportRun,
  forkRun,
  Id,
  importRun,
  loadState,
  mapReduce,
  ModelClient,
  ModelRouter,
  pipeline,
  reconfigureRuntime,
  recover,
  restoreState,
  revokeGrant,
  rewindPoints,
  RunStore,
  runPrompt,
  runPromptStored,
  RuntimeExtension,
  sendMessage,
  Tool,
  Worker
} from "@fermata/sdk"
import * as EffectAiModel from "@fermata/sdk/effect-ai"
import * as McpTools from "@fermata/sdk/mcp"
import { AnthropicMessages, OpenAiResponses } from "@fermata/sdk/model"
import { SqlRunStore } from "@fermata/sdk/store"
import { FaultyRunStore, Rehearsal, ScriptedModel } from "@fermata/sdk/testing"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"

export class Bank extends Context.Service<Bank, { readonly pay: (euros: number) => Effect.Effect<string> }>()(
  "Bank"
) {}

export const refund = Tool.make("refund", {
  parameters: Schema.Struct({ euros: Schema.Finite }),
  handler: ({ euros }) => Effect.flatMap(Bank, ({ pay }) => pay(euros))
})
export const cashier = Agent.make("cashier", {
  tools: [refund],
  output: Schema.Struct({ done: Schema.Boolean })
})
export const agentMembers = { ...cashier }
export const notes = RuntimeExtension.make("notes", {
  tools: () => [refund],
  onStart: () => Effect.asVoid(Bank)
})
export const scripted = ScriptedModel.make(["yes"])
export const aiSdk = AiSdkModel.make({} as AiSdkModel.LanguageModel)
export const router = ModelRouter.make({ clients: { scripted: scripted.client, aiSdk } })
export const routerMembers = { ...router }
export const layers = {
  memory: RunStore.layerMemory,
  sql: SqlRunStore.layer,
  faulty: FaultyRunStore.layer({}),
  aiSdk: AiSdkModel.layer({} as AiSdkModel.LanguageModel),
  effectAi: EffectAiModel.layer({ name: "m" }),
  openAi: OpenAiResponses.layer({ model: "m" }),
  anthropic: AnthropicMessages.layer({ model: "m" }),
  bank: Layer.succeed(Bank, { pay: () => Effect.succeed("paid") })
}
export const server = McpTools.fromUrl("http://localhost/mcp")

const runId = Id.RunId.make("run")

export const services = Effect.gen(function* () {
  const store = yield* RunStore.RunStore
  const model = yield* ModelClient.ModelClient
  return { store: { ...store }, model: { ...model } }
})

export const runs = Effect.gen(function* () {
  const runtime = yield* createRuntime({ agent: cashier, extensions: [notes] })
  const configuration = yield* reconfigureRuntime(runtime, { mode: "plan" })
  const run = yield* runPrompt(runtime, { prompt: "go" })
  const stored = yield* runPromptStored(runtime, { prompt: "go" })
  const capture = captureState(runtime, run.state)
  const restored = yield* restoreState(runtime, capture)
  const report = yield* checkResume(run.state, [cashier])
  return { runtime: { ...runtime }, configuration, run: { ...run }, stored, capture, restored, report }
})

export const storedRuns = Effect.gen(function* () {
  const runtime = yield* createRuntime({ agent: cashier })
  const state = yield* loadState(runId)
  const decision = yield* decideStored([runtime], {
    _tag: "approve",
    requestId: Id.RequestId.make("r"),
    by: "a"
  })
  const fork = yield* forkRun(runtime, { runId, prompt: "other" })
  const [recovered] = yield* recover([runtime])
  const archive = yield* exportRun(runId)
  return {
    state: { ...state },
    decision,
    fork,
    recovered: { ...recovered! },
    archive: { ...archive },
    imported: yield* importRun(archive),
    explanation: yield* explain(runId),
    unstored: explainState(state, [], 0),
    points: yield* rewindPoints(runId),
    receipt: yield* sendMessage(runId, "more"),
    revoked: yield* revokeGrant(runId, Id.GrantId.make("g"), "a"),
    worker: Worker.run([runtime])
  }
})

export const background = Effect.gen(function* () {
  const runtime = yield* createRuntime({ agent: cashier })
  const handle = yield* dispatchPrompt(runtime, { prompt: "go" })
  const stored = yield* dispatchPromptStored(runtime, { prompt: "go" })
  const attached = yield* attach([runtime], runId)
  const conductor = yield* Conductor.make()
  const conducted = yield* conductor.dispatch(runtime, { prompt: "go" }, { name: "x/y" })
  return {
    handle: { ...handle },
    stored: { ...stored },
    attached,
    conductor: { ...conductor },
    conducted,
    done: yield* Conductor.all([handle]),
    first: yield* Conductor.firstSuccess([handle]),
    pipeline: yield* pipeline(conductor, "go", [{ runtime }]),
    mapReduce: yield* mapReduce(conductor, {
      map: { runtime, prompts: ["go"] },
      reduce: { runtime, prompt: () => "all" }
    })
  }
})

const setup = () => ({ agents: [cashier], model: scripted.client })
export const rehearsal = Effect.gen(function* () {
  const scene = yield* Rehearsal.make(setup)
  return { scene: { ...scene }, report: { ...(yield* scene.finish) } }
})
export const rehearsed = Rehearsal.rehearse(setup, ({ run }) => run("go"))
export const everyCrash = Rehearsal.everyCrash(setup, ({ run }) => run("go"))
