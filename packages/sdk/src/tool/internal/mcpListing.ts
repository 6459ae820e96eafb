/**
 * Converts the tools that an MCP server lists to tools that a model can be shown. A listing may have names with dots and slashes, schemas
 * without a type, or two tools with one name. Such a tool must not make the others unusable or the provider refuse the request: it is
 * adapted if possible, and otherwise left out with a warning.
 */
import * as McpSchema from "effect/ai/McpSchema"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { sentence } from "../../domain/Display.ts"
import { isDeeperThan, maxGivenDepth } from "../../domain/internal/json.ts"

/** A tool that is left out, and the reason. */
interface LeftOut {
  readonly tool: string
  readonly why: string
}

type Fields = Readonly<Record<string, unknown>>

const fieldsOf = (value: unknown): Fields | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined

/** Logs a warning for each tool that is left out. */
export const warnOfLeftOut = (leftOut: ReadonlyArray<LeftOut>): Effect.Effect<void> =>
  Effect.forEach(
    leftOut,
    ({ tool, why }) => Effect.logWarning(sentence`The MCP tool "${tool.slice(0, 200)}" is left out: ${why}.`),
    { discard: true }
  )

/** The longest name of a tool, in characters; each run stores the names. MCP recommends at most 128. */
const longestName = 512

const decodeTool = Schema.decodeUnknownResult(McpSchema.Tool)

/**
 * Removes unusable tools from the result of `tools/list`. Effect's client would refuse the whole list for a tool that it cannot decode, and
 * silently drop a tool that it cannot call.
 */
export const readableTools = (
  result: unknown,
  isCallable: (tool: McpSchema.Tool) => boolean
): { readonly result: unknown; readonly leftOut: ReadonlyArray<LeftOut> } => {
  const fields = fieldsOf(result)
  if (!Array.isArray(fields?.tools)) return { result, leftOut: [] }
  const tools: Array<unknown> = []
  const leftOut: Array<LeftOut> = []
  for (const listed of fields.tools) {
    const tool = fieldsOf(listed)
    const name = typeof tool?.name === "string" ? tool.name : ""
    const read = tool === undefined ? "it is not an object" : readTool(tool, isCallable)
    if (typeof read === "string") leftOut.push({ tool: name, why: read })
    else tools.push(read)
  }
  return { result: { ...fields, tools }, leftOut }
}

/** Returns the tool without invalid optional fields, or the reason why it cannot be used. */
const readTool = (tool: Fields, isCallable: (tool: McpSchema.Tool) => boolean): Fields | string => {
  if (typeof tool.name !== "string" || tool.name === "") return "it has no name"
  if (tool.name.length > longestName) return `its name is longer than ${longestName} characters`
  if (isDeeperThan(tool, maxGivenDepth))
    return `its definition is nested more than ${maxGivenDepth} levels deep`
  if (fieldsOf(tool.execution)?.taskSupport === "required")
    return "it runs only as a task, which is not supported"
  const inputSchema = objectSchema(tool.inputSchema)
  if (inputSchema === undefined) return "its arguments are not an object"
  const { annotations, description, name } = tool
  const bare = { name, inputSchema, ...(typeof description === "string" ? { description } : {}) }
  for (const form of [{ ...tool, inputSchema }, { ...bare, annotations }, bare]) {
    const decoded = decodeTool(form)
    if (Result.isFailure(decoded)) continue
    return isCallable(decoded.success) ? form : "it takes arguments in headers that cannot be sent"
  }
  return "its JSON Schema is invalid"
}

/** Adds `type: "object"` to a schema that lacks it. Returns `undefined` for the schema of another type. */
const objectSchema = (schema: unknown): Fields | undefined => {
  // Tools without arguments often have no schema.
  if (schema === undefined || schema === null || schema === true) return { type: "object", properties: {} }
  const fields = fieldsOf(schema)
  if (fields === undefined) return undefined
  const { type } = fields
  const mayBeObject =
    type === undefined || type === "object" || (Array.isArray(type) && type.includes("object"))
  return mayBeObject ? { ...fields, type: "object" } : undefined
}

/** Gives each tool a name that every model accepts. Leaves out a tool with the same name as an earlier one. */
export const nameTools = (
  tools: ReadonlyArray<McpSchema.Tool>,
  prefix: string
): {
  readonly named: ReadonlyArray<readonly [name: string, tool: McpSchema.Tool]>
  readonly leftOut: ReadonlyArray<LeftOut>
} => {
  const known = new Map<string, McpSchema.Tool>()
  const leftOut: Array<LeftOut> = []
  for (const tool of tools) {
    if (known.has(tool.name))
      leftOut.push({ tool: tool.name, why: "the server lists another tool with this name" })
    else known.set(tool.name, tool)
  }
  const claims = Map.groupBy(known.keys(), (name) => shownName(prefix + name))
  return {
    leftOut,
    named: [...known].map(([name, tool]) => {
      const whole = prefix + name
      const shown = shownName(whole)
      // A tool whose own name is valid keeps it. Others get a suffix from their own name, so that the order of the listing does not matter.
      const isClear = shown === whole || claims.get(shown)?.length === 1
      return [isClear ? shown : `${shown.slice(0, 64 - 7)}_${digest(whole)}`, tool] as const
    })
  }
}

/** The identity of a tool: the server's name, and the server's name for the tool. */
export const identityOf = (server: string, name: string): string =>
  `mcp:${server.replaceAll("%", "%25").replaceAll(":", "%3A")}:${name}`

/** Other names for a tool whose name is taken: with the server's name in front, and with a suffix from both names. */
export const otherNames = (server: string, name: string): ReadonlyArray<string> => {
  const whole = `${server}_${name}`
  const shown = shownName(whole)
  const unique = `${shown.slice(0, 64 - 7)}_${digest(whole)}`
  return whole.length > 64 ? [unique] : [shown, unique]
}

const shownName = (name: string): string => name.replaceAll(/[^a-zA-Z0-9_-]/g, "_").slice(0, 64)

/** Six letters and digits (FNV-1a). */
const digest = (text: string): string => {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return (hash >>> 0).toString(36).padStart(6, "0").slice(-6)
}
