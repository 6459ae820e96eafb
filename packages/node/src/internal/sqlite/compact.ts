/**
 * Rewrites a SQLite store, so that no trace of removed data is left in it.
 */
import type { RunStoreError } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import { openExisting, patiently } from "./file.ts"

/** Rewrites the whole store without gaps. */
export const compact = (options: {
  readonly filename: string
}): Effect.Effect<void, RunStoreError.RunStoreError> =>
  Effect.scoped(
    Effect.gen(function* () {
      const database = yield* openExisting("compact", options.filename)
      yield* patiently("compact", () => {
        database.exec("PRAGMA query_only = OFF; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON; VACUUM")
      })
      yield* patiently("compact", () => {
        const [row] = database.prepare("PRAGMA wal_checkpoint(TRUNCATE)").all()
        if (row?.["busy"] !== 0) throw busy
      })
    })
  )

/** SQLite's code for a database that is locked. */
const busy = Object.assign(new Error("busy"), { errcode: 5 })
