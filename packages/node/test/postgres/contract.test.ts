import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { RunStoreContract } from "@fermata/sdk/testing"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { emptySchema } from "./database.ts"

const suite = RunStoreContract.suite({ assert, describe, it })

const fresh = (options: Omit<PostgresStore.Options, "url">) =>
  Layer.unwrap(Effect.map(Effect.orDie(emptySchema), ({ url }) => PostgresStore.layer({ ...options, url })))

suite("Postgres", fresh({}))
suite("Postgres through a pooler, on one connection", fresh({ transactionPooler: true, maxConnections: 1 }))
