/**
 * The tool `recall`, with which a model searches memory, and reads files and results of its session again.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { sentence } from "../domain/Display.ts"
import { textIn } from "../domain/internal/files.ts"
import { positive, shapeOf } from "../domain/internal/misfits.ts"
import type { MemoryItem } from "../domain/MemoryItem.ts"
import { problemOf } from "../domain/OptionsInvalid.ts"
import { type Recall, type Recalled, recalledText, recalling } from "./internal/recalling.ts"
import { type Remembering, remembering } from "./internal/remembering.ts"
import { attachment } from "./internal/resultParts.ts"
import * as Tool from "./Tool.ts"
import type { ToolContext } from "./ToolContext.ts"
import { ToolFailure } from "./ToolError.ts"

/** The arguments of `recall`. */
export const Arguments = Schema.Struct({
  query: Schema.optionalKey(
    Schema.String.annotate({
      description: "Words to search earlier messages and remembered facts for. Give either this or an id"
    })
  ),
  id: Schema.optionalKey(
    Schema.String.annotate({
      description:
        "An id, as it was shown: of a found message or fact, or the SHA-256 of a file or result, or at least its first 8 digits"
    })
  ),
  from: Schema.optionalKey(
    Schema.Natural.annotate({ description: "Of a text: the first byte to read. Default: 0" })
  ),
  length: Schema.optionalKey(
    Schema.Natural.annotate({
      description: "Of a text: how many bytes to read. Default: as many as possible"
    })
  )
})

/**
 * Makes the tool `recall`, with which the model reads a file of an earlier prompt again, or the whole text of a result that was cut or
 * replaced. A text is read in pieces; another file is attached to the result as it is. With memory (the option `memory` of `createFermata`,
 * or the service `Memory`), it also searches the earlier messages and facts of the run's scopes by words.
 *
 * **Details**
 *
 * The model reads contents that its own session refers to: its run, the runs before it, the runs of its sub-agents and the runs above it. A
 * call with any other id fails in the same way, whether or not the content exists. In a run without a store, only files whose bytes are in
 * the messages can be read. A run that finds what a run wrote after it had read untrusted results has read them, too.
 *
 * **Example** (An agent that can read files again)
 *
 * ```ts run
 * import { Agent, recallTool } from "@fermata/sdk"
 *
 * const agent = Agent.make("analyst", { tools: [recallTool()] })
 * ```
 *
 * @category constructors
 * @since 0.2.0
 */
export const make = (
  options: {
    /** The longest piece of a text in bytes. Default: 20,000. */
    readonly maxLength?: number
  } = {}
): Tool.Tool => {
  const problem = problemOf("recallTool", options, shapeOf<{ maxLength: unknown }>({ maxLength: positive }))
  if (problem !== undefined) throw problem
  const { maxLength = 20_000 } = options
  const tool = Tool.make("recall", {
    description: `Searches earlier messages and remembered facts by words, or reads one of them, a file of an earlier prompt or the whole of a result that was cut by its id. Gives at most ${maxLength} bytes of a text at once.`,
    parameters: Arguments,
    safety: "readOnly",
    handler: ({ from = 0, id, length = maxLength, query }, context) => {
      const isSearch = query !== undefined && query.trim() !== ""
      if (isSearch === (id !== undefined && id.trim() !== "")) return fail("give either a query or an id")
      if (isSearch) return search(context, query)
      const most = Math.max(1, Math.min(length, maxLength))
      return Effect.flatMap(findOne(context, id ?? ""), (found) => shown(found, from, most))
    }
  })
  recallTools.add(tool.options)
  return tool
}

/** The options of the tools that were made here, by which a copy of a tool with another name is known. */
const recallTools = new WeakSet<object>()

/** Whether a tool was made here. */
export const isRecallTool = ({ options }: Tool.AnyTool): boolean => recallTools.has(options)

const fail = (description: string) => Effect.fail(new ToolFailure({ description }))

const digits = /^[0-9a-f]{8,64}$/

/** The most items that a search shows. */
const mostFound = 8

const memoryOf = (context: ToolContext): Remembering | undefined =>
  (context as ToolContext & { readonly [remembering]?: Remembering })[remembering]

/** Shows what memory finds for the words. */
const search = Effect.fnUntraced(function* (context: ToolContext, query: string) {
  const memory = memoryOf(context)
  if (memory === undefined) return yield* fail("this program has no memory to search: give an id")
  const found = yield* memory.search(query, mostFound)
  if (found.length === 0) return "Nothing was found. Try other words."
  return found.map(({ item, text }) => `[${item.id}, ${headOf(item)}]\n${text}`).join("\n\n")
})

const headOf = ({ at, kind, key, role, untrusted }: MemoryItem): string => {
  const who = kind === "fact" ? (key === undefined ? "fact" : `fact ${key}`) : role
  const doubt = untrusted === undefined ? "" : ", after reading untrusted text"
  return `${who}, ${new Date(at).toISOString().slice(0, 16)}Z${doubt}`
}

const findOne = (context: ToolContext, id: string): Effect.Effect<Recalled, unknown> => {
  const memory = memoryOf(context)
  if (memory === undefined || /^[0-9a-f]+$/i.test(id.trim())) return findContent(context, id)
  return Effect.flatMap(memory.read(id.trim()), (item) =>
    item === undefined ? findContent(context, id) : Effect.succeed(recalledText(item.text))
  )
}

const findContent = (context: ToolContext, id: string): Effect.Effect<Recalled, unknown> => {
  const { [recalling]: recall } = context as ToolContext & { readonly [recalling]?: Recall }
  const given = id.trim().toLowerCase()
  if (!/^[0-9a-f]*$/.test(given) || given.length > 64) return fail(unknownText(id))
  if (!digits.test(given)) return fail("give at least the first 8 digits of the id")
  if (recall === undefined) return fail(unknownText(id))
  return Effect.flatMap(recall(given), (found) => {
    const [only] = found
    if (only === undefined) return fail(unknownText(id))
    return found.length === 1
      ? Effect.succeed(only)
      : fail(sentence`several ids of this session begin with ${id}: give more digits`)
  })
}

const unknownText = (id: string): string => sentence`this session has nothing with the id ${id}`

/** Bytes that show whether a content is a text. */
const sniffed = 4096

const shown = Effect.fnUntraced(function* (found: Recalled, from: number, length: number) {
  const { bytes } = found
  const start = yield* found.read(0, sniffed)
  if (wholeText(start, bytes > start.length) === undefined) {
    return Tool.content([found.asFile(attachment(start).mediaType)])
  }
  if (from >= bytes && bytes > 0) return yield* fail(`the text has ${bytes} bytes: "from" is less than that`)
  // Up to 3 bytes more at each end, for a character that the range would cut.
  const before = Math.min(3, from)
  const piece = yield* found.read(from - before, before + length + 3)
  const first = characterAt(piece, before)
  const end = characterAt(piece, Math.min(before + length, piece.length))
  const said = new TextDecoder("utf-8", { ignoreBOM: true }).decode(piece.subarray(first, end))
  const begin = from - before + first
  const upto = from - before + end
  if (begin === 0 && upto === bytes) return said
  const rest = upto < bytes ? `; it goes on from ${upto}` : ""
  return `${said}\n[bytes ${begin} to ${upto} of ${bytes}${rest}]`
})

/** The bytes as text; if more follow, without a last character that is incomplete. */
const wholeText = (bytes: Uint8Array, isCut: boolean): string | undefined => {
  for (const cut of isCut ? [0, 1, 2, 3] : [0]) {
    const found = textIn(bytes.subarray(0, bytes.length - cut))
    if (found !== undefined) return found
  }
  return undefined
}

/** The position at or before `at` at which a character begins. */
const characterAt = (bytes: Uint8Array, at: number): number => {
  let position = at
  while (position > 0 && position < bytes.length && (bytes[position]! & 0xc0) === 0x80) position -= 1
  return position
}
