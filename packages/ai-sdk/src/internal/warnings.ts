/** What an AI SDK model says that it does not do with a request, in words. */

/** The warnings of all specifications have these fields, or some of them. */
interface Warning {
  readonly type: string
  readonly feature?: unknown
  readonly setting?: unknown
  readonly tool?: unknown
  readonly details?: unknown
  readonly message?: unknown
}

/** A sentence for each warning; a model that is not as it should be may leave them out. */
export const warningsIn = (warnings: ReadonlyArray<object> | undefined): ReadonlyArray<string> =>
  (warnings ?? []).map((warning) => {
    const { details, feature, message, setting, tool, type } = warning as Warning
    const about = [feature, setting, nameOf(tool), message].filter((text) => typeof text === "string")
    const why = typeof details === "string" ? ` (${details})` : ""
    return `${type}: ${about.join(", ")}${why}`.slice(0, 500)
  })

const nameOf = (tool: unknown): unknown =>
  typeof tool === "object" && tool !== null && "name" in tool ? tool.name : undefined
