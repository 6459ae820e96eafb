/**
 * A store with runs of all kinds in one file: held, decided, ended, with sub-agents and handoffs, forks, sessions, grants, messages and
 * checkpoints. Tests copy the file and damage the copy.
 */
import { DatabaseSync } from "node:sqlite"
import {
  agent,
  answer,
  approve,
  askUser,
  createFermata,
  deny,
  type Fermata,
  SqliteStore,
  tool
} from "@fermata/node"
import type { Id } from "@fermata/sdk"
import type { Agent } from "@fermata/sdk/agent"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { withStore } from "../fixtures.ts"

type Calls = ReadonlyArray<ScriptedModel.ScriptedCall>

/** The model's calls, turn by turn, by the text of the last user message; after them it answers. */
const scripts: Readonly<Record<string, ReadonlyArray<Calls>>> = {
  pay: [[{ tool: "pay", arguments: { amount: 1 } }]],
  "pay twice": [[{ tool: "pay", arguments: { amount: 1 } }], [{ tool: "pay", arguments: { amount: 2 } }]],
  refund: [[{ tool: "refund" }]],
  "pay, then refund": [[{ tool: "pay", arguments: { amount: 1 } }], [{ tool: "refund" }]],
  ask: [[{ tool: "ask_user", arguments: { question: "Which?" } }]],
  "pay by billing": [[{ tool: "transfer_to_billing" }], [{ tool: "pay", arguments: { amount: 3 } }]],
  "by a helper": [[{ tool: "delegate", arguments: { agent: "helper", prompt: "pay", background: false } }]],
  "beside a helper": [[{ tool: "delegate", arguments: { agent: "helper", prompt: "pay", background: true } }]]
}

/** An effect of a tool's body. */
export interface Did {
  readonly tool: string
  readonly runId: string
  readonly callId: string
}

/** Opens the program on a file. */
export const open = (filename: string, did: Array<Did>): Promise<Fermata.Fermata> => {
  const acting = (name: string) =>
    tool(name, {
      handler: (_, { callId, runId }) => {
        did.push({ tool: name, runId, callId })
        return name
      }
    })
  const pay = acting("pay")
  const helper = agent("helper", { tools: [pay, askUser] })
  const billing = agent("billing", { tools: [pay], handoffs: () => [desk] })
  const desk: Agent.Agent = agent("desk", {
    tools: [pay, acting("refund"), askUser],
    subAgents: [helper],
    delegation: "delegate",
    handoffs: [billing]
  })
  const model = ScriptedModel.make(({ messages }) => {
    const at = messages.findLastIndex(({ role }) => role === "user")
    const last = messages[at]
    const text = last?.role === "user" && last.content[0]?._tag === "text" ? last.content[0].text : ""
    const turn = messages.slice(at).filter(({ role }) => role === "assistant").length
    if (text === "break") return { calls: [{ tool: "pay" }], finishReason: "length" }
    const calls = scripts[text]?.[turn]
    return calls === undefined ? "Done." : { calls }
  })
  return createFermata({
    agents: [desk],
    model: model.client,
    // Each damaged row logs a warning.
    store: Layer.merge(
      SqliteStore.layer({ filename, synchronous: "normal", busyDeadline: "2 seconds" }),
      Logger.layer([])
    ),
    by: "ann",
    drainTimeout: 20
  })
}

/** Writes the store. */
export const write = async (filename: string): Promise<ReadonlyArray<Did>> => {
  const did: Array<Did> = []
  {
    await using fermata = await open(filename, did)
    const prompt = (runId: string, text: string, sessionId = `s-${runId}`) =>
      fermata.runPrompt("desk", text, { runId, sessionId })
    const first = async (runId: string) => (await fermata.pending({ runId: runId as Id.RunId }))[0]!
    await prompt("done", "pay")
    await fermata.decide(await first("done"), approve())
    await fermata.resume("done")
    await prompt("held", "pay twice")
    await prompt("asking", "ask")
    await prompt("decided", "pay")
    await fermata.decide(await first("decided"), approve())
    await prompt("answered", "ask")
    await fermata.decide(await first("answered"), answer("This one."))
    await prompt("denied", "pay")
    await fermata.decide(await first("denied"), deny("no"))
    await fermata.resume("denied")
    await prompt("failed", "break").catch(() => undefined)
    await prompt("cancelled", "pay")
    await fermata.cancel("cancelled")
    await fermata.resume("cancelled")
    await prompt("ending", "pay")
    await fermata.cancel("ending")
    await prompt("inside", "by a helper")
    await prompt("beside", "beside a helper")
    await prompt("handed", "pay by billing")
    await prompt("talk-1", "hello", "talk")
    await prompt("talk-2", "hello", "talk")
    await prompt("talk-3", "pay", "talk")
    await fermata.fork("talk-3", "pay", { newRunId: "fork" })
    await prompt("told", "pay")
    await fermata.send("told", "And be quick.", { messageId: "m1" })
    await fermata.send((await first("beside")).request.runId, "Well?", { messageId: "m2" })
    for (const session of ["granted", "revoked"]) {
      await prompt(`${session}-1`, "refund", session)
      await fermata.decide(
        await first(`${session}-1`),
        approve({ grant: { scope: "session", arguments: {} } })
      )
      await fermata.resume(`${session}-1`)
      await prompt(`${session}-2`, "pay, then refund", session)
    }
    await fermata.revokeGrant("revoked-2", "revoked-1.r1.grant")
    await prompt("left", "pay")
  }
  await Effect.runPromise(
    withStore(filename, (store) =>
      Effect.gen(function* () {
        // A process that died at work.
        const runId = "left" as Id.RunId
        const { revision } = yield* store.head(runId)
        const lease = yield* store.claim({ runId, owner: "dead", ttl: "1 minute" })
        const events = [{ _tag: "run.resumed", at: 5 }] as const
        yield* store.append({ lease, expected: revision, events, status: "running" })
        yield* store.release(lease)
      })
    )
  )
  const database = new DatabaseSync(filename)
  database.exec("PRAGMA journal_mode = DELETE")
  database.close()
  return did
}
