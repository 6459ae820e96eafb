import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { RunStoreContract } from "@fermata/sdk/testing"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { emptySchema, withSql } from "./database.ts"

const suite = RunStoreContract.suite({ assert, describe, it })

/** The schema of the test that runs. */
let current = ""
const fresh = (options: Omit<PostgresStore.Options, "url">) =>
  Layer.unwrap(
    Effect.map(Effect.orDie(emptySchema), ({ url }) => {
      current = url
      return PostgresStore.layer({ ...options, url })
    })
  )
const setBack = (milliseconds: number) =>
  withSql(current, (sql) => sql`UPDATE fermata_runs SET lease_until = lease_until + ${milliseconds}`)

suite("Postgres", fresh({}), { setBack })
suite("Postgres through a pooler, on one connection", fresh({ transactionPooler: true, maxConnections: 1 }), {
  setBack
})
