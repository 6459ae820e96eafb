/**
 * A program without Effect that exports everything it makes and gets, with inferred types. Compiled with `declaration: true` outside the
 * workspace, never run: a type without a public name is an error there. A spread spells the members of its type out.
 */
import {
  agent,
  anthropic,
  approve,
  askUser,
  closeOnSignal,
  content,
  createFermata,
  FileTokenStore,
  GptTokenizer,
  isRunBusy,
  login,
  openAi,
  openAiCompatible,
  SqliteStore,
  tool
} from "@fermata/node"
import { PostgresStore } from "@fermata/node/postgres"
import { pricesOf } from "@fermata/node/prices"
import {
  RecordedModel,
  recordingFile,
  rehearse,
  rehearseEveryCrash,
  ReplayServer,
  ScriptedModel
} from "@fermata/node/testing"
import { Schema } from "effect"
import * as z from "zod"

export const plainTool = tool("now", { safety: "readOnly", handler: () => new Date(0) })
export const zodTool = tool("refund", {
  parameters: z.object({ customer: z.string(), euros: z.number() }),
  needsApproval: ({ euros }) => euros > 50,
  handler: async ({ customer, euros }, { idempotencyKey }) => ({ customer, euros, idempotencyKey })
})
export const schemaTool = tool("deploy", {
  parameters: Schema.Struct({ env: Schema.Literals(["staging", "production"]) }),
  reconcile: async (idempotencyKey) => ({ _tag: "happened", result: idempotencyKey }),
  handler: ({ env }) => content([{ _tag: "text", text: env }])
})
export const plainAgent = agent("a")
export const parent = agent("b", {
  tools: [plainTool, zodTool, schemaTool, askUser],
  subAgents: [plainAgent],
  output: Schema.Struct({ done: Schema.Boolean })
})

export const auth = login({ profile: "m", store: FileTokenStore.make("t"), tokenUrl: "u", clientId: "c" })
export const models = {
  openAi: openAi({ model: "m", auth }),
  openAiCompatible: openAiCompatible({ model: "m" }),
  anthropic: anthropic({ model: "m" }),
  recorded: RecordedModel.make({ record: openAi({ model: "m" }), recordings: recordingFile("f") }),
  scripted: ScriptedModel.make(["yes"])
}
export const modelMembers = { ...models.openAi }
export const scriptedMembers = { ...models.scripted }
export const stores = {
  sqlite: SqliteStore.layer({ filename: "f.db" }),
  postgres: PostgresStore.layer({ url: "postgres://localhost/f" }),
  backup: SqliteStore.backup,
  check: SqliteStore.check
}
export const tokenizer = GptTokenizer.layer
export const prices = pricesOf("openai", "m")

export const fermata = await createFermata({ agents: [parent], model: models.openAi })
export const fermataMembers = { ...fermata }
export const run = await fermata.runPrompt(parent, "go")
export const output = run.status === "completed" ? run.output : run
export const interruptions = run.status === "interrupted" ? run.interruptions : []
export const runMembers = { ...run }
export const [request] = await fermata.pending()
export const requestMembers = { ...request }
export const decision = await fermata.decide(interruptions[0]!, approve())
export const decisions = await fermata.decideAll([{ request: "r", decision: approve() }])
export const resumed = await fermata.resume(run.runId)
export const receipt = await fermata.send(run.runId, "more")
export const fork = await fermata.fork(run.runId, "other")
export const points = await fermata.rewindPoints(run.runId)
export const explanation = await fermata.explain(run.runId)
export const explanationMembers = { ...explanation }
export const events = fermata.events(run.runId)
export const heads = await fermata.runs()
export const damaged = await fermata.damagedRuns()
export const state = await fermata.state(run.runId)
export const stateMembers = { ...state }
export const report = await fermata.checkResume(run.runId)
export const reportMembers = { ...report }
export const grants = await fermata.grants()
export const archive = await fermata.exportRun(run.runId)
export const recovered = await fermata.recover()
export const recoveredMembers = { ...recovered[0]! }
export const isBusy = isRunBusy
export const stopListening = closeOnSignal([fermata])

export const handle = await fermata.dispatch(parent, "go")
export const handleMembers = { ...handle }
export const attached = await fermata.attach(run.runId)
export const result = await handle.done()
export const handleEvents = handle.events()
export const statuses = handle.statuses()
export const readBy = await handle.send("more", { whenHeld: "fork" })

export const conductor = await fermata.conductor({ concurrency: 2 })
export const conductorMembers = { ...conductor }
export const conducted = await conductor.dispatch("b", "go", { name: "x/y" })
export const first = await conductor.firstSuccess([handle])
export const quorum = await conductor.quorum([handle], 1)
export const inbox = conductor.inbox()
export const spending = conductor.spending()
export const drained = await conductor.drain()

const setup = () => ({ agents: [plainAgent], model: models.openAi })
export const rehearsed = await rehearse(setup, async ({ crashAt, run }) => {
  await crashAt("after-tool:now")
  await run("go")
})
export const rehearsedMembers = { ...rehearsed }
export const everyCrash = await rehearseEveryCrash(setup, ({ run }) => run("go"))
export const server = await ReplayServer.start([])
export const serverMembers = { ...server }
