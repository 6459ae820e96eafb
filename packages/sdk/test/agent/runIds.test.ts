import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { RunIds } from "../../src/agent/RunIds.ts"

const now = Date.UTC(2026, 10, 23)

const drawn = (count: number, timeOf: (index: number) => number) =>
  Effect.map(RunIds, ({ runId }) => Array.from({ length: count }, (_, index) => runId(timeOf(index))))

describe("the ids of runs", () => {
  it.effect("are 30 characters, of which none repeats", () =>
    Effect.gen(function* () {
      const ids = yield* drawn(100_000, () => now)
      assert.strictEqual(new Set(ids).size, ids.length)
      for (const id of ids) if (!/^run_[0-9A-HJKMNP-TV-Z]{26}$/.test(id)) assert.fail(id)
    })
  )

  it.effect("sort in the order in which a process made them, also in the same millisecond", () =>
    Effect.gen(function* () {
      const ids = yield* drawn(10_000, (index) => now + Math.floor(index / 100))
      assert.deepStrictEqual(ids.toSorted(), ids)
    })
  )

  it.effect("do not reveal the next id of the same millisecond", () =>
    Effect.gen(function* () {
      const ids = yield* drawn(1_000, () => now)
      const ends = ids.map((id) => id.slice(-8))
      assert.isAtLeast(new Set(ends).size, 990)
    })
  )
})
