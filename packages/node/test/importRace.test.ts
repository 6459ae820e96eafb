import { assert, describe, it } from "@effect/vitest"
import { RunStore } from "@fermata/sdk/store"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqliteStore from "../src/SqliteStore.ts"
import { everythingAtOnce, importBesideRemoval } from "./importRace.ts"
import { temporaryFile } from "./temporaryStore.ts"

const openIn = (filename: string) =>
  Effect.map(
    Layer.build(Layer.fresh(SqliteStore.layer({ filename, synchronous: "normal" }))),
    Context.get(RunStore.RunStore)
  )

describe("SqliteStore with several connections", () => {
  it.live(
    "keeps every journal whole when a run is imported while its parent is removed",
    () =>
      Effect.gen(function* () {
        const outcome = yield* importBesideRemoval(openIn(yield* temporaryFile), 40)
        assert.strictEqual(outcome.refused + outcome.restored, 40)
      }).pipe(Effect.scoped),
    300_000
  )

  it.live(
    "keeps every journal whole under concurrent prompts, forks, moves, removals and prunes",
    () =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        const seen = yield* Effect.scoped(everythingAtOnce(openIn(filename), 40))
        assert.isAbove(seen.get("move: done") ?? 0, 0, JSON.stringify([...seen]))
        const { problems } = yield* SqliteStore.check({ filename })
        assert.deepStrictEqual(problems, [])
      }).pipe(Effect.scoped),
    300_000
  )
})
