/**
 * Puts the calls of a `/chat/completions` answer together from their pieces.
 *
 * Servers disagree on what distinguishes one call from the next. Most number them; some give every call the number 0, some start at 1,
 * some leave the number out; ids may be empty, the same for all, or said again with every piece. A new id together with a name
 * starts a new call, and so does a name when the call before is whole, unless id, name and arguments are all said again.
 */
import type * as Schema from "effect/Schema"
import { isDeeperThan, maxGivenDepth } from "../../../domain/internal/json.ts"
import type { ModelPart } from "../../ModelPart.ts"
import { fieldsOf, textOf, wholeArguments } from "../fields.ts"
import { mostPieces } from "../pieces.ts"

/** One call, as far as it has come. */
interface ChatCall {
  readonly ordinal: number
  readonly index: number | undefined
  id: string
  name: string
  arguments: string
  readonly scan: Scan
  /** What the provider wants back with the call. */
  extra: Schema.Json | undefined
}

/** The calls of one answer. Changed in place. */
export interface ChatCalls {
  /** One entry of `tool_calls`. `whole` for an entry that is a call of its own, as those of an answer in one piece are. */
  readonly add: (entry: unknown, whole: boolean, emit: (part: ModelPart) => void) => void
  /** In the order in which they began. */
  readonly calls: ReadonlyArray<ChatCall>
  readonly areTooMany: () => boolean
}

/** No calls yet. */
export const makeChatCalls = (): ChatCalls => {
  const calls: Array<ChatCall> = []
  const latestAt = new Map<number, ChatCall>()
  const latestOf = new Map<string, ChatCall>()

  /** The call that an entry goes on with, if it does not begin one. */
  const continued = (index: number | undefined, id: string, name: string, more: boolean) => {
    const call =
      index !== undefined
        ? latestAt.get(index)
        : id !== ""
          ? latestOf.get(id)
          : name !== ""
            ? undefined
            : calls.at(-1)
    if (call === undefined || name === "") return call
    if (id !== "" && call.id !== "" && id !== call.id) return undefined
    return (more || name !== call.name) && isWhole(call) ? undefined : call
  }

  return {
    calls,
    areTooMany: () => calls.length > mostPieces,
    add: (entry, whole, emit) => {
      const fields = fieldsOf(entry)
      if (fields === undefined) return
      const fn = fieldsOf(fields.function)
      const id = textOf(fields.id) ?? ""
      const name = textOf(fn?.name) ?? ""
      const piece = argumentsOf(fn?.arguments)
      const index = typeof fields.index === "number" ? fields.index : undefined
      const extra = extraOf(fields.extra_content)
      if (id === "" && name === "" && piece === "" && extra === undefined) return

      const same = whole ? undefined : latestOf.get(id)
      // The whole call said again.
      if (same?.index === index && same?.name === name && same.arguments === piece && isWhole(same)) {
        if (extra !== undefined) same.extra = extra
        return
      }
      let call = whole ? undefined : continued(index, id, name, piece !== "")
      if (call === undefined) {
        call = { ordinal: calls.length, index, id, name, arguments: "", scan: newScan(), extra: undefined }
        calls.push(call)
        if (index !== undefined) latestAt.set(index, call)
      } else {
        if (call.id === "") call.id = id
        // A name in pieces comes before the arguments; the same name again is only said again.
        if (name !== "" && name !== call.name && call.arguments === "") call.name += name
      }
      if (id !== "" && call.id === id) latestOf.set(id, call)
      if (extra !== undefined) call.extra = extra
      call.arguments += piece
      scanOn(call.scan, piece)
      emit({ _tag: "tool-call-delta", index: call.ordinal, name: call.name, delta: piece })
    }
  }
}

/** Arguments are a text; some servers send the object itself. What is neither, or lies too deep to be one, is no object either. */
const argumentsOf = (value: unknown): string => {
  if (typeof value === "string") return value
  if (value === undefined || value === null) return ""
  return isDeeperThan(value, maxGivenDepth) ? "[]" : JSON.stringify(value)
}

/** What goes back unchanged; what lies too deep to be kept is left out. */
export const extraOf = (value: unknown): Schema.JsonObject | undefined =>
  fieldsOf(value) === undefined || isDeeperThan(value, maxGivenDepth)
    ? undefined
    : (value as Schema.JsonObject)

/** Looks for the end of a JSON object in a text that comes in pieces. Every letter is looked at once. */
const newScan = () => ({
  length: 0,
  depth: 0,
  inString: false,
  escaped: false,
  /** Where the object ends. */
  end: undefined as number | undefined,
  /** Whether what ends there is JSON, once that was asked. */
  isJson: undefined as boolean | undefined
})

type Scan = ReturnType<typeof newScan>

const scanOn = (scan: Scan, piece: string) => {
  for (let at = 0; at < piece.length && scan.end === undefined; at++) {
    const letter = piece[at]
    if (scan.escaped) scan.escaped = false
    else if (scan.inString) {
      if (letter === "\\") scan.escaped = true
      else if (letter === '"') scan.inString = false
    } else if (letter === '"') scan.inString = true
    else if (letter === "{") scan.depth++
    else if (letter === "}" && --scan.depth === 0) scan.end = scan.length + at + 1
  }
  scan.length += piece.length
}

/** Whether the arguments are a whole JSON object. They are parsed once at most. */
const isWhole = ({ arguments: text, scan }: ChatCall): boolean => {
  if (scan.end !== scan.length) return false
  scan.isJson ??= wholeArguments(text) !== undefined
  return scan.isJson
}
