/**
 * A lead with two sub-agents in one store, each held on a request, for tests of a sub-agent's own run id.
 */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import { RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { askUser } from "../../src/tool/Tool.ts"
import { call, expect, probe, rebind } from "./Fixture.ts"

export const runId = "run" as RunId
/** The runs of the sub-agents: `scout`, under it `helper`; and `writer`. */
export const scoutRun = "run.t1.1" as RunId
export const helperRun = "run.t1.1.t1.1" as RunId
export const writerRun = "run.t1.2" as RunId

/** A call of `delegate`. */
export const delegate = (agent: string, background = true) => ({
  tool: "delegate",
  arguments: { agent, prompt: "do", background }
})

/**
 * A lead with two sub-agents in the background, both held: `writer` on writing w, and `scout`, whose `helper` is held on writing h.
 */
export const team = Effect.fnUntraced(function* (
  background = true,
  more: { readonly [agent: string]: ReadonlyArray<ScriptedModel.ScriptedAnswer | string> } = {}
) {
  const taken = new Map<string, number>()
  const answers: typeof more = {
    lead: [{ calls: [delegate("scout", background), delegate("writer", background)] }, "waiting"],
    scout: [{ calls: [delegate("helper", false)] }],
    helper: [{ calls: [call("write", "h")] }],
    writer: [{ calls: [call("write", "w")] }],
    ...more
  }
  const model = ScriptedModel.make((request: ModelRequest) => {
    const name = request.agentPath.at(-1) ?? ""
    const index = taken.get(name) ?? 0
    taken.set(name, index + 1)
    return answers[name]?.[index] ?? `${name} is done`
  })
  const write = probe("write")
  const helper = Agent.make("helper", { tools: [write.tool] })
  const scout = Agent.make("scout", { subAgents: [helper], delegation: "delegate" })
  const writer = Agent.make("writer", { tools: [write.tool, askUser] })
  const lead = Agent.make("lead", { subAgents: [scout, writer], delegation: "delegate" })
  const { runtime } = yield* rebind(lead, model, { owner: "here" })
  const held = yield* runPromptStored(runtime, { prompt: "go", runId })
  assert.deepStrictEqual(
    expect(held, "interrupted").interruptions.map(({ runId }) => runId),
    [helperRun, writerRun]
  )
  return { held, lead, model, runtime, write }
})

/** The messages of the last model request of this agent, as text. */
export const lastSent = (model: ScriptedModel.ScriptedModel, agent: string): string =>
  JSON.stringify(model.requests.findLast(({ agentPath }) => agentPath.at(-1) === agent)?.messages ?? [])

/** The end events of sub-agents in the journal, as `run tag`. */
export const ends = Effect.fnUntraced(function* () {
  const events = yield* (yield* RunStore).events(runId)
  return events.flatMap((wrapped) => {
    const { event, path } = unwrap(wrapped)
    const isEnd =
      event._tag === "run.cancelled" || event._tag === "run.completed" || event._tag === "run.failed"
    return isEnd && path.length > 0 ? [`${path.at(-1)} ${event._tag}`] : []
  })
})
