import { assert, describe, it } from "@effect/vitest"
import type { RunStore, RunStoreError } from "@fermata/sdk/store"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as SqlClient from "effect/sql/SqlClient"
import { emptyDatabase, emptySchema, withSql } from "./database.ts"
import { answer, asked, at, create, openStore, runId, said } from "./storedRuns.ts"

type Store = RunStore.RunStore["Service"]

const deadlineMs = 1000
/** Leaves room for a busy machine. Without a bound on the whole operation, it takes four deadlines. */
const mostMs = 3 * deadlineMs

/** Holds locks in another transaction while `body` runs. */
const whileLocked = <A, E>(
  url: string,
  lock: (sql: SqlClient.SqlClient) => Effect.Effect<unknown, unknown>,
  body: Effect.Effect<A, E>
) =>
  Effect.gen(function* () {
    const locked = yield* Deferred.make<void>()
    const done = yield* Deferred.make<void>()
    const holding = withSql(url, (sql) =>
      sql.withTransaction(
        lock(sql).pipe(
          Effect.andThen(Deferred.succeed(locked, undefined)),
          Effect.andThen(Deferred.await(done)),
          Effect.orDie
        )
      )
    )
    const fiber = yield* Effect.forkChild(holding)
    yield* Deferred.await(locked)
    const result = yield* body
    yield* Deferred.succeed(done, undefined)
    yield* Fiber.join(fiber)
    return result
  })

/** The error of an operation, and how long it took. */
const timed = <A, E extends { readonly _tag: string }>(operation: Effect.Effect<A, E>) =>
  Effect.gen(function* () {
    const from = performance.now()
    const error: { readonly _tag: string; readonly reason?: RunStoreError.RunStoreError["reason"] } =
      yield* Effect.flip(operation)
    return { tag: error.reason?._tag ?? error._tag, ms: performance.now() - from }
  })

const assertBusy = (outcomes: ReadonlyArray<{ readonly tag: string; readonly ms: number }>) => {
  for (const { ms, tag } of outcomes) {
    assert.strictEqual(tag, "StoreBusy")
    assert.isBelow(ms, mostMs)
  }
}

const message = { content: [{ _tag: "text", text: "hello" }] } as const

/** Operations of all kinds: of one statement and of several, that read and that write. */
const operations = (store: Store): ReadonlyArray<Effect.Effect<unknown, { readonly _tag: string }>> => [
  store.pending(),
  store.list(),
  store.latest("s_run_a" as never),
  store.events(runId("a")),
  store.load(runId("a")),
  store.claim({ runId: runId("a"), owner: "me", ttl: "1 minute" }),
  answer(store, runId("a"), "ann"),
  store.requestCancel(runId("a"), "why"),
  create(store, runId("b")),
  ...Array.from({ length: 5 }, () => store.send(runId("a"), message))
]

describe("an operation of a PostgresStore", () => {
  for (const [where, options] of [
    ["with connections of its own", {}],
    ["through a pooler", { transactionPooler: true }]
  ] as const) {
    it.live(`fails with StoreBusy while tables are locked and connections are scarce, ${where}`, () =>
      Effect.gen(function* () {
        const { url } = yield* emptySchema
        const store = yield* openStore({ url, busyDeadline: deadlineMs, maxConnections: 2, ...options })
        const lease = yield* create(store, runId("a"), asked(runId("a")))
        yield* store.release(lease)
        const outcomes = yield* whileLocked(
          url,
          (sql) => sql`LOCK TABLE fermata_runs, fermata_requests IN ACCESS EXCLUSIVE MODE`,
          Effect.all(operations(store).map(timed), { concurrency: "unbounded" })
        )
        assertBusy(outcomes)
        // Nothing was written, and the store works again.
        assert.deepStrictEqual((yield* store.load(runId("a"))).messages, [])
        yield* store.send(runId("a"), message)
      })
    )
  }

  it.live(
    "fails at its deadline when 60 wait for one connection, and one that needs no locked row succeeds",
    () =>
      Effect.gen(function* () {
        const { url } = yield* emptySchema
        const store = yield* openStore({ url, busyDeadline: deadlineMs, maxConnections: 1 })
        for (const name of ["a", "b"]) yield* store.release(yield* create(store, runId(name)))
        const from = performance.now()
        const [outcomes, sentTo] = yield* whileLocked(
          url,
          (sql) => sql`SELECT run_id FROM fermata_runs WHERE run_id = ${runId("a")} FOR UPDATE`,
          Effect.all(
            [
              Effect.all(
                Array.from({ length: 60 }, () => timed(store.send(runId("a"), message))),
                { concurrency: "unbounded" }
              ),
              Effect.map(store.send(runId("b"), message), () => performance.now() - from)
            ],
            { concurrency: "unbounded" }
          )
        )
        // If each waited a tenth of the deadline after the one before, they would take seven deadlines.
        assertBusy(outcomes)
        assert.isAtLeast(Math.min(...outcomes.map(({ ms }) => ms)), 0.9 * deadlineMs)
        assert.isBelow(sentTo, mostMs)
        assert.strictEqual((yield* store.load(runId("b"))).messages.length, 1)
        assert.deepStrictEqual((yield* store.load(runId("a"))).messages, [])
      })
  )

  it.live("has one deadline for all the locks that it needs", () =>
    Effect.gen(function* () {
      const { url } = yield* emptySchema
      // With a deadline for each lock it would take almost twice as long.
      const deadlineMs = 2500
      const store = yield* openStore({ url, busyDeadline: deadlineMs })
      const lease = yield* create(store, runId("a"))
      const append = store.append({ lease, expected: at(1), events: [said("1")], status: "running" })
      // The head is unlocked when most of the time is over; the journal is not.
      const passing = withSql(url, (sql) =>
        sql.withTransaction(
          Effect.andThen(
            sql`SELECT run_id FROM fermata_runs FOR UPDATE`,
            sql`SELECT pg_sleep(${(0.9 * deadlineMs) / 1000})`
          )
        )
      )
      const outcome = yield* whileLocked(
        url,
        (sql) => sql`LOCK TABLE fermata_journal IN ACCESS EXCLUSIVE MODE`,
        Effect.gen(function* () {
          const releasing = yield* Effect.forkChild(passing, { startImmediately: true })
          // Only now would the append wait for the head.
          yield* withSql(url, (sql) =>
            Effect.repeat(
              sql`SELECT 1 FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND state = 'active' AND pid <> pg_backend_pid()`,
              { until: (rows) => rows.length > 0 }
            )
          )
          const outcome = yield* timed(append)
          yield* Fiber.join(releasing)
          return outcome
        })
      )
      assert.strictEqual(outcome.tag, "StoreBusy")
      assert.isBelow(outcome.ms, 1.6 * deadlineMs)
      assert.deepStrictEqual(yield* append, { revision: at(2) })
    })
  )

  it.live("that opens the store fails with StoreBusy while another process creates the tables", () =>
    Effect.gen(function* () {
      for (const options of [{}, { transactionPooler: true }]) {
        // The lock is one of the database, in which other tests open stores.
        const { url } = yield* emptyDatabase
        const opening = timed(Effect.scoped(openStore({ url, busyDeadline: deadlineMs, ...options })))
        assertBusy([yield* whileLocked(url, (sql) => sql`SELECT pg_advisory_xact_lock(7306086967)`, opening)])
        yield* openStore({ url, ...options })
      }
    })
  )
})
