import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as SqliteStore from "../../src/SqliteStore.ts"
import { blobTests } from "../blobsSuite.ts"
import { temporaryFile } from "../temporaryStore.ts"

const rowsIn = (filename: string) => (sql: string) =>
  Effect.sync(() => {
    using database = new DatabaseSync(filename)
    return database.prepare(sql).all()
  })

blobTests(
  "SQLite",
  Effect.map(temporaryFile, (filename) => ({
    layer: SqliteStore.layer({ filename }),
    rows: rowsIn(filename)
  }))
)
