/**
 * What an MCP server lists, as tools that a model can be shown. Servers list what they like: names with dots and slashes, schemas that
 * say nothing of an object, two tools of one name. One such tool must not cost an agent all the others, or its model calls: it is shown
 * in another way where it can be, and left out, with a warning, where it cannot.
 */
import * as McpSchema from "effect/ai/McpSchema"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { sentence } from "../../domain/Display.ts"
import { isDeeperThan, maxGivenDepth } from "../../domain/internal/json.ts"

/** A tool that is left out, and why. */
interface LeftOut {
  readonly tool: string
  readonly why: string
}

type Fields = Readonly<Record<string, unknown>>

const fieldsOf = (value: unknown): Fields | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined

/** Says which tools an agent has to do without. */
export const warnOfLeftOut = (leftOut: ReadonlyArray<LeftOut>): Effect.Effect<void> =>
  Effect.forEach(
    leftOut,
    ({ tool, why }) => Effect.logWarning(sentence`The MCP tool "${tool.slice(0, 200)}" is left out: ${why}.`),
    { discard: true }
  )

/** The name of a tool is kept with every run that has it. MCP asks for at most 128 characters. */
const longestName = 512

const decodeTool = Schema.decodeUnknownResult(McpSchema.Tool)

/**
 * The result of `tools/list` with those of its tools that can be used. Effect's client refuses the whole list for one that it cannot
 * read, and drops without a word what it cannot call.
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
    const read = tool === undefined ? "it is no object" : readTool(tool, isCallable)
    if (typeof read === "string") leftOut.push({ tool: name, why: read })
    else tools.push(read)
  }
  return { result: { ...fields, tools }, leftOut }
}

/** The tool, without what is wrong about it and not needed; or why it cannot be used. */
const readTool = (tool: Fields, isCallable: (tool: McpSchema.Tool) => boolean): Fields | string => {
  if (typeof tool.name !== "string" || tool.name === "") return "it has no name"
  if (tool.name.length > longestName) return `its name is longer than ${longestName} characters`
  if (isDeeperThan(tool, maxGivenDepth)) return `its description lies more than ${maxGivenDepth} levels deep`
  if (fieldsOf(tool.execution)?.taskSupport === "required")
    return "it runs as a task only, which is not supported"
  const inputSchema = objectSchema(tool.inputSchema)
  if (inputSchema === undefined) return "its arguments are no object"
  const { annotations, description, name } = tool
  const bare = { name, inputSchema, ...(typeof description === "string" ? { description } : {}) }
  for (const form of [{ ...tool, inputSchema }, { ...bare, annotations }, bare]) {
    const decoded = decodeTool(form)
    if (Result.isFailure(decoded)) continue
    return isCallable(decoded.success) ? form : "it takes arguments in headers that cannot be sent"
  }
  return "its JSON Schema is none"
}

/** A schema of an object, also where the server did not say so; `undefined` for one of something else. */
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

/** The name of each tool, as every model takes it, and those that are left out because another has theirs. */
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
      leftOut.push({ tool: tool.name, why: "the server lists another one of this name" })
    else known.set(tool.name, tool)
  }
  const claims = Map.groupBy(known.keys(), (name) => shownName(prefix + name))
  return {
    leftOut,
    named: [...known].map(([name, tool]) => {
      const whole = prefix + name
      const shown = shownName(whole)
      // Who has the name as it stands keeps it. The others are told apart by what is theirs, and not by the order in which they are listed.
      const isClear = shown === whole || claims.get(shown)?.length === 1
      return [isClear ? shown : `${shown.slice(0, 64 - 7)}_${digest(whole)}`, tool] as const
    })
  }
}

/** What a tool is, whatever it is called: the server's name and the name that the server has for it. */
export const identityOf = (server: string, name: string): string =>
  `mcp:${server.replaceAll("%", "%25").replaceAll(":", "%3A")}:${name}`

/** The names that tell a tool apart from others of its name: with that of its server, and with what only it has. */
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
