/**
 * A web server for tests, on a loopback address.
 */
import { createServer, type IncomingMessage, type RequestListener } from "node:http"
import { createServer as createTlsServer } from "node:https"
import type { AddressInfo, Socket } from "node:net"
import { finished } from "node:stream/promises"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

export interface WebServer {
  readonly port: number
  /** The host with its port, as `privateHosts` takes it. */
  readonly authority: string
  readonly url: string
  /** The requests that it has received. */
  readonly requests: ReadonlyArray<IncomingMessage>
  /** The sockets that it has accepted. */
  readonly sockets: ReadonlyArray<Socket>
}

/** Where a server listens, and its key and certificate if it speaks TLS. */
export interface Place {
  readonly host?: string
  readonly port?: number
  readonly tls?: { readonly key: string; readonly cert: string }
}

/** A server that closes with the scope. */
export const serveWeb = (
  listener: RequestListener,
  { host = "127.0.0.1", port = 0, tls }: Place = {}
): Effect.Effect<WebServer, never, Scope.Scope> => {
  const requests: Array<IncomingMessage> = []
  const sockets: Array<Socket> = []
  const open = Effect.callback<ReturnType<typeof createServer>>((resume) => {
    const onRequest: RequestListener = (request, response) => {
      requests.push(request)
      listener(request, response)
    }
    const server = tls === undefined ? createServer(onRequest) : createTlsServer(tls, onRequest)
    server.on("connection", (socket) => sockets.push(socket))
    server.listen(port, host, () => resume(Effect.succeed(server)))
  })
  const close = (server: ReturnType<typeof createServer>) =>
    Effect.callback<void>((resume) => {
      server.close(() => resume(Effect.void))
      server.closeAllConnections()
    })
  return Effect.map(Effect.acquireRelease(open, close), (server) => {
    const { port } = server.address() as AddressInfo
    const authority = `${host}:${port}`
    return { port, authority, url: `http${tls === undefined ? "" : "s"}://${authority}`, requests, sockets }
  })
}

/** Resolves when every socket of the server is closed. */
export const socketsClosed = ({ sockets }: WebServer): Effect.Effect<void> =>
  Effect.promise(async () => {
    await Promise.all(sockets.map((socket) => finished(socket, { readable: false }).catch(() => {})))
  })
