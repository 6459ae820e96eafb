/**
 * Secrets of a program are in no table of a Postgres store.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { found, playThrough } from "../canaries.ts"
import { shown } from "../programs/leakingRun.ts"
import { emptySchema, withSql } from "./database.ts"

describe("a secret of a program", () => {
  it.live("is in no table of a Postgres store, and in nothing that a run emits", () =>
    Effect.gen(function* () {
      const { name: schema, url } = yield* emptySchema
      const played = yield* Effect.provide(playThrough, PostgresStore.layer({ url }))
      const rows = yield* withSql(url, (sql) =>
        Effect.gen(function* () {
          const tables = yield* sql<{
            name: string
          }>`SELECT tablename AS name FROM pg_tables WHERE schemaname = ${schema}`
          return yield* Effect.forEach(tables, ({ name }) => sql`SELECT * FROM ${sql(name)}`)
        })
      )
      const values = rows.flat().flatMap((row) => Object.values(row))
      const stored = Buffer.concat(
        values.map((value) => (value instanceof Uint8Array ? value : Buffer.from(`${shown(value)}\n`)))
      )
      for (const bytes of [...played, stored]) {
        assert.include(bytes.toString(), "[REDACTED:app-token]")
        assert.deepStrictEqual(found(bytes), [])
      }
    })
  )
})
