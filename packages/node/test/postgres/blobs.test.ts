import * as PgClient from "@effect/sql-pg/PgClient"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { blobTests } from "../blobsSuite.ts"
import { emptySchema, withSql } from "./database.ts"

const rowsIn = (url: string) => (statement: string) => withSql(url, (sql) => sql.unsafe<object>(statement))

blobTests(
  "Postgres",
  Effect.map(emptySchema, ({ url }) => ({
    layer: PostgresStore.layer({ url }),
    client: PgClient.layer({ url: Redacted.make(url) }),
    rows: rowsIn(url)
  }))
)
