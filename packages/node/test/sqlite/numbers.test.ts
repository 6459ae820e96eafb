import { assert, describe, it } from "@effect/vitest"
import { Id } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import { temporaryFile } from "../temporaryStore.ts"
import { foreign, run, said, started, withStore } from "./fixtures.ts"

/** From this number on, a float cannot tell the id of a journal's row from its neighbor's. */
const many = 2 ** 21

describe("SqliteStore, after two million runs", () => {
  it.effect("keeps the events of each run in its own journal, in their order", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore(filename, (store) => started(store, run("last")))
      foreign(filename, (database) => {
        database.exec(`UPDATE fermata_journal SET id = (${many} << 32) + sequence`)
        database.exec(`UPDATE fermata_runs SET number = ${many}`)
      })
      const texts = ["1", "2", "3", "4"]
      yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          for (const runId of [run("one"), run("two")]) {
            const lease = yield* started(store, runId)
            for (const [index, text] of texts.entries()) {
              const expected = Id.Revision.make(index + 2)
              yield* store.append({ lease, expected, events: [said(text)], status: "held" })
            }
          }
          for (const runId of [run("one"), run("two")]) {
            assert.deepStrictEqual((yield* store.load(runId)).events.slice(2), texts.map(said))
          }
        })
      )
    })
  )
})
