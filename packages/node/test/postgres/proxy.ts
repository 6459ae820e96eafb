/**
 * A proxy in front of Postgres that understands enough of the protocol to break a connection at the worst moment: around a COMMIT.
 * It can also fall silent, as a network that drops every packet does: all connections stay open.
 * See https://www.postgresql.org/docs/current/protocol-message-formats.html.
 */
import { once } from "node:events"
import * as Net from "node:net"
import * as Effect from "effect/Effect"

/**
 * What happens to a COMMIT: the connection is cut `before` the server sees it, or `after` the server has done it and before the
 * client gets the answer; or the commit is kept back until it is delivered or the server ends the session (`stall`); or the server
 * does it, and the connection is silent from then on (`silent`).
 */
export type Fault = "before" | "after" | "stall" | "silent"

/** The side whose messages are dropped. */
export type Sender = "client" | "server"

/** A statement as it went over the wire. */
interface Sent {
  readonly text: string
  /** Whether the server was asked to keep it under a name. */
  readonly isNamed: boolean
}

export interface Proxy {
  readonly url: string
  /** The statements that the clients have sent. */
  readonly sent: ReadonlyArray<Sent>
  /** Breaks the next COMMIT. */
  readonly breakNextCommit: (fault: Fault) => void
  /** How many commits were broken. */
  readonly broken: () => number
  /** Delivers the commits that were kept back, also those of clients that have disconnected. */
  readonly deliver: () => void
  /** Drops the messages of `senders` from now on, on the open connections, and with `isLasting` on new ones, too. */
  readonly silence: (senders: ReadonlyArray<Sender>, options?: { readonly isLasting: boolean }) => void
  /** Lets new connections through again. Silenced connections stay silent. */
  readonly unsilence: () => void
}

interface Connection {
  /** The sides whose messages are dropped. */
  silenced: ReadonlyArray<Sender>
  /** Messages of the client that are kept back from the server. */
  readonly kept: Array<Buffer>
  readonly server: Net.Socket
}

/** A proxy on its own port, until the test ends. */
export const proxyTo = (target: string) =>
  Effect.acquireRelease(
    Effect.promise(() => start(target)),
    ({ close }) => Effect.promise(close)
  )

const start = async (target: string): Promise<Proxy & { readonly close: () => Promise<void> }> => {
  const { hostname, port } = new URL(target)
  const sockets = new Set<Net.Socket>()
  const sent: Array<Sent> = []
  const connections = new Set<Connection>()
  let silenced: ReadonlyArray<Sender> = []
  let armed: Fault | undefined
  let broken = 0

  const connect = (client: Net.Socket) => {
    const server = Net.connect({ host: hostname, port: Number(port), noDelay: true, allowHalfOpen: true })
    const connection: Connection = { silenced, kept: [], server }
    connections.add(connection)
    const cut = () => {
      connections.delete(connection)
      for (const socket of [client, server]) {
        sockets.delete(socket)
        socket.destroy()
      }
    }
    for (const [sender, socket] of [
      ["client", client],
      ["server", server]
    ] as const) {
      sockets.add(socket)
      // The end of a connection is dropped like any other message.
      const isUnheard = () =>
        connection.silenced.includes(sender) || (sender === "client" && connection.kept.length > 0)
      const end = () => {
        if (!isUnheard()) cut()
      }
      socket.setNoDelay(true).on("end", end).on("error", end).on("close", end)
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
      else if (fault === "stall") connection.kept.push(message)
      else if (!connection.silenced.includes("client")) server.write(message)
      // The whole commit has arrived.
      if (fault === "silent" && message[0] === code("S")) connection.silenced = ["client", "server"]
    })
    const fromServer = messages("typed", (message) => {
      if (connection.silenced.includes("server")) return
      if (fault !== "after") client.write(message)
      // Ready for the next statement: the commit is done.
      else if (message[0] === code("Z")) cut()
    })
    client.on("data", fromClient)
    server.on("data", fromServer)
  }

  const server = Net.createServer({ allowHalfOpen: true }, connect).listen(0, "127.0.0.1")
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
    deliver: () => {
      for (const { kept, server } of connections) for (const message of kept.splice(0)) server.write(message)
    },
    silence: (senders, { isLasting } = { isLasting: false }) => {
      for (const connection of connections) connection.silenced = senders
      if (isLasting) silenced = senders
    },
    unsilence: () => {
      silenced = []
    },
    close: async () => {
      const closed = once(server, "close")
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    }
  }
}

const code = (letter: string): number => letter.charCodeAt(0)

/** Splits a stream of bytes into messages. A client's first message has no type letter. */
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
