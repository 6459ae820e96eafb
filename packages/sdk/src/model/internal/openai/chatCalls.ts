/**
 * Joins the pieces of the calls of a `/chat/completions` response.
 *
 * Servers disagree on what distinguishes one call from the next. Most number the calls; some give every call the index 0, some start at 1,
 * some omit the index. Ids may be empty, the same for all calls, or repeated with every piece. A new id together with a name starts a new
 * call. So does a name after a complete call, or after a finish reason, unless id, name and arguments are all repeated.
 */
import type * as Schema from "effect/Schema"
import { isDeeperThan, maxGivenDepth } from "../../../domain/internal/json.ts"
import type { ModelPart } from "../../ModelPart.ts"
import { fieldsOf, textOf, wholeArguments } from "../fields.ts"
import { mostPieces } from "../pieces.ts"

/** One call, as received so far. */
interface ChatCall {
  readonly ordinal: number
  readonly index: number | undefined
  id: string
  name: string
  arguments: string
  readonly scan: Scan
  /** The name was repeated after complete arguments: if further arguments follow, they are those of another call. */
  isNamedAgain: boolean
  /** A finish reason followed. */
  isFinished: boolean
  /** Provider data that is sent back with the call. */
  extra: Schema.Json | undefined
}

/** The calls of one response. Mutable. */
export interface ChatCalls {
  /** Adds an entry of `tool_calls`. If `whole`, the entry is a complete call, as in a response that was not streamed. */
  readonly add: (entry: unknown, whole: boolean, emit: (part: ModelPart) => void) => void
  /** A finish reason was received. Some servers send one after each call. */
  readonly finish: () => void
  /** The calls in the order in which they began. */
  readonly calls: ReadonlyArray<ChatCall>
  readonly areTooMany: () => boolean
}

/** Makes an empty list of calls. */
export const makeChatCalls = (): ChatCalls => {
  const calls: Array<ChatCall> = []
  const latestAt = new Map<number, ChatCall>()
  const latestOf = new Map<string, ChatCall>()

  /** The call that an entry continues; `undefined` if the entry begins a new one. */
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
    if (call.isFinished && (call.arguments === "" || isWhole(call))) return undefined
    return (more || name !== call.name) && isWhole(call) ? undefined : call
  }

  return {
    calls,
    areTooMany: () => calls.length > mostPieces,
    finish: () => {
      for (const call of calls) call.isFinished = true
    },
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
      // The server repeats the complete call.
      if (same?.index === index && same?.name === name && same.arguments === piece && isWhole(same)) {
        if (extra !== undefined) same.extra = extra
        return
      }
      const before = whole ? undefined : continued(index, id, name, piece !== "")
      const isNext = before?.isNamedAgain === true && name === "" && piece.trim() !== "" && isWhole(before)
      let call = isNext ? undefined : before
      if (call === undefined) {
        call = newCall(calls.length, index, id || (before?.id ?? ""), name || (before?.name ?? ""))
        calls.push(call)
        if (index !== undefined) latestAt.set(index, call)
      } else {
        if (call.id === "") call.id = id
        // A name may arrive in pieces before the arguments. The same name again is a repetition.
        if (name !== "" && name !== call.name && call.arguments === "") call.name += name
        if (name !== "" && isWhole(call)) call.isNamedAgain = true
      }
      if (id !== "" && call.id === id) latestOf.set(id, call)
      if (extra !== undefined) call.extra = extra
      call.arguments += piece
      scanOn(call.scan, piece)
      emit({ _tag: "tool-call-delta", index: call.ordinal, name: call.name, delta: piece })
    }
  }
}

const newCall = (ordinal: number, index: number | undefined, id: string, name: string): ChatCall => ({
  ordinal,
  index,
  id,
  name,
  arguments: "",
  scan: newScan(),
  isNamedAgain: false,
  isFinished: false,
  extra: undefined
})

/** Arguments are JSON text; some servers send the object itself. A value nested too deeply becomes `[]`, which the loop refuses. */
const argumentsOf = (value: unknown): string => {
  if (typeof value === "string") return value
  if (value === undefined || value === null) return ""
  return isDeeperThan(value, maxGivenDepth) ? "[]" : JSON.stringify(value)
}

/** Provider data that is sent back unchanged. An object nested too deeply to be stored is omitted. */
export const extraOf = (value: unknown): Schema.JsonObject | undefined =>
  fieldsOf(value) === undefined || isDeeperThan(value, maxGivenDepth)
    ? undefined
    : (value as Schema.JsonObject)

/** The state of the search for the end of a JSON object in text that arrives in pieces. Each character is read once. */
const newScan = () => ({
  length: 0,
  depth: 0,
  inString: false,
  escaped: false,
  /** The position after the object. */
  end: undefined as number | undefined,
  /** Caches if the text up to there is a JSON object. */
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

/** Returns `true` if the arguments are a complete JSON object. They are parsed at most once. */
const isWhole = ({ arguments: text, scan }: ChatCall): boolean => {
  if (scan.end !== scan.length) return false
  scan.isJson ??= wholeArguments(text) !== undefined
  return scan.isJson
}
