/**
 * A model client that records the responses of a real model once and replays them offline, so that tests need no model.
 *
 * A recording is found by the content of its request: instructions, messages, tools, output schema, profile and settings. Run ids and
 * times do not matter. Equal requests therefore have one recording, also while it is made. If a tool returns different results each time,
 * the requests differ too: give such tools fixed results.
 *
 * Recordings contain the requests and responses as plain JSON. Read them before you share them.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type { Message } from "../domain/Message.ts"
import { collect, type ModelClient } from "../model/ModelClient.ts"
import { InvalidRequest, ModelError } from "../model/ModelError.ts"
import type { ModelPart } from "../model/ModelPart.ts"
import { partsOf } from "../model/ModelPart.ts"
import type { ModelRequest } from "../model/ModelRequest.ts"
import { argumentsDigest } from "../run/calls/digest.ts"

/** The storage of recordings: one text, such as a file. */
export interface Recordings {
  /** Reads the last written text; `undefined` if there is none. */
  readonly read: Effect.Effect<string | undefined>
  /** Replaces the text. Called after each new recording, with all recordings. */
  readonly write: (text: string) => Effect.Effect<void>
}

/** Options of a recorded model. */
export interface Options {
  readonly recordings: Recordings
  /**
   * The model to record. If set, a request without a recording is sent to it, and its complete response is recorded. If absent, such a
   * request fails.
   */
  readonly record?: ModelClient["Service"]
}

/** A request and its response. */
interface Recording {
  readonly request: Schema.Json
  readonly parts: ReadonlyArray<ModelPart>
}

/** The recordings by the digests of their requests, as stored. */
interface Tape {
  readonly version: 1
  readonly recordings: Record<string, Recording>
}

/**
 * Makes a client that replays recordings. With `record`, it sends a request that has no recording to that model, and records the response.
 *
 * **Errors**
 *
 * - `ModelError` with the reason `InvalidRequest` — there is no recording of the request, or the text does not contain recordings. The
 *   description says how to record.
 * - The errors of the model that is being recorded. Failures are not recorded.
 *
 * @category models
 * @since 0.1.0
 */
export const make = ({ record, recordings }: Options): ModelClient["Service"] => {
  const alone = Semaphore.makeUnsafe(1)
  let tape: Tape | undefined

  const loaded = Effect.suspend(() =>
    tape !== undefined
      ? Effect.succeed(tape)
      : Effect.flatMap(recordings.read, (text) => {
          const read = text === undefined ? { version: 1 as const, recordings: {} } : parse(text)
          if (read === undefined)
            return refuse("The text does not contain recordings: remove it and record again.")
          tape = read
          return Effect.succeed(read)
        })
  )
  const find = (request: ModelRequest) =>
    alone.withPermit(
      Effect.gen(function* () {
        const asked = essence(request)
        const key = yield* argumentsDigest("model", asked)
        return { asked, key, found: (yield* loaded).recordings[key] }
      })
    )
  const keep = (key: string, recording: Recording) =>
    alone.withPermit(
      Effect.flatMap(loaded, (known) => {
        known.recordings[key] = recording
        return recordings.write(`${JSON.stringify(sorted(known), null, 1)}\n`)
      })
    )
  const keepWhole = (key: string, request: Schema.Json, parts: ReadonlyArray<ModelPart>) =>
    // A stream without `finish` was cut and is not recorded.
    parts.at(-1)?._tag === "finish" ? keep(key, { request, parts }) : Effect.void
  const missing = (key: string) =>
    refuse(
      `There is no recording of this request (${key.slice(0, 12)}): it was never made, or the request has changed. Run once with \`record\` set to a model, and keep the written text.`
    )

  const stream = (request: ModelRequest): Stream.Stream<ModelPart, ModelError> =>
    Stream.unwrap(
      Effect.map(find(request), ({ asked, found, key }) => {
        if (found !== undefined) return Stream.fromIterable(found.parts)
        if (record === undefined) return Stream.unwrap(missing(key))
        const parts: Array<ModelPart> = []
        return record.stream(request).pipe(
          Stream.mapArray((some) => {
            parts.push(...some)
            return some
          }),
          Stream.concat(Stream.drain(Stream.fromEffect(Effect.suspend(() => keepWhole(key, asked, parts)))))
        )
      })
    )
  return {
    stream,
    complete: (request) =>
      Effect.flatMap(find(request), ({ asked, found, key }) => {
        if (found !== undefined) return collect(Stream.fromIterable(found.parts))
        if (record === undefined) return missing(key)
        return Effect.tap(record.complete(request), (response) =>
          keep(key, { request: asked, parts: partsOf(response) })
        )
      })
  }
}

const refuse = (description: string) =>
  Effect.fail(new ModelError({ reason: new InvalidRequest({ description }) }))

const parse = (text: string): Tape | undefined => {
  try {
    const tape: unknown = JSON.parse(text)
    return isTape(tape) ? tape : undefined
  } catch {
    return undefined
  }
}

const isTape = (value: unknown): value is Tape =>
  typeof value === "object" &&
  value !== null &&
  "version" in value &&
  value.version === 1 &&
  "recordings" in value &&
  typeof value.recordings === "object" &&
  value.recordings !== null

/** Sorts the recordings by digest, so that a new one does not change the rest of the text. */
const sorted = ({ recordings, version }: Tape): Tape => ({
  version,
  recordings: Object.fromEntries(Object.entries(recordings).sort(([a], [b]) => (a < b ? -1 : 1)))
})

/** The content of a request, without the parts that differ between runs. */
const essence = (request: ModelRequest): Schema.Json => {
  const calls = new Map<string, string>()
  const numbered = (callId: string): string => {
    const known = calls.get(callId)
    if (known !== undefined) return known
    const name = `call ${calls.size + 1}`
    calls.set(callId, name)
    return name
  }
  const { instructions, messages, output, profile, settings, tools } = request
  const asked = {
    instructions,
    messages: messages.map((message) => withoutRun(message, numbered)),
    tools,
    output,
    profile,
    settings
  }
  // Removes fields that are `undefined`.
  return JSON.parse(JSON.stringify(asked))
}

const withoutRun = (message: Message, numbered: (callId: string) => string) => {
  if (message.role === "user") return { role: message.role, content: message.content }
  if (message.role === "tool") {
    const { content, name, outcome, providerCallId, role } = message
    return { role, name, outcome, providerCallId, callId: numbered(message.callId), content }
  }
  return {
    role: message.role,
    content: message.content.map((part) =>
      part._tag === "toolCall" ? { ...part, callId: numbered(part.callId) } : part
    )
  }
}
