/**
 * A run with every kind of work, to be stopped at each of its moments.
 */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { call, probe, rebind, safe } from "./Fixture.ts"

const open = { needsApproval: false }
const delegate = (agent: string, background: boolean) => ({
  tool: "delegate",
  arguments: { agent, prompt: "do", background }
})

/** A lead with three kinds of reads, a write, an attached and a background sub-agent, and an approval callback. */
export const busy = Effect.gen(function* () {
  const tools = [
    safe("value", { handler: () => "value" }),
    safe("promise", {
      handler: async () => {
        await Promise.resolve()
        return "promise"
      }
    }),
    safe("effect", { handler: () => Effect.as(Effect.yieldNow, "effect") }),
    probe("write", { ...open, handler: () => Effect.as(Effect.yieldNow, "written") }),
    probe("gated")
  ]
  const toolsOf = (...names: ReadonlyArray<string>) =>
    tools.flatMap(({ tool }) => (names.includes(tool.name) ? [tool] : []))
  const reader = Agent.make("reader", { tools: toolsOf("promise", "effect") })
  const writer = Agent.make("writer", { tools: toolsOf("write", "gated") })
  const lead = Agent.make("lead", {
    tools: toolsOf("value", "promise", "effect", "write", "gated"),
    subAgents: [reader, writer],
    delegation: "delegate"
  })
  const script: Record<string, ReadonlyArray<ScriptedModel.ScriptedAnswer | string>> = {
    lead: [
      { calls: [call("value", "1"), call("promise", "2"), call("effect", "3"), call("write", "4")] },
      { calls: [delegate("writer", true), delegate("reader", false), call("gated", "5")] },
      { calls: [{ tool: "wait_for_agent" }] },
      "done"
    ],
    reader: [{ calls: [call("promise", "6"), call("effect", "7")] }, "read"],
    writer: [{ calls: [call("write", "8"), call("gated", "9")] }, "written"]
  }
  const model = ScriptedModel.make((request: ModelRequest) => {
    const name = request.agentPath.at(-1) ?? ""
    const answers = request.messages.filter(({ role }) => role === "assistant").length
    return script[name]?.[answers] ?? `${name} is done`
  })
  const { runtime } = yield* rebind(lead, model, {
    approvalCallback: async ({ requestId }) => {
      await Promise.resolve()
      return { _tag: "approve", requestId, by: "callback" }
    }
  })
  return { runtime, tools }
})

export const isEnd = (tag: string) => /^run\.(completed|cancelled|failed)$/.test(tag)

/** Asserts that every run ended once with no event after its end, and that no effect ran twice. */
export const checkEnds = (
  journal: ReadonlyArray<RunEvent>,
  tools: ReadonlyArray<ReturnType<typeof probe>>
) => {
  const begun = new Set<string>()
  const ended = new Set<string>()
  for (const wrapped of journal) {
    const { event, path } = unwrap(wrapped)
    const run = path.at(-1) ?? "root"
    assert.isFalse(ended.has(run), `${run} goes on after its end: ${event._tag}`)
    if (event._tag === "run.started") begun.add(run)
    if (isEnd(event._tag)) ended.add(run)
  }
  assert.deepStrictEqual([...ended].toSorted(), [...begun].toSorted())
  for (const { ran } of tools) assert.strictEqual(new Set(ran).size, ran.length)
}
