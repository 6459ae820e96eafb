import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { everythingAtOnce, importBesideRemoval } from "../importRace.ts"
import { emptyDatabase } from "./database.ts"
import { openStore } from "./storedRuns.ts"

describe("PostgresStore with several processes", () => {
  it.live(
    "keeps every journal whole when a run is imported while its parent is removed",
    () =>
      Effect.gen(function* () {
        const { url } = yield* emptyDatabase
        const outcome = yield* importBesideRemoval(openStore({ url }), 25)
        // Both outcomes occurred.
        assert.isAbove(Math.min(outcome.refused, outcome.restored), 0, JSON.stringify(outcome))
      }),
    300_000
  )

  it.live(
    "keeps every journal whole under concurrent prompts, forks, moves, removals and prunes",
    () =>
      Effect.gen(function* () {
        const { url } = yield* emptyDatabase
        const seen = yield* everythingAtOnce(openStore({ url }), 25)
        assert.isAbove(seen.get("move: done") ?? 0, 0, JSON.stringify([...seen]))
      }),
    300_000
  )
})
