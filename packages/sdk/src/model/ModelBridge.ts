/**
 * Building blocks for a model client that wraps another library's model.
 *
 * The bridges to `effect/ai` and to the AI SDK use them. A bridge converts requests and parts. This module decides the rest, as for the
 * other clients of this SDK: when a tool call is complete, how a response ended, which errors are retried, and when.
 *
 * @since 0.1.0
 */
import * as Arr from "effect/Array"
import type { NonEmptyReadonlyArray } from "effect/Array"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Pull from "effect/Pull"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { ToolCallId } from "../domain/Id.ts"
import { defined } from "../domain/internal/defined.ts"
import { string } from "../domain/internal/misfits.ts"
import type { FilePart, Message } from "../domain/Message.ts"
import { problemOf } from "../domain/OptionsInvalid.ts"
import type { FinishReason } from "../domain/RunEvent.ts"
import type { ModelUsage } from "../domain/Usage.ts"
import { priced, validUsage } from "./internal/cost.ts"
import { errorStatedIn as statedIn } from "./internal/decoding.ts"
import { argumentsValue, writtenArguments } from "./internal/fields.ts"
import { guarded as withLimits } from "./internal/http/guarded.ts"
import { requestIdOf, shouldRetry, redactError } from "./internal/http/responseError.ts"
import { retryAfter, retrying as withRetries } from "./internal/http/retrying.ts"
import { changed, callCut, streamCut, modelError } from "./internal/modelError.ts"
import { type Blocks, makeBlocks } from "./internal/pieces.ts"
import { limitShapes } from "./internal/profileOptions.ts"
import { reasonOf } from "./internal/providerErrors.ts"
import { headLimitOf, headWithin, partLimitOf, partWithin } from "./internal/timeLimits.ts"
import { omittedSetting, makeWarnings } from "./internal/warnings.ts"
import { wireIds, wireName } from "./internal/wireNames.ts"
import type { ModelClient } from "./ModelClient.ts"
import { type ModelError, ProviderFault } from "./ModelError.ts"
import type { ModelPart } from "./ModelPart.ts"
import type { CircuitBreaker, Prices, RateLimit, RetryOptions, Timeouts } from "./ModelProfile.ts"

/**
 * Returns a client that retries retryable errors, as long as no part of the response was emitted.
 *
 * **When to use**
 *
 * For a bridge to another library whose own retries are turned off. The clients and bridges of this SDK already retry, and nested
 * retries multiply.
 *
 * @category combinators
 * @since 0.1.0
 */
export const retrying: (client: ModelClient["Service"], options?: RetryOptions) => ModelClient["Service"] =
  withRetries

/** Options of {@link guarded}. */
export interface GuardOptions {
  /** The provider's name in errors. The default of the keys. */
  readonly server: string
  readonly rateLimit?: RateLimit | undefined
  readonly circuitBreaker?: CircuitBreaker | undefined
}

/**
 * Returns a client whose requests are limited by a rate limit and a circuit breaker, shared with all clients of the process that have the
 * same keys. Apply {@link retrying} to its result, so that each attempt counts.
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for an unknown key or an invalid value in a limit.
 *
 * @category combinators
 * @since 0.1.0
 */
export const guarded = (client: ModelClient["Service"], options: GuardOptions): ModelClient["Service"] => {
  const problem = problemOf("ModelBridge.guarded", options, { keys: { server: string, ...limitShapes } })
  if (problem !== undefined) throw problem
  return withLimits(client, options)
}

/**
 * Makes a function that logs what a bridge omits from requests. The function logs each sentence once, as a warning that names the profile.
 * Make one function per client.
 *
 * @category constructors
 * @since 0.1.0
 */
export const warnings: (profile: string) => (sentences: ReadonlyArray<string>) => Effect.Effect<void> =
  makeWarnings

/** Returns the sentence for a setting that is not passed on, with the reason. For {@link warnings}. */
export const settingLeftOut: (setting: string, why: string) => string = omittedSetting

/**
 * Limits the time until a library responds: with a stream if `streaming`, otherwise with a complete response. Fails with a `ModelError`
 * whose reason is `TimedOut`; the limits and their defaults are those of `Timeouts`. {@link readAnswer} limits the time for the parts of
 * the stream. `profile` names the model in the error.
 */
export const respondWithin = <A, E, R>(
  response: Effect.Effect<A, E, R>,
  options: { readonly timeouts?: Timeouts | undefined; readonly streaming: boolean; readonly profile: string }
): Effect.Effect<A, E | ModelError, R> =>
  headWithin(response, headLimitOf(options.timeouts ?? {}, options.streaming), `The model ${options.profile}`)

/** Reads the response of one model call. Mutable. */
export interface Answer extends Pick<Blocks, "start" | "delta" | "end"> {
  /** Begins a tool call that the model is writing. */
  readonly callStart: (id: string, name: string) => void
  readonly callDelta: (id: string, delta: string) => void
  /** Adds a complete tool call. `payload` is provider data that is sent back with the call. */
  readonly call: (call: {
    readonly providerCallId: string
    readonly name: string
    readonly arguments: string
    readonly payload?: Schema.JsonObject
  }) => void
  readonly file: (file: FilePart) => void
  /** Records how the response ended and what it used, all `passes` included. */
  readonly finish: (finishReason: FinishReason | "error", usage: ModelUsage, passes?: Passes) => void
  /** Ends the response: emits the tool calls and the `finish`, or returns an error; see {@link makeAnswer}. */
  readonly close: () => ModelError | undefined
  /** Returns the usage; `undefined` before {@link Answer.finish}. */
  readonly usage: () => ModelUsage | undefined
  /** Returns the parts that were emitted since the last call of `take`. */
  readonly take: () => ReadonlyArray<ModelPart>
}

/**
 * Details of the usage of a response for which the provider ran a model, or several models, more than once. The usage itself is the sum of
 * all these passes.
 */
export interface Passes {
  /** The input tokens of the last pass of the model: the size of the context. */
  readonly lastInputTokens?: number
  /**
   * The parts of the usage that other models of the provider used, by the provider's names. Their rates are those of `Prices.models`;
   * without them, the cost is unknown unless the provider reports it.
   */
  readonly others?: ReadonlyArray<{ readonly model: string; readonly usage: ModelUsage }>
}

/** Options of {@link makeAnswer}. */
export interface AnswerOptions {
  /** Identifies the provider to which payloads of this response may be sent back. */
  readonly provider: string
  /** The name of the model profile. */
  readonly profile: string
  /** The prices from which the cost is computed if the provider does not report it. */
  readonly prices?: Prices
}

/**
 * Makes a reader for a response whose parts arrive in any order.
 *
 * **Details**
 *
 * `close` emits the tool calls and then the `finish`. The finish reason of a response with calls is then `toolCalls`; a filtered response
 * keeps `contentFilter`, and its calls are not emitted. `close` returns an error in three cases: `ConnectionLost` if there was no `finish`,
 * `ProviderFault` if the response ended with an error, and `InvalidResponse` if the token limit cut off a response with calls.
 *
 * @category constructors
 * @since 0.1.0
 */
export const makeAnswer = (options: AnswerOptions): Answer => {
  const { profile, provider } = options
  let out: Array<ModelPart> = []
  const emit = (part: ModelPart) => void out.push(part)
  const blocks = makeBlocks(provider, emit)
  const writing = new Map<string, { readonly index: number; readonly name: string }>()
  const calls: Array<Extract<ModelPart, { readonly _tag: "tool-call" }>> = []
  let ending:
    | (Pick<Passes, "lastInputTokens"> & {
        readonly finishReason: FinishReason | "error"
        readonly usage: ModelUsage
      })
    | undefined

  return {
    start: blocks.start,
    delta: blocks.delta,
    end: blocks.end,
    callStart: (id, name) => void writing.set(id, { index: writing.size, name }),
    callDelta: (id, delta) => {
      const call = writing.get(id)
      if (call !== undefined && delta !== "") emit({ _tag: "tool-call-delta", ...call, delta })
    },
    call: ({ payload, ...call }) => {
      const replay = payload === undefined || Object.keys(payload).length === 0 ? {} : { provider, payload }
      calls.push({ _tag: "tool-call", ...call, ...replay })
    },
    file: (file) => {
      blocks.endAll()
      emit({ _tag: "file", file })
    },
    finish: (finishReason, usage, { lastInputTokens, others } = {}) => {
      ending = {
        finishReason,
        usage: priced(options, validUsage(usage), others),
        ...defined({ lastInputTokens })
      }
    },
    usage: () => ending?.usage,
    close: () => {
      blocks.endAll()
      if (ending === undefined) return streamCut()
      const { finishReason, ...used } = ending
      if (finishReason === "error") {
        return modelError(new ProviderFault({ description: "The provider ended the answer with an error." }))
      }
      const [first] = calls
      if (first === undefined || finishReason === "contentFilter") {
        emit({ _tag: "finish", finishReason, ...used, profile })
        return undefined
      }
      if (finishReason === "length") return callCut(first.name)
      for (const call of calls) {
        emit({ ...call, arguments: writtenArguments(call.arguments) })
      }
      emit({ _tag: "finish", finishReason: "toolCalls", ...used, profile })
      return undefined
    },
    take: () => {
      const taken = out
      out = []
      return taken
    }
  }
}

/** After an error in a response, how long to wait for each further piece, which may report the usage. */
const usageWait = "250 millis"

/**
 * Reads the pieces of another library's stream into the parts of a response.
 *
 * **Details**
 *
 * `add` adds each piece to `answer`, and returns an error if the piece is one. The stream then fails with that error. Before that,
 * it reads on for the usage, as long as each piece arrives within 250 milliseconds, so that the error contains it.
 *
 * The stream fails with `TimedOut` if the first piece does not arrive within `timeouts.firstByte`, or a further one within `timeouts.idle`;
 * both are 5 minutes by default. It fails with the error of `Answer.close` if the response is incomplete.
 */
export const readAnswer = <A>(
  pieces: Stream.Stream<A, ModelError>,
  answer: Answer,
  add: (piece: A) => ModelError | undefined,
  timeouts: Timeouts = {}
): Stream.Stream<ModelPart, ModelError> =>
  Stream.transformPull(pieces, (upstream) =>
    Effect.sync(() => {
      let failed: ModelError | undefined
      let over = false
      let begun = false
      let ready: Array<ModelPart> = []

      const read = (piece: A) => {
        if (failed === undefined) {
          failed = add(piece)
          ready.push(...answer.take())
        } else add(piece)
      }
      const end = () => {
        over = true
        failed ??= answer.close()
        if (failed === undefined) ready.push(...answer.take())
      }
      const next = Effect.suspend(() =>
        failed === undefined
          ? partWithin(upstream, partLimitOf(timeouts, begun), begun)
          : Effect.timeoutOrElse(
              Effect.catch(upstream, () => Cause.done()),
              {
                duration: usageWait,
                orElse: () => Cause.done()
              }
            )
      ).pipe(
        Effect.map((some) => {
          begun = true
          for (const piece of some) read(piece)
        }),
        Pull.catchDone(() => Effect.sync(end))
      )
      const pull: Pull.Pull<NonEmptyReadonlyArray<ModelPart>, ModelError> = Effect.suspend(() => {
        if (Arr.isArrayNonEmpty(ready)) {
          const parts = ready
          ready = []
          return Effect.succeed(parts)
        }
        const usage = answer.usage()
        if (failed !== undefined && (over || usage !== undefined))
          return Effect.fail(changed(failed, { usage }))
        return over ? Cause.done() : Effect.flatMap(next, () => pull)
      })
      return pull
    })
  )

/**
 * Returns the id on the wire of each call of a history, for the call and its result: the provider's own id if it is unique and has 1 to 40
 * letters, digits, `_` and `-`, otherwise one derived from Fermata's id.
 *
 * **Details**
 *
 * `length` is for providers that accept only ids of exactly that many letters and digits, such as 9 for Mistral: all have that form then.
 */
export const callIds = (messages: ReadonlyArray<Message>, length?: number): ReadonlyMap<ToolCallId, string> =>
  wireIds(messages, { letters: /^[a-zA-Z0-9_-]+$/, maxLength: 40, length })

/**
 * Returns a tool's name in a form that every provider accepts: 1 to 64 ASCII letters, digits, `_` and `-`. Other characters are replaced by
 * `_`, and a longer name is cut off. A history may contain names that a model made up.
 */
export const toolName = (name: string): string => wireName(name)

/**
 * Parses the arguments text of a call of the history. Returns `{}` for blank text and for `null`, and `{ malformed: text }` for other text
 * that is not a JSON object.
 */
export const argumentsOf: (text: string) => unknown = argumentsValue

/** Details of a provider's error, for {@link errorOf}. */
export interface ErrorDetails {
  /** The parsed body, or a message. */
  readonly body: unknown
  readonly status?: number
  readonly headers?: Readonly<Record<string, string | undefined>>
  /** The library's statement if a retry can help. An `x-should-retry` header overrides it. */
  readonly retryable?: boolean
  /** Texts that the error must not contain, such as the key. */
  readonly secrets?: ReadonlyArray<string>
}

/**
 * Returns the `ModelError` for a provider's error. Its description is the provider's message, or a sentence if there is none, on one line
 * of at most 500 characters, without the secrets.
 */
export const errorOf = (details: ErrorDetails): Effect.Effect<ModelError> =>
  Effect.gen(function* () {
    const { body, headers = {}, secrets = [], status } = details
    const retryAfterMs = yield* retryAfter(headers)
    const now = yield* Clock.currentTimeMillis
    const reason = reasonOf(body, { now, ...defined({ status, retryAfterMs }) })
    const retryable = shouldRetry(headers) ?? details.retryable
    return redactError(modelError(reason, { retryable }), secrets, requestIdOf(headers))
  })

/**
 * Returns the error that a server states in the parsed body of a successful response which the library could not read: in a known shape
 * or in words. `undefined` if it states none. An error in words is not retryable, unless the words are about a fault that may pass.
 */
export const errorStatedIn = (body: unknown): ModelError | undefined =>
  typeof body === "object" ? statedIn(body) : undefined

const keyShapes = /\b(?:bearer|basic)\s+\S+|\b(?:sk|pk|rk)[-_][\w-]{6,}/gi

/**
 * Removes the secrets, and anything that looks like a key, from an error's description, which becomes one line of at most 500
 * characters.
 *
 * @category errors
 * @since 0.1.0
 */
export const clean = (error: ModelError, secrets: ReadonlyArray<string>): ModelError => {
  const found = error.reason.description.match(keyShapes) ?? []
  return redactError(error, [...secrets, ...found], error.requestId)
}
