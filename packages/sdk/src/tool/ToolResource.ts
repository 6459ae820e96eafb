/**
 * Resources that tools need, such as the connection to a server, which end with the last Fermata that uses the tools.
 *
 * @since 0.1.0
 */
import type { AnyTool } from "./Tool.ts"

/**
 * Something open that tools need, such as a connection, with the count of its uses. {@link attach} registers it; the end of the last use,
 * such as the close of the last Fermata with one of the tools, closes it.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolResource {
  /** Closes the resource, once; later calls resolve with the first one. */
  readonly close: () => Promise<void>
  readonly isClosed: () => boolean
  /** Counts a user of the tools. Returns the function that ends the use; the end of the last use closes the resource. */
  readonly use: () => () => Promise<void>
}

const resources = new WeakMap<AnyTool, ToolResource>()

/**
 * Attaches a resource to the tools that need it. Each Fermata whose agents have one of the tools uses the resource until that Fermata is
 * closed; the end of the last use calls `close`, once. No Fermata can be made with these tools afterwards. Without a Fermata, close the
 * resource yourself. A later resource of a tool replaces the earlier one.
 *
 * **Example** (A connection that closes with the Fermata)
 *
 * ```ts run
 * import { agent, createFermata, tool, ToolResource } from "@fermata/node"
 * import { ScriptedModel } from "@fermata/node/testing"
 *
 * const query = tool("query", { safety: "readOnly", handler: () => "three rows" })
 * ToolResource.attach([query], async () => console.log("disconnected"))
 * const model = ScriptedModel.make(() => "done").client
 * await using fermata = await createFermata({ agents: [agent("analyst", { tools: [query] })], model, store: false })
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const attach = (tools: ReadonlyArray<AnyTool>, close: () => Promise<void>): ToolResource => {
  let uses = 0
  let closing: Promise<void> | undefined
  const closeOnce = () => (closing ??= close())
  const resource: ToolResource = {
    close: closeOnce,
    isClosed: () => closing !== undefined,
    use: () => {
      uses += 1
      let isUsed = true
      return async () => {
        if (!isUsed) return closing
        isUsed = false
        uses -= 1
        if (uses === 0) await closeOnce()
      }
    }
  }
  for (const tool of tools) resources.set(tool, resource)
  return resource
}

/** Returns the resource of a tool; `undefined` if it has none. */
export const resourceOf = (tool: AnyTool): ToolResource | undefined => resources.get(tool)
