import { assert, describe, it } from "@effect/vitest"
import type { Id, RunEvent, RunState } from "@fermata/sdk"
import { RunStoreError } from "@fermata/sdk/store"
import type * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import type * as SqlClient from "effect/sql/SqlClient"
import { emptyDatabase, withSql } from "./database.ts"
import { asked, at, create, openStore, runId, said } from "./storedRuns.ts"

/** The decision that another process is about to commit, as `decide` writes it. */
const stopping = (sql: SqlClient.SqlClient, run: string) =>
  Effect.gen(function* () {
    const decision = { _tag: "deny", requestId: `${run}.r1`, by: "ann", at: 1, then: "stop" }
    yield* sql`SELECT run_id FROM fermata_runs WHERE run_id = ${run} FOR UPDATE`
    yield* sql`UPDATE fermata_requests SET status = 'decided', decision = ${JSON.stringify(decision)},
      decided_at = 1, decided_by = 'ann' WHERE request_id = ${`${run}.r1`}`
  })

const waiting = (sql: SqlClient.SqlClient) =>
  Effect.map(
    sql`SELECT pid FROM pg_stat_activity WHERE datname = current_database()
      AND application_name = 'fermata' AND wait_event_type = 'Lock'`,
    (rows) => rows.length > 0
  )

const levels = ["read committed", "repeatable read", "serializable"]

/** The exit of an append to `run` that waits until a decision on it is committed, with this default isolation level. */
const appended = Effect.fnUntraced(function* (
  level: string,
  run: Id.RunId,
  events: Arr.NonEmptyReadonlyArray<RunEvent.RunEvent>,
  status: RunState.Status
) {
  const { name, url } = yield* emptyDatabase
  yield* withSql(url, (sql) =>
    sql.unsafe(`ALTER DATABASE "${name}" SET default_transaction_isolation = '${level}'`)
  )
  const stores = yield* Effect.all(
    Array.from({ length: 3 }, () => openStore({ url, maxConnections: 2 })),
    { concurrency: "unbounded" }
  )
  const [store] = stores
  const lease = yield* create(store!, run, asked(run))
  const append = store!.append({ lease, expected: at(1), events, status })
  const fiber = yield* withSql(url, (sql) =>
    withSql(url, (watch) =>
      sql.withTransaction(
        Effect.gen(function* () {
          yield* stopping(sql, run)
          const appending = yield* Effect.forkDetach(append, { startImmediately: true })
          yield* Effect.repeat(waiting(watch), {
            until: (isWaiting) => isWaiting,
            schedule: Schedule.spaced("5 millis")
          })
          return appending
        })
      )
    )
  )
  const exit = yield* Effect.exit(Fiber.join(fiber))
  assert.lengthOf(yield* store!.decisions(run), 1)
  return exit
})

describe("an append that waits for the commit of a decision", () => {
  for (const level of levels) {
    it.live(`returns hasMail, where ${level} is the default`, () =>
      Effect.gen(function* () {
        const exit = yield* appended(level, runId("a"), [said("begin")], "running")
        assert.deepStrictEqual(exit, Exit.succeed({ revision: at(2), hasMail: true }))
      })
    )

    it.live(`fails with RunConflict when it ends the run, where ${level} is the default`, () =>
      Effect.gen(function* () {
        const run = runId("a")
        const end: RunEvent.RunEvent = { _tag: "run.cancelled", at: 1, reason: "no", calls: [] }
        const exit = yield* appended(level, run, [end], "cancelled")
        const conflict = new RunStoreError.RunConflict({ runId: run, expected: at(1), actual: at(1) })
        assert.deepStrictEqual(exit, Exit.fail(conflict))
      })
    )
  }
})
