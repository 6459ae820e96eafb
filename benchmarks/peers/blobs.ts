/**
 * A table of texts, for systems that leave it to the program to keep their state: the whole state in one row, which is rewritten each
 * time. WAL and `synchronous=FULL`, without a fence, as in the systems' own documentation.
 */
import * as Path from "node:path"
import { DatabaseSync } from "node:sqlite"

/** The table. */
export interface Blobs {
  readonly read: (id: string) => string | undefined
  readonly write: (id: string, text: string) => void
  readonly remove: (id: string) => void
  /** The ids that begin with this, in their order. */
  readonly list: (prefix: string, limit: number) => ReadonlyArray<string>
  readonly close: () => Promise<void>
}

export const openBlobs = (folder: string): Blobs => {
  const database = new DatabaseSync(Path.join(folder, "blobs.db"))
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA busy_timeout = 1000")
  database.exec("CREATE TABLE IF NOT EXISTS blobs (id TEXT PRIMARY KEY, text TEXT)")
  const read = database.prepare("SELECT text FROM blobs WHERE id = ?")
  const write = database.prepare(
    "INSERT INTO blobs VALUES (?, ?) ON CONFLICT DO UPDATE SET text = excluded.text"
  )
  const remove = database.prepare("DELETE FROM blobs WHERE id = ?")
  const list = database.prepare("SELECT id FROM blobs WHERE id >= ? AND id < ? ORDER BY id LIMIT ?")
  return {
    read: (id) => (read.get(id) as { readonly text: string } | undefined)?.text,
    write: (id, text) => void write.run(id, text),
    remove: (id) => void remove.run(id),
    list: (prefix, limit) =>
      (list.all(prefix, `${prefix}\uffff`, limit) as unknown as ReadonlyArray<{ readonly id: string }>).map(
        ({ id }) => id
      ),
    close: async () => database.close()
  }
}

/** An id; ids sort by time. */
export const numbered = (prefix: string, number: number): string =>
  `${prefix}${String(number).padStart(8, "0")}`
