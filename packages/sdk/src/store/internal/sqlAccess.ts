/**
 * How the SQL store talks to a database: whole transactions that are tried again while somebody else holds the lock, errors
 * that a caller understands, and the few words in which the dialects differ.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import { RunStoreError, StoreBusy } from "../RunStoreError.ts"
import { isContention, toStoreError } from "./sqlErrors.ts"

/** Access to the tables of one database. */
export interface SqlAccess {
  readonly sql: SqlClient
  /** The database's time in milliseconds: leases must not depend on the clocks of the processes. */
  readonly now: Fragment
  /** Ends a `SELECT` whose rows must not change until the transaction ends. */
  readonly forUpdate: Fragment
  /** Whether a text column contains a text. */
  readonly contains: (column: string, text: string) => Fragment
  /** One transaction that writes. All or nothing; tried again while the database is locked. */
  readonly write: <A, E>(
    operation: string,
    body: Effect.Effect<A, E>
  ) => Effect.Effect<A, Exclude<E, SqlError> | RunStoreError>
  /** Several statements that see the same snapshot. */
  readonly read: SqlAccess["write"]
  /** One statement. */
  readonly query: SqlAccess["write"]
}

/** Makes the access to a database. `busyDeadline` is how long to try for a lock. */
export const makeAccess = (sql: SqlClient, busyDeadline: Duration.Input): SqlAccess => {
  const deadlineMs = Duration.toMillis(busyDeadline)
  const { beginRead, beginWrite, control, ...words } = dialectOf(sql)

  const toError = (operation: string, error: SqlError, waitedMs: number): RunStoreError =>
    isContention(error)
      ? new RunStoreError({ operation, reason: new StoreBusy({ waitedMs }) })
      : toStoreError(operation, error)

  const patiently = <A, E>(operation: string, effect: Effect.Effect<A, E>) =>
    Effect.clockWith((clock) => {
      const start = clock.currentTimeMillisUnsafe()
      const waitedMs = () => clock.currentTimeMillisUnsafe() - start
      const again = Effect.retry(effect, {
        while: (error) => contention(error) && waitedMs() < deadlineMs,
        schedule: backoff
      })
      return mapSqlError(again, (error) => Effect.fail(toError(operation, error, waitedMs())))
    })

  const attempt: SqlAccess["query"] = (operation, effect) =>
    mapSqlError(effect, (error) =>
      isContention(error) ? patiently(operation, effect) : Effect.fail(toError(operation, error, 0))
    )

  /**
   * Runs on one connection that nobody else uses meanwhile. It is waited for uninterruptibly: some drivers lose a connection
   * that was taken in the moment of an interruption.
   */
  const reserved = <A, E>(
    use: (connection: Connection, restore: Restore) => Effect.Effect<A, E>
  ): Effect.Effect<A, E | SqlError> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.scopedWith((scope) =>
        Effect.flatMap(Scope.provide(sql.reserve, scope), (connection) => use(connection, restore))
      )
    )

  const within = <A, E>(connection: Connection, body: Effect.Effect<A, E>) =>
    Effect.provideService(body, sql.transactionService, [connection, 0])

  /** Begins, runs and commits. Unlike the client's own, it survives a database that rolled back already. */
  const transaction = <A, E>(begin: string, body: Effect.Effect<A, E>) =>
    reserved((connection, restore) => {
      const rollback = Effect.ignore(control(connection, "ROLLBACK"))
      return control(connection, begin).pipe(
        Effect.andThen(Effect.onError(restore(within(connection, body)), () => rollback)),
        Effect.tap(Effect.onError(control(connection, "COMMIT"), () => rollback))
      )
    })

  return {
    sql,
    query: (operation, body) =>
      attempt(
        operation,
        reserved((connection, restore) => restore(within(connection, body)))
      ),
    write: (operation, body) => attempt(operation, transaction(beginWrite, body)),
    read: (operation, body) => attempt(operation, transaction(beginRead, body)),
    ...words
  }
}

type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** Handles what the database reports and lets every other error through. */
const mapSqlError = <A, E, B, E2>(
  attempt: Effect.Effect<A, E>,
  f: (error: SqlError) => Effect.Effect<B, E2>
): Effect.Effect<A | B, Exclude<E, SqlError> | E2> =>
  Effect.catch(attempt, (error): Effect.Effect<B, Exclude<E, SqlError> | E2> =>
    isSqlError(error) ? f(error) : Effect.fail(error as Exclude<E, SqlError>)
  )

const contention = (error: unknown): boolean => isSqlError(error) && isContention(error)

const backoff = Schedule.min([Schedule.exponential("2 millis"), Schedule.spaced("50 millis")]).pipe(
  Schedule.jittered
)

const dialectOf = (sql: SqlClient) =>
  sql.onDialectOrElse({
    pg: () => ({
      now: sql.literal("(extract(epoch from clock_timestamp()) * 1000)::bigint"),
      forUpdate: sql.literal("FOR UPDATE"),
      contains: (column: string, text: string) => sql`strpos(${sql(column)}, ${text}) > 0`,
      beginWrite: "BEGIN",
      beginRead: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
      control: (connection: Connection, statement: string) =>
        connection.executeUnprepared(statement, [], undefined)
    }),
    orElse: () => ({
      now: sql.literal("cast(unixepoch('subsec') * 1000 as integer)"),
      forUpdate: sql.literal(""),
      contains: (column: string, text: string) => sql`instr(${sql(column)}, ${text}) > 0`,
      // A deferred BEGIN cannot become a writer once somebody else has written: the transaction would be lost.
      beginWrite: "BEGIN IMMEDIATE",
      beginRead: "BEGIN",
      control: (connection: Connection, statement: string) => connection.execute(statement, [], undefined)
    })
  })
