import { assert, describe, it } from "@effect/vitest"
import { agent, approve, createFermata, deny, ModelError, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import { temporaryFile } from "./temporaryStore.ts"

/** Fails a lead once beside a held sub-agent with one approved call, cancels the sub-agent, and resumes the lead. */
const resumed = async (store: string, way: "its run" | "its handle") => {
  const paid: Array<string> = []
  const pay = tool("pay", { handler: (_, { agentPath }) => String(paid.push(agentPath.join("/"))) })
  const clerk = agent("clerk", { tools: [pay] })
  const lead = agent("lead", { tools: [pay], delegation: "delegate", subAgents: [clerk] })
  const delegate = { tool: "delegate", arguments: { agent: "clerk", prompt: "do", background: true } }
  let failures = 0
  const { client: model } = ScriptedModel.make(({ agentPath, turn }) => {
    if (agentPath.length > 1) return turn > 1 ? "done" : { calls: [{ tool: "pay" }, { tool: "pay" }] }
    if (turn === 1) return { calls: [delegate, { tool: "pay" }] }
    failures += 1
    return failures > 1 ? "done" : { error: new ModelError.InvalidRequest({ description: "no" }) }
  })
  await using fermata = await createFermata({ agents: [lead], store, model })
  const held = await fermata.runPrompt("lead", "go", { runId: "run" })
  assert.ok(held.status === "interrupted")
  const own = held.interruptions.find(({ agentPath }) => agentPath.length === 1)
  const [, second] = held.interruptions.filter(({ agentPath }) => agentPath.length > 1)
  await fermata.decide(second!, approve())
  await fermata.decide(own!, deny())
  assert.strictEqual((await fermata.resume("run")).status, "error")
  if (way === "its run") await fermata.cancel("run.t1.1", "enough")
  else await (await fermata.attach("run.t1.1")).cancel("enough")
  const { status } = await fermata.resume("run")
  return { status, clerk: (await fermata.state("run.t1.1")).status, paid }
}

describe("a cancelled sub-agent of a failed lead, in SQLite", () => {
  for (const way of ["its run", "its handle"] as const) {
    it.effect(`ends before any of its calls runs when the lead is resumed, cancelled through ${way}`, () =>
      Effect.gen(function* () {
        const store = yield* temporaryFile
        const end = yield* Effect.promise(() => resumed(store, way))
        assert.deepStrictEqual(end, { status: "completed", clerk: "cancelled", paid: [] })
      }).pipe(Effect.scoped)
    )
  }
})
