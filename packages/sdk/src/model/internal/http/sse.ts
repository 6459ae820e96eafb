/**
 * Reads the body of a response, chunk by chunk, into parts: as events, or as one JSON value. The body decides which, since a server may
 * send either, whichever the request asked for.
 *
 * Reading uses no effects: a network chunk goes in, its parts come out.
 */
import * as Sse from "effect/encoding/Sse"
import * as Result from "effect/Result"
import type { ModelError } from "../../ModelError.ts"
import { type ModelPart, type ModelResponse, partsOf } from "../../ModelPart.ts"
import type { ModelProfile } from "../../ModelProfile.ts"
import { priced, type ReportedUsage, validUsage } from "../cost.ts"
import { parseJson } from "../fields.ts"
import { changed, invalid } from "../modelError.ts"
import type { Protocol } from "../protocol.ts"

/** Reads the body of one response. Mutable. */
export interface AnswerReader {
  /** Reads the next bytes. */
  readonly feed: (bytes: Uint8Array) => void
  /** Ends the body. */
  readonly end: () => void
  /** Returns the parts read since the last call of `take`. */
  readonly take: () => ReadonlyArray<ModelPart>
  /** Returns the error that ended reading, if any. */
  readonly error: () => ModelError | undefined
  /** Adds the usage that the provider has reported so far to an error. */
  readonly withUsage: (error: ModelError) => ModelError
  /** Returns `true` when the response is complete or has failed. */
  readonly isEnded: () => boolean
  /** Returns the response if it arrived as one JSON value. */
  readonly whole: () => ModelResponse | undefined
}

const megabyte = 1024 * 1024
/** The most bytes of a body, counted after decompression. */
const largestAnswer = 64 * megabyte
const largestEvent = 8 * megabyte

/** Makes a reader for a response with this content type. */
export const makeAnswerReader = (
  protocol: Protocol,
  profile: ModelProfile,
  contentType: string
): AnswerReader => {
  const text = new TextDecoder()
  let parts: Array<ModelPart> = []
  let error: ModelError | undefined
  let whole: ModelResponse | undefined
  let ended = false
  let size = 0
  let pieces = ""
  let form: Form | undefined

  const fail = (failure: ModelError) => {
    error = withUsage(failure)
    ended = true
  }
  const billed = (usage: ReportedUsage) => priced(profile, validUsage(usage), usage.others)
  const emit = (part: ModelPart) => {
    if (part._tag !== "finish") parts.push(part)
    else parts.push({ ...part, usage: billed(part.usage), profile: part.profile ?? profile.name })
  }
  const decoder = protocol.decoder(profile)
  const withUsage = (error: ModelError): ModelError => {
    const usage = error.usage ?? decoder.usage()
    return usage === undefined ? error : changed(error, { usage: billed(usage) })
  }
  const parser = Sse.makeParser(
    (event) => {
      if (ended || event._tag !== "Event") return
      const failure = decoder.event(event.event, event.data, emit)
      if (failure !== undefined) fail(failure)
    },
    { maxEventSize: largestEvent }
  )
  const endEvents = () => {
    if (ended) return
    ended = true
    const failure = decoder.end(emit)
    if (failure !== undefined) fail(failure)
  }
  const readEvents = (piece: string) => {
    if (parser.feed(piece) !== undefined) fail(invalid("One event of the answer is larger than 8 MB.", false))
    else if (decoder.isDone?.() === true) endEvents()
  }
  const read = (piece: string) => {
    if (form === "events") return readEvents(piece)
    // Servers may send blanks first, to keep the connection open.
    const text = form === undefined ? piece.trimStart() : piece
    if (text === "") return
    form ??= formOf(text, contentType)
    if (form === "page") return fail(page(profile))
    if (form === "events") return readEvents(text)
    pieces += text
  }
  const endWhole = () => {
    ended = true
    const body = parseJson(pieces)
    if (body === undefined) return fail(invalid("The answer is not JSON, or was cut off.", true))
    const decoded = protocol.decode(body, profile)
    if (Result.isFailure(decoded)) return fail(decoded.failure)
    const answer = decoded.success
    whole = { ...answer, usage: billed(answer.usage), profile: answer.profile ?? profile.name }
    parts.push(...partsOf(whole))
  }

  if (/html/i.test(contentType)) fail(page(profile))
  return {
    feed: (bytes) => {
      if (ended) return
      size += bytes.length
      if (size > largestAnswer) return fail(invalid("The answer is larger than 64 MB.", false))
      read(text.decode(bytes, { stream: true }))
    },
    end: () => {
      if (ended) return
      read(text.decode())
      if (ended) return
      if (size === 0) return fail(invalid("The answer is empty.", true))
      if (form === "json") return endWhole()
      // Reads the last event even if the blank line after it is missing.
      readEvents("\n\n")
      endEvents()
    },
    take: () => {
      const taken = parts
      parts = []
      return taken
    },
    error: () => error,
    withUsage,
    isEnded: () => ended,
    whole: () => whole
  }
}

type Form = "events" | "json" | "page"

/** The form of a body, by its beginning. The content type is often wrong for errors and behind proxies, so it counts only as a fallback. */
const formOf = (beginning: string, contentType: string): Form => {
  if (beginning.startsWith("<")) return "page"
  if (/^[{[]/.test(beginning)) return "json"
  const isField = /^[deir:]/.test(beginning)
  return !isField && /json/i.test(contentType) ? "json" : "events"
}

const page = ({ baseUrl, name }: ModelProfile): ModelError =>
  invalid(
    `${URL.parse(baseUrl)?.host ?? "The server"} answered with a web page. Check the base URL of ${name}, and whether a proxy or a login page intercepts the request.`,
    false
  )
