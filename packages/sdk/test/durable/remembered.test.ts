import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunId, SessionId } from "../../src/domain/Id.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as FaultyRunStore from "../../src/testing/FaultyRunStore.ts"
import { approve, bind, call, expect, only, probe, transcript } from "../helpers/Fixture.ts"

const sessionId = "s" as SessionId
const runId = "r" as RunId

const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(title, () => Effect.provide(body, Layer.fresh(layerMemory)))

/** A process with its own cache on the shared store; counts its reads of journals. */
const process = Effect.gen(function* () {
  const loads = { count: 0 }
  const store = FaultyRunStore.make(yield* RunStore, {
    before: (operation) =>
      Effect.sync(() => {
        if (operation === "load") loads.count += 1
      })
  })
  const inIt = <A, E>(body: Effect.Effect<A, E, RunStore>) => Effect.provideService(body, RunStore, store)
  return { loads, inIt }
})

const answers = ["one", "two", "three"]

describe("a continued session", () => {
  test(
    "is read from the cache in the process that ran its last run",
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a"), answers)
      const here = yield* process
      // Referenced, so that the cached state is not collected.
      const first = yield* here.inIt(runPromptStored(runtime, { prompt: "first", sessionId }))
      expect(yield* here.inIt(runPromptStored(runtime, { prompt: "second", sessionId })), "completed")
      expect(first, "completed")
      assert.strictEqual(here.loads.count, 0)
      const elsewhere = yield* process
      const result = expect(
        yield* elsewhere.inIt(runPromptStored(runtime, { prompt: "third", sessionId })),
        "completed"
      )
      assert.strictEqual(elsewhere.loads.count, 1)
      assert.deepStrictEqual(transcript(result.state), [
        "user: first",
        "assistant: one",
        "user: second",
        "assistant: two",
        "user: third",
        "assistant: three"
      ])
    })
  )

  test(
    "is read from its journals after another process has continued it",
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a"), answers)
      const here = yield* process
      const elsewhere = yield* process
      expect(yield* here.inIt(runPromptStored(runtime, { prompt: "first", sessionId })), "completed")
      expect(yield* elsewhere.inIt(runPromptStored(runtime, { prompt: "second", sessionId })), "completed")
      const { state } = expect(
        yield* here.inIt(runPromptStored(runtime, { prompt: "third", sessionId })),
        "completed"
      )
      assert.strictEqual(here.loads.count, 1)
      assert.include(transcript(state), "user: second")
    })
  )

  test(
    "continues from the state that another process gave to a run held here",
    Effect.gen(function* () {
      const write = probe("write")
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
        { calls: [call("write", "1")] },
        ...answers
      ])
      const here = yield* process
      const elsewhere = yield* process
      const held = yield* here.inIt(runPromptStored(runtime, { prompt: "first", sessionId }))
      const decisions = [approve(only(held, "approval"))]
      expect(yield* elsewhere.inIt(runPromptStored(runtime, { runId: held.runId, decisions })), "completed")
      const { state } = expect(
        yield* here.inIt(runPromptStored(runtime, { prompt: "second", sessionId })),
        "completed"
      )
      assert.strictEqual(here.loads.count, 1)
      assert.include(transcript(state), "assistant: one")
    })
  )

  test(
    "is not mistaken for a deleted one with the same ids",
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a"), answers)
      const here = yield* process
      const elsewhere = yield* process
      expect(yield* here.inIt(runPromptStored(runtime, { prompt: "first", sessionId, runId })), "completed")
      yield* RunStore.use((store) => store.remove(runId))
      yield* TestClock.adjust("1 second")
      expect(
        yield* elsewhere.inIt(runPromptStored(runtime, { prompt: "another", sessionId, runId })),
        "completed"
      )
      const { state } = expect(
        yield* here.inIt(runPromptStored(runtime, { prompt: "second", sessionId })),
        "completed"
      )
      assert.deepStrictEqual(transcript(state).slice(0, 2), ["user: another", "assistant: two"])
    })
  )
})
