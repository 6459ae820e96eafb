/**
 * Reads a stream whose events are JSON objects that say their own type, as OpenAI's `/responses` and Anthropic's are.
 */
import type { ModelError } from "../../ModelError.ts"
import type { ModelPart } from "../../ModelPart.ts"
import { notJson, tooManyPieces } from "../answerFaults.ts"
import { type Fields, fieldsOf, textOf } from "../fields.ts"
import type { Piece, Pieces } from "../pieces.ts"
import type { AnswerDecoder } from "../protocol.ts"

/** What the events are read into. */
export interface TypedEvents {
  /** The names of the events that are read; `message` is what an event without a name is called. */
  readonly names: RegExp
  readonly pieces: Pick<Pieces<Piece>, "areTooMany">
  readonly isDone: () => boolean
  readonly read: (type: string, data: Fields, emit: (part: ModelPart) => void) => ModelError | undefined
}

/** What to do with each event of one stream. */
export const readTypedEvents = ({ isDone, names, pieces, read }: TypedEvents): AnswerDecoder["event"] => {
  let broken = false
  return (name, written, emit) => {
    const text = written.trim()
    if (isDone() || text === "" || text === "[DONE]") return
    if (broken) return notJson()
    let data: Fields | undefined
    try {
      data = fieldsOf(JSON.parse(text))
    } catch {
      // The last event of a stream that was cut is a piece of one. Others, of names that are not known, may be no JSON.
      broken = text.startsWith("{") || names.test(name)
      return
    }
    if (data === undefined) return
    const type = textOf(data.type) ?? (fieldsOf(data.error) === undefined ? name : "error")
    return read(type, data, emit) ?? (pieces.areTooMany() ? tooManyPieces() : undefined)
  }
}
