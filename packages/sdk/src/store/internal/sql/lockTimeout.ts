/**
 * Keeps what a database waits for locks within what is left of an operation's time.
 *
 * Postgres bounds the wait of each statement, not that of an operation: one that waited for a connection, is tried again, or needs
 * several locks would wait once for each. The bound is set again for a transaction when time has passed, and at its beginning where
 * the connection brings none; most operations send no statement more for it.
 */
import * as Effect from "effect/Effect"
import type { Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"

/** The time that an operation has. */
export interface OperationDeadline {
  readonly deadlineMs: number
  /** What passes unnoticed. */
  readonly slackMs: number
  /** Whether the connections themselves wait no longer than the deadline. */
  readonly isBounded: boolean
}

/** How long operations are tried. */
export const operationDeadline = (deadlineMs: number, isBounded: boolean): OperationDeadline => ({
  deadlineMs,
  slackMs: Math.min(100, deadlineMs / 10),
  isBounded
})

/** Whether the connection would wait for longer than there is time. */
export const isLate = ({ isBounded, slackMs }: OperationDeadline, waitedMs: number): boolean =>
  !isBounded || waitedMs > slackMs

/** A connection in a transaction, each of whose statements waits no longer than there is time. */
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
    // An operation that waited for a connection until its deadline gets what is not locked, and waits for nothing: others may wait for
    // the same connection.
    return bound(Math.min(0x7fff_ffff, Math.ceil(Math.max(deadlineMs - boundAt, 1))))
  })
  const timely = <A>(statement: Effect.Effect<A, SqlError>): Effect.Effect<A, SqlError> =>
    Effect.suspend(() => (waitedMs() - boundAt > slackMs ? Effect.andThen(rebound, statement) : statement))
  return mapStatements(connection, timely)
}

/** A connection each of whose statements is run through `f`. */
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
