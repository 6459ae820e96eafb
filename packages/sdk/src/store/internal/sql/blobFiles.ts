/**
 * The id of a store that keeps contents in files. The directory of the files has it, too, so that no other store deletes them.
 */
import * as Effect from "effect/Effect"
import type { RunStoreError } from "../../RunStoreError.ts"
import type { SqlAccess } from "./access.ts"

/** A store that is opened with files. */
export interface FiledStore {
  readonly storeId: string
  /** Whether a content of the store was ever in a file. */
  readonly hasFiles: boolean
}

/** Returns the id of the store, which is created once. */
export const filedStore = ({
  lockNumber,
  query,
  run,
  sql,
  write
}: SqlAccess): Effect.Effect<FiledStore, RunStoreError> => {
  const known = Effect.map(
    run(sql<Row>`SELECT store_id, has_files FROM fermata_blob_directory`),
    ([row]) => row && { storeId: row.store_id, hasFiles: Number(row.has_files) === 1 }
  )
  const created = Effect.gen(function* () {
    yield* lockNumber(directoryLock)
    const before = yield* known
    if (before !== undefined) return before
    const storeId = globalThis.crypto.randomUUID()
    yield* run(sql`INSERT INTO fermata_blob_directory (store_id, has_files) VALUES (${storeId}, 0)`)
    return { storeId, hasFiles: false }
  })
  // A store that is closed to writers can be opened.
  return Effect.flatMap(query("open", known), (found) =>
    found === undefined ? write("open", created, Effect.succeedNone) : Effect.succeed(found)
  )
}

interface Row {
  readonly store_id: string
  readonly has_files: number
}

/** Above the numbers of contents, which are the first 52 bits of a SHA-256. */
const directoryLock = 2 ** 52
