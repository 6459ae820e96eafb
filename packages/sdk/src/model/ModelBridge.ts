/**
 * What a client around another library's model needs, so that its answers mean the same as those of the clients here.
 *
 * The bridges to `effect/ai` and to the AI SDK are made of it. A bridge maps requests and parts; when a call is whole, what an ending
 * means, which errors may pass and when to ask again is decided here.
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
import type { FilePart, Message } from "../domain/Message.ts"
import type { FinishReason } from "../domain/RunEvent.ts"
import type { ModelUsage } from "../domain/Usage.ts"
import { priced, validUsage } from "./internal/cost.ts"
import { argumentsValue, writtenArguments } from "./internal/fields.ts"
import { requestIdOf, shouldRetry, redactError } from "./internal/http/responseError.ts"
import { retryAfter, retrying as withRetries } from "./internal/http/retrying.ts"
import { changed, callCut, streamCut, modelError } from "./internal/modelError.ts"
import { type Blocks, makeBlocks } from "./internal/pieces.ts"
import { reasonOf } from "./internal/providerErrors.ts"
import { omittedSetting, makeWarnings } from "./internal/warnings.ts"
import { wireIds, wireName } from "./internal/wireNames.ts"
import type { ModelClient } from "./ModelClient.ts"
import { type ModelError, ProviderFault } from "./ModelError.ts"
import type { ModelPart } from "./ModelPart.ts"
import type { Prices, RetryOptions } from "./ModelProfile.ts"

/**
 * The client, asked again after errors that may pass, as long as nothing of an answer is out.
 *
 * **When to use**
 *
 * Around a bridge to another library whose own retries are off. The clients of this SDK and its bridges do it already, and two
 * layers of retries multiply.
 *
 * @category combinators
 * @since 0.1.0
 */
export const retrying: (client: ModelClient["Service"], options?: RetryOptions) => ModelClient["Service"] =
  withRetries

/**
 * Says what of the requests a model does not get: each sentence is logged once, as a warning that names the profile.
 *
 * @category constructors
 * @since 0.1.0
 */
export const warnings: (profile: string) => (sentences: ReadonlyArray<string>) => Effect.Effect<void> =
  makeWarnings

/** The sentence of a setting that is not passed on, and why. */
export const settingLeftOut: (setting: string, why: string) => string = omittedSetting

/** An answer that is being read. Changed in place: one lives for one model call. */
export interface Answer extends Pick<Blocks, "start" | "delta" | "end"> {
  /** A call is being written. */
  readonly callStart: (id: string, name: string) => void
  readonly callDelta: (id: string, delta: string) => void
  /** A call is written. `payload` is what the provider wants back with it. */
  readonly call: (call: {
    readonly providerCallId: string
    readonly name: string
    readonly arguments: string
    readonly payload?: Schema.JsonObject
  }) => void
  readonly file: (file: FilePart) => void
  /** Why the answer ended. */
  readonly finish: (finishReason: FinishReason | "error", usage: ModelUsage) => void
  /** Ends the answer: emits the calls and the end, or the reason why the answer is not whole. */
  readonly close: () => ModelError | undefined
  /** What it used; `undefined` before its end was reported. */
  readonly usage: () => ModelUsage | undefined
  /** The parts since the last time. */
  readonly take: () => ReadonlyArray<ModelPart>
}

/** Whose answer it is. */
export interface AnswerOptions {
  /** Who may be given back what came with the parts. */
  readonly provider: string
  /** The name under which the model is known. */
  readonly profile: string
  /** Make the cost, where the provider does not report it. */
  readonly prices?: Prices
}

/**
 * Reads an answer whose parts come in any order.
 *
 * **Details**
 *
 * Calls are emitted at the end, when it is known that the answer is whole: never when it was cut at its limit on tokens, filtered, or
 * broken off.
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
  let ending: { readonly finishReason: FinishReason | "error"; readonly usage: ModelUsage } | undefined

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
    finish: (finishReason, usage) => {
      ending = { finishReason, usage: priced(options, validUsage(usage)) }
    },
    usage: () => ending?.usage,
    close: () => {
      blocks.endAll()
      if (ending === undefined) return streamCut()
      const { finishReason, usage } = ending
      if (finishReason === "error") {
        return modelError(new ProviderFault({ description: "The provider ended the answer with an error." }))
      }
      const [first] = calls
      if (first === undefined || finishReason === "contentFilter") {
        emit({ _tag: "finish", finishReason, usage, profile })
        return undefined
      }
      if (finishReason === "length") return callCut(first.name)
      for (const call of calls) {
        emit({ ...call, arguments: writtenArguments(call.arguments) })
      }
      emit({ _tag: "finish", finishReason: "toolCalls", usage, profile })
      return undefined
    },
    take: () => {
      const taken = out
      out = []
      return taken
    }
  }
}

/** How long a provider may take to say what an answer used that it has ended with an error. */
const farewell = "250 millis"

/**
 * The parts of an answer; `add` adds each piece to the answer, and returns an error for one that is one. The answer then ends with that
 * error, and with what it used where the pieces after the error say so.
 */
export const readAnswer = <A>(
  pieces: Stream.Stream<A, ModelError>,
  answer: Answer,
  add: (piece: A) => ModelError | undefined
): Stream.Stream<ModelPart, ModelError> =>
  Stream.transformPull(pieces, (upstream) =>
    Effect.sync(() => {
      let failed: ModelError | undefined
      let over = false
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
          ? upstream
          : Effect.timeoutOrElse(
              Effect.catch(upstream, () => Cause.done()),
              {
                duration: farewell,
                orElse: () => Cause.done()
              }
            )
      ).pipe(
        Effect.map((some) => {
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
 * The id of each call of a history on the wire: the provider's own where it is well formed and unique, else one made from ours. The
 * same for a call and its result. `length` is for providers that take ids of so many letters and digits only, as Mistral does.
 */
export const callIds = (messages: ReadonlyArray<Message>, length?: number): ReadonlyMap<ToolCallId, string> =>
  wireIds(messages, { letters: /^[a-zA-Z0-9_-]+$/, maxLength: 40, length })

/** The name of a tool as every provider takes it: a model may have made one up. */
export const toolName = (name: string): string => wireName(name)

/** The arguments of a call of the history as a value. What is not an object is wrapped in one. */
export const argumentsOf: (text: string) => unknown = argumentsValue

/** What is known of an error. */
export interface ErrorDetails {
  /** The body, as a value or as JSON, or a message. */
  readonly body: unknown
  readonly status?: number
  readonly headers?: Readonly<Record<string, string | undefined>>
  /** Whether the library thinks that trying again can help. */
  readonly retryable?: boolean
  /** What must not be shown. */
  readonly secrets?: ReadonlyArray<string>
}

/** The error that this means. Its description is the provider's own, on one line, bounded and without the secrets. */
export const errorOf = (details: ErrorDetails): Effect.Effect<ModelError> =>
  Effect.gen(function* () {
    const { body, headers = {}, secrets = [], status } = details
    const retryAfterMs = yield* retryAfter(headers)
    const now = yield* Clock.currentTimeMillis
    const reason = reasonOf(body, { now, ...defined({ status, retryAfterMs }) })
    const retryable = shouldRetry(headers) ?? details.retryable
    return redactError(modelError(reason, { retryable }), secrets, requestIdOf(headers))
  })

const keyShapes = /\b(?:bearer|basic)\s+\S+|\b(?:sk|pk|rk)[-_][\w-]{6,}/gi

/**
 * The error as it may be shown: without these secrets and without what has the shape of a key, bounded, on one line.
 *
 * @category errors
 * @since 0.1.0
 */
export const clean = (error: ModelError, secrets: ReadonlyArray<string>): ModelError => {
  const found = error.reason.description.match(keyShapes) ?? []
  return redactError(error, [...secrets, ...found], error.requestId)
}
