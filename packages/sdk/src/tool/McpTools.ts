/**
 * Makes tools of an agent from the tools of an MCP server.
 *
 * A server's tools are listed once, when the agent's tools are made. From then on they are like any other tool: their arguments are
 * decoded before approval is asked, and their calls are approved, journaled and scrubbed. What a server declares about the safety of its
 * tools is ignored unless `trustHints` is set, since a server could declare a deletion as read-only, which would then need no approval.
 * The model reads a server's descriptions and results in any case: use only servers that you trust with everything that the agent may do.
 *
 * This module has its own entry point, `@fermata/sdk/mcp`. It uses Effect's MCP client, which connects to a process or over HTTP, and
 * supports neither login nor requests of the server to the user. If {@link fromProcess} or {@link fromUrl} lose a connection, the next call
 * starts the server again or reconnects, at most five times a minute, and fails if the server does not list the tool as before. Calls that
 * were in flight fail, and their error says that they may have taken effect. With these two functions, a call whose arguments or result are
 * larger than 16 MiB fails, too.
 *
 * The credentials in headers, in the URL and in the environment of a process are removed from all texts of runs.
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
import {
  callable,
  either,
  flag,
  length,
  oneOf,
  shapeOf,
  string,
  strings
} from "../domain/internal/misfits.ts"
import { Safety } from "../domain/Interruption.ts"
import { problemOf } from "../domain/OptionsInvalid.ts"
import { TaggedError } from "../domain/TaggedError.ts"
import { fromJsonSchema } from "./internal/fromJsonSchema.ts"
import * as Connection from "./internal/mcpConnection.ts"
import * as mcpLines from "./internal/mcpLines.ts"
import { identityOf, nameTools, otherNames, readableTools, warnOfLeftOut } from "./internal/mcpListing.ts"
import { failureOf, resultOf } from "./internal/mcpResults.ts"
import { knowCommand, knowConnection } from "./internal/mcpSecrets.ts"
import * as Tool from "./Tool.ts"

/**
 * `make`, `fromProcess` or `fromUrl`: an MCP server cannot be used. It cannot be started or reached, refuses the connection or speaks no
 * supported revision, its tools cannot be listed, or an option is invalid.
 */
export class McpServerError extends TaggedError<McpServerError>()("McpServerError", {
  /** The tag of the MCP client's error reason, or `OptionsInvalid`. */
  reason: Schema.String,
  description: Schema.String
}) {
  override get message() {
    return sentence`The MCP server cannot be used (${this.reason}): ${lines(this.description)}`
  }
}

/** Options for the tools of a server. */
export interface Options {
  /** A prefix for the name of each tool, such as `github_`, to keep the tools of two servers apart. Default: none. */
  readonly prefix?: string
  /**
   * The name of the server, to which approvals and grants for its tools are bound; only its first 200 characters count. Default: the name
   * that the server reports, or `mcp` if it reports none. Set it if a server may change its name, or if two servers of an agent report the
   * same name.
   */
  readonly server?: string
  /**
   * The safety of all tools, or a function that returns it for each tool when the tools are made. Default: `sideEffecting`, or as
   * {@link trustHints} determines.
   */
  readonly safety?: Safety | ((tool: McpSchema.Tool) => Safety)
  /**
   * Whether to trust what the server declares about its tools: a read-only tool then needs no approval, unless `safety` or `needsApproval`
   * says otherwise, and an idempotent one is repeated after a crash. Default: `false`.
   */
  readonly trustHints?: boolean
  /**
   * Whether calls need approval: for all tools, or a function that returns it for each tool when the tools are made. Default: only for tools
   * that are not read-only.
   */
  readonly needsApproval?: boolean | ((tool: McpSchema.Tool) => boolean)
  /**
   * The names of the secrets that calls may refer to, as the `secrets` of each tool: for all tools, or a function that returns them for each
   * tool when the tools are made. The server receives the values. Default: none.
   */
  readonly secrets?: ReadonlyArray<string> | ((tool: McpSchema.Tool) => ReadonlyArray<string> | undefined)
  /**
   * The option `untrusted` of each tool: whether its results contain text that neither the user nor the program wrote. After such a result,
   * calls with outside effects need a decision. Set it to `false` for your own server whose results contain no such text. Default: `true`.
   */
  readonly untrusted?: boolean | ((tool: McpSchema.Tool) => boolean)
  /**
   * The option `effects` of each tool: where its effects are. Default: `outside`, unless the tool is `readOnly`.
   */
  readonly effects?: Effects | ((tool: McpSchema.Tool) => Effects | undefined)
  /** The longest result or error in characters, as the `maxResultLength` of each tool. Default: the runtime's, or 1,000,000. */
  readonly maxResultLength?: number
  /** Selects the tools to use. Default: all. */
  readonly include?: (tool: McpSchema.Tool) => boolean
}

type Effects = NonNullable<Tool.ToolOptions<unknown, unknown>["effects"]>

/** Options for the connection to a server. */
export interface ConnectOptions {
  /** The revisions of MCP to try, in this order. Default: from `2025-11-25` back to the oldest, and then `2026-07-28`. */
  readonly protocols?: ReadonlyArray<McpProtocol.ProtocolVersion>
  /** The name and version that the client reports to the server. Default: `fermata`, version `0`. */
  readonly client?: { readonly name: string; readonly version: string }
  /** The timeout for connecting, and for listing the tools. Default: 60 seconds. */
  readonly timeout?: Duration.Input
}

/**
 * Makes tools from a client that is connected to a server.
 *
 * **Details**
 *
 * A tool whose name a model would refuse is shown under a similar name, which does not depend on the order of the listing, and called under
 * its own. A tool whose name another tool of the agent has, or a function of the SDK such as `delegate`, is shown with its server's name in
 * front, and with a suffix if that is too long or taken. A tool with the name of a tool that the server lists before it is omitted. So is a
 * tool that cannot be shown to a model, by {@link fromProcess} and {@link fromUrl}: a client that is given here may refuse the whole list.
 * A warning in the log names an omitted tool with the reason.
 *
 * An approval or a grant is bound to the server's name and to the server's name for the tool, not to the shown name. If a later listing
 * gives the shown name to another tool, the call needs a new approval.
 *
 * **Errors**
 *
 * - `McpServerError`: the tools cannot be listed, or an option is invalid.
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
  secrets: either(strings, callable),
  untrusted: either(flag, callable),
  effects: either(oneOf("outside", "workspace"), callable),
  maxResultLength: length,
  include: callable,
  protocols: "anything",
  client: "anything",
  timeout: "anything",
  headers: "anything"
})

/** Fails for an unknown option before the server is started. A misspelt option would silently lose an approval rule or a timeout. */
const requireKnown = (options: Options): Effect.Effect<void, McpServerError> => {
  const problem = problemOf("McpTools", options, shape)
  return problem === undefined
    ? Effect.void
    : Effect.fail(new McpServerError({ reason: problem._tag, description: problem.message }))
}

/** The name of the server in the identities of its tools. */
const serverOf = ({ serverInfo }: McpClient.McpClient, { server }: Options): string =>
  (server ?? serverInfo?.name ?? "mcp").slice(0, 200)

/**
 * Starts a server as a process and makes tools from its tools. The process ends when the scope closes. If it ends before, the next call of
 * a tool starts it again; the description of the module has the limits.
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
 * - `McpServerError`: the server does not start or speaks none of the revisions, its tools cannot be listed, or an option is invalid.
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
  Effect.suspend(() => {
    knowCommand(command)
    return connect(
      (protocol, loss) =>
        Effect.provideServiceEffect(
          // `mcpLines` enforces the limit. This one ends the connection, so it must be out of reach even if each invalid byte becomes three.
          McpClient.stdio({ command, protocol, maxMessageBytes: 4 * mcpLines.maxMessageBytes }),
          ChildProcessSpawner.ChildProcessSpawner,
          Effect.map(ChildProcessSpawner.ChildProcessSpawner, (spawner) => bounded(spawner, loss))
        ),
      options,
      true
    )
  })

/**
 * Connects to a server by its URL and makes tools from its tools. The session ends when the scope closes. If the connection is lost before,
 * the next call of a tool connects again; the description of the module has the limits. `headers` are sent with every request; redirects
 * are refused.
 *
 * **Errors**
 *
 * - `McpServerError`: the server cannot be reached, refuses the connection or speaks none of the revisions, its tools cannot be listed, or
 *   an option is invalid.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromUrl = (
  url: string | URL,
  options: Options & ConnectOptions & { readonly headers?: Readonly<Record<string, string>> } = {}
): Effect.Effect<ReadonlyArray<Tool.Tool>, McpServerError, HttpClient.HttpClient | Scope.Scope> =>
  Effect.suspend(() => {
    knowConnection(url, options.headers)
    return connect(
      (protocol) =>
        Effect.provideServiceEffect(
          McpClient.http({ url, protocol, headers: options.headers }),
          HttpClient.HttpClient,
          Effect.map(HttpClient.HttpClient, withoutRedirects)
        ),
      options,
      false
    )
  })

/** Refuses redirects, since `fetch` would forward most headers to another host. Sends no trace headers. */
const withoutRedirects = (client: HttpClient.HttpClient): HttpClient.HttpClient =>
  HttpClient.transform(client, (response) =>
    response.pipe(
      Effect.provideService(FetchHttpClient.RequestInit, { redirect: "error" }),
      Effect.provideService(HttpClient.TracerDisabledWhen, () => true)
    )
  )

type Protocol = McpProtocol.ProtocolAdapter<McpClient.ProtocolVersion>

/** The types of Effect's client name two revisions. It also speaks the older ones, whose handshake is that of `2025-11-25`. */
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
      // Close a failed attempt before the next one begins.
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

/** A spawner whose processes write only lines that Effect's transport can read, and set `loss` when they end. */
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

/** Removes unusable tools from a listing. Effect's client would refuse the whole listing. */
const tolerant = (transport: McpClient.Transport): McpClient.Transport => ({
  ...transport,
  request: (message, tool) =>
    Effect.flatMap(transport.request(message, tool), (response) => {
      if (message.method !== "tools/list" || !("result" in response)) return Effect.succeed(response)
      const { leftOut, result } = readableTools(response.result, transport.isCallable)
      return Effect.as(warnOfLeftOut(leftOut), { ...response, result } as McpSchema.JsonRpcResponse)
    })
})

/** Whether the server may speak another revision: it reported so, or did not understand the handshake. */
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
  const { maxResultLength, needsApproval, safety, secrets: given, trustHints = false } = options
  const { effects: placed, untrusted = true } = options
  const effects = typeof placed === "function" ? placed(tool) : placed
  const secrets = typeof given === "function" ? given(tool) : given
  const hints = trustHints ? tool.annotations : undefined
  const hinted = hints?.readOnlyHint === true ? "readOnly" : "sideEffecting"
  const asked = typeof needsApproval === "function" ? needsApproval(tool) : needsApproval
  const { parameters, words } = fromJsonSchema(tool.inputSchema as Schema.JsonObject)
  return Tool.make(name, {
    description: [tool.description ?? tool.title ?? "", words].filter((text) => text !== "").join("\n\n"),
    parameters,
    safety: typeof safety === "function" ? safety(tool) : (safety ?? hinted),
    idempotent: hints?.idempotentHint === true,
    identity: identityOf(server, tool.name),
    otherNames: otherNames(server, `${options.prefix ?? ""}${tool.name}`),
    untrusted: typeof untrusted === "function" ? untrusted(tool) : untrusted,
    ...(effects === undefined ? {} : { effects }),
    ...(asked === undefined ? {} : { needsApproval: asked }),
    ...(secrets === undefined ? {} : { secrets }),
    ...(maxResultLength === undefined ? {} : { maxResultLength }),
    handler: (args) =>
      clientFor(tool).pipe(
        Effect.flatMap((client) => client.callTool({ tool, arguments: args })),
        Effect.mapError((error) => failureOf(tool.name, error)),
        Effect.flatMap(resultOf)
      )
  })
}
