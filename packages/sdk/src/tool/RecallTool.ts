/**
 * The tool `recall`, with which a model reads files and results of its session again.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { sentence } from "../domain/Display.ts"
import { textIn } from "../domain/internal/files.ts"
import { positive, shapeOf } from "../domain/internal/misfits.ts"
import { problemOf } from "../domain/OptionsInvalid.ts"
import { type Recall, type Recalled, recalling } from "./internal/recalling.ts"
import { attachment } from "./internal/resultParts.ts"
import * as Tool from "./Tool.ts"
import type { ToolContext } from "./ToolContext.ts"
import { ToolFailure } from "./ToolError.ts"

/** The arguments of `recall`. */
export const Arguments = Schema.Struct({
  id: Schema.String.annotate({
    description: "The id, as it was shown: the SHA-256 of the content, or at least its first 8 digits"
  }),
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
 * replaced. A text is read in pieces; another file is attached to the result as it is.
 *
 * **Details**
 *
 * The model reads contents that its own session refers to: its run, the runs before it, the runs of its sub-agents and the runs above it. A
 * call with any other id fails in the same way, whether or not the content exists. In a run without a store, only files whose bytes are in
 * the messages can be read.
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
    description: `Reads a file of an earlier prompt, or the whole of a result that was cut, by its id. Gives at most ${maxLength} bytes of a text at once.`,
    parameters: Arguments,
    safety: "readOnly",
    handler: ({ from = 0, id, length = maxLength }, context) =>
      Effect.flatMap(findOne(context, id), (found) =>
        shown(found, from, Math.max(1, Math.min(length, maxLength)))
      )
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

const findOne = (context: ToolContext, id: string): Effect.Effect<Recalled, unknown> => {
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
