/**
 * Converts between the models of `effect/ai` and those of Fermata.
 *
 * {@link make} lets an agent use any `LanguageModel`. {@link languageModel} lets a program that is written for `effect/ai` use a
 * `ModelClient`. This module has its own entry point, `@fermata/sdk/effect-ai`, because `effect/ai` takes longer to load than the
 * rest of the SDK.
 *
 * @since 0.1.0
 */
import type { AiError } from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import { defined } from "../domain/internal/defined.ts"
import type { FinishReason } from "../domain/RunEvent.ts"
import type { ModelUsage } from "../domain/Usage.ts"
import { fromAiError, toAiError } from "./internal/effectAi/errors.ts"
import { promptOf, toolkitOf } from "./internal/effectAi/prompt.ts"
import {
  callPart,
  fileParts,
  finishPart,
  metadataOf,
  partsOf,
  requestOf
} from "./internal/effectAi/request.ts"
import { fieldsOf } from "./internal/fields.ts"
import { reasonOf } from "./internal/providerErrors.ts"
import {
  type Answer,
  guarded,
  makeAnswer,
  readAnswer,
  respondWithin,
  retrying,
  settingLeftOut,
  warnings
} from "./ModelBridge.ts"
import { collect, ModelClient } from "./ModelClient.ts"
import { ModelError } from "./ModelError.ts"
import type { ModelPart } from "./ModelPart.ts"
import type { CircuitBreaker, Prices, RateLimit, RetryOptions, Timeouts } from "./ModelProfile.ts"
import type { ModelRequest, ModelSettings } from "./ModelRequest.ts"

/** Options of {@link make}. */
export interface Options {
  /**
   * The name of the model. Provider data that must be sent back with the history, such as signed reasoning, is sent only to a model of
   * the same name. Give different models different names.
   */
  readonly name: string
  /**
   * Returns the services for one call. A language model accepts no settings per call except the tool choice. Pass the other settings here,
   * in its provider's own references. Without this option, they are omitted, and each is logged once, as a warning.
   */
  readonly context?: (request: ModelRequest) => Context.Context<never>
  /** The key of the provider, which is removed from all texts of runs. A language model does not report it. */
  readonly apiKey?: string | Redacted.Redacted<string>
  /** The size of the model's context in tokens, input and output together. A language model does not report it. */
  readonly contextTokens?: number
  /** The prices from which the cost of a call is computed. A language model does not report it. */
  readonly prices?: Prices
  readonly retry?: RetryOptions
  /**
   * Time limits of each attempt. A language model reports no head of a stream, so `response` counts for complete responses only. See
   * `Timeouts`.
   */
  readonly timeouts?: Timeouts
  /** Default: no limit. The default of its `key` is `name`. */
  readonly rateLimit?: RateLimit
  /** Default: none. The default of its `key` is `name`. */
  readonly circuitBreaker?: CircuitBreaker
}

/**
 * Makes a client that calls a language model of `effect/ai`.
 *
 * **Details**
 *
 * The run's tools are declared to the language model, which never runs them. Structured output is requested in words, in the instructions.
 * Tools that the provider runs itself, such as a search, appear only in the text of the response. The client retries; see the option
 * `retry`.
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for an invalid `rateLimit` or `circuitBreaker`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (model: LanguageModel.LanguageModel, options: Options): ModelClient["Service"] => {
  const provider = `effect-ai@${options.name}`

  const asked = (request: ModelRequest) => ({
    prompt: promptOf(request, provider),
    disableToolCallResolution: true as const,
    toolCallValidation: "deferred" as const,
    toolkit: toolkitOf(request.tools),
    toolChoice: request.settings?.toolChoice ?? ("auto" as const)
  })
  const contextOf = (request: ModelRequest) => options.context?.(request) ?? Context.empty()
  const warn = warnings(options.name)
  /** No warning if `context` is given: it receives the settings and may pass them on. */
  const warned = ({ settings = {} }: ModelRequest) =>
    options.context === undefined ? warn(settingsLeftOut(settings)) : Effect.void

  const failed = (error: AiError) => fromAiError(error, options)
  const read = (parts: Stream.Stream<AnyPart, AiError>): Stream.Stream<ModelPart, ModelError> => {
    const answer = makeAnswer({ ...options, provider, profile: options.name })
    return readAnswer(Stream.mapError(parts, failed), answer, addPart(answer), options.timeouts)
  }

  const stream = (request: ModelRequest) =>
    Stream.unwrap(
      Effect.map(warned(request), () => {
        // With deferred validation, the types of the parts do not depend on the tools.
        const parts = model.streamText(asked(request)) as Stream.Stream<AnyPart, AiError>
        return read(Stream.provideContext(parts, contextOf(request)))
      })
    )

  const complete = (request: ModelRequest) =>
    Effect.flatMap(warned(request), () => {
      const answer = model.generateText(asked(request)) as Effect.Effect<
        { readonly content: ReadonlyArray<AnyPart> },
        AiError
      >
      return answer.pipe(
        Effect.provideContext(contextOf(request)),
        Effect.mapError(failed),
        (whole) =>
          respondWithin(whole, { timeouts: options.timeouts, streaming: false, profile: options.name }),
        Effect.flatMap(({ content }) => collect(read(Stream.fromIterable(content))))
      )
    })

  const contextTokens = () => options.contextTokens
  const { apiKey, circuitBreaker, name, rateLimit, retry } = options
  const secrets = Effect.sync(() =>
    apiKey === undefined ? [] : [typeof apiKey === "string" ? Redacted.make(apiKey) : apiKey]
  )
  return retrying(
    guarded({ stream, complete, contextTokens, secrets }, { server: name, rateLimit, circuitBreaker }),
    retry
  )
}

/**
 * Provides the `LanguageModel` of the context as the `ModelClient`. See {@link make}.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: Options): Layer.Layer<ModelClient, never, LanguageModel.LanguageModel> =>
  Layer.effect(
    ModelClient,
    Effect.map(LanguageModel.LanguageModel, (model) => make(model, options))
  )

/**
 * Makes a language model of `effect/ai` that calls a client.
 *
 * **Details**
 *
 * Each use is one model call; there is no run. `effect/ai` handles approvals and runs the tools. Tools defined by a provider are
 * declared by name and schema, like any other tool.
 *
 * @category constructors
 * @since 0.1.0
 */
export const languageModel = (client: ModelClient["Service"]): Effect.Effect<LanguageModel.LanguageModel> =>
  LanguageModel.make({
    generateText: (options) =>
      Effect.suspend(() => client.complete(requestOf(options, LanguageModel.defaultCodecTransformer))).pipe(
        Effect.map(partsOf),
        Effect.mapError((error) => toAiError(error, "generateText"))
      ),
    streamText: (options) =>
      Stream.suspend(() => {
        const encode = makeEncoder()
        return client.stream(requestOf(options, LanguageModel.defaultCodecTransformer)).pipe(
          Stream.map(encode),
          Stream.flattenIterable,
          Stream.mapError((error) => toAiError(error, "streamText"))
        )
      })
  })

/**
 * Provides the `ModelClient` of the context as the `LanguageModel`. See {@link languageModel}.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerLanguageModel: Layer.Layer<LanguageModel.LanguageModel, never, ModelClient> = Layer.effect(
  LanguageModel.LanguageModel,
  Effect.flatMap(ModelClient, languageModel)
)

type AnyPart = Response.AnyPart

const kindOf = ({ type }: AnyPart) => (type.startsWith("text") ? "text" : "reasoning")

/** Returns a function that adds one part to the answer. It returns the error if the part is one. */
const addPart =
  (answer: Answer) =>
  (part: AnyPart): ModelError | undefined => {
    switch (part.type) {
      case "text":
      case "reasoning":
        // A whole block of a response that was not streamed.
        answer.delta(part.type, "whole", part.text, part.metadata)
        answer.end(part.type, "whole")
        break
      case "text-start":
      case "reasoning-start":
        answer.start(kindOf(part), part.id, part.metadata)
        break
      case "text-delta":
      case "reasoning-delta":
        answer.delta(kindOf(part), part.id, part.delta, part.metadata)
        break
      case "text-end":
      case "reasoning-end":
        answer.end(kindOf(part), part.id, part.metadata)
        break
      case "tool-params-start":
        if (!part.providerExecuted) answer.callStart(part.id, part.name)
        break
      case "tool-params-delta":
        answer.callDelta(part.id, part.delta)
        break
      case "tool-call":
        if (!part.providerExecuted) {
          const { id, metadata, name, params } = part
          const written = typeof params === "string" ? params : (JSON.stringify(params) ?? "")
          answer.call({ providerCallId: id, name, arguments: written, payload: metadata })
        }
        break
      case "file":
        answer.file({
          _tag: "file",
          mediaType: part.mediaType,
          source: { _tag: "bytes", base64: Base64.encode(part.data) }
        })
        break
      case "finish":
        answer.finish(finishReasons[part.reason], usageOf(part.usage))
        break
      case "error":
        return errorIn(part.error)
    }
    return undefined
  }

/** One sentence for each setting except `toolChoice`, which a language model accepts. */
const settingsLeftOut = (settings: ModelSettings): ReadonlyArray<string> =>
  Object.entries(settings).flatMap(([setting, value]) =>
    value === undefined || setting === "toolChoice"
      ? []
      : [settingLeftOut(setting, "a language model accepts no settings per call; pass them in `context`")]
  )

const errorIn = (error: unknown): ModelError => {
  const { message } = fieldsOf(error) ?? {}
  const said = error instanceof Error ? error.message : typeof message === "string" ? message : error
  return new ModelError({ reason: reasonOf(fieldsOf(error)?.error === undefined ? said : error) })
}

const finishReasons: Readonly<Record<Response.FinishReason, FinishReason | "error">> = {
  error: "error",
  stop: "stop",
  length: "length",
  "content-filter": "contentFilter",
  "tool-calls": "toolCalls",
  pause: "other",
  other: "other",
  unknown: "other"
}

const usageOf = ({ inputTokens, outputTokens }: Response.Usage): ModelUsage => {
  const { cacheRead, cacheWrite, total, uncached } = inputTokens
  const { reasoning, text } = outputTokens
  return {
    inputTokens: total ?? (uncached ?? 0) + (cacheRead ?? 0) + (cacheWrite ?? 0),
    outputTokens: outputTokens.total ?? (text ?? 0) + (reasoning ?? 0),
    ...defined({ cachedInputTokens: cacheRead, cacheWriteTokens: cacheWrite, reasoningTokens: reasoning })
  }
}

/** Converts parts to those of a streamed `effect/ai` response, in which each block has an id. */
const makeEncoder = () => {
  let block: { readonly kind: "text" | "reasoning"; readonly id: string } | undefined
  let count = 0
  const end = (metadata: ReturnType<typeof metadataOf> = {}): Array<Response.StreamPartEncoded> => {
    if (block === undefined) return []
    const { id, kind } = block
    block = undefined
    return [{ type: `${kind}-end`, id, ...metadata }]
  }
  const begin = (kind: "text" | "reasoning"): Array<Response.StreamPartEncoded> => {
    if (block?.kind === kind) return []
    const out = end()
    block = { kind, id: String(count++) }
    return [...out, { type: `${kind}-start`, id: block.id }]
  }
  return (part: ModelPart): Array<Response.StreamPartEncoded> => {
    switch (part._tag) {
      case "text-delta":
      case "reasoning-delta": {
        const kind = part._tag === "text-delta" ? "text" : "reasoning"
        const started = begin(kind)
        return [...started, { type: `${kind}-delta`, id: block!.id, delta: part.delta }]
      }
      case "text-end":
      case "reasoning-end": {
        const kind = part._tag === "text-end" ? "text" : "reasoning"
        const metadata = metadataOf(part)
        return block?.kind !== kind && metadata.metadata === undefined
          ? []
          : [...begin(kind), ...end(metadata)]
      }
      case "tool-call-delta":
        return []
      case "tool-call":
        return [...end(), callPart(part, count++)]
      case "file":
        return [...end(), ...fileParts(part.file)]
      case "finish":
        return [...end(), finishPart(part.finishReason, part.usage)]
    }
  }
}
