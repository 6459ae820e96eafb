/**
 * Sessions of a Postgres server for simulated processes.
 *
 * A process that crashes drops its connection, and the next process begins when the server has noticed and has rolled back the open
 * transaction. A process that ends well leaves its session to the next: reusing it costs the server less than a new one, and nothing
 * that a store does may depend on its session.
 */
import * as Net from "node:net"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import type * as SqlClient from "effect/sql/SqlClient"
import { withNulText } from "../../packages/node/src/internal/nulText.ts"
import { mapStatements } from "../../packages/sdk/src/store/internal/sql/lockTimeout.ts"
import type { Activity, Database } from "./world.ts"

/** A session that a process has, or had. */
interface Session {
  readonly client: SqlClient.SqlClient
  readonly pid: number
  /** Drops the connection. */
  readonly drop: Effect.Effect<void>
}

/** The sessions of one database. */
export interface Sessions {
  readonly open: (work: Work) => Effect.Effect<SqlClient.SqlClient, never, Scope.Scope>
  readonly dropAll: Effect.Effect<void>
}

/** A client of one connection. */
export const connect = (
  url: string,
  startupParameters: Readonly<Record<string, string>>,
  sockets: Array<Net.Socket> = []
): Effect.Effect<SqlClient.SqlClient, never, Scope.Scope> => {
  const { hostname, port } = new URL(url)
  const stream = () => {
    const socket = Net.connect({ host: hostname, port: Number(port || 5432), noDelay: true })
    sockets.push(socket)
    return socket
  }
  return PgClient.makeClient({ url: Redacted.make(url), startupParameters, stream }).pipe(
    Effect.provide(Reactivity.layer),
    Effect.orDie
  )
}

/** Sessions on a database; `control` is a session that no process uses. */
export const makeSessions = (url: string, control: SqlClient.SqlClient): Sessions => {
  const idle: Array<Session> = []
  const state = (pid: number) =>
    Effect.orDie(control<{ readonly state: string }>`SELECT state FROM pg_stat_get_activity(${pid}::integer)`)

  const connected = Effect.gen(function* () {
    const scope = yield* Scope.make()
    const sockets: Array<Net.Socket> = []
    const sql = yield* Scope.provide(connect(url, { lock_timeout: "10000" }, sockets), scope)
    const [row] = yield* Effect.orDie(sql<{ readonly pid: number }>`SELECT pg_backend_pid() AS pid`)
    const pid = row!.pid
    const drop = Effect.gen(function* () {
      for (const socket of sockets) socket.destroy()
      yield* Scope.close(scope, Exit.void)
      yield* Effect.repeat(state(pid), { while: (rows) => rows.length > 0 })
    })
    const client: SqlClient.SqlClient = Object.assign(sql, { reserve: Effect.map(sql.reserve, withNulText) })
    return { client, pid, drop }
  })

  const close = (session: Session, exit: Exit.Exit<unknown, unknown>) =>
    Effect.gen(function* () {
      const [now] = yield* state(session.pid)
      if (Exit.isSuccess(exit) && now?.state === "idle") idle.push(session)
      else yield* session.drop
    })

  return {
    open: (work) =>
      Effect.acquireRelease(
        work.during(
          Effect.suspend(() => Effect.fromNullishOr(idle.pop()).pipe(Effect.catch(() => connected)))
        ),
        (session, exit) => work.during(close(session, exit))
      ).pipe(Effect.map(({ client }) => work.watched(client))),
    dropAll: Effect.suspend(() => Effect.forEach(idle.splice(0), ({ drop }) => drop, { discard: true }))
  }
}

/** Tracks statements under way, so that a simulation can wait for them. */
export interface Work {
  readonly during: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** The client, with its statements tracked. They are not interrupted: a process is hit before or after one, as on SQLite. */
  readonly watched: (client: SqlClient.SqlClient) => SqlClient.SqlClient
  readonly activity: Database["activity"]
}

/** Statements under way for longer than this may be waiting for a lock. */
const suspiciousMs = 1

/** `watch` is a session that no simulated process uses. */
export const makeWork = (watch: SqlClient.SqlClient, database: string): Work => {
  let underWay = 0
  let since = 0
  const changed = (by: number) => {
    underWay += by
    since = performance.now()
  }
  const during: Work["during"] = (effect) =>
    Effect.suspend(() => {
      changed(1)
      return Effect.ensuring(
        Effect.uninterruptible(effect),
        Effect.sync(() => changed(-1))
      )
    })
  const blocked = async (): Promise<Activity> => {
    const waiting = await Effect.runPromise(
      watch`SELECT DISTINCT pid FROM pg_locks
        WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = ${database})`.pipe(
        Effect.orDie
      )
    )
    return underWay > 0 && waiting.length >= underWay ? "blocked" : "working"
  }
  return {
    during,
    watched: (client) => {
      const reserve = Effect.map(client.reserve, (connection) => mapStatements(connection, during))
      return new Proxy(client, {
        get: (target, property) => (property === "reserve" ? reserve : Reflect.get(target, property))
      })
    },
    activity: () => {
      if (underWay === 0) return "idle"
      return performance.now() - since < suspiciousMs ? "working" : blocked()
    }
  }
}
