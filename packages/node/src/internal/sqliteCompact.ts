/**
 * Writes a SQLite store anew, so that nothing is left in it of what was removed.
 */
import * as Effect from "effect/Effect"
import type { RunStoreError } from "@fermata/sdk/store"
import { openExisting, patiently } from "./sqliteFile.ts"

/**
 * Writes the whole store anew, without gaps, while others have it open.
 *
 * **When to use**
 *
 * After many runs were removed, to make the file smaller. And after a removal when the file must hold no trace of the text, even
 * for who reads its bytes: a removal overwrites the rows, but where SQLite once moved a row to another page, a part of it can
 * have stayed in the unused room of the old page.
 *
 * **Gotchas**
 *
 * Nobody can write meanwhile (reading goes on), it needs as much space again as the store has, and this process does nothing
 * else until it is done: run a large one in a process of its own, when little goes on.
 *
 * **Errors**
 *
 * - `RunStoreError` — `CannotOpen` when there is no such store, `StoreBusy` when others kept writing for 10 seconds, or still
 *   read the old text; `StorageFull`, `StoreUnreadable`. The store is as it was, or is done.
 *
 * @category maintaining
 * @since 0.1.0
 */
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

/** SQLite's number for a lock that somebody holds. */
const busy = Object.assign(new Error("busy"), { errcode: 5 })
