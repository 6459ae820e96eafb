/**
 * A lead with 1,000 working background sub-agents, and its cancellation.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Agent from "../../src/agent/Agent.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import { dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { assertValid, call, events, expect, rebind, safe, watch } from "../helpers/Fixture.ts"

const count = 1000

/** A lead that starts all of them in one answer; half hang in a promise, half in an effect. */
const crowd = Effect.gen(function* () {
  const signals: Array<AbortSignal> = []
  const all = yield* Deferred.make<void>()
  const begun = (signal: AbortSignal) => {
    signals.push(signal)
    if (signals.length === count) Deferred.doneUnsafe(all, Effect.void)
  }
  const promise = safe("promise", {
    handler: (_, { signal }) =>
      new Promise<string>((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason as Error))
        begun(signal)
      })
  })
  const effect = safe("effect", {
    handler: (_, { signal }) =>
      Effect.suspend(() => {
        begun(signal)
        return Effect.never
      })
  })
  let asked = 0
  const model = ScriptedModel.make(({ agentPath, turn }) => {
    if (agentPath.length > 1) return { calls: [call(asked++ % 2 === 0 ? "promise" : "effect", "1")] }
    if (turn > 1) return { hang: true }
    const one = { tool: "delegate", arguments: { agent: "worker", prompt: "do", background: true } }
    return { calls: Array.from({ length: count }, () => one) }
  })
  const worker = Agent.make("worker", { tools: [promise.tool, effect.tool] })
  const lead = Agent.make("lead", {
    subAgents: [worker],
    delegation: "delegate",
    limits: { agentConcurrency: count }
  })
  const { runtime } = yield* rebind(lead, model)
  return { all, runtime, signals }
})

/** Counts the live fibers of the body. */
const countingFibers = <A, E, R>(body: (alive: () => number) => Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    let alive = 0
    return Effect.provideService(
      body(() => alive),
      Metric.FiberRuntimeMetrics,
      {
        recordFiberStart: () => {
          alive += 1
        },
        recordFiberEnd: () => {
          alive -= 1
        }
      }
    )
  })

/** The end events of each started run. */
const endsOf = (journal: ReadonlyArray<RunEvent>): ReadonlyMap<string, ReadonlyArray<string>> => {
  const ends = new Map<string, Array<string>>()
  for (const wrapped of journal) {
    const { event, path } = unwrap(wrapped)
    const run = path.at(-1) ?? "root"
    if (event._tag === "run.started") ends.set(run, [])
    if (/^run\.(completed|cancelled|failed)$/.test(event._tag)) ends.get(run)?.push(event._tag)
  }
  return ends
}

const assertEndedOnce = (journal: ReadonlyArray<RunEvent>) => {
  const ends = endsOf(journal)
  assert.strictEqual(ends.size, count + 1)
  assert.deepStrictEqual(new Set([...ends.values()].map((tags) => tags.join())), new Set(["run.cancelled"]))
}

describe("the cancellation of a run with 1,000 working background sub-agents", () => {
  it.live("ends each of them once, aborts every signal and leaves no fiber", () =>
    countingFibers((alive) =>
      Effect.gen(function* () {
        const { all, runtime, signals } = yield* crowd
        const before = alive()
        const told = watch()
        yield* Effect.scoped(
          Effect.gen(function* () {
            const handle = yield* dispatchPrompt(runtime, { prompt: "go" }, { onUpdate: told.onUpdate })
            yield* Deferred.await(all)
            assert.isAbove(alive(), before + count)
            assert.strictEqual(runtime.runs.size, 1)
            assert.isFalse(signals.some(({ aborted }) => aborted))

            yield* handle.cancel("enough")
            const { reason, state } = expect(yield* handle.done, "cancelled")
            assert.strictEqual(reason, "enough")
            assertValid(state)
            const ended = (state.background ?? []).map(({ child, ended }) => child?.status ?? ended?.status)
            assert.deepStrictEqual([ended.length, [...new Set(ended)]], [count, ["cancelled"]])
          })
        )
        assertEndedOnce(events(told.updates))
        assert.strictEqual(signals.length, count)
        assert.isTrue(signals.every(({ aborted }) => aborted))
        // The fiber that published the last end has yet to return.
        yield* Effect.yieldNow
        assert.deepStrictEqual([runtime.runs.size, alive()], [0, before])
      })
    )
  )

  it.live("ends each of them once in a store", () =>
    Effect.gen(function* () {
      const { all, runtime, signals } = yield* crowd
      const store = yield* RunStore
      const handle = yield* dispatchPromptStored(runtime, { prompt: "go" })
      yield* Deferred.await(all)
      yield* handle.cancel("enough")
      expect(yield* handle.done, "cancelled")
      assertEndedOnce(yield* store.events(handle.runId))
      assert.isTrue(signals.every(({ aborted }) => aborted))
      const head = yield* store.head(handle.runId)
      assert.deepStrictEqual([head.status, head.lease], ["cancelled", undefined])
      assert.deepStrictEqual(yield* store.ready(), [])
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(layerMemory)))
  )
})
