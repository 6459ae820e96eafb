/**
 * A `SqlClient` that injects faults into the statements of another client.
 *
 * It numbers every statement on a reserved connection, including `BEGIN`, `COMMIT` and `ROLLBACK`, and a plan selects a fault for each:
 * none, an error of a busy, full or unreachable database, a lost response, or a crash of the process. `SqlRunStore` uses only reserved
 * connections. Statements on other connections pass unchanged.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import { ConnectionError, DeadlockError, LockTimeoutError, SqlError, UnknownError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"

/**
 * The fault of one statement.
 *
 * - `pass`: none.
 * - `crashBefore`, `crashAfter`: the process crashes before or after the statement. All later statements crash too.
 * - `busy`, `full`, `ioError`: the statement fails with the database's error and has no effect. On Postgres the open transaction fails
 *   with it.
 * - `connectionLost`: the statement fails and has no effect, and the open transaction is rolled back.
 * - `lostAcknowledgement`: the statement takes effect, and then the connection is lost. A `COMMIT` stays committed.
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
  /** Its number among the statements of this client, from 1. */
  readonly number: number
  readonly sql: string
}

/** Selects the fault of a statement. An effect may also delay the statement. */
export type Plan = (statement: Statement) => Fault | Effect.Effect<Fault>

/** The defect of all statements from a simulated crash on. */
export class SimulatedCrash extends Error {
  override readonly name = "SimulatedCrash"
  constructor() {
    super("The process crashed here, as the test's plan requires.")
  }
}

/**
 * A client with injected faults, and its counters.
 *
 * @category models
 * @since 0.1.0
 */
export interface FaultySqlClient {
  readonly client: SqlClient
  /** The number of statements, including those that were not sent because of a fault. */
  readonly statements: () => number
  readonly crashed: () => boolean
  /** Crashes the process from outside: every later statement crashes. */
  readonly crash: () => void
}

/**
 * Wraps a client with a plan of faults.
 *
 * **Details**
 *
 * After a crash, the statement and all later ones die with {@link SimulatedCrash}. Close the scope of the wrapped client afterwards, as
 * the end of a process would: that rolls back the open transaction.
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
  /** Puts the open transaction of Postgres into the failed state, as any failed statement does. */
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
    /** The server rolls back when it loses a client. */
    const rollback = Effect.ignore(connection.executeUnprepared("ROLLBACK", [], undefined))
    const lost = Effect.andThen(rollback, Effect.fail(errors.connectionLost()))
    const faulty = <A>(text: string, run: () => Effect.Effect<A, SqlError>): Effect.Effect<A, SqlError> =>
      Effect.flatMap(planned(text), (fault): Effect.Effect<A, SqlError> => {
        // The process may have crashed while the plan delayed the statement.
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
