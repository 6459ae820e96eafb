/**
 * Sets of tools for an agent's `tools`, as values.
 *
 * @since 0.2.0
 */
import type { Tool } from "@fermata/sdk"
import { fetchUrl, type FetchUrlOptions } from "./fetchUrl.ts"
import * as FileTools from "./FileTools.ts"
import { type ShellOptions, shellTools } from "./shellTools.ts"

/**
 * Tools that read the web: `fetch_url`. Calls need approval unless `allow` lists their domain. See {@link fetchUrl}.
 *
 * **Example** (Reading the documentation of one project)
 *
 * ```ts run
 * import { agent, webTools } from "@fermata/node"
 *
 * const reader = agent("reader", { tools: webTools({ allow: ["docs.example.com"], deny: ["example.org"] }) })
 * ```
 *
 * @category constructors
 * @since 0.2.0
 */
export const webTools = (options: FetchUrlOptions = {}): ReadonlyArray<Tool.Tool> => [fetchUrl(options)]

/**
 * Tools that only read a workspace: `read_file`, `list_dir` and `search_files`. They need no approval inside of it, except for places that can hold
 * credentials.
 *
 * **Details**
 *
 * With `root`, they act in this directory of this machine, behind a `PathGuard`. Without it, they act in the sandbox of the run, which the
 * option `sandbox` of the program provides.
 *
 * **Example** (An agent that answers questions about a project)
 *
 * ```ts run
 * import { agent, readOnlyTools } from "@fermata/node"
 *
 * const reader = agent("reader", { tools: readOnlyTools({ root: "." }) })
 * ```
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for an unknown option or an invalid value.
 *
 * @category constructors
 * @since 0.2.0
 */
export const readOnlyTools = (options: FileTools.FileToolOptions = {}): ReadonlyArray<Tool.Tool> => [
  FileTools.readFile(options),
  FileTools.listDir(options),
  FileTools.searchFiles(options)
]

/** Options of {@link workspaceTools}: those of the file tools, and of the tools for commands. */
export interface WorkspaceToolsOptions extends FileTools.FileToolOptions {
  /**
   * The options of the tools for commands, or `false` for none. Commands run in the sandbox of the run. Default: with their defaults, and none if
   * `root` is given.
   */
  readonly shell?: ShellOptions | false
}

/**
 * Tools that work on a workspace: those of {@link readOnlyTools}, `write_file` and `edit_file`, and those of `shellTools`. Each change
 * needs an approval, whose request shows a diff. `shellTools` describes which commands need one.
 *
 * **Details**
 *
 * Without `root`, all act in the sandbox of the run: the program needs the option `sandbox`. With it, the tools for files act in this
 * directory of this machine, behind a `PathGuard`. Commands still run in the sandbox, so there are none unless `shell` is given.
 *
 * **Example** (An agent that works on a project, with commands that are confined)
 *
 * ```ts run
 * import { agent, createFermata, machineSandbox, workspaceTools } from "@fermata/node"
 * import { ScriptedModel } from "@fermata/node/testing"
 *
 * const developer = agent("developer", { tools: workspaceTools() })
 * const model = ScriptedModel.make(["done"]).client
 * const sandbox = machineSandbox({ workdir: "." })
 * await using fermata = await createFermata({ agents: [developer], model, sandbox, store: false })
 * ```
 *
 * **Example** (An agent that changes files, and runs no commands)
 *
 * ```ts run
 * import { agent, workspaceTools } from "@fermata/node"
 *
 * const editor = agent("editor", { tools: workspaceTools({ root: "." }) })
 * ```
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for an unknown option or an invalid value.
 *
 * @category constructors
 * @since 0.2.0
 */
export const workspaceTools = (options: WorkspaceToolsOptions = {}): ReadonlyArray<Tool.Tool> => {
  // Other values are refused by the tools themselves.
  const isObject = typeof options === "object" && options !== null && !Array.isArray(options)
  const { shell, ...files } = isObject ? options : ({} as WorkspaceToolsOptions)
  const given = isObject ? files : options
  const commands = shell === undefined ? files.root === undefined && {} : shell
  return [
    ...readOnlyTools(given),
    FileTools.writeFile(given),
    FileTools.editFile(given),
    ...(commands === false ? [] : shellTools(commands))
  ]
}
