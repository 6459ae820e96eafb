import { assert, describe, it } from "@effect/vitest"
import { RunStoreContract } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { temporaryDirectory } from "../temporaryStore.ts"
import { reusedSchema, withSql } from "./database.ts"

const suite = RunStoreContract.suite({ assert, describe, it })

/** The schema of the test that runs. */
let current = ""
const schema = reusedSchema()
const emptied = (options: Omit<PostgresStore.Options, "url">) =>
  Layer.unwrap(
    Effect.map(Effect.orDie(schema), (url) => {
      current = url
      return PostgresStore.layer({ ...options, url })
    })
  )
const withDirectory = Layer.unwrap(Effect.map(temporaryDirectory, (contents) => emptied({ contents })))
const setBack = (milliseconds: number) =>
  withSql(current, (sql) => sql`UPDATE fermata_runs SET lease_until = lease_until + ${milliseconds}`)

suite("Postgres", emptied({}), { setBack })
RunStoreContract.contentsSuite({ assert, describe, it })(
  "Postgres with a directory of contents",
  withDirectory,
  { setBack }
)
suite(
  "Postgres through a pooler, on one connection",
  emptied({ transactionPooler: true, maxConnections: 1 }),
  {
    setBack
  }
)
