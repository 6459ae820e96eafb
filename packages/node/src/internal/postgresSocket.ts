/**
 * Sockets to a Postgres server that notice when nothing comes back.
 *
 * A server that is frozen, and a network that drops every packet, leave a connection open and silent. TCP keepalive does not notice
 * the first, and neither is noticed while a write is not acknowledged; the driver waits for an answer without a limit. Such a socket fails
 * like one that broke, so that the driver ends its statement, and the pool makes another connection.
 */
import * as Net from "node:net"
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as Redacted from "effect/Redacted"

/** Which server, and how its connections are made. */
export type Config = PgConnection.Config & { readonly url: Redacted.Redacted }

/** The same, with connections that end when neither side has sent anything for that long. */
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
    // What came while this process was stopped, or busy, is read after its timers.
    setImmediate(() => {
      if (socket.bytesRead > bytesRead) return
      socket.destroy(Object.assign(new Error("The server does not answer"), { code: "ETIMEDOUT" }))
    })
  })
  // A process that has said its last word over it need not wait for the other side to hang up.
  return socket.once("finish", () => socket.unref())
}

/** Where the server of a URL is, as libpq reads it: a host that is a path is a directory of Unix sockets. */
const addressOf = ({ hostname, port, searchParams }: URL): Net.NetConnectOpts => {
  const host = searchParams.getAll("host").at(-1) ?? decodeURIComponent(hostname).replace(/^\[(.*)\]$/, "$1")
  const number = Number(searchParams.getAll("port").at(-1) ?? (port || 5432))
  return host.startsWith("/")
    ? { path: `${host}/.s.PGSQL.${number}` }
    : { host: host || "localhost", port: number }
}
