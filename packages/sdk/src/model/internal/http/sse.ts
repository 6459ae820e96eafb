/**
 * Reads the body of a response, chunk by chunk, into the parts of an answer: as events, or as a whole answer in JSON, whichever
 * the server sent, whatever it was asked for.
 *
 * No effect and no allocation per part besides the part itself: a network chunk goes in, its parts come out.
 */
import * as Sse from "effect/encoding/Sse"
import * as Result from "effect/Result"
import type { ModelUsage } from "../../../domain/Usage.ts"
import type { ModelError } from "../../ModelError.ts"
import { type ModelPart, type ModelResponse, partsOf } from "../../ModelPart.ts"
import type { ModelProfile } from "../../ModelProfile.ts"
import { priced, validUsage } from "../cost.ts"
import { parseJson } from "../fields.ts"
import { changed, invalid } from "../modelError.ts"
import type { Protocol } from "../protocol.ts"

/** Reads one body. Changed in place: one lives for one response. */
export interface AnswerReader {
  /** Reads the next bytes. */
  readonly feed: (bytes: Uint8Array) => void
  /** There are no more bytes. */
  readonly end: () => void
  /** What has been read since the last call. */
  readonly take: () => ReadonlyArray<ModelPart>
  /** Why reading stopped. */
  readonly error: () => ModelError | undefined
  /** The error with what the provider has said until now that the answer used. */
  readonly withUsage: (error: ModelError) => ModelError
  /** Whether the answer has come to its end, well or not. */
  readonly isEnded: () => boolean
  /** The answer, if it came whole. */
  readonly whole: () => ModelResponse | undefined
}

const megabyte = 1024 * 1024
/** An answer of more bytes than this is none, however well it was packed on the way. */
const largestAnswer = 64 * megabyte
const largestEvent = 8 * megabyte

/** A reader for a response with this content type. */
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
  const billed = (usage: ModelUsage) => priced(profile, validUsage(usage))
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
    // Servers send blanks to show that they are alive, as many as they like: they are not kept.
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
      // The last event counts, even if the blank line that should follow it is missing.
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

/** What a body is, by how it begins. What it is called counts where that says nothing: it is wrong with errors, and behind proxies. */
const formOf = (beginning: string, contentType: string): Form => {
  if (beginning.startsWith("<")) return "page"
  if (/^[{[]/.test(beginning)) return "json"
  const isField = /^[deir:]/.test(beginning)
  return !isField && /json/i.test(contentType) ? "json" : "events"
}

const page = ({ baseUrl, name }: ModelProfile): ModelError =>
  invalid(
    `${URL.parse(baseUrl)?.host ?? "The server"} answered with a web page. Check the base URL of ${name}, and whether a proxy or a login page stands before it.`,
    false
  )
