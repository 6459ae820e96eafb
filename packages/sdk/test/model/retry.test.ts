import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import * as TestClock from "effect/testing/TestClock"
import { awaitRetry } from "../../src/model/internal/http/retrying.ts"
import { InvalidRequest, ModelError, ProviderFault, RateLimited } from "../../src/model/ModelError.ts"
import type { ModelRetry } from "../../src/model/ModelRequest.ts"

const fault = new ModelError({ reason: new ProviderFault({ description: "down" }) })
const limited = (retryAfterMs: number) =>
  new ModelError({ reason: new RateLimited({ description: "slow", retryAfterMs }) })

/** The notice of `onRetry` for a failed attempt. */
const told = (error: ModelError, attempt: number, options = {}) =>
  Effect.gen(function* () {
    const retries: Array<ModelRetry> = []
    const fiber = yield* Effect.forkChild(awaitRetry(error, attempt, options, (retry) => retries.push(retry)))
    yield* TestClock.adjust("1 hour")
    yield* Fiber.join(fiber)
    return retries[0]!
  })

describe("Retry", () => {
  it.effect("waits a random time below a bound that doubles up to the cap", () =>
    Effect.gen(function* () {
      const bounds = [1000, 2000, 4000, 5000, 5000]
      const seen = bounds.map(() => 0)
      const least = bounds.map(() => Number.POSITIVE_INFINITY)
      for (let round = 0; round < 60; round++) {
        for (const [index, bound] of bounds.entries()) {
          const { waitMs } = yield* told(fault, index + 1, { times: 5, cap: "5 seconds" })
          assert.isAtMost(waitMs, bound)
          seen[index] = Math.max(seen[index]!, waitMs)
          least[index] = Math.min(least[index]!, waitMs)
        }
      }
      // The wait uses the whole range below the bound.
      for (const [index, bound] of bounds.entries()) {
        assert.isAbove(seen[index]!, bound * 0.8)
        assert.isBelow(least[index]!, bound * 0.2)
      }
    }).pipe(Random.withSeed("waits"))
  )

  it.effect("waits at least as long as the provider asks, and notifies before", () =>
    Effect.gen(function* () {
      let waited = false
      const retries: Array<ModelRetry> = []
      const fiber = yield* Effect.forkChild(
        Effect.andThen(
          awaitRetry(limited(30_000), 1, {}, (retry) => retries.push(retry)),
          Effect.sync(() => (waited = true))
        )
      )
      yield* TestClock.adjust("29999 millis")
      assert.deepInclude(retries[0], { attempt: 1, reason: "RateLimited" })
      assert.isFalse(waited)
      yield* TestClock.adjust("3001 millis")
      yield* Fiber.join(fiber)
      assert.isTrue(waited)
    })
  )

  it.effect("fails at once when the provider asks for more than the cap", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(awaitRetry(limited(61_000), 1, {}, () => assert.fail("no retry")))
      assert.deepInclude(error.reason, { _tag: "RateLimited", retryAfterMs: 61_000 })
      assert.include(error.message, "The provider asks to wait 1m 1s")
    })
  )

  it.effect("does not wait after a permanent error or the last attempt", () =>
    Effect.gen(function* () {
      const refused = new ModelError({ reason: new InvalidRequest({ description: "no" }) })
      assert.strictEqual(yield* Effect.flip(awaitRetry(refused, 1)), refused)
      assert.strictEqual(yield* Effect.flip(awaitRetry(fault, 5)), fault)
      assert.strictEqual(yield* Effect.flip(awaitRetry(fault, 1, { times: 0 })), fault)
    })
  )

  it.effect("can be interrupted while it waits", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(awaitRetry(limited(30_000), 1), { startImmediately: true })
      yield* Fiber.interrupt(fiber)
      yield* TestClock.adjust("1 hour")
    })
  )
})
