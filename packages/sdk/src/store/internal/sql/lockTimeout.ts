/**
 * Bounds the waits for locks by the remaining time of an operation.
 *
 * Postgres bounds the wait of each statement, not of an operation. An operation that waited for a connection, is retried, or needs several
 * locks could wait for the whole bound each time. The bound of a transaction is therefore set again when time has passed, and at its
 * beginning if the connection has none. Most operations need no additional statement for this.
 */
import * as Effect from "effect/Effect"
import type { Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"

/** The time limit of an operation. */
export interface OperationDeadline {
  readonly deadlineMs: number
  /** Elapsed time that does not require a new bound. */
  readonly slackMs: number
  /** Whether the connections already bound their waits by the deadline. */
  readonly isBounded: boolean
}

/** Makes the time limit of an operation. */
export const operationDeadline = (deadlineMs: number, isBounded: boolean): OperationDeadline => ({
  deadlineMs,
  slackMs: Math.min(100, deadlineMs / 10),
  isBounded
})

/** Whether the connection could wait for longer than the remaining time. */
export const isLate = ({ isBounded, slackMs }: OperationDeadline, waitedMs: number): boolean =>
  !isBounded || waitedMs > slackMs

/** Wraps a connection in a transaction so that no statement waits for longer than the remaining time. */
export const bounded = (
  connection: Connection,
  deadline: OperationDeadline,
  waitedMs: () => number,
  bound: (ms: number) => Effect.Effect<unknown, SqlError>
): Connection => {
  const { deadlineMs, isBounded, slackMs } = deadline
  let boundAt = isBounded ? 0 : -Infinity
  const rebound = Effect.suspend(() => {
    boundAt = waitedMs()
    // An operation whose wait for a connection took until its deadline still runs, but waits at most 1 ms for locks, since other operations
    // may wait for the same connection.
    return bound(Math.min(0x7fff_ffff, Math.ceil(Math.max(deadlineMs - boundAt, 1))))
  })
  const timely = <A>(statement: Effect.Effect<A, SqlError>): Effect.Effect<A, SqlError> =>
    Effect.suspend(() => (waitedMs() - boundAt > slackMs ? Effect.andThen(rebound, statement) : statement))
  return mapStatements(connection, timely)
}

/** Wraps a connection so that `f` is applied to each statement. */
export const mapStatements = (
  connection: Connection,
  f: <A>(statement: Effect.Effect<A, SqlError>) => Effect.Effect<A, SqlError>
): Connection => ({
  execute: (...given) => f(connection.execute(...given)),
  executeRaw: (...given) => f(connection.executeRaw(...given)),
  executeUnprepared: (...given) => f(connection.executeUnprepared(...given)),
  executeValues: (...given) => f(connection.executeValues(...given)),
  executeValuesUnprepared: (...given) => f(connection.executeValuesUnprepared(...given)),
  executeStream: (...given) => Stream.unwrap(Effect.as(f(Effect.void), connection.executeStream(...given)))
})
