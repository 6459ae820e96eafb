import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import { dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { RunStoreError, StoreBusy } from "../../src/store/RunStoreError.ts"
import { bind, call, expect, safe } from "../helpers/Fixture.ts"

const busy = (operation: string) =>
  new RunStoreError({ operation, reason: new StoreBusy({ waitedMs: 1000 }) })

/** A run in the middle of a tool's body, and its store, which can be locked: appends then fail, and leases are released after it. */
const working = Effect.gen(function* () {
  const store = yield* RunStore
  const begun = yield* Deferred.make<void>()
  const unlocked = yield* Deferred.make<void>()
  const locked = yield* Deferred.make<void>()
  const attempts: Array<string> = []
  const isLocked = () => Deferred.isDoneUnsafe(locked) && !Deferred.isDoneUnsafe(unlocked)
  const slow = safe("slow", {
    handler: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
  })
  const { runtime } = yield* bind(Agent.make("a", { tools: [slow.tool] }), [{ calls: [call("slow", "1")] }])
  const lockable = RunStore.of({
    ...store,
    append: (options) =>
      Effect.suspend(() => {
        if (!isLocked()) return store.append(options)
        return Effect.fail(busy("append"))
      }),
    requestCancel: (runId, reason) =>
      Effect.suspend(() => {
        if (!isLocked()) return store.requestCancel(runId, reason)
        attempts.push(reason)
        return Effect.fail(busy("requestCancel"))
      }),
    release: (lease) =>
      Effect.suspend(() =>
        isLocked() ? Effect.andThen(Deferred.await(unlocked), store.release(lease)) : store.release(lease)
      )
  })
  return {
    runtime,
    lockable,
    attempts,
    begun: Deferred.await(begun),
    lock: Deferred.succeed(locked, undefined),
    unlock: Deferred.succeed(unlocked, undefined)
  }
})

describe("a run whose store is locked", () => {
  it.effect("fails with StoreBusy when it is cancelled, and does not wait for the release of its lease", () =>
    Effect.gen(function* () {
      const { begun, lock, lockable, runtime, unlock } = yield* working
      const cancellation = Cancellation.make()
      const running = yield* Effect.forkChild(
        Effect.provideService(
          runPromptStored(runtime, { prompt: "go" }, { cancellation }),
          RunStore,
          lockable
        )
      )
      yield* begun
      yield* lock
      cancellation.cancel("enough")
      const error = yield* Effect.flip(Fiber.join(running))
      assert.strictEqual((error as RunStoreError).reason._tag, "StoreBusy")
      yield* unlock
    }).pipe(Effect.provide(Layer.fresh(layerMemory)))
  )

  it.effect(
    "refuses a cancellation through its handle with StoreBusy, and is cancelled once the lock is gone",
    () =>
      Effect.gen(function* () {
        const { attempts, begun, lock, lockable, runtime, unlock } = yield* working
        const dispatching = dispatchPromptStored(runtime, { prompt: "go" })
        const handle = yield* Effect.provideService(dispatching, RunStore, lockable)
        yield* begun
        yield* lock
        const error = yield* Effect.flip(handle.cancel("enough"))
        assert.strictEqual((error as RunStoreError).reason._tag, "StoreBusy")
        // The next attempt follows after a pause.
        for (let turn = 0; turn < 100; turn += 1) yield* Effect.yieldNow
        assert.isAtMost(attempts.length, 1)
        yield* unlock
        yield* TestClock.adjust("1 second")
        assert.strictEqual(expect(yield* handle.done, "cancelled").reason, "enough")
      }).pipe(Effect.scoped, Effect.provide(Layer.fresh(layerMemory)))
  )
})
