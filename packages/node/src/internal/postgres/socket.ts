/**
 * Sockets to a Postgres server that fail after a silence of both sides.
 *
 * A frozen server and a network that drops every packet leave a connection open and silent. TCP keepalive does not notice a frozen server,
 * and while a write is unacknowledged it does not notice a dead network either; the driver waits for an answer without a limit. A socket
 * on which neither side has sent anything for a given time fails like a broken one: the driver ends its statement, and the pool makes
 * another connection.
 */
import * as Net from "node:net"
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Redacted from "effect/Redacted"

/** The server, and how its connections are made. */
export type Config = PgConnection.Config & { readonly url: Redacted.Redacted }

/** The same configuration, with connections that end when neither side has sent anything for this long. */
export const withoutSilence = (config: Config, silenceMs: number): Config => ({
  ...config,
  stream: () => connect(config, silenceMs)
})

const connect = ({ url }: Config, silenceMs: number): Net.Socket => {
  const socket = Net.connect({
    ...addressOf(new URL(Redacted.value(url))),
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: 10_000
  })
  socket.setTimeout(Math.min(0x7fff_ffff, Math.ceil(silenceMs)), () => {
    const { bytesRead } = socket
    // Data that arrived while this process was stopped or blocked is read after its timers.
    setImmediate(() => {
      if (socket.bytesRead > bytesRead) return
      socket.destroy(Object.assign(new Error("The server does not answer"), { code: "ETIMEDOUT" }))
    })
  })
  // A process that has ended the connection need not wait for the server to close it.
  return socket.once("finish", () => socket.unref())
}

/** The address of a URL's server, as libpq reads it: a host that is a path is a directory of Unix sockets. */
const addressOf = ({ hostname, port, searchParams }: URL): Net.NetConnectOpts => {
  const host = searchParams.getAll("host").at(-1) ?? decodeURIComponent(hostname).replace(/^\[(.*)\]$/, "$1")
  const number = Number(searchParams.getAll("port").at(-1) ?? (port || 5432))
  return host.startsWith("/")
    ? { path: `${host}/.s.PGSQL.${number}` }
    : { host: host || "localhost", port: number }
}
