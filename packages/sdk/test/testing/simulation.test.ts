import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as SimulatedClock from "../../src/testing/internal/simulation/clock.ts"
import * as Points from "../../src/testing/internal/simulation/points.ts"

/** The ends of these sleeps, in their order. */
const sleeping = (clock: SimulatedClock.SimulatedClock, ...times: ReadonlyArray<string>) => {
  const ended: Array<string> = []
  const sleep = (time: string) =>
    Effect.map(Effect.sleep(time as "1 second"), () =>
      ended.push(`${time} at ${(clock.currentTimeMillisUnsafe() - SimulatedClock.beginning) / 1000}`)
    )
  return Effect.as(
    Effect.forEach(times, (time) => Effect.forkChild(sleep(time), { startImmediately: true })),
    ended
  )
}

/** A test in the time of a simulated clock. */
const timed = (
  title: string,
  options: Parameters<typeof SimulatedClock.make>[0],
  body: (clock: SimulatedClock.SimulatedClock) => Effect.fn.Return<void>
) =>
  it.effect(title, () => {
    const clock = SimulatedClock.make(options)
    return Effect.provideService(
      Effect.gen(() => body(clock)),
      Clock.Clock,
      clock
    )
  })

describe("the clock of a simulation", () => {
  timed("ends each sleep at its own time while time passes", {}, function* (clock) {
    const ended = yield* sleeping(clock, "3 seconds", "1 second", "9 seconds")
    yield* clock.adjust("5 seconds")
    assert.deepStrictEqual(ended, ["1 second at 1", "3 seconds at 3"])
  })

  timed("ends every due sleep when it jumps forward, and none when it jumps back", {}, function* (clock) {
    const ended = yield* sleeping(clock, "3 seconds", "1 second", "9 seconds")
    clock.jump(-60_000)
    clock.jump(65_000)
    yield* Effect.yieldNow
    assert.deepStrictEqual(ended, ["1 second at 5", "3 seconds at 5"])
  })

  timed("ends a short sleep at once, and adds its time", { shortMs: 1000 }, function* (clock) {
    yield* Effect.sleep("999 millis")
    assert.strictEqual(clock.currentTimeMillisUnsafe() - SimulatedClock.beginning, 999)
  })
})

describe("the points of a simulation", () => {
  it("inject each planned fault once, at its planned passing or at the next one", () => {
    const points = Points.make([
      { place: "a", time: 2, fault: "second" },
      { place: "b", fault: "next" }
    ])
    const passing = ["a", "b", "b", "a", "a"].map((place) => points.pass(place).fault)
    assert.deepStrictEqual(passing, [undefined, "next", undefined, "second", undefined])
    assert.deepStrictEqual(points.passed, ["a#1", "b#1", "b#2", "a#2", "a#3"])
    assert.deepStrictEqual(points.planned(), [])
    points.plan({ place: "c", time: 7, fault: "never" })
    assert.deepStrictEqual(points.planned(), ["c#7"])
  })

  it.effect("are visited one by one and then in pairs, up to a bound", () =>
    Effect.gen(function* () {
      const visited: Array<string> = []
      const sweep = (atMost?: number) =>
        Points.sweep({
          singles: ["a", "b", "c"],
          visit: (visit) => Effect.sync(() => visited.push(visit)),
          pairsOf: (visit) => (visit === "b" ? [] : [`${visit}1`, `${visit}2`]),
          ...(atMost === undefined ? {} : { atMost })
        })
      yield* sweep()
      assert.deepStrictEqual(visited.splice(0), ["a", "b", "c", "a1", "a2", "c1", "c2"])
      yield* sweep(5)
      assert.deepStrictEqual(visited, ["a", "b", "c", "a1", "c1"])
    })
  )
})
