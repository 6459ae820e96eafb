/**
 * Operations of the store inside a transaction that the caller began with the `withTransaction` of the same client.
 *
 * An operation joins the transaction as a savepoint: if it is refused, its own writes are undone and the caller may go on, and if the
 * caller's transaction is rolled back, nothing of it stays. It is not retried, since only the caller can begin its transaction again.
 * Operations that drive a run are refused: they would act on what may be rolled back.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import { InTransaction, RunStoreError } from "../../RunStoreError.ts"
import type { Dialect } from "./dialect.ts"
import { bounded, operationDeadline } from "./lockTimeout.ts"

/** The parts of the access that a joined operation needs. */
interface JoiningOptions extends Pick<Dialect, "control" | "joining" | "settings"> {
  readonly sql: SqlClient
  readonly deadlineMs: number
  readonly mapConnection: (connection: Connection) => Connection
  readonly toError: (operation: string, error: SqlError, waitedMs: number) => RunStoreError
}

/** The settings of the caller's transaction that matter to the store. */
interface Settings {
  readonly isolation: string
  readonly lock_timeout: string
}

/** The operations of a process that drives a run, besides the `create` of one that it drives at once. */
const driving: ReadonlySet<string> = new Set(["claim", "append", "park", "renew"])

/** The error of an operation that cannot join the transaction of its caller. */
export const inTransaction = (operation: string, why: InTransaction["why"]) =>
  new RunStoreError({ operation, reason: new InTransaction({ why }) })

/** Makes the function that joins the caller's transaction. It returns `undefined` if the fiber is in none. */
export const makeJoining = ({
  control,
  deadlineMs,
  joining,
  mapConnection,
  settings,
  sql,
  toError
}: JoiningOptions) => {
  /** Bounds the waits for locks as in the store's own transactions, and gives the caller's setting back. */
  const withSettings = <A, E>(
    operation: string,
    connection: Connection,
    waitedMs: () => number,
    use: (connection: Connection) => Effect.Effect<A, E>
  ): Effect.Effect<A, E | SqlError | RunStoreError> => {
    if (settings === undefined || joining === undefined) return use(connection)
    return Effect.gen(function* () {
      const [found] = yield* connection.execute(joining.read, [], undefined)
      const { isolation, lock_timeout: before } = found as Settings
      if (isolation !== "read committed") return yield* inTransaction(operation, "isolation")
      const deadline = operationDeadline(deadlineMs, false)
      const inside = bounded(connection, deadline, waitedMs, (ms) => control(connection, settings(ms)))
      return yield* Effect.tap(use(inside), control(connection, joining.restore(before)))
    })
  }

  return <A, E>(
    operation: string,
    context: Context.Context<never>,
    body: Effect.Effect<A, E>
  ): Effect.Effect<A, Exclude<E, SqlError> | RunStoreError> | undefined => {
    if (Context.getOrUndefined(context, sql.transactionService) === undefined) return undefined
    if (driving.has(operation)) return Effect.fail(inTransaction(operation, "drives"))
    return Effect.clockWith((clock) => {
      const start = clock.currentTimeMillisUnsafe()
      const waitedMs = () => clock.currentTimeMillisUnsafe() - start
      const refused = (error: SqlError) => Effect.fail(toError(operation, error, waitedMs()))
      const inSavepoint = Effect.flatMap(sql.transactionService, ([connection, depth]) =>
        withSettings(operation, mapConnection(connection), waitedMs, (inside) =>
          Effect.provideService(body, sql.transactionService, [inside, depth])
        )
      )
      // The savepoint of a lost connection cannot be rolled back, which is a defect of the client.
      return Effect.catchCause(
        sql.withTransaction(inSavepoint) as Effect.Effect<A, E | SqlError | RunStoreError>,
        (cause) => {
          const error = Cause.squash(cause)
          return isSqlError(error)
            ? refused(error)
            : Effect.failCause(cause as Cause.Cause<Exclude<E, SqlError> | RunStoreError>)
        }
      )
    })
  }
}
