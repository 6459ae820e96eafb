/**
 * Runs a prompt without a store, or continues a run from its state, as a stream of its updates and its result.
 *
 * `runPrompt` returns only the result. `streamPromptStored` does the same with a store.
 *
 * @since 0.1.0
 */
import type * as Stream from "effect/Stream"
import type { Runtime } from "../agent/Runtime.ts"
import { type PromptUpdate, streamed } from "./internal/streamed.ts"
import type { ContinueInput, RunOptions, StartInput } from "./runInput.ts"
import { runPrompt, type RunPromptError } from "./runPrompt.ts"

export type { PromptUpdate } from "./internal/streamed.ts"

/**
 * Runs a prompt, or continues a run from its state, and emits its updates as they are published, then its result.
 *
 * **Details**
 *
 * Each use of the stream runs the prompt, or continues the state, again. The run does not wait for the reader; unread updates stay in
 * memory, without a limit. The last element is the `result`: failures inside the run are results, and the errors of the stream are those of
 * `runPrompt`. A reader that ends the stream early, such as with `Stream.take`, interrupts the run, which is cancelled then.
 *
 * **Example** (Printing the text and the result)
 *
 * ```ts run
 * import { agent, Runtime, streamPrompt } from "@fermata/sdk"
 * import { ScriptedModel } from "@fermata/sdk/testing"
 * import { Console, Effect, Stream } from "effect"
 *
 * const model = ScriptedModel.make([{ text: "One two three", chunkSize: 4 }])
 * const program = Effect.gen(function* () {
 *   const runtime = yield* Runtime.make({ agent: agent("guide") })
 *   yield* Stream.runForEach(streamPrompt(runtime, { prompt: "Count." }), (update) =>
 *     update._tag === "delta" && update.part._tag === "text-delta"
 *       ? Console.log(update.part.delta)
 *       : update._tag === "result"
 *         ? Console.log(update.result.status)
 *         : Effect.void
 *   )
 * })
 * await Effect.runPromise(Effect.provide(program, model.layer))
 * ```
 *
 * **Errors**
 *
 * - Those of `runPrompt`.
 *
 * @category running
 * @since 0.1.0
 */
export const streamPrompt = <Output>(
  runtime: Runtime<Output>,
  input: StartInput | ContinueInput,
  options?: RunOptions
): Stream.Stream<PromptUpdate<Output>, RunPromptError> =>
  streamed((onUpdate) => runPrompt(runtime, input, { ...options, onUpdate }), options?.onUpdate)
