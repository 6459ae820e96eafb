/**
 * The port to a model.
 *
 * A client turns one {@link ModelRequest} into one answer, streamed or whole. Retries are its business, and only before the
 * first part is out; interrupting the stream closes the connection. It never runs a tool.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import { streamCut } from "./internal/modelError.ts"
import { streamOfIterable, readAll } from "./internal/streamOfIterable.ts"
import type { ModelError } from "./ModelError.ts"
import { type Collector, makeCollector, type ModelPart, type ModelResponse } from "./ModelPart.ts"
import type { ModelRequest } from "./ModelRequest.ts"

/**
 * A model that can be asked.
 *
 * @category services
 * @since 0.1.0
 */
export class ModelClient extends Context.Service<
  ModelClient,
  {
    /** The answer in parts, ended by a `finish`. A stream that ends without one counts as cut. */
    readonly stream: (request: ModelRequest) => Stream.Stream<ModelPart, ModelError>
    /** The whole answer. */
    readonly complete: (request: ModelRequest) => Effect.Effect<ModelResponse, ModelError>
    /**
     * How many tokens fit into one call, input and output together, for the code that prepares requests; of the profile that a request
     * without a name gets, if none is named. `undefined`, like a client without this function: not known.
     */
    readonly contextTokens?: (profile?: string) => number | undefined
  }
>()("@fermata/sdk/model/ModelClient") {}

/**
 * The stream of an async iterable of parts, such as what an async generator returns.
 *
 * **When to use**
 *
 * For a client around something that hands out its answer piece by piece. A run reads such a stream at a fraction of what one made
 * with `Stream.fromAsyncIterable` takes for each part.
 *
 * **Details**
 *
 * `open` is called each time that the stream is run. What the iterable throws is a failure of the stream, as `onError` makes it. A run
 * that is stopped calls `return` of the iterator, and waits for it unless a part is being waited for.
 *
 * **Example** (Answering from an async generator)
 *
 * ```ts run
 * import { ModelClient, ModelError, type ModelPart, type ModelRequest } from "@fermata/sdk/model"
 *
 * const usage = { inputTokens: 5, cachedInputTokens: 0, outputTokens: 2, reasoningTokens: 0 }
 * async function* answer(_: ModelRequest.ModelRequest): AsyncGenerator<ModelPart.ModelPart> {
 *   yield { _tag: "text-delta", delta: "Hello." }
 *   yield { _tag: "finish", finishReason: "stop", usage }
 * }
 * const failed = (error: unknown) =>
 *   new ModelError.ModelError({ reason: new ModelError.ConnectionLost({ description: String(error) }) })
 *
 * const stream = (request: ModelRequest.ModelRequest) =>
 *   ModelClient.fromAsyncIterable(() => answer(request), failed)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromAsyncIterable: <E>(
  open: () => AsyncIterable<ModelPart>,
  onError: (error: unknown) => E
) => Stream.Stream<ModelPart, E> = streamOfIterable

const emittingTo = (answer: Collector, onPart: (part: ModelPart) => void) => ({
  add: (part: ModelPart): void => {
    answer.add(part)
    onPart(part)
  }
})

/** Reads a stream of parts to its end, passing each part to `onPart`. A stream without a `finish` fails as cut. */
export const collect = <E>(
  stream: Stream.Stream<ModelPart, E>,
  onPart?: (part: ModelPart) => void,
  collector?: Collector
): Effect.Effect<ModelResponse, E | ModelError> =>
  Effect.suspend(() => {
    const answer = collector ?? makeCollector()
    const sink = onPart === undefined ? answer : emittingTo(answer, onPart)
    return Effect.flatMap(readAll(stream, sink), () => {
      const response = answer.response()
      return response === undefined ? Effect.fail(streamCut()) : Effect.succeed(response)
    })
  })
