import { assert, describe, it } from "@effect/vitest"
import { Id } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import { temporaryFile } from "../temporaryStore.ts"
import { asked, foreign, run, started, withStore } from "./fixtures.ts"

const runId = run("asking")
const requestId = Id.requestId(runId, 1)

describe("SqliteStore, with a damaged list of requests", () => {
  for (const [what, damage] of [
    ["a decision that is none", "decision = 'null', status = 'decided'"],
    ["a decision that is cut", "decision = '{\"_tag\":', status = 'decided'"],
    ["a request that is none", "request = 'null'"],
    ["a status that is none", "status = 'decided?'"]
  ] as const) {
    it.effect(`says so, and does not take it for one that is open: ${what}`, () =>
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
