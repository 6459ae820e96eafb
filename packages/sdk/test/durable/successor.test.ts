import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import { evolve } from "../../src/domain/evolve.ts"
import type { RunId, SessionId } from "../../src/domain/Id.ts"
import { explain } from "../../src/durable/explain.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import {
  approvalOf,
  approve,
  assertValid,
  bind,
  call,
  expect,
  probe,
  results,
  throughJson
} from "../helpers/Fixture.ts"

const runId = "run" as RunId
const sessionId = "session" as SessionId
const failure = { _tag: "run.failed", at: 1, failure: { _tag: "RunDefect", description: "broken" } } as const

const notRun =
  "pay cancelled: This call was approved by ann, and has not run: its run failed before it, and the next one began."

const held = Effect.gen(function* () {
  const pay = probe("pay")
  const { runtime } = yield* bind(Agent.make("a", { tools: [pay.tool] }), [
    { calls: [call("pay", "1"), call("pay", "2"), call("pay", "3")] },
    "done"
  ])
  return { pay, runtime }
})

/** A failed run with an approval of its second call that an earlier version had not read. */
const failed = Effect.gen(function* () {
  const store = yield* RunStore
  const { pay, runtime } = yield* held
  const before = yield* runPromptStored(runtime, { prompt: "go", runId, sessionId })
  const { decision } = yield* store.decide(approve(approvalOf(before, "2")))
  const [first, ...rest] = yield* store.events(runId)
  yield* store.remove(runId)
  const copy = { runId, sessionId, agent: "a", status: "error", events: [first!, ...rest, failure] } as const
  yield* store.restore([copy], [decision], [])
  return { pay, runtime, store }
})

describe("a prompt after a failed run", () => {
  it.effect("starts a run whose history says which approved call did not run, and names the approver", () =>
    Effect.gen(function* () {
      const { pay, runtime } = yield* failed
      assert.include(
        (yield* explain(runId)).text,
        "ann has decided (approve), and the run has not acted on it yet."
      )
      const { runId: next, state } = expect(
        yield* runPromptStored(runtime, { prompt: "again", sessionId }),
        "completed"
      )
      assert.deepStrictEqual(results(state), [
        "pay cancelled: This call has not run.",
        notRun,
        "pay cancelled: This call has not run."
      ])
      assert.deepStrictEqual(results(yield* loadState(next)), results(state))
      assert.deepStrictEqual(pay.ran, [])
      assertValid(state)
    }).pipe(Effect.provide(Layer.fresh(layerMemory)))
  )

  it.effect("keeps the failed run from being resumed, and its approved call from running", () =>
    Effect.gen(function* () {
      const { pay, runtime, store } = yield* failed
      const next = yield* runPromptStored(runtime, { prompt: "again", sessionId })
      for (const input of [{ runId }, { runId, limits: { maxTurns: 9 } }, { runId, message: "and?" }]) {
        const busy = yield* Effect.flip(runPromptStored(runtime, input))
        assert.deepInclude(busy, { _tag: "SessionBusy", runId: next.runId })
      }
      assert.strictEqual((yield* store.head(runId)).status, "error")
      assert.deepStrictEqual(yield* store.ready(), [])
      assert.deepStrictEqual(pay.ran, [])
    }).pipe(Effect.provide(Layer.fresh(layerMemory)))
  )

  it.effect("starts such a run without a store as well", () =>
    Effect.gen(function* () {
      const { pay, runtime } = yield* held
      const first = yield* runPrompt(runtime, { prompt: "go" })
      const decisions = [approve(approvalOf(first, "2"))]
      const half = yield* runPrompt(runtime, { state: throughJson(first.state), decisions })
      const failed = throughJson(evolve(half.state, failure))
      const { state } = expect(yield* runPrompt(runtime, { state: failed, prompt: "again" }), "completed")
      assert.strictEqual(results(state)[1], notRun)
      assert.deepStrictEqual(pay.ran, [])
    })
  )
})
