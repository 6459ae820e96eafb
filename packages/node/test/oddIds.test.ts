import { existsSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import { RunStore } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import * as SqliteStore from "../src/SqliteStore.ts"
import { oddIds } from "./oddIds.ts"
import { oddNumbers } from "./oddNumbers.ts"
import { temporaryFile } from "./temporaryStore.ts"

const sqlite = SqliteStore.layer({ filename: ":memory:" })

oddIds("memory", RunStore.layerMemory)
oddIds("SQLite", sqlite)
oddNumbers("memory", RunStore.layerMemory)
oddNumbers("SQLite", sqlite)

describe("an option of a SQLite store", () => {
  it.effect("is refused before the file is created when its name or value is unknown", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      for (const [options, words] of [
        [{ sychronous: "normal" }, 'did you mean "synchronous"?'],
        [{ synchronous: "fast" }, "neither"]
      ] as const) {
        const layer = SqliteStore.layer({ filename, ...(options as {}) })
        const error = yield* Effect.flip(Effect.provide(Effect.asVoid(RunStore.RunStore), layer))
        assert.strictEqual(error.reason._tag, "CannotOpen")
        assert.include(error.message, words)
      }
      assert.isFalse(existsSync(filename))
    })
  )

  it.effect("is refused before the file is created when `busyDeadline` is not a duration", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      for (const busyDeadline of ["soon", Number.NaN, null] as ReadonlyArray<unknown>) {
        const layer = SqliteStore.layer({ filename, busyDeadline: busyDeadline as number })
        const error = yield* Effect.flip(Effect.provide(Effect.asVoid(RunStore.RunStore), layer))
        assert.strictEqual(error.reason._tag, "CannotOpen")
        assert.include(error.message, "its `busyDeadline` is not a duration")
      }
      assert.isFalse(existsSync(filename))
    })
  )
})
