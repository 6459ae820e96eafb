/**
 * Shared by the decoders of several protocols: reading events that contain their own type, as those of OpenAI's `/responses` and of
 * Anthropic do, and reading a response that was not streamed.
 */
import * as Result from "effect/Result"
import type { ModelError } from "../ModelError.ts"
import { makeCollector, type ModelPart, type ModelResponse } from "../ModelPart.ts"
import { type Fields, fieldsOf, parseJson, textOf } from "./fields.ts"
import { changed, modelError, notJson, tooManyPieces } from "./modelError.ts"
import type { Piece, Pieces } from "./pieces.ts"
import type { AnswerDecoder } from "./protocol.ts"
import { bareTextOf, reasonOf } from "./providerErrors.ts"

/** The events of a protocol, and the state of the decoder that reads them. */
export interface TypedEvents {
  /** Matches the names of the protocol's events. `message` is the name of an event without one. */
  readonly names: RegExp
  readonly pieces: Pick<Pieces<Piece>, "areTooMany">
  readonly isDone: () => boolean
  readonly read: (type: string, data: Fields, emit: (part: ModelPart) => void) => ModelError | undefined
}

/** Makes the `event` function of a decoder for one stream, whose events are JSON objects with a `type`. */
export const readTypedEvents = ({ isDone, names, pieces, read }: TypedEvents): AnswerDecoder["event"] => {
  let broken = false
  return (name, written, emit) => {
    const text = written.trim()
    if (isDone() || text === "" || text === "[DONE]") return
    if (broken) return notJson()
    const body = parseJson(text)
    // The last event of a stream that was cut off is incomplete JSON. Events with unknown names need not be JSON.
    if (body === undefined) broken = text.startsWith("{") || names.test(name)
    const data = fieldsOf(body)
    if (data === undefined) return
    const type = textOf(data.type) ?? (isPresent(data.error) || isPresent(data.detail) ? "error" : name)
    return read(type, data, emit) ?? (pieces.areTooMany() ? tooManyPieces() : undefined)
  }
}

export const isPresent = (value: unknown): boolean =>
  value !== undefined && value !== null && value !== false && value !== ""

/** Texts of errors that may pass. */
const passingWords =
  /overload|unavailable|capacity|busy|loading|temporar|time(?:d )?[ -]?out|try again|too many requests|rate limit|reset|connection|internal/i

/**
 * The error that a server states in a successful response. An error in words alone, before anything else of the response (`hasBegun` is
 * `false`), is one of the request, which would fail again, unless the words are about a fault that may pass.
 */
export const statedError = (body: unknown, hasBegun: boolean): ModelError => {
  const text = bareTextOf(body)
  const isFinal = text !== undefined && !hasBegun && !passingWords.test(text)
  return modelError(reasonOf(body), isFinal ? { retryable: false } : {})
}

/** The error that a server states in a body which is not a response of the protocol. */
export const errorStatedIn = (body: unknown): ModelError | undefined =>
  isPresent(fieldsOf(body)?.error) || bareTextOf(body) !== undefined ? statedError(body, false) : undefined

/** The error of a body that is not a response of the protocol: the one that the server states in it, else `none`. */
export const notAnswered = (body: unknown, none: () => ModelError): ModelError =>
  errorStatedIn(body) ?? none()

/** Returns the response that `read` passes to the decoder. `none` is the error if there is none. */
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
