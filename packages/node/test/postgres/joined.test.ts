import * as PgClient from "@effect/sql-pg/PgClient"
import { assert, describe, it } from "@effect/vitest"
import { decideStored, sendMessage, submitPrompt } from "@fermata/sdk"
import { RunStore } from "@fermata/sdk/store"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { held, joinedSuite, order, orders, overClient, refund, transact } from "../joinedSuite.ts"
import { emptySchema, withSql } from "./database.ts"

const pool = Layer.unwrap(
  Effect.map(emptySchema, ({ url }) => PgClient.layer({ url: Redacted.make(url), maxConnections: 3 }))
)

joinedSuite("Postgres", overClient(pool), 3)

/** Locks the head of the run on another connection while `body` runs. */
const whileLocked = <A, E, R>(body: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const locked = yield* Deferred.make<void>()
    const done = yield* Deferred.make<void>()
    const holding = sql.withTransaction(
      Effect.gen(function* () {
        yield* sql`SELECT run_id FROM fermata_runs FOR UPDATE`
        yield* Deferred.succeed(locked, undefined)
        yield* Deferred.await(done)
      })
    )
    const fiber = yield* Effect.forkChild(holding)
    yield* Deferred.await(locked)
    return yield* Effect.ensuring(
      body,
      Effect.andThen(Deferred.succeed(done, undefined), Fiber.join(fiber)).pipe(Effect.ignore)
    )
  })

describe("a transaction of the caller on Postgres", () => {
  it.live("waits for locks until the deadline of the store, and keeps its own setting for later", () =>
    Effect.gen(function* () {
      const { runId } = yield* held
      const sql = yield* SqlClient.SqlClient
      const busy = yield* whileLocked(
        transact(
          Effect.gen(function* () {
            yield* sql`SET LOCAL lock_timeout = '7s'`
            const refused = yield* Effect.flip(sendMessage(runId, "late"))
            const [setting] = yield* sql<{ readonly lock_timeout: string }>`SHOW lock_timeout`
            return { refused, setting }
          })
        )
      )
      assert.strictEqual(busy.refused._tag === "RunStoreError" && busy.refused.reason._tag, "StoreBusy")
      assert.deepStrictEqual(busy.setting, { lock_timeout: "7s" })
      const after = yield* transact(
        Effect.andThen(
          sendMessage(runId, "in time"),
          sql<{ readonly lock_timeout: string }>`SHOW lock_timeout`
        )
      )
      assert.deepStrictEqual(after, [{ lock_timeout: "0" }])
    }).pipe(Effect.provide(overClient(pool, { busyDeadline: "200 millis" })))
  )

  it.live("is interruptible while an operation waits for a lock", () =>
    Effect.gen(function* () {
      const { runId } = yield* held
      yield* whileLocked(
        Effect.gen(function* () {
          const begun = yield* Deferred.make<void>()
          const waiting = Effect.andThen(Deferred.succeed(begun, undefined), sendMessage(runId, "late"))
          const fiber = yield* Effect.forkChild(transact(waiting))
          yield* Deferred.await(begun)
          const exit = yield* Effect.andThen(Fiber.interrupt(fiber), Fiber.await(fiber))
          assert.isTrue(Exit.hasInterrupts(exit))
        })
      )
    }).pipe(Effect.provide(overClient(pool, { busyDeadline: "1 hour" })))
  )

  it.effect("of another isolation level is refused before anything is written", () =>
    Effect.gen(function* () {
      const { decision, runtime } = yield* held
      const refused = yield* Effect.flip(
        Effect.provideService(
          transact(decideStored([runtime], decision)),
          SqlClient.BeginTransaction,
          "BEGIN ISOLATION LEVEL REPEATABLE READ"
        )
      )
      assert.strictEqual(refused._tag === "RunStoreError" && refused.reason._tag, "InTransaction")
    }).pipe(Effect.provide(overClient(pool)))
  )

  it.effect("whose connection is cut fails with a typed error, and leaves nothing", () =>
    Effect.gen(function* () {
      const { runtime } = yield* refund
      const sql = yield* SqlClient.SqlClient
      const store = yield* RunStore.RunStore
      const exit = yield* transact(
        Effect.gen(function* () {
          yield* order("1")
          yield* submitPrompt(runtime, { prompt: "go" })
          yield* Effect.ignore(sql`SELECT pg_terminate_backend(pg_backend_pid())`)
          const refused = yield* Effect.flip(submitPrompt(runtime, { prompt: "more" }))
          assert.strictEqual(refused._tag, "RunStoreError")
          return yield* refused
        })
      ).pipe(Effect.exit)
      assert.isTrue(Exit.isFailure(exit))
      assert.deepStrictEqual(yield* orders, [])
      assert.deepStrictEqual(yield* store.list(), [])
    }).pipe(Effect.provide(overClient(pool)))
  )

  it.live("keeps a run that it has read as it is until its end", () =>
    Effect.gen(function* () {
      const { runId } = yield* held
      const store = yield* RunStore.RunStore
      yield* transact(
        Effect.gen(function* () {
          yield* store.load(runId)
          // Another fiber, outside of the transaction.
          const outside = Effect.flip(sendMessage(runId, "meanwhile"))
          const sql = yield* SqlClient.SqlClient
          const refused = yield* Effect.updateContext(
            outside,
            (context: Context.Context<RunStore.RunStore>) =>
              Context.omit(sql.transactionService)(
                context as Context.Context<RunStore.RunStore>
              ) as typeof context
          )
          assert.strictEqual(refused._tag === "RunStoreError" && refused.reason._tag, "StoreBusy")
        })
      )
      yield* sendMessage(runId, "after")
    }).pipe(Effect.provide(overClient(pool, { busyDeadline: "200 millis" })))
  )

  it.effect("of PostgresStore's own client contains rows of the program, and texts with NUL", () =>
    Effect.gen(function* () {
      const { url } = yield* emptySchema
      yield* withSql(url, (sql) => sql`CREATE TABLE orders (id text)`)
      yield* Effect.gen(function* () {
        const { runtime } = yield* refund
        const store = yield* RunStore.RunStore
        const reason = "a\0b"
        const { runId } = yield* transact(
          Effect.gen(function* () {
            yield* order("1")
            const { runId } = yield* submitPrompt(runtime, { prompt: "go" })
            yield* store.requestCancel(runId, reason)
            return yield* store.head(runId)
          })
        )
        assert.strictEqual((yield* store.head(runId)).cancelReason, reason)
        assert.deepStrictEqual(yield* orders, ["1"])
      }).pipe(Effect.provide(PostgresStore.layerSql({ url })))
    })
  )

  it.effect("is not seen by other connections before its commit", () =>
    Effect.gen(function* () {
      const { url } = yield* emptySchema
      const layer = PgClient.layer({ url: Redacted.make(url), maxConnections: 3 })
      yield* Effect.gen(function* () {
        const { runtime } = yield* refund
        const count = withSql(url, (sql) => sql`SELECT run_id FROM fermata_runs`)
        yield* transact(
          Effect.gen(function* () {
            yield* submitPrompt(runtime, { prompt: "go" })
            assert.strictEqual((yield* count).length, 0)
          })
        )
        assert.strictEqual((yield* count).length, 1)
      }).pipe(Effect.provide(overClient(layer)))
    })
  )
})
