/**
 * The pages of a SQLite file. A commit writes every page that it changes as a whole, and most changes of a store are smaller than a kilobyte:
 * small pages reduce what is written to less than half, without more CPU time.
 *
 * The size of a file's pages is fixed by its first table. A file that has tables keeps its pages, also when it is compacted or copied.
 */
import * as Effect from "effect/Effect"
import type { RunStoreError } from "../../RunStoreError.ts"
import type { SqlAccess } from "./access.ts"

/** The bytes of a page in a new file. `SqliteStore` sets them before the file exists. */
const pageBytes = 1024

/** SQLite's own page size, and the number of pages in the log after which it copies them into the file. */
const usual = { pageBytes: 4096, checkpoint: 1000 }

/**
 * Gives an empty file small pages, and lets the log grow to as many bytes as with SQLite's own pages. What the program has set stays as it is.
 * A database that refuses this is used as it is.
 */
export const setPages = ({ query, run, sql }: SqlAccess): Effect.Effect<void, RunStoreError> => {
  const exec = (statement: string) => run(sql.unsafe<Readonly<Record<string, unknown>>>(statement))
  const setting = (name: string) => Effect.map(exec(`PRAGMA ${name}`), ([row]) => row?.[name])

  const isEmpty = Effect.gen(function* () {
    const tables = yield* exec("SELECT 1 FROM sqlite_schema LIMIT 1")
    // A file without tables that has more than its first page is damaged.
    return tables.length === 0 && (yield* setting("page_count")) === 1
  })

  /** The page size can change outside of WAL only. Refused by SQLite while another connection has the file open. */
  const shrink = Effect.andThen(
    exec("PRAGMA journal_mode = DELETE"),
    Effect.andThen(exec(`PRAGMA page_size = ${pageBytes}`), exec("VACUUM")).pipe(
      Effect.ensuring(Effect.ignore(exec("PRAGMA journal_mode = WAL")))
    )
  )

  const set = Effect.gen(function* () {
    const isNew = yield* isEmpty
    if (
      isNew &&
      (yield* setting("page_size")) === usual.pageBytes &&
      (yield* setting("journal_mode")) === "wal"
    ) {
      yield* Effect.ignore(shrink)
    }
    const checkpoint = Math.round((usual.checkpoint * usual.pageBytes) / Number(yield* setting("page_size")))
    if (checkpoint > usual.checkpoint && (yield* setting("wal_autocheckpoint")) === usual.checkpoint) {
      yield* exec(`PRAGMA wal_autocheckpoint = ${checkpoint}`)
    }
  })

  return sql.onDialectOrElse({
    sqlite: () => query("open", Effect.ignore(set)),
    orElse: () => Effect.void
  })
}
