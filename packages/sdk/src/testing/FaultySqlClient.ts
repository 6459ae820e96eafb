/**
 * A database that fails where a test says so.
 *
 * Wraps a `SqlClient`: every statement on a reserved connection is numbered, `BEGIN`, `COMMIT` and `ROLLBACK` included, and a
 * plan says for each what becomes of it. It may pass, fail like a database that is busy, full or unreachable, take effect and
 * lose the answer, or be the last thing that the process ever does. Everything that `SqlRunStore` does goes through reserved
 * connections; a statement that borrows none of them is passed on as it is.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import { ConnectionError, DeadlockError, LockTimeoutError, SqlError, UnknownError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"

/**
 * What becomes of one statement.
 *
 * - `pass`: what always does.
 * - `crashBefore`, `crashAfter`: the process is gone before or after it, and no statement of it is ever answered again.
 * - `busy`, `full`, `ioError`: it fails with what the database reports then, and has done nothing. On Postgres the open transaction
 *   is lost with it.
 * - `connectionLost`: it fails, has done nothing, and the open transaction is rolled back.
 * - `lostAcknowledgement`: it is done, and then the connection is lost. A `COMMIT` is committed all the same.
 */
export type Fault =
  | "pass"
  | "crashBefore"
  | "crashAfter"
  | "busy"
  | "full"
  | "ioError"
  | "connectionLost"
  | "lostAcknowledgement"

/** A statement that is about to be sent. */
export interface Statement {
  /** Its number among those of this client, from 1. */
  readonly number: number
  readonly sql: string
}

/** Decides what becomes of a statement; an effect may also let it wait. */
export type Plan = (statement: Statement) => Fault | Effect.Effect<Fault>

/** What a statement of a process that has crashed dies with. */
export class SimulatedCrash extends Error {
  override readonly name = "SimulatedCrash"
  constructor() {
    super("The process crashed here, because the test's plan says so.")
  }
}

/**
 * A client that fails by plan, and what it has seen.
 *
 * @category models
 * @since 0.1.0
 */
export interface FaultySqlClient {
  readonly client: SqlClient
  /** How many statements were sent or would have been. */
  readonly statements: () => number
  readonly crashed: () => boolean
  /** Ends the process from outside: no statement is answered any more. */
  readonly crash: () => void
}

/**
 * Wraps a client.
 *
 * **Details**
 *
 * A crash is a defect, {@link SimulatedCrash}, of the statement and of all later ones. Close the scope of the wrapped client
 * afterwards, as the end of the process would: that rolls back what was open.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (sql: SqlClient, plan: Plan): FaultySqlClient => {
  let count = 0
  let crashed = false
  const die = Effect.suspend(() => {
    crashed = true
    return Effect.die(new SimulatedCrash())
  })
  const errors = sql.onDialectOrElse({ pg: () => postgresErrors, orElse: () => sqliteErrors })
  /** Any statement that fails is the end of a transaction of Postgres, which answers its commit as any other. */
  const refused = sql.onDialectOrElse({
    pg: () => (connection: Connection) =>
      Effect.ignore(connection.executeUnprepared("SELECT 1/0", [], undefined)),
    orElse: () => () => Effect.void
  })

  const planned = (text: string): Effect.Effect<Fault> =>
    Effect.suspend(() => {
      if (crashed) return die
      const fault = plan({ number: ++count, sql: text })
      return typeof fault === "string" ? Effect.succeed(fault) : fault
    })

  const wrap = (connection: Connection): Connection => {
    /** What the server does when a client is gone. */
    const rollback = Effect.ignore(connection.executeUnprepared("ROLLBACK", [], undefined))
    const lost = Effect.andThen(rollback, Effect.fail(errors.connectionLost()))
    const faulty = <A>(text: string, run: () => Effect.Effect<A, SqlError>): Effect.Effect<A, SqlError> =>
      Effect.flatMap(planned(text), (fault): Effect.Effect<A, SqlError> => {
        // A plan that lets a statement wait may have seen the process end meanwhile.
        if (crashed) return die
        switch (fault) {
          case "pass":
            return run()
          case "crashBefore":
            return die
          case "crashAfter":
            return Effect.andThen(Effect.exit(run()), die)
          case "connectionLost":
            return lost
          case "lostAcknowledgement":
            return Effect.andThen(run(), lost)
          default:
            return Effect.andThen(refused(connection), Effect.fail(errors[fault]()))
        }
      })
    return {
      ...connection,
      execute: (text, params, transform) => faulty(text, () => connection.execute(text, params, transform)),
      executeRaw: (text, params) => faulty(text, () => connection.executeRaw(text, params)),
      executeValues: (text, params) => faulty(text, () => connection.executeValues(text, params)),
      executeValuesUnprepared: (text, params) =>
        faulty(text, () => connection.executeValuesUnprepared(text, params)),
      executeUnprepared: (text, params, transform) =>
        faulty(text, () => connection.executeUnprepared(text, params, transform)),
      executeStream: (text, params, transform) =>
        Stream.unwrap(faulty(text, () => Effect.succeed(connection.executeStream(text, params, transform))))
    }
  }

  const reserve = Effect.suspend(() => (crashed ? die : Effect.map(sql.reserve, wrap)))
  return {
    client: new Proxy(sql, {
      get: (target, property) => (property === "reserve" ? reserve : Reflect.get(target, property))
    }),
    statements: () => count,
    crashed: () => crashed,
    crash: () => {
      crashed = true
    }
  }
}

const reported = (message: string, code: { readonly code?: string; readonly errcode?: number }) =>
  Object.assign(new Error(message), code)

const connectionLost = () =>
  new SqlError({
    reason: new ConnectionError({ cause: reported("the connection was closed", { code: "ECONNRESET" }) })
  })

const sqliteErrors = {
  busy: () =>
    new SqlError({ reason: new LockTimeoutError({ cause: reported("database is locked", { errcode: 5 }) }) }),
  full: () =>
    new SqlError({
      reason: new UnknownError({ cause: reported("database or disk is full", { errcode: 13 }) })
    }),
  ioError: () =>
    new SqlError({ reason: new UnknownError({ cause: reported("disk I/O error", { errcode: 10 }) }) }),
  connectionLost
}

const postgresErrors = {
  busy: () =>
    new SqlError({ reason: new DeadlockError({ cause: reported("deadlock detected", { code: "40P01" }) }) }),
  full: () => new SqlError({ reason: new UnknownError({ cause: reported("disk full", { code: "53100" }) }) }),
  ioError: () =>
    new SqlError({ reason: new UnknownError({ cause: reported("I/O error", { code: "58030" }) }) }),
  connectionLost
}
