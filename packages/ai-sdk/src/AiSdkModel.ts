/**
 * A client that asks a model of the AI SDK: `openai("gpt-5.5")`, `anthropic("claude-sonnet-4-5")`, or any other provider's.
 *
 * The model is used by itself, without the AI SDK's own loop: tools are declared to it and never run by it, its errors become
 * `ModelError`s, and asking again is done here. What a provider wants back with a history, such as signed reasoning, is kept with the
 * messages and given back to the same model only.
 *
 * @since 0.1.0
 */
import type {
  LanguageModelV2,
  LanguageModelV3,
  LanguageModelV4,
  LanguageModelV4StreamPart
} from "@ai-sdk/provider"
import {
  ModelBridge,
  ModelClient,
  type ModelError,
  type ModelProfile,
  type ModelRequest
} from "@fermata/sdk/model"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { addContent, addPart, type Part } from "./internal/answer.ts"
import { errorsWithout } from "./internal/errors.ts"
import { callOptions, settingsLeftOut } from "./internal/prompt.ts"
import { warningsIn } from "./internal/warnings.ts"

/** A model of the AI SDK. The specifications 3 and 4 are those of its versions 6 and 7; 2 is read as far as it goes. */
export type LanguageModel = LanguageModelV4 | LanguageModelV3 | LanguageModelV2

/** How a model is used. */
export interface Options {
  /** Under which it is known as a profile. Default: the model's own id. */
  readonly name?: string
  /** Added to every request. */
  readonly headers?: Readonly<Record<string, string>>
  /** How many letters and digits the id of a call has to have, and nothing else: 9 for Mistral. Default: as they came. */
  readonly callIdLength?: number
  /** Tokens that fit into one call, input and output together. The AI SDK does not know it. */
  readonly contextTokens?: number
  /** Make the cost of a call, where the provider does not tell it. */
  readonly prices?: ModelProfile.Prices
  readonly retry?: ModelProfile.RetryOptions
}

/**
 * A client.
 *
 * **Details**
 *
 * `settings.extra` of a request is given to the model as its `providerOptions`. What the provider itself ran, such as a search, is in
 * its text only, and a file that is named by its URL is not downloaded for providers that cannot do it themselves.
 *
 * **Example** (Running an agent on an AI SDK model)
 *
 * ```ts run
 * import { anthropic } from "@ai-sdk/anthropic"
 * import { AiSdkModel } from "@fermata/ai-sdk"
 * import { agent, createFermata } from "@fermata/node"
 *
 * const model = AiSdkModel.make(anthropic("claude-sonnet-4-5"))
 * await using fermata = await createFermata({ agents: [agent("ops")], model })
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (model: LanguageModel, options: Options = {}): ModelClient.ModelClient["Service"] => {
  // Newer fields that an older model does not know are not read by it; what it means otherwise is looked at where it is read.
  const current = model as LanguageModelV4
  const provider = `ai-sdk@${model.provider}/${model.modelId}`
  const answered = { ...options, provider, profile: options.name ?? model.modelId }
  const errorFrom = errorsWithout(Object.values(options.headers ?? {}))
  const failed = ({ error }: Thrown): Stream.Stream<never, ModelError.ModelError> =>
    Stream.fromEffect(Effect.flatMap(errorFrom(error), Effect.fail))
  const attempt = <A>(call: () => PromiseLike<A>): Effect.Effect<A, ModelError.ModelError> =>
    Effect.catch(
      Effect.tryPromise({ try: async () => call(), catch: (error) => new Thrown(error) }),
      ({ error }) => Effect.flatMap(errorFrom(error), Effect.fail)
    )

  const warn = ModelBridge.warnings(answered.profile)
  const understood = (part: LanguageModelV4StreamPart): Effect.Effect<Part> => {
    switch (part.type) {
      case "error":
        return Effect.map(errorFrom(part.error), (error) => ({ type: "failed", error }))
      case "stream-start":
        return Effect.as(warn(warningsIn(part.warnings)), part)
      default:
        return Effect.succeed(part)
    }
  }

  const asked = (request: ModelRequest.ModelRequest, abortSignal: AbortSignal) => ({
    ...callOptions(request, provider, model.specificationVersion, options.callIdLength),
    abortSignal,
    ...(options.headers === undefined ? {} : { headers: options.headers })
  })

  const stream = (request: ModelRequest.ModelRequest) =>
    Stream.unwrap(
      Effect.gen(function* () {
        yield* warn(settingsLeftOut(request, provider, model.specificationVersion))
        const signal = yield* abortSignal
        const result = yield* attempt(() => current.doStream(asked(request, signal)))
        const parts = Stream.fromReadableStream({
          evaluate: (): ReadableStream<LanguageModelV4StreamPart> => result.stream,
          onError: (error) => new Thrown(error)
        })
        const answer = ModelBridge.makeAnswer(answered)
        return ModelBridge.readAnswer(
          Stream.mapEffect(Stream.catch(parts, failed), understood),
          answer,
          addPart(answer)
        )
      })
    )

  const complete = (request: ModelRequest.ModelRequest) =>
    Effect.scoped(
      Effect.gen(function* () {
        yield* warn(settingsLeftOut(request, provider, model.specificationVersion))
        const signal = yield* abortSignal
        const result = yield* attempt(() => current.doGenerate(asked(request, signal)))
        yield* warn(warningsIn(result.warnings))
        const answer = ModelBridge.makeAnswer(answered)
        const content = Stream.fromIterable([...result.content, { type: "finish" as const, ...result }])
        return yield* ModelClient.collect(ModelBridge.readAnswer(content, answer, addContent(answer)))
      })
    )

  const contextTokens = () => options.contextTokens
  return ModelBridge.retrying({ stream, complete, contextTokens }, options.retry)
}

/**
 * The client as the `ModelClient`.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (model: LanguageModel, options?: Options): Layer.Layer<ModelClient.ModelClient> =>
  Layer.succeed(ModelClient.ModelClient, make(model, options))

/** Aborted when the call is over or interrupted, which closes the connection. */
const abortSignal: Effect.Effect<AbortSignal, never, Scope.Scope> = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => new AbortController()),
    (controller) => Effect.sync(() => controller.abort())
  ),
  ({ signal }) => signal
)

/** Whatever a model threw, to be looked at in one place. */
class Thrown {
  readonly error: unknown
  constructor(error: unknown) {
    this.error = error
  }
}
