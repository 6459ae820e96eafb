/**
 * Sets of tools for an agent's `tools`, as values.
 *
 * @since 0.2.0
 */
import type { Tool } from "@fermata/sdk"
import { fetchUrl, type FetchUrlOptions } from "./fetchUrl.ts"
import * as FileTools from "./FileTools.ts"

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
 * With `root`, they act in this directory of this machine, without a sandbox. Without it, they act in the sandbox of the run.
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

/**
 * Tools that work on a workspace: those of {@link readOnlyTools}, `write_file` and `edit_file`. Each change needs approval, which shows a diff.
 *
 * **Details**
 *
 * With `root`, they act in this directory of this machine, without a sandbox. Without it, they act in the sandbox of the run.
 *
 * **Example** (An agent that changes a project)
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
export const workspaceTools = (options: FileTools.FileToolOptions = {}): ReadonlyArray<Tool.Tool> => [
  ...readOnlyTools(options),
  FileTools.writeFile(options),
  FileTools.editFile(options)
]
