import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { RunPool } from "../../../src/dispatch/internal/conductor/RunPool.ts"

describe("the runs of a conductor", () => {
  it.effect("keep no reader of updates, or of the inbox, that has stopped", () =>
    Effect.gen(function* () {
      const pool = new RunPool({})
      const sizes = () => [pool["readers"].size, pool["inboxes"].size]
      const follow = <A>(stream: Stream.Stream<A>) =>
        Effect.forkChild(Stream.runDrain(stream), { startImmediately: true })
      const reading = [yield* follow(pool.events), yield* follow(pool.inbox.changes)]
      assert.deepStrictEqual(sizes(), [1, 1])
      yield* Fiber.interruptAll(reading)
      assert.deepStrictEqual(sizes(), [0, 0])
    })
  )
})
