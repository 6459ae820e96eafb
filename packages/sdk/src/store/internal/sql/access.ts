/**
 * The SQL store's access to a database: transactions that are retried on lock conflicts and lost connections.
 *
 * If a connection breaks before COMMIT is sent, nothing was written, and the transaction is retried. If it breaks between COMMIT and its
 * response, the outcome is unknown, and the transaction is retried as well: if the first attempt was committed, the transaction's own
 * conditions (a revision, an id, an open request) refuse the second, and the stored data shows which operation wrote it. See
 * `docs/architecture/store-transaction.md`.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { identity } from "effect/Function"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import { nativeTracer } from "effect/Tracer"
import { OutcomeUnknown, RunStoreError, StoreBusy } from "../../RunStoreError.ts"
import { type Dialect, dialectOf } from "./dialect.ts"
import { isConnectionLost, isContention, toStoreError } from "./errors.ts"
import { inTransaction, makeJoining } from "./joined.ts"
import { bounded, isLate, mapStatements, operationDeadline } from "./lockTimeout.ts"

/** Access to the tables of one database. */
export interface SqlAccess extends Omit<
  Dialect,
  "beginRead" | "beginWrite" | "control" | "joining" | "settings"
> {
  readonly sql: SqlClient
  /**
   * Runs a statement inside `write`, `read` or `query`. Without a tracer, the statement goes directly to the connection: the span and the
   * lookup of the connection that a statement makes by itself take longer than SQLite's work.
   */
  readonly run: <A extends object>(
    statement: Statement.Statement<A>
  ) => Effect.Effect<ReadonlyArray<A>, SqlError>
  /**
   * Runs a transaction that writes; it is retried until the deadline while the database is locked or unreachable.
   *
   * `committed` runs if the outcome of a commit is unknown and a later attempt was refused. It returns what `body` would have returned if
   * the stored data is what `body` writes, and `None` otherwise.
   */
  readonly write: <A, E>(
    operation: string,
    body: Effect.Effect<A, E>,
    committed: Effect.Effect<Option.Option<NoInfer<A>>, SqlError | RunStoreError>
  ) => Effect.Effect<A, Exclude<E, SqlError> | RunStoreError>
  /**
   * Runs several statements on one snapshot. In a transaction of the caller, whose statements may each have a snapshot of their own, `lock`
   * comes first, so that what they read does not change in between.
   */
  readonly read: <A, E>(
    operation: string,
    body: Effect.Effect<A, E>,
    lock?: Effect.Effect<unknown, SqlError>
  ) => Effect.Effect<A, Exclude<E, SqlError> | RunStoreError>
  /** Runs one statement that may be repeated. */
  readonly query: <A, E>(
    operation: string,
    body: Effect.Effect<A, E>
  ) => Effect.Effect<A, Exclude<E, SqlError> | RunStoreError>
  /** Refuses an operation of a process that drives a run if the caller is in a transaction. */
  readonly requireNoTransaction: (operation: string) => Effect.Effect<void, RunStoreError>
  /** Runs an effect when the caller's transaction is committed, or at once if the caller is in none. */
  readonly afterCommit: (effect: Effect.Effect<void>) => Effect.Effect<void>
}

/** The time that an operation waits for locks, and whether the connections already bound the wait of a statement. */
export interface AccessOptions {
  readonly busyDeadline: Duration.Input
  readonly boundsLocks: boolean
  /** Wraps each connection before the store uses it. */
  readonly mapConnection?: (connection: Connection) => Connection
}

/** Makes the access to a database. */
export const makeAccess = (
  sql: SqlClient,
  { boundsLocks, busyDeadline, mapConnection = identity }: AccessOptions
): SqlAccess => {
  const deadlineMs = Duration.toMillis(busyDeadline)
  const { beginRead, beginWrite, control, joining, settings, ...words } = dialectOf(sql)
  // SQLite has no such setting: `SqliteStore` sets a busy timeout of 10 ms.
  const deadline = operationDeadline(deadlineMs, boundsLocks || settings === undefined)

  const toError = (operation: string, error: SqlError, waitedMs: number): RunStoreError =>
    isContention(error)
      ? new RunStoreError({ operation, reason: new StoreBusy({ waitedMs }) })
      : toStoreError(operation, error)

  /** Runs an operation and retries it until the deadline, which counts from the first attempt or from the loss of the connection. */
  const attempt = <A, E>(operation: string, once: (waitedMs: () => number) => Effect.Effect<A, E>) =>
    Effect.clockWith((clock) => {
      let start = clock.currentTimeMillisUnsafe()
      const waitedMs = () => clock.currentTimeMillisUnsafe() - start
      const isRetryable = (error: unknown) => isPassing(error) && waitedMs() < deadlineMs
      const refused = (error: SqlError) => Effect.fail(toError(operation, error, waitedMs()))
      const effect = once(waitedMs)
      return mapSqlError(effect, (error) => {
        if (isConnectionLost(error)) start = clock.currentTimeMillisUnsafe()
        return isRetryable(error)
          ? mapSqlError(Effect.retry(effect, { while: isRetryable, schedule: backoff }), refused)
          : refused(error)
      })
    })

  /**
   * Runs on one connection, exclusively. The wait for the connection can be interrupted, and its acquisition cannot, because some drivers
   * leak a connection that they hand out at the moment of an interruption: one that comes too late is given back by the closed scope.
   */
  const reserved = <A, E>(
    use: (connection: Connection, restore: Restore) => Effect.Effect<A, E>
  ): Effect.Effect<A, E | SqlError> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.scopedWith((scope) =>
        Effect.flatMap(
          Effect.forkDetach(Scope.provide(sql.reserve, scope), {
            startImmediately: true,
            uninterruptible: true
          }),
          (reserving) =>
            Effect.flatMap(reserving.pollUnsafe() ?? restore(Fiber.join(reserving)), (connection) =>
              use(mapConnection(connection), restore)
            )
        )
      )
    )

  const onConnection = <A, E>(connection: Connection, body: Effect.Effect<A, E>) =>
    Effect.provideService(body, sql.transactionService, [connection, 0])

  /** Runs a transaction. Unlike the client's `withTransaction`, it tolerates that the database has already rolled back. */
  const transaction = <A, E>(
    connection: Connection,
    restore: Restore,
    waitedMs: () => number,
    { begin, body, lost = () => {} }: Transaction<A, E>
  ) => {
    // A failed rollback would leave the transaction open on a connection that is used again.
    const rollback = Effect.ignore(Effect.retry(control(connection, "ROLLBACK"), { times: 2 }))
    let failed: SqlError | undefined
    const fail = (error: SqlError) => {
      failed ??= error
      return Effect.fail(error)
    }
    const watched = mapStatements(connection, (statement) => Effect.catch(statement, fail))
    const commit = Effect.suspend(() => {
      // Postgres acknowledges the COMMIT of a transaction with a failed statement, and rolls it back.
      if (failed !== undefined) return Effect.andThen(rollback, Effect.fail(failed))
      return Effect.tapError(control(connection, "COMMIT"), (error) =>
        isConnectionLost(error) ? Effect.sync(lost) : rollback
      )
    })
    const inside =
      settings === undefined
        ? watched
        : bounded(watched, deadline, waitedMs, (ms) => control(watched, settings(ms)))
    return control(connection, begin).pipe(
      Effect.andThen(Effect.onError(restore(onConnection(inside, body)), () => rollback)),
      Effect.tap(commit)
    )
  }

  const join = makeJoining({ sql, deadlineMs, mapConnection, control, joining, settings, toError })

  /** Runs an operation in the caller's transaction, or as one of its own. */
  const joinOr = <A, E>(
    operation: string,
    body: Effect.Effect<A, E>,
    own: Effect.Effect<A, Exclude<E, SqlError> | RunStoreError>
  ): Effect.Effect<A, Exclude<E, SqlError> | RunStoreError> =>
    Effect.withFiber(({ context }) => join(operation, context, body) ?? own)

  const transact = <A, E>(operation: string, given: Transaction<A, E>) =>
    attempt(operation, (waitedMs) =>
      reserved((connection, restore) => transaction(connection, restore, waitedMs, given))
    )

  // A single statement waits for as long as its connection allows. If that may be too long, it runs in a transaction that sets a bound.
  const query: SqlAccess["query"] = (operation, body) =>
    joinOr(
      operation,
      body,
      attempt(operation, (waitedMs) =>
        reserved((connection, restore) =>
          isLate(deadline, waitedMs())
            ? transaction(connection, restore, waitedMs, { begin: beginWrite, body })
            : restore(onConnection(connection, body))
        )
      )
    )

  const run: SqlAccess["run"] = (statement) =>
    Effect.withFiber(({ cache, context }) => {
      const given = Context.getOrUndefined(context, sql.transactionService)
      const isWatched = (cache.tracer ?? nativeTracer) !== nativeTracer
      if (
        given === undefined ||
        isWatched ||
        Context.get(context, Statement.CurrentTransformer) !== undefined
      )
        return statement
      const [text, parameters] = statement.compile()
      return given[0].execute(text, parameters, undefined)
    })

  return {
    sql,
    run,
    afterCommit: sql.afterCommit,
    requireNoTransaction: (operation) =>
      Effect.withFiber(({ context }) =>
        Context.getOrUndefined(context, sql.transactionService) === undefined
          ? Effect.void
          : Effect.fail(inTransaction(operation, "drives"))
      ),
    query,
    write: (operation, body, committed) =>
      joinOr(
        operation,
        body,
        Effect.suspend(() => {
          let unknown = false
          const lost = () => {
            unknown = true
          }
          return Effect.catch(transact(operation, { begin: beginWrite, body, lost }), (refusal) =>
            unknown ? resolve(operation, refusal, query(operation, committed)) : Effect.fail(refusal)
          )
        })
      ),
    read: (operation, body, lock = Effect.void) =>
      joinOr(operation, Effect.andThen(lock, body), transact(operation, { begin: beginRead, body })),
    ...words
  }
}

/**
 * Determines whether the attempt with the unknown outcome was committed, after a later attempt was refused. If the refusal is a lock or a
 * failure of the database, and the data is missing, the outcome stays unknown: the server may still commit the first attempt.
 */
const resolve = <A, E>(
  operation: string,
  refusal: E,
  committed: Effect.Effect<Option.Option<A>, RunStoreError>
): Effect.Effect<A, E | RunStoreError> => {
  const unknown = new RunStoreError({ operation, reason: new OutcomeUnknown({}) })
  return Effect.matchEffect(committed, {
    onSuccess: (found): Effect.Effect<A, E | RunStoreError> => {
      if (Option.isSome(found)) return Effect.succeed(found.value)
      return Effect.fail(refusal instanceof RunStoreError ? unknown : refusal)
    },
    onFailure: () => Effect.fail(unknown)
  })
}

interface Transaction<A, E> {
  readonly begin: string
  readonly body: Effect.Effect<A, E>
  /** Called when the outcome of the commit is unknown. */
  readonly lost?: () => void
}

type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** Handles errors of the database and passes every other error on. */
const mapSqlError = <A, E, B, E2>(
  attempt: Effect.Effect<A, E>,
  f: (error: SqlError) => Effect.Effect<B, E2>
): Effect.Effect<A | B, Exclude<E, SqlError> | E2> =>
  Effect.catch(attempt, (error): Effect.Effect<B, Exclude<E, SqlError> | E2> =>
    isSqlError(error) ? f(error) : Effect.fail(error as Exclude<E, SqlError>)
  )

/** Whether a retry may succeed. */
const isPassing = (error: unknown): boolean =>
  isSqlError(error) && (isContention(error) || isConnectionLost(error))

const backoff = Schedule.min([Schedule.exponential("2 millis"), Schedule.spaced("50 millis")]).pipe(
  Schedule.jittered
)

/** Another transaction changed data that this one had read. This one is rolled back and restarted. */
export class TransactionConflict extends Data.TaggedError("TransactionConflict") {}

/** Restarts a transaction while it conflicts with others. In each conflict, another transaction was committed. */
export const retryOnConflict = <A, E>(
  transaction: Effect.Effect<A, E | TransactionConflict>
): Effect.Effect<A, E> =>
  Effect.catch(transaction, (error): Effect.Effect<A, E> =>
    error instanceof TransactionConflict ? retryOnConflict(transaction) : Effect.fail(error)
  )
