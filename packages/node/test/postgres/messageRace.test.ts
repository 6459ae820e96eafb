import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { repeats } from "../../../../scripts/internal/effort.ts"
import { race } from "../messageRace.ts"
import { emptyDatabase } from "./database.ts"
import { openStore } from "./storedRuns.ts"

const rounds = repeats(150)

describe("a message that is sent while its run parks", () => {
  it.live(
    `enters the journal once in each of ${rounds} races between a driver, a sender and a listener`,
    () =>
      Effect.gen(function* () {
        const { url } = yield* emptyDatabase
        const outcome = yield* race(openStore({ url }), rounds, 1)
        // Both outcomes occurred.
        assert.isAbove(Math.min(outcome.driver, outcome.listener), rounds / 25, JSON.stringify(outcome))
      }),
    300_000
  )
})
