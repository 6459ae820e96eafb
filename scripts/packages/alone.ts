/**
 * A program that depends on `@fermata/node` alone and exports what it makes and gets, with inferred types. A spread spells the members of
 * its type out. Compiled with `declaration: true` as npm and pnpm install it, never run. Under pnpm, a type that only `@fermata/sdk` or
 * `effect` exports has no name here.
 */
import {
  agent,
  answer,
  anthropic,
  approve,
  askUser,
  closeOnSignal,
  content,
  createFermata,
  deny,
  fail,
  fetchUrl,
  mcpTools,
  openAi,
  openAiCompatible,
  retry,
  Schema,
  shellTools,
  SqliteStore,
  supply,
  tool,
  topUp,
  WebGuard,
  webTools
} from "@fermata/node"
import { PostgresStore } from "@fermata/node/postgres"
import { pricesOf } from "@fermata/node/prices"
import { ScriptedModel } from "@fermata/node/testing"
import { z } from "zod"

export const now = tool("now", { safety: "readOnly", handler: () => new Date(0) })
export const refund = tool("refund", {
  parameters: z.object({ customer: z.string(), euros: z.number() }),
  needsApproval: ({ euros }) => euros > 50,
  risk: ({ euros }) => `${euros} euros`,
  handler: async ({ customer, euros }, { idempotencyKey }) => ({ customer, euros, idempotencyKey })
})
export const deploy = tool("deploy", {
  parameters: Schema.Struct({ env: Schema.Literals(["staging", "production"]) }),
  reconcile: async (idempotencyKey) => ({ _tag: "happened", result: idempotencyKey }),
  handler: ({ env }) => content([{ _tag: "text", text: env }])
})
export const build = tool("build", {
  parameters: { type: "object", properties: { target: { type: "string" } } },
  handler: async function* () {
    yield { progress: "compiling" }
    yield { result: { files: 1 } }
  }
})
export const tools = [now, refund, deploy, build, askUser]
export const writer = agent("writer", { output: z.object({ line: z.string() }) })
export const lead = agent("lead", {
  tools,
  subAgents: [writer],
  handoffs: () => [writer],
  output: Schema.Struct({ done: Schema.Boolean })
})
export const agents = { writer, lead }

export const model = openAi({ model: "m" })
export const models = {
  model,
  compatible: openAiCompatible({ model: "m" }),
  claude: anthropic({ model: "m" })
}
export const scripted = ScriptedModel.make(["yes"])
export const servers = () => mcpTools({ command: "npx" })
export const web = [...webTools(), fetchUrl()]
export const shell = shellTools({ confined: "run" })
export const guard = WebGuard.make()
export const guardMethods = { ...guard }
export const verdict = guard.checkUrl("https://example.com/")
export const stores = {
  sqlite: SqliteStore.layer({ filename: "f.db" }),
  postgres: PostgresStore.layer({ url: "postgres://localhost/f" })
}
export const prices = pricesOf("openai", "m")
export const decisions = [approve(), deny(), answer("a"), supply(1), retry(), fail(), topUp(1)]
export const body = { approve, deny, answer, supply, retry, fail, topUp }

export const options = { agents: [lead], model, store: "f.db" }
export const open = () => createFermata(options)
export const openWithout = () => createFermata({ ...options, store: false })
export const fermata = await open()
export const methods = { ...fermata }
export const stop = () => closeOnSignal([fermata])

export const ask = (prompt: string) => fermata.runPrompt(lead, prompt)
export const asked = await ask("go")
export const output = asked.status === "completed" ? asked.output : undefined
export const requests = asked.status === "interrupted" ? asked.interruptions : []
export const reports = asked.status === "cancelled" ? asked.calls : []
export const failure = asked.status === "error" ? asked.error : undefined
export const { state } = asked
export const stateMembers = { ...state }
export const submitted = await fermata.submit(lead, "go", { runId: "r" })
export const inbox = await fermata.pending()
export const [request] = inbox
export const requestMembers = { ...request!, request: { ...request!.request } }
export const decided = await fermata.decide(inbox[0]!, approve(), { by: "ana" })
export const result = await fermata.result("r", { agent: lead })
export const resumed = await fermata.resume("r", { agent: lead })
export const stream = fermata.stream(lead, "go")
export const events = fermata.events("r")
export const response = await fermata.eventsResponse("r")
export const handle = await fermata.dispatch(lead, "go")
export const handleMethods = { ...handle }
export const handleEvents = handle.events()
export const conductor = await fermata.conductor({ concurrency: 2 })
export const conducted = await conductor.dispatch(lead, "go")
export const conductorMethods = { ...conductor }
export const entries = conductor.inbox()
export const sessions = await fermata.sessions()
export const messages = await fermata.messages("s")
export const runs = await fermata.runs()
export const explanation = await fermata.explain("r")
export const explained = { ...explanation }
export const grants = await fermata.grants()
export const receipt = await fermata.send("r", "more")
export const archive = await fermata.exportRun("r")
export const recovered = await fermata.recover()
export const report = await fermata.checkResume("r")
export const damaged = await fermata.damagedRuns()
export const points = await fermata.rewindPoints("r")
export const configurations = await fermata.reconfigure({ mode: "plan" })
export class Service {
  readonly fermata = fermata
  readonly agents = agents
  readonly inbox = async () => this.fermata.pending()
}
