import { assert, describe, it } from "@effect/vitest"
import { Id } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import { temporaryFile } from "../temporaryStore.ts"
import { asked, foreign, run, started, withStore } from "./fixtures.ts"

const runId = run("asking")
const requestId = Id.requestId(runId, 1)

describe("a damaged request in SQLite", () => {
  for (const [what, damage] of [
    ["its decision is null", "decision = 'null', status = 'decided'"],
    ["its decision is cut", "decision = '{\"_tag\":', status = 'decided'"],
    ["it is null", "request = 'null'"],
    ["its status is unknown", "status = 'decided?'"]
  ] as const) {
    it.effect(`fails to be read, with its id: ${what}`, () =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        yield* withStore(filename, (store) => started(store, runId, asked(runId, "Which one?")))
        foreign(filename, (database) => database.exec(`UPDATE fermata_requests SET ${damage}`))
        yield* withStore(filename, (store) =>
          Effect.gen(function* () {
            const error = yield* Effect.flip(store.request(requestId))
            assert.strictEqual(error._tag, "RunStoreError")
            assert.include(error.message, "the request run_asking.r1 of the run run_asking is damaged")
          })
        )
      })
    )
  }
})
