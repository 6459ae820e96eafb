/**
 * What the decoders of several protocols do alike: reading events that say their own type, as OpenAI's `/responses` and Anthropic's do,
 * and reading an answer that came in one piece, as the last event of a stream would be read.
 */
import * as Result from "effect/Result"
import type { ModelError } from "../ModelError.ts"
import { makeCollector, type ModelPart, type ModelResponse } from "../ModelPart.ts"
import { type Fields, fieldsOf, parseJson, textOf } from "./fields.ts"
import { changed, notJson, tooManyPieces } from "./modelError.ts"
import type { Piece, Pieces } from "./pieces.ts"
import type { AnswerDecoder } from "./protocol.ts"

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
    const body = parseJson(text)
    // The last event of a stream that was cut is a piece of one. Others, of names that are not known, may be no JSON.
    if (body === undefined) broken = text.startsWith("{") || names.test(name)
    const data = fieldsOf(body)
    if (data === undefined) return
    const type = textOf(data.type) ?? (fieldsOf(data.error) === undefined ? name : "error")
    return read(type, data, emit) ?? (pieces.areTooMany() ? tooManyPieces() : undefined)
  }
}

/** The answer that `read` passes to a decoder; `none` is the error of what is no answer. */
export const wholeAnswer = (
  decoder: Pick<AnswerDecoder, "end" | "usage">,
  read: (emit: (part: ModelPart) => void) => ModelError | undefined,
  none: () => ModelError
): Result.Result<ModelResponse, ModelError> => {
  const collector = makeCollector()
  const add = (part: ModelPart) => collector.add(part)
  const error = read(add) ?? decoder.end(add)
  const answer = error === undefined ? collector.response() : undefined
  return answer === undefined
    ? Result.fail(changed(error ?? none(), { usage: decoder.usage() }))
    : Result.succeed(answer)
}
