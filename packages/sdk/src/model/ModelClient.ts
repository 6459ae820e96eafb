/**
 * The port to a model.
 *
 * A client turns one {@link ModelRequest} into one response, streamed or complete. The clients of this SDK do the following, and an
 * implementation of your own must, too: it retries only before it has emitted the first part, closes the connection when a call is
 * interrupted, never runs a tool, and keeps secrets out of its errors, which users and models may read. A run does not repeat a failed
 * call, with two exceptions: it makes one complete call after a stream that failed before its first content, if the error is a
 * `StreamUnsupported`, or if it is a lost connection, a timeout or an invalid response, is retryable and states no `attempts`; and it calls
 * the model again after a new login.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import type * as Stream from "effect/Stream"
import { streamCut } from "./internal/modelError.ts"
import { streamOfIterable, readAll } from "./internal/streamOfIterable.ts"
import type { ModelError } from "./ModelError.ts"
import { type Collector, makeCollector, type ModelPart, type ModelResponse } from "./ModelPart.ts"
import type { ModelRequest } from "./ModelRequest.ts"

/**
 * The port to a model: one request, one response, streamed or complete. The description of the module lists what an implementation must do.
 *
 * @category services
 * @since 0.1.0
 */
export class ModelClient extends Context.Service<
  ModelClient,
  {
    /** Streams the response in parts, the last of which is a `finish`. A stream that ends without one counts as cut off. */
    readonly stream: (request: ModelRequest) => Stream.Stream<ModelPart, ModelError>
    /** Returns the complete response. */
    readonly complete: (request: ModelRequest) => Effect.Effect<ModelResponse, ModelError>
    /**
     * Returns the size of a profile's context in tokens, input and output together, for the code that prepares requests. Without
     * `profile`, that of the profile which a request without one uses. `undefined` means unknown, as does a client without this function.
     */
    readonly contextTokens?: (profile?: string) => number | undefined
    /**
     * Returns the most tokens that the model of a profile can write; the profile as for `contextTokens`. `undefined` means unknown, as does a
     * client without this function.
     */
    readonly maxOutputTokens?: (profile?: string) => number | undefined
    /**
     * The credentials of the client, such as its key. They are read when a runtime is made, and removed from all texts of runs. One that
     * consists of words, such as `not-needed`, is ignored, as is one under 8 characters.
     */
    readonly secrets?: Effect.Effect<ReadonlyArray<Redacted.Redacted<string>>>
  }
>()("@fermata/sdk/model/ModelClient") {}

/**
 * Makes a stream from an async iterable of parts, such as an async generator.
 *
 * **When to use**
 *
 * In a client that gets its response as an async iterable. For a run, a part of such a stream costs a fraction of a part of
 * `Stream.fromAsyncIterable`.
 *
 * **Details**
 *
 * Each run of the stream calls `open`; an `open` that throws is a defect. If the iterator throws, the stream fails with the error that
 * `onError` returns. When the stream is interrupted or not read to its end, it calls the iterator's `return`, and waits for it unless a
 * call of `next` is pending.
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

/**
 * Reads a stream of parts to its end and returns the response. `collector` joins the parts (default: a new one); then each part is passed
 * to `onPart`. A stream without a `finish` fails with `ConnectionLost`; a malformed part is a defect.
 */
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
