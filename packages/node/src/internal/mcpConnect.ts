/**
 * Connects to an MCP server with Node's processes and `fetch`.
 */
import * as NodeChildProcessSpawner from "@effect/platform-node-shared/NodeChildProcessSpawner"
import * as NodeFileSystem from "@effect/platform-node-shared/NodeFileSystem"
import * as NodePath from "@effect/platform-node-shared/NodePath"
import type { Tool } from "@fermata/sdk"
import * as McpTools from "@fermata/sdk/mcp"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import type { HttpClient } from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as ChildProcess from "effect/process/ChildProcess"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as Scope from "effect/Scope"
import type { McpServer } from "../mcpTools.ts"

/** The variables that programs need to start, as in MCP's own SDK. Others may be secrets. */
const inherited =
  process.platform === "win32"
    ? [
        "APPDATA",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATH",
        "PROCESSOR_ARCHITECTURE",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "USERNAME",
        "USERPROFILE",
        "PROGRAMFILES"
      ]
    : ["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"]

const platform = NodeChildProcessSpawner.layer.pipe(
  Layer.provide(Layer.merge(NodeFileSystem.layer, NodePath.layer))
)

/** Connects and lists the tools. `close` ends the connection and the process. */
export const connect = async (
  given: McpServer
): Promise<{ readonly tools: ReadonlyArray<Tool.Tool>; readonly close: () => Promise<void> }> => {
  const scope = Scope.makeUnsafe()
  const close = () => Effect.runPromise(Scope.close(scope, Exit.void))
  const { args = [], command, cwd, env, headers, url, ...options } = given
  const connecting: Effect.Effect<
    ReadonlyArray<Tool.Tool>,
    McpTools.McpServerError,
    ChildProcessSpawner | HttpClient | Scope.Scope
  > = command === undefined
    ? McpTools.fromUrl(url, { ...options, ...(headers === undefined ? {} : { headers }) })
    : McpTools.fromProcess(
        ChildProcess.make(command, args, {
          cwd,
          env: { ...Object.fromEntries(inherited.map((name) => [name, process.env[name]])), ...env }
        }),
        options
      )
  try {
    const services = Layer.build(Layer.merge(platform, FetchHttpClient.layer))
    const tools = await Effect.runPromise(
      Effect.flatMap(services, (context) => Effect.provideContext(connecting, context)).pipe(
        Scope.provide(scope)
      )
    )
    return { tools, close }
  } catch (error) {
    await close()
    throw error
  }
}
