/**
 * A connection to an MCP server that reconnects after a loss. A call that was in flight is not repeated, since it may have taken effect.
 * The next call reconnects, at most five times a minute, and is sent only if the server still lists the tool unchanged: an approval holds
 * for that tool only.
 */
import type * as McpClient from "effect/ai/McpClient"
import {
  LimitError,
  McpClientError,
  type McpClientErrorReason,
  UnsupportedError
} from "effect/ai/McpClientError"
import type * as McpSchema from "effect/ai/McpSchema"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { sameJson } from "../../domain/internal/json.ts"
import { isTooLarge, maxMessageBytes } from "./mcpLines.ts"

/** A connection to a server. */
export interface Connection {
  readonly client: McpClient.McpClient
  /** Whether the connection is lost, so that it can answer no further call. */
  readonly isLost: () => boolean
}

/** Records the loss of a connection. */
export interface Loss {
  lost: boolean
}

/** The most reconnections within {@link window} milliseconds. */
const mostConnections = 5
const window = 60_000

const fail = (reason: McpClientErrorReason): Effect.Effect<never, McpClientError> =>
  Effect.fail(new McpClientError({ reason }))

const tooLarge = fail(new LimitError({ description: "The result is larger than 16 MiB and was not read." }))

/**
 * Limits the size of a transport's messages and records its loss. Effect's transport to a process never recovers from a failure; over
 * HTTP, only the end of the session (`ClosedError`) is a loss.
 */
export const watchLoss = (
  transport: McpClient.Transport,
  loss: Loss,
  everyFailureIsLoss: boolean
): McpClient.Transport => ({
  ...transport,
  request: (message, tool) =>
    Effect.suspend(() => {
      if (JSON.stringify(message).length > maxMessageBytes) {
        return fail(new UnsupportedError({ description: "The arguments are larger than 16 MiB." }))
      }
      const answered = Effect.catch(transport.request(message, tool), (error) => {
        const { _tag } = error.reason
        loss.lost ||= everyFailureIsLoss || _tag === "ClosedError"
        return _tag === "LimitError" ? tooLarge : Effect.fail(error)
      })
      return Effect.flatMap(answered, (response) =>
        isTooLarge(response) ? tooLarge : Effect.succeed(response)
      )
    })
})

/** The failure of a call that was not sent: reconnecting failed, or the server has changed or removed the tool. */
export interface NotCalled {
  readonly _tag: "NotCalled"
  readonly why: string
}

const notCalled = (why: string): Effect.Effect<never, NotCalled> => Effect.fail({ _tag: "NotCalled", why })

/** Returns the client for a call of a tool, after reconnecting if necessary. */
export type ClientFor = (tool: McpSchema.Tool) => Effect.Effect<McpClient.McpClient, NotCalled>

/** Uses the first connection until it is lost, and then connections that `connect` makes, each in a scope of its own. */
export const reconnecting = <E>(
  connect: (scope: Scope.Scope) => Effect.Effect<Connection, E>,
  first: { readonly connection: Connection; readonly scope: Scope.Closeable },
  outer: Scope.Scope
): Effect.Effect<ClientFor> =>
  Effect.gen(function* () {
    const changing = Semaphore.makeUnsafe(1)
    let current = first
    let listed: ReadonlyMap<string, McpSchema.Tool> | undefined
    let attempts: ReadonlyArray<number> = []
    let closed = false
    yield* Scope.addFinalizer(
      outer,
      Effect.sync(() => {
        closed = true
      })
    )

    const connectAgain = Effect.gen(function* () {
      if (closed) return yield* notCalled("its connection was closed")
      const now = yield* Clock.currentTimeMillis
      attempts = attempts.filter((at) => at > now - window && at <= now)
      if (attempts.length >= mostConnections) {
        return yield* notCalled(
          `its server has gone ${mostConnections} times within a minute: try again later`
        )
      }
      attempts = [...attempts, now]
      // Close the lost connection in the background: its server may end slowly, and must not delay the next one.
      yield* Effect.forkIn(Scope.close(current.scope, Exit.void), outer)
      const scope = yield* Scope.fork(outer)
      const made = Effect.gen(function* () {
        const connection = yield* connect(scope)
        const tools = yield* connection.client.listTools()
        return { connection, tools }
      })
      const { connection, tools } = yield* made.pipe(
        Effect.onExit((exit) => (Exit.isFailure(exit) ? Scope.close(scope, exit) : Effect.void)),
        Effect.catch(() => notCalled("its server has gone, and cannot be connected to again"))
      )
      current = { connection, scope }
      listed = new Map(tools.map((tool) => [tool.name, tool]))
    })

    return (tool) =>
      Semaphore.withPermit(
        changing,
        Effect.gen(function* () {
          if (current.connection.isLost()) yield* connectAgain
          if (listed !== undefined && !isSame(listed.get(tool.name), tool)) {
            return yield* notCalled(
              "its server was connected to again and has another tool of this name, or none: make its tools again"
            )
          }
          return current.connection.client
        })
      )
  })

const isSame = (one: McpSchema.Tool | undefined, other: McpSchema.Tool): boolean =>
  one !== undefined &&
  sameJson(one.inputSchema as Schema.Json, other.inputSchema as Schema.Json) &&
  one.description === other.description

/** Always returns the given client: a caller's own client cannot be reconnected. */
export const fixedConnection =
  (client: McpClient.McpClient): ClientFor =>
  () =>
    Effect.succeed(client)
