/**
 * Tools from an MCP server, for programs that do not use Effect. `McpTools` in `@fermata/sdk/mcp` describes how they behave.
 *
 * @since 0.1.0
 */
import { OptionsInvalid, type Tool, ToolResource } from "@fermata/sdk"
import type * as McpTools from "@fermata/sdk/mcp"
import * as Result from "effect/Result"

/**
 * The options of `mcpTools`: a program to start, or the URL of a server, with the options of `McpTools` for the tools and the connection.
 */
export type McpServer = (McpProgram | McpUrl) & McpTools.Options & McpTools.ConnectOptions

/** A server that `mcpTools` starts as a process, and that communicates by its standard input and output. */
export interface McpProgram {
  /** The program to start, such as `npx`. */
  readonly command: string
  /** Its arguments. Default: none. */
  readonly args?: ReadonlyArray<string>
  /**
   * Its environment variables, besides those that it gets from this process because a program needs them to start, such as `PATH` and
   * `HOME`. A variable given here wins. Other variables of this process, which may be secrets, are not passed on. Default: none.
   */
  readonly env?: Readonly<Record<string, string>>
  /** Its working directory. Default: that of this process. */
  readonly cwd?: string
  readonly url?: never
  readonly headers?: never
}

/** A server that is reached over HTTP. */
export interface McpUrl {
  /** The server's URL, of `http` or `https`. A redirect is refused. */
  readonly url: string | URL
  /** Headers of each request, such as `authorization`. Default: none. */
  readonly headers?: Readonly<Record<string, string>>
  readonly command?: never
  readonly args?: never
  readonly env?: never
  readonly cwd?: never
}

/** The tools of a server as a list, which also closes the connection to the server. */
export interface McpToolList extends ReadonlyArray<Tool.Tool>, AsyncDisposable {
  /**
   * Closes the connection, and ends the process if `mcpTools` started it: its input is closed, after 5 seconds it receives SIGTERM, and
   * after 10 seconds it is killed. Calls of the tools fail from then on, and a Fermata whose agents have one of them can no longer be made.
   */
  readonly close: () => Promise<void>
}

/**
 * Connects to an MCP server and makes tools from its tools.
 *
 * **Details**
 *
 * The connection closes with the last open Fermata whose agents have had one of the tools. For another Fermata after that, call `mcpTools`
 * again. Without a Fermata, close the connection with `close` or `await using`. What a server declares about its tools is not trusted:
 * unless the options `safety`, `needsApproval` or `trustHints`, or a run's approval policy say otherwise, each call needs approval.
 *
 * **Errors**
 *
 * - `OptionsInvalid` — an option is unknown, an option of {@link McpProgram} or {@link McpUrl} has an invalid value or belongs to the other
 *   one, or there is not exactly one of `command` and `url`. Nothing was started.
 * - `McpServerError` — the server does not start, cannot be reached, refuses the connection or speaks no supported revision, its tools
 *   cannot be listed, or another option has an invalid value (its `reason` is then `OptionsInvalid`).
 *
 * **Example** (Using a server's tools)
 *
 * ```ts no-run it downloads a server and asks a real model
 * import { agent, createFermata, mcpTools, openAi } from "@fermata/node"
 *
 * const files = await mcpTools({ command: "npx", args: ["-y", "@modelcontextprotocol/server-filesystem", "."] })
 * await using fermata = await createFermata({
 *   agents: [agent("files", { tools: files })],
 *   model: openAi({ model: "gpt-5.5" })
 * })
 * const run = await fermata.runPrompt("files", "What is in this folder?")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const mcpTools = async (server: McpServer): Promise<McpToolList> => {
  check(server)
  // Loads Effect's MCP client only in programs that use it.
  const { connect } = await import("./internal/mcpConnect.ts")
  const { close, tools } = await connect(server)
  const resource = ToolResource.attach(tools, close)
  const hidden = (value: unknown) => ({ value, enumerable: false })
  return Object.defineProperties([...tools], {
    close: hidden(resource.close),
    [Symbol.asyncDispose]: hidden(resource.close)
  }) as unknown as McpToolList
}

const isString = (value: unknown): boolean => typeof value === "string"

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null

/** The options of a program and of a URL with their descriptions and checks. `McpTools` checks values of the others. */
const kinds = {
  command: ["the name or path of a program", (value) => isString(value) && value !== ""],
  args: ["a list of strings", (value) => Array.isArray(value) && value.every(isString)],
  env: ["an object of strings", (value) => isObject(value) && Object.values(value).every(isString)],
  cwd: ["the path of a folder", isString],
  url: [
    "a URL of http or https",
    (value) => /^https?:\/\//i.test(String(value)) && URL.canParse(String(value))
  ],
  headers: ["an object of strings", (value) => isObject(value) && Object.values(value).every(isString)]
} satisfies Record<keyof (McpProgram & McpUrl), readonly [string, (value: unknown) => boolean]>

const others = {
  prefix: true,
  server: true,
  safety: true,
  untrusted: true,
  effects: true,
  trustHints: true,
  needsApproval: true,
  secrets: true,
  maxResultLength: true,
  include: true,
  protocols: true,
  client: true,
  timeout: true
} satisfies Record<keyof (McpTools.Options & McpTools.ConnectOptions), true>

const of = "mcpTools"

/** Throws `OptionsInvalid` before anything is started. */
const check = (given: McpServer | undefined): void => {
  const keys = OptionsInvalid.checkKeys(of, given ?? null, [...Object.keys(kinds), ...Object.keys(others)])
  if (Result.isFailure(keys)) throw keys.failure
  const values: Partial<Record<string, unknown>> = { ...given }
  const problems = Object.entries(kinds).flatMap(([key, [takes, is]]) =>
    values[key] === undefined || is(values[key]) ? [] : [`"${key}" takes ${takes}`]
  )
  const isProgram = values["command"] !== undefined
  if (isProgram === (values["url"] !== undefined)) problems.push('it takes either a "command" or a "url"')
  for (const key of isProgram ? ["headers"] : ["args", "env", "cwd"]) {
    if (values[key] !== undefined) {
      problems.push(`"${key}" belongs to ${isProgram ? 'a "url"' : 'a "command"'}`)
    }
  }
  if (problems.length > 0) {
    const place = `the options of ${of}`
    throw new OptionsInvalid.OptionsInvalid({ of, misfits: problems.map((problem) => ({ place, problem })) })
  }
}
