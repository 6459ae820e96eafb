import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as SqlClient from "effect/sql/SqlClient"
import * as SqliteClient from "../../src/internal/sqlite/client.ts"
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
    client: Layer.effect(SqlClient.SqlClient, SqliteClient.make({ filename })).pipe(
      Layer.provide(Reactivity.layer)
    ),
    rows: rowsIn(filename)
  }))
)
