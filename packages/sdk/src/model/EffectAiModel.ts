/**
 * Between the models of `effect/ai` and those of Fermata, both ways.
 *
 * {@link make} lets an agent run on any `LanguageModel`; {@link languageModel} lets a program that is written for `effect/ai` use a
 * `ModelClient`. This module has an entry of its own, `@fermata/sdk/effect-ai`, because `effect/ai` takes longer to load than the
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
import { type Answer, makeAnswer, readAnswer, retrying, settingLeftOut, warnings } from "./ModelBridge.ts"
import { collect, ModelClient } from "./ModelClient.ts"
import { ModelError } from "./ModelError.ts"
import type { ModelPart } from "./ModelPart.ts"
import type { Prices, RetryOptions } from "./ModelProfile.ts"
import type { ModelRequest, ModelSettings } from "./ModelRequest.ts"

/** How a language model is used. */
export interface Options {
  /**
   * The name of the model. What it wants back with a history, such as signed reasoning, is given back to a model of the same name
   * only, so another model needs another name.
   */
  readonly name: string
  /**
   * Services for one call. A language model takes no settings with a call besides the choice of tools; its provider's own references
   * for them go here. Without this, each of the other settings is left out, with a warning.
   */
  readonly context?: (request: ModelRequest) => Context.Context<never>
  /** Tokens that fit into one call, input and output together, which a language model does not report. */
  readonly contextTokens?: number
  /** Make the cost of a call, which a language model does not report. */
  readonly prices?: Prices
  readonly retry?: RetryOptions
}

/**
 * A client that asks a language model.
 *
 * **Details**
 *
 * Tools are declared, and never run, by the language model. Structured output is asked for in words. What the provider itself ran,
 * such as a search, is in its text only.
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
  /** Whoever gives services for a call sees the request, and passes on what he likes. */
  const warned = ({ settings = {} }: ModelRequest) =>
    options.context === undefined ? warn(settingsLeftOut(settings)) : Effect.void

  const failed = (error: AiError) => fromAiError(error, options)
  const read = (parts: Stream.Stream<AnyPart, AiError>): Stream.Stream<ModelPart, ModelError> => {
    const answer = makeAnswer({ ...options, provider, profile: options.name })
    return readAnswer(Stream.mapError(parts, failed), answer, addPart(answer))
  }

  const stream = (request: ModelRequest) =>
    Stream.unwrap(
      Effect.map(warned(request), () => {
        // With deferred validation the parts have no types of their own.
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
        Effect.flatMap(({ content }) => collect(read(Stream.fromIterable(content))))
      )
    })

  const contextTokens = () => options.contextTokens
  return retrying({ stream, complete, contextTokens }, options.retry)
}

/**
 * The language model in the context as the program's model.
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
 * A language model that asks a client.
 *
 * **Details**
 *
 * Approvals and tools are `effect/ai`'s here: this is one model call after another, and no run. Tools that only a certain provider
 * has are declared by name and schema like any other.
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
 * The `ModelClient` in the context as the program's language model.
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

/** Tells an answer about one part of it. */
const addPart =
  (answer: Answer) =>
  (part: AnyPart): ModelError | undefined => {
    switch (part.type) {
      case "text":
      case "reasoning":
        // A whole block, of an answer that was not streamed.
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

/** All but the choice of tools, which a language model receives. */
const settingsLeftOut = (settings: ModelSettings): ReadonlyArray<string> =>
  Object.entries(settings).flatMap(([setting, value]) =>
    value === undefined || setting === "toolChoice"
      ? []
      : [settingLeftOut(setting, "a language model takes no settings with a call; give them by `context`")]
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

/** From our parts to those of a streamed answer, which have an id for each block. */
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
