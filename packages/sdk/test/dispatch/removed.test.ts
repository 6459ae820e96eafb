/**
 * Handles of stored runs that another program removes, one by one or by `prune`.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { AgentHandle, StoredFault } from "../../src/dispatch/AgentHandle.ts"
import { attach, dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { call, expect, probe, rebind, safe } from "../helpers/Fixture.ts"

const test = (name: string, body: Effect.Effect<void, unknown, RunStore | Scope.Scope>) =>
  it.effect(name, () => Effect.provide(Effect.scoped(body), Layer.fresh(layerMemory)))

const runId = "run" as RunId

/** Waits in every way that a handle has. Returns the errors once all have ended. */
const waiting = Effect.fnUntraced(function* (handle: AgentHandle<unknown, StoredFault>) {
  const seen = yield* Deferred.make<void>()
  const reading = Stream.runForEach(handle.events, () => Deferred.succeed(seen, undefined))
  const done = yield* Effect.forkChild(Effect.flip(handle.done))
  const events = yield* Effect.forkChild(Effect.flip(reading))
  const statuses = yield* Effect.forkChild(Stream.runCollect(handle.status.changes))
  yield* Deferred.await(seen)
  return Effect.gen(function* () {
    assert.deepStrictEqual((yield* Fiber.join(statuses)).at(-1), "error")
    return [yield* Fiber.join(done), yield* Fiber.join(events)]
  })
})

const removed = { _tag: "RunNotFound", runId, removed: true }

describe("a handle of a removed run", () => {
  for (const isOfSubAgent of [false, true]) {
    test(
      `fails with RunNotFound, ${isOfSubAgent ? "also for a sub-agent" : "while the run is held"}`,
      Effect.gen(function* () {
        const store = yield* RunStore
        const lead = Agent.make("lead", {
          subAgents: [Agent.make("child", { tools: [probe("write").tool] })],
          delegation: "delegate"
        })
        const model = ScriptedModel.make(({ agentPath }) => ({
          calls:
            agentPath.length > 1
              ? [call("write", "1")]
              : [{ tool: "delegate", arguments: { agent: "child", prompt: "do" } }]
        }))
        const { runtime } = yield* rebind(lead, model)
        const root = yield* dispatchPromptStored(runtime, { prompt: "go", runId })
        expect(yield* root.wait, "interrupted")
        const handle = isOfSubAgent ? yield* attach([runtime], "run.t1.1" as RunId) : root
        const ends = yield* waiting(handle)
        yield* store.remove(runId)
        yield* TestClock.adjust("2 seconds")
        for (const error of yield* ends) assert.deepInclude({ ...error }, removed as never)
        assert.deepStrictEqual(handle.interruptions(), [])
        const late = yield* Effect.flip(Stream.runDrain(handle.events))
        assert.strictEqual(
          late.message,
          "The run run was removed from this store: start a new one, or import an archive of it."
        )
      })
    )
  }

  test(
    "fails with RunNotFound after another process has completed the run",
    Effect.gen(function* () {
      const store = yield* RunStore
      const [begun, open] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const slow = safe("slow", {
        handler: () =>
          Effect.as(Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(open)), "slow")
      })
      const model = ScriptedModel.make([{ calls: [call("slow", "1")] }, "done"])
      const agent = Agent.make("a", { tools: [slow.tool] })
      const elsewhere = (yield* rebind(agent, model, { owner: "elsewhere" })).runtime
      const working = yield* Effect.forkChild(runPromptStored(elsewhere, { prompt: "go", runId }))
      yield* Deferred.await(begun)
      const handle = yield* attach([(yield* rebind(agent, model)).runtime], runId)
      const ends = yield* waiting(handle)
      yield* Deferred.succeed(open, undefined)
      // Both before the handle polls.
      expect(yield* Fiber.join(working), "completed")
      assert.strictEqual(yield* store.prune({ endedBefore: 1 }), 1)
      yield* TestClock.adjust("500 millis")
      for (const error of yield* ends) assert.deepInclude({ ...error }, removed as never)
    })
  )

  test(
    "fails a cancellation with RunNotFound",
    Effect.gen(function* () {
      const store = yield* RunStore
      const { runtime } = yield* rebind(
        Agent.make("a", { tools: [probe("write").tool] }),
        ScriptedModel.make([{ calls: [call("write", "1")] }])
      )
      const handle = yield* dispatchPromptStored(runtime, { prompt: "go", runId })
      expect(yield* handle.wait, "interrupted")
      yield* store.remove(runId)
      assert.deepInclude({ ...(yield* Effect.flip(handle.cancel())) }, removed as never)
    })
  )
})
