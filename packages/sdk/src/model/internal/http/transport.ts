/**
 * A model client over HTTP, the same for every protocol. It sends requests, reads responses, applies time limits, retries, and closes the
 * connection when it is interrupted.
 */
import type { NonEmptyReadonlyArray } from "effect/Array"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as Pull from "effect/Pull"
import * as Stream from "effect/Stream"
import { secretsOf } from "../../Auth.ts"
import { collect, type ModelClient } from "../../ModelClient.ts"
import type { ModelError } from "../../ModelError.ts"
import type { ModelPart, ModelResponse } from "../../ModelPart.ts"
import type { ModelProfile } from "../../ModelProfile.ts"
import type { ModelRequest } from "../../ModelRequest.ts"
import { Tokenizer } from "../../Tokenizer.ts"
import { invalid } from "../modelError.ts"
import { roomFor } from "../outputBound.ts"
import type { Protocol } from "../protocol.ts"
import { partLimitOf, partWithin } from "../timeLimits.ts"
import { makeWarnings, omittedSettings } from "../warnings.ts"
import { connectionError, hostOf } from "./connectionError.ts"
import { guarded } from "./guarded.ts"
import { retrying } from "./retrying.ts"
import { type Sent, send } from "./send.ts"
import { type AnswerReader, makeAnswerReader } from "./sse.ts"

/** Makes a client that speaks this protocol with the server of this profile. */
export const makeClient = (
  protocol: Protocol,
  profile: ModelProfile
): Effect.Effect<ModelClient["Service"], never, HttpClient.HttpClient> =>
  Effect.map(HttpClient.HttpClient, (http) => {
    const warn = makeWarnings(profile.name)
    const bodyOf = (request: ModelRequest, streaming: boolean) =>
      Effect.gen(function* () {
        const room = roomFor(request, profile, yield* Tokenizer)
        const body = protocol.encode(request, profile, streaming, room)
        const settings = { ...profile.settings, ...request.settings }
        yield* warn(omittedSettings({ ...request, settings }, body, protocol.settingFields))
        return JSON.stringify(body)
      })
    const stream = (request: ModelRequest): Stream.Stream<ModelPart, ModelError> =>
      Stream.unwrap(
        Effect.gen(function* () {
          const sent = yield* send(http, protocol, profile, yield* bodyOf(request, true), true)
          return read(sent, readerOf(sent, protocol, profile), profile)
        })
      )
    const complete = (request: ModelRequest): Effect.Effect<ModelResponse, ModelError> =>
      Effect.scoped(
        Effect.gen(function* () {
          const sent = yield* send(http, protocol, profile, yield* bodyOf(request, false), false)
          const reader = readerOf(sent, protocol, profile)
          const collected = yield* collect(read(sent, reader, profile))
          // A response that arrived as JSON is returned as it is: collecting its parts might change it.
          return reader.whole() ?? collected
        })
      )
    const streamOnly = profile.compatibility?.streamOnly === true
    const whole = streamOnly ? (request: ModelRequest) => collect(stream(request)) : complete
    const client = {
      stream,
      complete: whole,
      contextTokens: () => profile.contextTokens,
      maxOutputTokens: () => profile.maxOutputTokens,
      secrets: secretsOf(profile)
    }
    return retrying(guarded(client, { ...profile, server: hostOf(profile) }), profile.retry)
  })

const readerOf = ({ response }: Sent, protocol: Protocol, profile: ModelProfile): AnswerReader =>
  makeAnswerReader(protocol, profile, response.headers["content-type"] ?? "")

/** How long to wait for the end of the body after the end of the response. A connection whose body has ended can be reused. */
const bodyEndWait = "250 millis"

/** Streams the parts of a response: one array for each network chunk that contains any. */
const read = (
  sent: Sent,
  reader: AnswerReader,
  profile: ModelProfile
): Stream.Stream<ModelPart, ModelError> =>
  Stream.transformPull(sent.response.stream, (bytes) =>
    Effect.sync(() => {
      const { timeouts = {} } = profile
      let begun = false
      let over = false

      const next = Effect.suspend(() => partWithin(bytes, partLimitOf(timeouts, begun), begun)).pipe(
        Effect.flatMap((chunks) => {
          begun = true
          for (const chunk of chunks) reader.feed(chunk)
          return Effect.void
        }),
        Pull.catchDone(() => {
          over = true
          reader.end()
          return Effect.void
        }),
        Effect.mapError((error) => sent.shown(reader.withUsage(readError(error, profile))))
      )
      const drain = Effect.andThen(
        Effect.ignore(Effect.timeoutOption(Effect.forever(bytes), bodyEndWait)),
        Cause.done()
      )
      const pull: Pull.Pull<NonEmptyReadonlyArray<ModelPart>, ModelError> = Effect.suspend(() => {
        const parts = reader.take()
        if (parts.length > 0) return Effect.succeed(parts as NonEmptyReadonlyArray<ModelPart>)
        if (!reader.isEnded()) return Effect.flatMap(next, () => pull)
        const error = reader.error()
        if (error !== undefined) return Effect.fail(sent.shown(error))
        if (over) return Cause.done()
        over = true
        return drain
      })
      return pull
    })
  )

const readError = (
  error: HttpClientError.HttpClientError | ModelError,
  profile: ModelProfile
): ModelError => {
  if (error._tag === "ModelError") return error
  if (error.reason._tag === "EmptyBodyError") {
    return invalid("The answer is empty.")
  }
  return connectionError(error, profile)
}
