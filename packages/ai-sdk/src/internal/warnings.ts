/** The warnings of an AI SDK model about the parts of a request that it ignores, as sentences. */

/** Fields of the warnings of all specifications; each warning has some of them. */
interface Warning {
  readonly type: string
  readonly feature?: unknown
  readonly setting?: unknown
  readonly tool?: unknown
  readonly details?: unknown
  readonly message?: unknown
}

/** A sentence for each warning; none when the model gives no list. */
export const warningsIn = (warnings: ReadonlyArray<object> | undefined): ReadonlyArray<string> =>
  (warnings ?? []).map((warning) => {
    const { details, feature, message, setting, tool, type } = warning as Warning
    const about = [feature, setting, nameOf(tool), message].filter((text) => typeof text === "string")
    const why = typeof details === "string" ? ` (${details})` : ""
    return `${type}: ${about.join(", ")}${why}`.slice(0, 500)
  })

const nameOf = (tool: unknown): unknown =>
  typeof tool === "object" && tool !== null && "name" in tool ? tool.name : undefined
