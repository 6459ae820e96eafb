import { assert, describe, it } from "@effect/vitest"
import { sendMessage } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as SqlClient from "effect/sql/SqlClient"
import * as SqliteClient from "../../src/internal/sqlite/client.ts"
import { held, joinedSuite, orders, overClient, transact } from "../joinedSuite.ts"
import { temporaryFile } from "../temporaryStore.ts"

const client = Layer.effect(
  SqlClient.SqlClient,
  Effect.flatMap(temporaryFile, (filename) => SqliteClient.make({ filename }))
)

describe("a transaction of the caller on SQLite", () => {
  it.effect("that began before another process wrote is refused with StoreBusy, and not retried", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const layer = Layer.provide(
        Layer.effect(SqlClient.SqlClient, SqliteClient.make({ filename })),
        Reactivity.layer
      )
      yield* Effect.gen(function* () {
        const { runId } = yield* held
        const other = yield* Effect.provide(SqliteClient.make({ filename }), Reactivity.layer)
        const refused = yield* Effect.flip(
          transact(
            Effect.gen(function* () {
              yield* orders
              yield* other`INSERT INTO orders VALUES ('elsewhere')`
              return yield* sendMessage(runId, "late")
            })
          )
        )
        assert.strictEqual(refused._tag === "RunStoreError" && refused.reason._tag, "StoreBusy")
        yield* transact(sendMessage(runId, "again"))
      }).pipe(Effect.provide(overClient(layer)))
    })
  )
})

joinedSuite("SQLite", overClient(Layer.provide(client, Reactivity.layer)))
