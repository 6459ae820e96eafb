import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "@effect/vitest"
import { CheckpointCodec, evolveAll } from "@fermata/node"
import * as Effect from "effect/Effect"
import { withStore } from "./sqlite/fixtures.ts"
import { temporaryFile } from "./temporaryStore.ts"

/** The hash of the states that the frozen journals fold to, by checkpoint version. A released line never changes. */
const known: Readonly<Record<number, string>> = {
  1: "158762ad7d764c968aea81f68f3647dee24c11b045408237ac57116c9976cd06",
  2: "1fb50a006e2bf1b4a77c4830fac9051c6e37c464ea5fffc5ab7586701efb3b64",
  3: "b306c079a6de40e665af339b32ec4e9705cf7b2254f7f304290d81cc858b1e7e"
}

/** JSON with the fields of every object sorted. */
const spelled = (value: unknown): string =>
  JSON.stringify(value, (_, item: unknown) =>
    typeof item === "object" && item !== null && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item
  )

describe("CheckpointCodec.version", () => {
  it.effect("changes when the frozen journals fold to other states", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const database = new DatabaseSync(filename)
      database.exec(readFileSync(join(import.meta.dirname, "fixtures/stores/tables-2.sql"), "utf8"))
      database.close()
      const states = yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          const heads = yield* store.list({ limit: 1000 })
          const runs = heads.map(({ runId }) => runId).sort()
          assert.isAbove(runs.length, 5)
          return yield* Effect.forEach(runs, (runId) =>
            Effect.map(store.load(runId), ({ events }) => evolveAll(undefined, events))
          )
        })
      )
      assert.strictEqual(
        createHash("sha256").update(spelled(states)).digest("hex"),
        known[CheckpointCodec.version],
        "Checkpoints would differ from their journals: raise CheckpointCodec.version, and add its line here."
      )
    })
  )
})
