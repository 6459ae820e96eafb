/**
 * A client for a model of the AI SDK: `openai("gpt-5.5")`, `anthropic("claude-sonnet-4-5")`, or any other provider's.
 *
 * The model is used without the AI SDK's own loop: tools are declared to the model and never run by the AI SDK, the model's errors become
 * `ModelError`s, and this client retries those that are retryable. What a provider needs back with a history, such as signed reasoning, is
 * stored with the messages and sent to the same model of the same provider only.
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
  Auth,
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

/**
 * A model of the AI SDK. Specifications 2, 3 and 4 are those of versions 5, 6 and 7 of the AI SDK. A request leaves out what the model's
 * specification lacks: with 2 and 3 the setting `reasoningEffort`, which a warning in the log reports.
 */
export type LanguageModel = LanguageModelV4 | LanguageModelV3 | LanguageModelV2

/** Options of `make` and `layer`. */
export interface Options {
  /** Name of the model's profile, in the results and the warnings of the client. Default: the model's own id. */
  readonly name?: string
  /** Headers of every request. Errors do not contain their values. Default: none. */
  readonly headers?: Readonly<Record<string, string>>
  /**
   * Exact length of the ids of calls, which then have only letters and digits: 9 for Mistral. Other ids are mapped to ids of this form,
   * always in the same way. Default: any length up to 40, of letters, digits, `_` and `-`.
   */
  readonly callIdLength?: number
  /**
   * Size of the context window in tokens, input and output together, for context policies. Default: unknown, since the AI SDK does not
   * report it.
   */
  readonly contextTokens?: number
  /** Prices from which the cost of a call is computed when the provider does not report it. Default: the cost is then unknown. */
  readonly prices?: ModelProfile.Prices
  /** How calls that fail are retried. Default: up to 4 times; see `RetryOptions`. */
  readonly retry?: ModelProfile.RetryOptions
  /** Time limits of each attempt; `firstByte` and `idle` count for the parts that the AI SDK emits. Defaults: see `Timeouts`. */
  readonly timeouts?: ModelProfile.Timeouts
  /** Limits of the provider's requests and tokens, over all runs. Default: none. The default of its `key` is the model's provider. */
  readonly rateLimit?: ModelProfile.RateLimit
  /** When to stop asking a provider that fails. Default: never. The default of its `key` is the model's provider. */
  readonly circuitBreaker?: ModelProfile.CircuitBreaker
}

/**
 * Makes a client for a model of the AI SDK.
 *
 * **Details**
 *
 * `settings.extra` of a request becomes the model's `providerOptions`. Calls and results of a tool that the provider itself runs, such as a
 * search, are left out of the answer, and so are its sources. A file given by its URL is not downloaded for providers that cannot download
 * it. A warning in the log names each setting that is left out, and each warning of the model, once.
 *
 * **Errors**
 *
 * Calls of the model fail with `ModelError`. A call is retried only before the first part of its answer was emitted.
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
  // An older model ignores the newer fields; where an older part differs, the code that reads it checks.
  const current = model as LanguageModelV4
  const provider = `ai-sdk@${model.provider}/${model.modelId}`
  const answered = { ...options, provider, profile: options.name ?? model.modelId }
  const errorFrom = errorsWithout(Object.values(options.headers ?? {}))
  const failed = ({ error }: Thrown): Stream.Stream<never, ModelError.ModelError> =>
    Stream.fromEffect(Effect.flatMap(errorFrom(error), Effect.fail))
  const attempt = <A>(
    call: () => PromiseLike<A>,
    streaming: boolean
  ): Effect.Effect<A, ModelError.ModelError> =>
    Effect.tryPromise({ try: async () => call(), catch: (error) => new Thrown(error) }).pipe(
      Effect.catch(({ error }) => Effect.flatMap(errorFrom(error), Effect.fail)),
      (response) =>
        ModelBridge.respondWithin(response, {
          timeouts: options.timeouts,
          streaming,
          profile: answered.profile
        })
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
        const result = yield* attempt(() => current.doStream(asked(request, signal)), true)
        const parts = Stream.fromReadableStream({
          evaluate: (): ReadableStream<LanguageModelV4StreamPart> => result.stream,
          onError: (error) => new Thrown(error)
        })
        const answer = ModelBridge.makeAnswer(answered)
        return ModelBridge.readAnswer(
          Stream.mapEffect(Stream.catch(parts, failed), understood),
          answer,
          addPart(answer),
          options.timeouts
        )
      })
    )

  const complete = (request: ModelRequest.ModelRequest) =>
    Effect.scoped(
      Effect.gen(function* () {
        yield* warn(settingsLeftOut(request, provider, model.specificationVersion))
        const signal = yield* abortSignal
        const result = yield* attempt(() => current.doGenerate(asked(request, signal)), false)
        yield* warn(warningsIn(result.warnings))
        const answer = ModelBridge.makeAnswer(answered)
        const content = Stream.fromIterable([...result.content, { type: "finish" as const, ...result }])
        return yield* ModelClient.collect(ModelBridge.readAnswer(content, answer, addContent(answer)))
      })
    )

  const contextTokens = () => options.contextTokens
  const { circuitBreaker, rateLimit } = options
  const limited = ModelBridge.guarded(
    { stream, complete, contextTokens, secrets: secretsOf(model, options) },
    { server: model.provider, rateLimit, circuitBreaker }
  )
  return ModelBridge.retrying(limited, options.retry)
}

/** The credentials in the headers of a model: those of the options, and those that the models of the AI SDK's own providers send. */
const secretsOf = (
  model: LanguageModel,
  { headers = {} }: Options
): NonNullable<ModelClient.ModelClient["Service"]["secrets"]> =>
  Effect.flatMap(
    Effect.promise(async () => {
      try {
        const { config } = model as { readonly config?: { readonly headers?: () => unknown } }
        return ((await config?.headers?.()) ?? {}) as Readonly<Record<string, string>>
      } catch {
        // A provider without a key throws; its calls say so.
        return {}
      }
    }),
    (own) => Auth.secretsOf({ headers: { ...own, ...headers } })
  )

/**
 * Provides a model of the AI SDK as the `ModelClient`.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (model: LanguageModel, options?: Options): Layer.Layer<ModelClient.ModelClient> =>
  Layer.succeed(ModelClient.ModelClient, make(model, options))

/** A signal that is aborted when the call ends or is interrupted, which closes the connection. */
const abortSignal: Effect.Effect<AbortSignal, never, Scope.Scope> = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => new AbortController()),
    (controller) => Effect.sync(() => controller.abort())
  ),
  ({ signal }) => signal
)

/** A value that a model threw; `errorFrom` turns it into a `ModelError`. */
class Thrown {
  readonly error: unknown
  constructor(error: unknown) {
    this.error = error
  }
}
