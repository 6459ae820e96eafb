import * as PgClient from "@effect/sql-pg/PgClient"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { contentFilesTests } from "../contentFilesSuite.ts"
import { emptySchema } from "./database.ts"

contentFilesTests(
  "Postgres",
  Effect.map(emptySchema, ({ url }) => ({
    layer: (contents) => PostgresStore.layer({ url, ...(contents === undefined ? {} : { contents }) }),
    client: PgClient.layer({ url: Redacted.make(url), maxConnections: 1 })
  }))
)
