import * as Fs from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as SqlClient from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import * as SqliteClient from "../../src/internal/sqlite/client.ts"
import * as SqliteStore from "../../src/SqliteStore.ts"
import { contentFilesTests } from "../contentFilesSuite.ts"
import { temporaryDirectory, temporaryFile } from "../temporaryStore.ts"
import { run, showing, started, withStore } from "./fixtures.ts"

contentFilesTests(
  "SQLite",
  Effect.map(temporaryFile, (filename) => ({
    layer: (contents) => SqliteStore.layer({ filename, ...(contents === undefined ? {} : { contents }) }),
    client: Layer.effect(SqlClient.SqlClient, SqliteClient.make({ filename })).pipe(
      Layer.provide(Reactivity.layer)
    )
  }))
)

describe("the check of a store with a directory of contents", () => {
  it.live(
    "names missing, changed and foreign files, another store's directory, and contents that it could not check",
    () =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        const contents = yield* temporaryDirectory
        const refs = yield* withStore(
          filename,
          Effect.fnUntraced(function* (store) {
            const refs = []
            for (const index of [1, 2]) {
              const ref = yield* store.blobs!.put(Stream.make(new Uint8Array(600_000).fill(index)))
              refs.push(ref)
              yield* Effect.flatMap(started(store, run(index), showing(ref)), store.release)
            }
            yield* store.blobs!.put(Stream.make(new Uint8Array(600_000)))
            return refs
          }),
          { contents }
        )
        const problems = (contents?: string) =>
          Effect.map(
            SqliteStore.check({ filename, ...(contents === undefined ? {} : { contents }) }),
            ({ problems }) => problems
          )
        assert.deepStrictEqual(yield* problems(contents), [])
        assert.deepStrictEqual(yield* problems(), [
          "3 contents are in a directory, which was not checked: give it as `contents`."
        ])
        for (const name of Fs.readdirSync(contents, { recursive: true, encoding: "utf8" })) {
          if (!/[0-9a-f]{12}$/.test(name)) continue
          const path = `${contents}/${name}`
          const first = Fs.readFileSync(path)[0]
          if (first === 1) Fs.rmSync(path)
          if (first === 2) Fs.writeFileSync(path, new Uint8Array(600_000))
        }
        Fs.mkdirSync(`${contents}/00`, { recursive: true })
        Fs.writeFileSync(`${contents}/00/000000000000`, "")
        assert.deepStrictEqual(
          (yield* problems(contents)).toSorted(),
          [
            `The content ${refs[0]!.sha256} of the run run_1 is missing in the directory, or damaged: restore a backup.`,
            `The content ${refs[1]!.sha256} of the run run_2 is missing in the directory, or damaged: restore a backup.`,
            "The file 000000000000 in the directory of contents belongs to no content: delete it."
          ].toSorted()
        )
        Fs.writeFileSync(`${contents}/store`, "another")
        assert.deepStrictEqual(yield* problems(contents), [
          "The directory of contents belongs to another store: give the store's own."
        ])
      }).pipe(Effect.scoped)
  )
})
