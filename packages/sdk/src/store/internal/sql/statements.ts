/**
 * What happens to every statement of a connection.
 */
import * as Effect from "effect/Effect"
import type { Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"

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
