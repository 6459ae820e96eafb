/**
 * How the SQL store talks to a database: whole transactions that are tried again while another transaction holds the lock or the
 * connection is gone, and errors that a caller understands.
 *
 * A connection that breaks before COMMIT was sent has written nothing, so the transaction is tried again. One that breaks
 * between COMMIT and its answer leaves the outcome unknown. Then the transaction is tried again as well: its own conditions
 * (a revision, an id, a request that is open) refuse it if it was committed after all, and what is stored tells whose it was.
 */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
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
import { bounded, isLate, mapStatements, operationDeadline } from "./lockTimeout.ts"

/** Access to the tables of one database. */
export interface SqlAccess extends Omit<Dialect, "beginRead" | "beginWrite" | "control" | "settings"> {
  readonly sql: SqlClient
  /**
   * Runs a statement inside `write`, `read` or `query`. Where nobody looks at spans it goes straight to the connection: a statement by
   * itself makes a span, and looks for its connection, which takes longer than SQLite does.
   */
  readonly run: <A extends object>(
    statement: Statement.Statement<A>
  ) => Effect.Effect<ReadonlyArray<A>, SqlError>
  /**
   * One transaction that writes. All or nothing; tried again while the database is locked or away.
   *
   * `committed` is asked when the outcome of a commit is unknown and a second attempt was refused: whether what is stored is
   * what `body` would have written, and then what it would have returned.
   */
  readonly write: <A, E>(
    operation: string,
    body: Effect.Effect<A, E>,
    committed: Effect.Effect<Option.Option<NoInfer<A>>, SqlError | RunStoreError>
  ) => Effect.Effect<A, Exclude<E, SqlError> | RunStoreError>
  /** Several statements that see the same snapshot. */
  readonly read: <A, E>(
    operation: string,
    body: Effect.Effect<A, E>
  ) => Effect.Effect<A, Exclude<E, SqlError> | RunStoreError>
  /** One statement that may be repeated. */
  readonly query: SqlAccess["read"]
}

/** How long to try for a lock, and whether the connections that are given bound their waiting by themselves. */
export interface AccessOptions {
  readonly busyDeadline: Duration.Input
  readonly boundsLocks: boolean
}

/** Makes the access to a database. */
export const makeAccess = (sql: SqlClient, { boundsLocks, busyDeadline }: AccessOptions): SqlAccess => {
  const deadlineMs = Duration.toMillis(busyDeadline)
  const { beginRead, beginWrite, control, settings, ...words } = dialectOf(sql)
  // SQLite does not wait by itself.
  const deadline = operationDeadline(deadlineMs, boundsLocks || settings === undefined)

  const toError = (operation: string, error: SqlError, waitedMs: number): RunStoreError =>
    isContention(error)
      ? new RunStoreError({ operation, reason: new StoreBusy({ waitedMs }) })
      : toStoreError(operation, error)

  /** Does something, again for as long as the deadline allows, counted from the first time, or from when the connection was lost. */
  const attempt = <A, E>(operation: string, once: (waitedMs: () => number) => Effect.Effect<A, E>) =>
    Effect.clockWith((clock) => {
      let start = clock.currentTimeMillisUnsafe()
      const waitedMs = () => clock.currentTimeMillisUnsafe() - start
      const isWorthIt = (error: unknown) => isPassing(error) && waitedMs() < deadlineMs
      const refused = (error: SqlError) => Effect.fail(toError(operation, error, waitedMs()))
      const effect = once(waitedMs)
      return mapSqlError(effect, (error) => {
        if (isConnectionLost(error)) start = clock.currentTimeMillisUnsafe()
        return isWorthIt(error)
          ? mapSqlError(Effect.retry(effect, { while: isWorthIt, schedule: backoff }), refused)
          : refused(error)
      })
    })

  /**
   * Runs on one connection, exclusively. It is waited for uninterruptibly: some drivers lose a connection
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

  const onConnection = <A, E>(connection: Connection, body: Effect.Effect<A, E>) =>
    Effect.provideService(body, sql.transactionService, [connection, 0])

  /** Begins, runs and commits. Unlike the client's own, it survives a database that rolled back already. */
  const transaction = <A, E>(
    connection: Connection,
    restore: Restore,
    waitedMs: () => number,
    { begin, body, lost = () => {} }: Transaction<A, E>
  ) => {
    // One that fails leaves the transaction open on a connection that others use next.
    const rollback = Effect.ignore(Effect.retry(control(connection, "ROLLBACK"), { times: 2 }))
    let failed: SqlError | undefined
    const fail = (error: SqlError) => {
      failed ??= error
      return Effect.fail(error)
    }
    const watched = mapStatements(connection, (statement) => Effect.catch(statement, fail))
    const commit = Effect.suspend(() => {
      // Postgres answers the commit of a transaction in which a statement failed as any other, and rolls it back.
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

  const transact = <A, E>(operation: string, given: Transaction<A, E>) =>
    attempt(operation, (waitedMs) =>
      reserved((connection, restore) => transaction(connection, restore, waitedMs, given))
    )

  // A statement by itself waits as long as its connection does.
  const query: SqlAccess["query"] = (operation, body) =>
    attempt(operation, (waitedMs) =>
      reserved((connection, restore) =>
        isLate(deadline, waitedMs())
          ? transaction(connection, restore, waitedMs, { begin: beginWrite, body })
          : restore(onConnection(connection, body))
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
    query,
    write: (operation, body, committed) =>
      Effect.suspend(() => {
        let unknown = false
        const lost = () => {
          unknown = true
        }
        return Effect.catch(transact(operation, { begin: beginWrite, body, lost }), (refusal) =>
          unknown ? resolve(operation, refusal, query(operation, committed)) : Effect.fail(refusal)
        )
      }),
    read: (operation, body) => transact(operation, { begin: beginRead, body }),
    ...words
  }
}

/**
 * Whether a refused transaction had been committed before by the attempt whose outcome was unknown. A lock or a failure of the database
 * refuses nothing for good: the server may be about to commit that attempt, which holds the lock meanwhile.
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
  /** Called when the outcome of the commit is not known. */
  readonly lost?: () => void
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

/** Whether the same thing may work a little later. */
const isPassing = (error: unknown): boolean =>
  isSqlError(error) && (isContention(error) || isConnectionLost(error))

const backoff = Schedule.min([Schedule.exponential("2 millis"), Schedule.spaced("50 millis")]).pipe(
  Schedule.jittered
)

/** Another transaction changed what this one had read. It is rolled back and begun again. */
export class TransactionConflict extends Data.TaggedError("TransactionConflict") {}

/** Begins a transaction again for as long as others conflict with it: each time, one of them was committed. */
export const retryOnConflict = <A, E>(
  transaction: Effect.Effect<A, E | TransactionConflict>
): Effect.Effect<A, E> =>
  Effect.catch(transaction, (error): Effect.Effect<A, E> =>
    error instanceof TransactionConflict ? retryOnConflict(transaction) : Effect.fail(error)
  )
