import type { RunStoreError } from "@fermata/sdk/store"
/**
 * Writes a SQLite store anew, so that nothing is left in it of what was removed.
 */
import * as Effect from "effect/Effect"
import { openExisting, patiently } from "./file.ts"

/** Writes the whole store anew, without gaps. */
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
