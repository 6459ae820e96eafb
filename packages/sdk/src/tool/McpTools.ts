/**
 * The tools of MCP servers as tools of an agent.
 *
 * A server's tools are asked for once, when they are made, and are then tools like any other: their arguments are checked before
 * anybody is asked, their calls are approved, journaled and scrubbed. What a server says about the safety of its tools is not
 * believed unless the caller says so: a server that calls a deletion read-only would have it run without being asked about. Its
 * words reach the model all the same, as descriptions and results: use servers that you trust with what the agent may do.
 *
 * This module has an entry of its own, `@fermata/sdk/mcp`, and stands on Effect's MCP client, which speaks over a process or over
 * HTTP, and does not log in or ask the user back. A server that has gone is started, or connected to, again for the next call; calls that
 * it had not answered fail with the words that they may have taken effect.
 *
 * @since 0.1.0
 */
import * as McpClient from "effect/ai/McpClient"
import type { McpClientError } from "effect/ai/McpClientError"
import * as McpProtocol from "effect/ai/McpProtocol"
import type * as McpSchema from "effect/ai/McpSchema"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import type * as ChildProcess from "effect/process/ChildProcess"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { lines, sentence } from "../domain/Display.ts"
import { callable, either, flag, oneOf, shapeOf, string } from "../domain/internal/misfits.ts"
import { Safety } from "../domain/Interruption.ts"
import { problemOf } from "../domain/OptionsInvalid.ts"
import { fromJsonSchema } from "./internal/fromJsonSchema.ts"
import * as Connection from "./internal/mcpConnection.ts"
import * as mcpLines from "./internal/mcpLines.ts"
import { identityOf, nameTools, otherNames, readableTools, warnOfLeftOut } from "./internal/mcpListing.ts"
import { failureOf, resultOf } from "./internal/mcpResults.ts"
import * as Tool from "./Tool.ts"

/** A server cannot be used. */
export class McpServerError extends Schema.TaggedError<McpServerError>()("McpServerError", {
  /** What went wrong, by the tag of the MCP client's reason. */
  reason: Schema.String,
  description: Schema.String
}) {
  override get message() {
    return sentence`The MCP server cannot be used (${this.reason}): ${lines(this.description)}`
  }
}

/** How a server's tools are used. */
export interface Options {
  /** Before the name of each tool, such as `github_`, so that the tools of two servers differ. */
  readonly prefix?: string
  /**
   * The name of the server, to which approvals and grants for its tools are bound. Default: the one that it gives itself. Give one where
   * a server may change its name, or two of an agent's servers have the same.
   */
  readonly server?: string
  /** What the tools may do: for all of them, or for each. Default: `sideEffecting`, or what {@link trustHints} makes of it. */
  readonly safety?: Safety | ((tool: McpSchema.Tool) => Safety)
  /**
   * Whether the server is believed about its tools: one that it calls read-only is run without being asked about, and one that it
   * calls idempotent is repeated after a crash. Default: no.
   */
  readonly trustHints?: boolean
  /** Whether a call needs approval. Default: only for tools that are not read-only. */
  readonly needsApproval?: boolean | ((tool: McpSchema.Tool) => boolean)
  /** Characters of a result, or of an error, that are passed on; a file that is larger is left out. Default: 1,000,000. */
  readonly maxResultLength?: number
  /** Which of the server's tools are used. Default: all. */
  readonly include?: (tool: McpSchema.Tool) => boolean
}

/** How a connection is made. */
export interface ConnectOptions {
  /** Revisions of MCP to try, in this order. Default: all, from `2025-11-25` back, and then the newest. */
  readonly protocols?: ReadonlyArray<McpProtocol.ProtocolVersion>
  /** The client's name for the server. Default: `fermata`. */
  readonly client?: { readonly name: string; readonly version: string }
  /** For connecting, and for listing the tools. Default: 60 seconds. */
  readonly timeout?: Duration.Input
}

/**
 * The tools of a connected server.
 *
 * **Details**
 *
 * A tool whose name models do not take is shown by the nearest one that they take, the same one every time, and called by its own. One
 * whose name the agent has for another tool, or for one of the loop's own (`delegate`, `ask_user`), is shown with the name of its server
 * in front. A tool that cannot be shown is left out, with a warning in the log that names it and says why.
 *
 * An approval or a grant is bound to the server's name and the name that the server has for the tool, not to the name that is shown:
 * when a later listing gives that name to another tool, the call is asked about again.
 *
 * **Errors**
 *
 * - `McpServerError`: the tools cannot be listed.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (
  client: McpClient.McpClient,
  options: Options = {}
): Effect.Effect<ReadonlyArray<Tool.Tool>, McpServerError> =>
  Effect.andThen(requireKnown(options), toolsOf(client, Connection.fixedConnection(client), options))

const toolsOf = (
  client: McpClient.McpClient,
  clientFor: Connection.ClientFor,
  options: Options
): Effect.Effect<ReadonlyArray<Tool.Tool>, McpServerError> =>
  Effect.gen(function* () {
    const listed = yield* Effect.mapError(client.listTools(), unusable)
    const { leftOut, named } = nameTools(
      listed.filter((tool) => options.include?.(tool) ?? true),
      options.prefix ?? ""
    )
    yield* warnOfLeftOut(leftOut)
    const server = serverOf(client, options)
    return named.map(([name, tool]) => toolOf(clientFor, server, name, tool, options))
  })

const shape = shapeOf<Options & ConnectOptions & { readonly headers?: unknown }>({
  prefix: string,
  server: string,
  safety: either(oneOf(...Safety.literals), callable),
  trustHints: flag,
  needsApproval: either(flag, callable),
  maxResultLength: "anything",
  include: callable,
  protocols: "anything",
  client: "anything",
  timeout: "anything",
  headers: "anything"
})

/** A key that there is not is refused before anything is started: with it would go who is asked, and how long that takes. */
const requireKnown = (options: Options): Effect.Effect<void, McpServerError> => {
  const problem = problemOf("McpTools", options, shape)
  return problem === undefined
    ? Effect.void
    : Effect.fail(new McpServerError({ reason: problem._tag, description: problem.message }))
}

/** The name by which a server is known, whatever else it says about itself. */
const serverOf = ({ serverInfo }: McpClient.McpClient, { server }: Options): string =>
  (server ?? serverInfo?.name ?? "mcp").slice(0, 200)

/**
 * Starts a server as a process and gives its tools. The process ends with the scope.
 *
 * **Example** (Using a server's tools)
 *
 * ```ts no-run it downloads a server and asks a real model
 * import { NodeServices } from "@effect/platform-node"
 * import { openAi } from "@fermata/node"
 * import { Agent, runPrompt, Runtime } from "@fermata/sdk"
 * import * as McpTools from "@fermata/sdk/mcp"
 * import { ModelClient } from "@fermata/sdk/model"
 * import { Effect } from "effect"
 * import { ChildProcess } from "effect/process"
 *
 * const server = ChildProcess.make("npx", ["-y", "@modelcontextprotocol/server-filesystem", "."])
 * const program = Effect.gen(function* () {
 *   const tools = yield* McpTools.fromProcess(server)
 *   const runtime = yield* Runtime.make({ agent: Agent.make("files", { tools }) })
 *   return yield* runPrompt(runtime, { prompt: "What is in this folder?" })
 * })
 * const model = openAi({ model: "gpt-5.5" })
 * await program.pipe(
 *   Effect.scoped,
 *   Effect.provideService(ModelClient.ModelClient, model),
 *   Effect.provide(NodeServices.layer),
 *   Effect.runPromise
 * )
 * ```
 *
 * **Errors**
 *
 * - `McpServerError`: it does not start, does not speak MCP, or none of the revisions.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromProcess = (
  command: ChildProcess.Command,
  options: Options & ConnectOptions = {}
): Effect.Effect<
  ReadonlyArray<Tool.Tool>,
  McpServerError,
  ChildProcessSpawner.ChildProcessSpawner | Scope.Scope
> =>
  connect(
    (protocol, loss) =>
      Effect.provideServiceEffect(
        // Above what passes `mcpLines`, also where each bad byte became three: reaching this bound would end the connection.
        McpClient.stdio({ command, protocol, maxMessageBytes: 4 * mcpLines.maxMessageBytes }),
        ChildProcessSpawner.ChildProcessSpawner,
        Effect.map(ChildProcessSpawner.ChildProcessSpawner, (spawner) => bounded(spawner, loss))
      ),
    options,
    true
  )

/**
 * Connects to a server by its URL and gives its tools. The session ends with the scope.
 *
 * **Errors**
 *
 * - `McpServerError`: it cannot be reached, refuses, does not speak MCP, or none of the revisions.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromUrl = (
  url: string | URL,
  options: Options & ConnectOptions & { readonly headers?: Readonly<Record<string, string>> } = {}
): Effect.Effect<ReadonlyArray<Tool.Tool>, McpServerError, HttpClient.HttpClient | Scope.Scope> =>
  connect(
    (protocol) =>
      Effect.provideServiceEffect(
        McpClient.http({ url, protocol, headers: options.headers }),
        HttpClient.HttpClient,
        Effect.map(HttpClient.HttpClient, discreet)
      ),
    options,
    false
  )

/** Redirects are not followed: `fetch` would send every header but one along. Our traces are sent to no server. */
const discreet = (client: HttpClient.HttpClient): HttpClient.HttpClient =>
  HttpClient.transform(client, (response) =>
    response.pipe(
      Effect.provideService(FetchHttpClient.RequestInit, { redirect: "error" }),
      Effect.provideService(HttpClient.TracerDisabledWhen, () => true)
    )
  )

type Protocol = McpProtocol.ProtocolAdapter<McpClient.ProtocolVersion>

/** Effect's client names two revisions, and speaks the older ones as it does the first: they are greeted in the same way. */
const adapters = {
  "2025-11-25": McpProtocol.v2025_11_25,
  "2025-06-18": McpProtocol.v2025_06_18,
  "2025-03-26": McpProtocol.v2025_03_26,
  "2024-11-05": McpProtocol.v2024_11_05,
  "2026-07-28": McpProtocol.v2026_07_28
} as unknown as Readonly<Record<McpProtocol.ProtocolVersion, Protocol>>

const revisions = Object.keys(adapters) as ReadonlyArray<McpProtocol.ProtocolVersion>

const connect = <R>(
  transport: (
    protocol: Protocol,
    loss: Connection.Loss
  ) => Effect.Effect<McpClient.Transport, McpClientError, R>,
  options: Options & ConnectOptions,
  everyFailureIsLoss: boolean
): Effect.Effect<ReadonlyArray<Tool.Tool>, McpServerError, Exclude<R, Scope.Scope> | Scope.Scope> => {
  const { client = { name: "fermata", version: "0" }, protocols = revisions, timeout } = options
  const connectIn = (protocol: Protocol, scope: Scope.Scope) =>
    Effect.suspend(() => {
      const loss = { lost: false }
      const watched = Effect.map(transport(protocol, loss), (made) =>
        tolerant(Connection.watchLoss(made, loss, everyFailureIsLoss))
      )
      return McpClient.make({ ...client, timeout }).pipe(
        Effect.provideServiceEffect(McpClient.Transport, watched),
        Effect.map((client): Connection.Connection => ({ client, isLost: () => loss.lost })),
        Scope.provide(scope)
      )
    })
  const attempt = (protocol: Protocol) =>
    Effect.gen(function* () {
      const scope = yield* Scope.fork(yield* Effect.scope)
      // What is left of an attempt that failed goes before the next one begins.
      const connection = yield* Effect.onExit(connectIn(protocol, scope), (exit) =>
        Exit.isFailure(exit) ? Scope.close(scope, exit) : Effect.void
      )
      return { connection, protocol, scope }
    })
  const connected = protocols
    .slice(1)
    .reduce(
      (tried, version) =>
        Effect.catch(tried, (error) =>
          isOtherRevision(error) ? attempt(adapters[version]) : Effect.fail(error)
        ),
      attempt(adapters[protocols[0] ?? "2025-11-25"])
    )
  return Effect.gen(function* () {
    yield* requireKnown(options)
    const outer = yield* Effect.scope
    const context = yield* Effect.context<Exclude<R, Scope.Scope>>()
    const first = yield* Effect.mapError(connected, unusable)
    const again = (scope: Scope.Scope) => Effect.provideContext(connectIn(first.protocol, scope), context)
    const clientFor = yield* Connection.reconnecting(again, first, outer)
    return yield* toolsOf(first.connection.client, clientFor, options)
  })
}

/** Starts processes whose output reaches Effect's transport in lines that it can read, and notices their end. */
const bounded = (
  spawner: ChildProcessSpawner.ChildProcessSpawner["Service"],
  loss: Connection.Loss
): ChildProcessSpawner.ChildProcessSpawner["Service"] =>
  ChildProcessSpawner.make((command) =>
    Effect.gen(function* () {
      const process = yield* spawner.spawn(command)
      const noticeLoss = Effect.sync(() => {
        loss.lost = true
      })
      yield* Effect.forkScoped(Effect.ensuring(Effect.ignore(process.exitCode), noticeLoss))
      const wholeLines = mcpLines.make()
      const stdout = process.stdout.pipe(Stream.map(wholeLines), Stream.ensuring(noticeLoss))
      return ChildProcessSpawner.makeHandle({ ...process, stdout })
    })
  )

/** What is wrong with one tool is no reason to refuse all of them. */
const tolerant = (transport: McpClient.Transport): McpClient.Transport => ({
  ...transport,
  request: (message, tool) =>
    Effect.flatMap(transport.request(message, tool), (response) => {
      if (message.method !== "tools/list" || !("result" in response)) return Effect.succeed(response)
      const { leftOut, result } = readableTools(response.result, transport.isCallable)
      return Effect.as(warnOfLeftOut(leftOut), { ...response, result } as McpSchema.JsonRpcResponse)
    })
})

/** Whether the server may speak another revision: it said so, or did not understand how it was greeted. */
const isOtherRevision = ({ reason }: McpClientError): boolean =>
  reason._tag === "UnsupportedError" ||
  reason._tag === "ProtocolError" ||
  (reason._tag === "HttpError" && reason.status >= 400 && reason.status < 500 && reason.status !== 401)

const unusable = ({ reason }: McpClientError): McpServerError =>
  new McpServerError({ reason: reason._tag, description: reason.message })

const toolOf = (
  clientFor: Connection.ClientFor,
  server: string,
  name: string,
  tool: McpSchema.Tool,
  options: Options
): Tool.Tool => {
  const { needsApproval, safety, trustHints = false } = options
  const hints = trustHints ? tool.annotations : undefined
  const hinted = hints?.readOnlyHint === true ? "readOnly" : "sideEffecting"
  const asked = typeof needsApproval === "function" ? needsApproval(tool) : needsApproval
  const longest = options.maxResultLength ?? 1_000_000
  const { parameters, words } = fromJsonSchema(tool.inputSchema as Schema.JsonObject)
  return Tool.make(name, {
    description: [tool.description ?? tool.title ?? "", words].filter((text) => text !== "").join("\n\n"),
    parameters,
    safety: typeof safety === "function" ? safety(tool) : (safety ?? hinted),
    idempotent: hints?.idempotentHint === true,
    identity: identityOf(server, tool.name),
    otherNames: otherNames(server, `${options.prefix ?? ""}${tool.name}`),
    ...(asked === undefined ? {} : { needsApproval: asked }),
    handler: (args) =>
      clientFor(tool).pipe(
        Effect.flatMap((client) => client.callTool({ tool, arguments: args })),
        Effect.mapError((error) => failureOf(tool.name, error, longest)),
        Effect.flatMap((result) => resultOf(result, longest))
      )
  })
}
