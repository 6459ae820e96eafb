/**
 * A model whose answers are recorded once and replayed from then on, so that a test shows what a real model did without asking it
 * again.
 *
 * Answers are found by what was asked: instructions, messages, tools, settings and profile, whatever the run is called and
 * whenever it happens. Tools that return something else each time ask something else each time; give them fixed results.
 *
 * What is recorded is what was asked and answered, in plain JSON: read it before it is shared.
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
import { argumentsDigest } from "../run/internal/digest.ts"

/** Where the recordings are kept: one text, such as a file. */
export interface Recordings {
  /** The text that was written last; `undefined` when there is none. */
  readonly read: Effect.Effect<string | undefined>
  readonly write: (text: string) => Effect.Effect<void>
}

/** A client that replays, and records if it has a model to record. */
export interface Options {
  readonly recordings: Recordings
  /**
   * The model to record. Left out: nothing is asked, and a request without a recording fails. With it, every request without a
   * recording is asked and recorded.
   */
  readonly record?: ModelClient["Service"]
}

/** One request and what it was answered. */
interface Recording {
  readonly request: Schema.Json
  readonly parts: ReadonlyArray<ModelPart>
}

/** The text of the recordings, by the digest of the request. */
interface Tape {
  readonly version: 1
  readonly recordings: Record<string, Recording>
}

/**
 * A client whose answers come from the recordings.
 *
 * **Errors**
 *
 * - `ModelError` with the reason `InvalidRequest`: there is no recording of the request, or the text is not one of recordings; it
 *   says how to record.
 * - What the recorded model fails with while it is recorded. Failures are not recorded.
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
            return refuse("The text does not hold recordings: remove it and record again.")
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
    // A stream without its end was cut, and is no answer.
    parts.at(-1)?._tag === "finish" ? keep(key, { request, parts }) : Effect.void
  const missing = (key: string) =>
    refuse(
      `There is no recording of this request (${key.slice(0, 12)}): it was never made, or what is asked has changed. Run once with \`record\` set to a model, and keep what is written.`
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

/** In an order of their own, so that recording one more changes nothing else in the text. */
const sorted = ({ recordings, version }: Tape): Tape => ({
  version,
  recordings: Object.fromEntries(Object.entries(recordings).sort(([a], [b]) => (a < b ? -1 : 1)))
})

/** What is asked, without what differs from run to run. */
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
  // Fields that are not set are no part of what is asked.
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
