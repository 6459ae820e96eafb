/**
 * A proxy in front of a Postgres that understands as much of the protocol as it takes to break a connection at the worst
 * moment: around a COMMIT. See https://www.postgresql.org/docs/current/protocol-message-formats.html.
 */
import { once } from "node:events"
import * as Net from "node:net"
import * as Effect from "effect/Effect"

/**
 * What happens to a COMMIT: the connection is cut `before` the server sees it, or `after` the server has done it and before the
 * client hears of that; or the commit is kept back until the server ends the session (`stall`).
 */
export type Fault = "before" | "after" | "stall"

/** A statement as it went over the wire. */
interface Sent {
  readonly text: string
  /** Whether the server was asked to keep it under a name. */
  readonly isNamed: boolean
}

export interface Proxy {
  readonly url: string
  /** What the clients sent so far. */
  readonly sent: ReadonlyArray<Sent>
  /** Breaks the next COMMIT. */
  readonly breakNextCommit: (fault: Fault) => void
  /** How many commits were broken. */
  readonly broken: () => number
}

/** A proxy on a port of its own, for as long as the test lasts. */
export const proxyTo = (target: string) =>
  Effect.acquireRelease(
    Effect.promise(() => start(target)),
    ({ close }) => Effect.promise(close)
  )

const start = async (target: string): Promise<Proxy & { readonly close: () => Promise<void> }> => {
  const { hostname, port } = new URL(target)
  const sockets = new Set<Net.Socket>()
  const sent: Array<Sent> = []
  let armed: Fault | undefined
  let broken = 0

  const connect = (client: Net.Socket) => {
    const server = Net.connect({ host: hostname, port: Number(port), noDelay: true })
    const cut = () => {
      for (const socket of [client, server]) {
        sockets.delete(socket)
        socket.destroy()
      }
    }
    for (const socket of [client, server]) {
      sockets.add(socket)
      socket.setNoDelay(true).on("error", cut).on("close", cut)
    }
    let fault: Fault | undefined
    const fromClient = messages("startup", (message) => {
      const statement = statementOf(message)
      if (statement !== undefined) {
        sent.push(statement)
        if (armed !== undefined && statement.text === "COMMIT") {
          fault = armed
          armed = undefined
          broken += 1
        }
      }
      if (fault === "before") cut()
      else if (fault !== "stall") server.write(message)
    })
    const fromServer = messages("typed", (message) => {
      if (fault !== "after") client.write(message)
      // Ready for the next statement: the commit is done.
      else if (message[0] === code("Z")) cut()
    })
    client.on("data", fromClient)
    server.on("data", fromServer)
  }

  const server = Net.createServer(connect).listen(0, "127.0.0.1")
  await once(server, "listening")
  const url = new URL(target)
  url.hostname = "127.0.0.1"
  url.port = String((server.address() as Net.AddressInfo).port)
  return {
    url: url.href,
    sent,
    breakNextCommit: (fault) => {
      armed = fault
    },
    broken: () => broken,
    close: async () => {
      const closed = once(server, "close")
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    }
  }
}

const code = (letter: string): number => letter.charCodeAt(0)

/** Cuts a stream of bytes into messages. A client's first one has no letter in front. */
const messages = (first: "startup" | "typed", each: (message: Buffer) => void) => {
  let rest: Buffer = Buffer.alloc(0)
  let isTyped = first === "typed"
  return (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk])
    while (true) {
      const start = isTyped ? 1 : 0
      if (rest.length < start + 4) return
      const length = start + rest.readUInt32BE(start)
      if (rest.length < length) return
      const message = rest.subarray(0, length)
      rest = rest.subarray(length)
      isTyped = true
      each(message)
    }
  }
}

/** The statement of a Parse or a Query. */
const statementOf = (message: Buffer): Sent | undefined => {
  if (message[0] === code("Q")) return { text: textAt(message, 5), isNamed: false }
  if (message[0] !== code("P")) return undefined
  const name = textAt(message, 5)
  return { text: textAt(message, 6 + Buffer.byteLength(name)), isNamed: name !== "" }
}

const textAt = (message: Buffer, start: number): string =>
  message.toString("utf8", start, message.indexOf(0, start))
