import { readFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as SqliteStore from "../../src/SqliteStore.ts"
import { temporaryFile } from "../temporaryStore.ts"

const frozen = readFileSync(join(import.meta.dirname, "../fixtures/stores/tables-2.sql"), "utf8")

const problemsAfter = (change: string) =>
  Effect.gen(function* () {
    const filename = yield* temporaryFile
    const database = new DatabaseSync(filename)
    database.exec(frozen)
    database.exec(change)
    database.close()
    return (yield* SqliteStore.check({ filename })).problems
  })

describe("SqliteStore.check of folded journals", () => {
  it.effect("reports no problem when everything agrees", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* problemsAfter("SELECT 1"), [])
    })
  )

  it.effect("reports a run that waits for a request that cannot be decided", () =>
    Effect.gen(function* () {
      const [problem] = yield* problemsAfter("DELETE FROM fermata_requests WHERE run_id = 'approval'")
      assert.include(problem, "The run approval waits for approval.r1, which cannot be decided")
    })
  )

  it.effect("reports a run that is listed with another status than its journal's", () =>
    Effect.gen(function* () {
      const [problem] = yield* problemsAfter(
        "UPDATE fermata_runs SET status = 'completed' WHERE run_id = 'approval'"
      )
      assert.include(problem, "The run approval is held by its journal, and listed as completed")
    })
  )

  it.effect("reports a request that differs from the one in the journal", () =>
    Effect.gen(function* () {
      const [problem] = yield* problemsAfter(
        `UPDATE fermata_requests SET request = replace(request, '"amount":7', '"amount":70') WHERE run_id = 'approval'`
      )
      assert.include(problem, "The request approval.r1 is not what its run asked for")
    })
  )
})
