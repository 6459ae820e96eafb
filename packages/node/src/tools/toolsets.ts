/**
 * Sets of tools for an agent's `tools`, as values.
 *
 * @since 0.2.0
 */
import type { Tool } from "@fermata/sdk"
import { fetchUrl, type FetchUrlOptions } from "./fetchUrl.ts"

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
