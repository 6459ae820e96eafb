import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import fc from "fast-check"
import * as Agent from "../../src/agent/Agent.ts"
import { evolve } from "../../src/domain/evolve.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import { explainState } from "../../src/durable/explain.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { make as planTool } from "../../src/tool/PlanTool.ts"
import * as Scrubber from "../../src/tool/Scrubber.ts"
import { calls, fold, started } from "../domain/Journal.ts"
import { bind, events, expect, probe, results, throughJson, watch, call } from "../helpers/Fixture.ts"

const entry = (content: string, status: "pending" | "in_progress" | "completed" = "pending") => ({
  content,
  priority: "medium" as const,
  status
})

const update = (...entries: ReadonlyArray<Readonly<Record<string, string>>>) => ({
  tool: "update_plan",
  arguments: { entries: [...entries] }
})

const agent = () => Agent.make("a", { tools: [planTool()] })

describe("a plan", () => {
  it.effect("is an event for watchers and a field of the state, without an approval", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(agent(), [
        { calls: [update(entry("read", "in_progress"), entry("write"))] },
        "done"
      ])
      const { onUpdate, updates } = watch()
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }, { onUpdate }), "completed")
      const published = events(updates).filter((event) => event._tag === "plan.updated")
      assert.deepStrictEqual(
        published.map(({ entries }) => entries),
        [[entry("read", "in_progress"), entry("write")]]
      )
      assert.deepStrictEqual(throughJson(state).plan?.entries, published[0]?.entries)
      assert.include(results(state)[0], "0 of 2 entries are completed")
      const { plan, text } = explainState(state, [], 0)
      assert.deepStrictEqual(plan, state.plan)
      assert.include(text, 'Of its plan, 0 of 2 entries are completed; in progress: "read".')
    })
  )

  it.effect("is replaced by the next one, and inherited by the session's next run", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(agent(), [
        { calls: [update(entry("a"))] },
        { calls: [update(entry("a", "completed"), entry("b"))] },
        "done",
        "again"
      ])
      const first = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(first.state.plan?.entries, [entry("a", "completed"), entry("b")])
      const second = expect(yield* runPrompt(runtime, { prompt: "on", state: first.state }), "completed")
      assert.deepStrictEqual(second.state.plan, first.state.plan)
    })
  )

  it.effect("is kept without secrets", () =>
    Effect.gen(function* () {
      const { runtime } = yield* Effect.provideService(
        bind(agent(), [{ calls: [update(entry("use hunter2hunter2"))] }, "done"]),
        Scrubber.Scrubber,
        Scrubber.make({ secrets: ["hunter2hunter2"] })
      )
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.match(state.plan?.entries[0]?.content ?? "", /^use \[REDACTED/)
    })
  )

  it.effect("is refused with a reason the model reads if an entry has another shape", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(agent(), [
        { calls: [update({ content: "x", status: "begun" })] },
        "done"
      ])
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.isUndefined(state.plan)
      assert.include(results(state)[0], "update_plan failed")
    })
  )

  it.effect("of a sub-agent is its own", () =>
    Effect.gen(function* () {
      const ask = probe("ask")
      const child = Agent.make("child", { tools: [planTool(), ask.tool] })
      const { runtime } = yield* bind(Agent.make("lead", { tools: [planTool()], subAgents: [child] }), [
        { calls: [update(entry("delegate"))] },
        { calls: [{ tool: "child", arguments: { prompt: "go" } }] },
        { calls: [update(entry("search"))] },
        { calls: [call("ask", "1")] }
      ])
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "interrupted")
      assert.deepStrictEqual(state.plan?.entries, [entry("delegate")])
      assert.deepStrictEqual(state.calls[0]?.child?.plan?.entries, [entry("search")])
    })
  )

  it("is that of the last call of a turn, in any order in which the calls run", () => {
    const before = fold(started(), calls("update_plan", "update_plan", "update_plan"))
    const updated = (ordinal: number): RunEvent => ({
      _tag: "plan.updated",
      at: 5,
      callId: before.calls[ordinal]!.id,
      entries: [entry(`plan ${ordinal}`)]
    })
    fc.assert(
      fc.property(fc.shuffledSubarray([0, 1, 2], { minLength: 1 }), (ordinals) => {
        const state = ordinals.reduce((state, ordinal) => evolve(state, updated(ordinal)), before)
        assert.strictEqual(state.plan?.entries[0]?.content, `plan ${Math.max(...ordinals)}`)
      })
    )
  })
})
