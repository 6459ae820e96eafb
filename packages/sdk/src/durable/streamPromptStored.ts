/**
 * Runs a prompt with a store, or continues a stored run, as a stream of its updates and its result.
 *
 * @since 0.1.0
 */
import type * as Stream from "effect/Stream"
import type { Runtime } from "../agent/Runtime.ts"
import { type PromptUpdate, streamed } from "../run/internal/streamed.ts"
import type { RunStore } from "../store/RunStore.ts"
import { runPromptStored, type RunPromptStoredError } from "./runPromptStored.ts"
import type { StoredContinueInput, StoredRunOptions, StoredStartInput } from "./storedInput.ts"

/**
 * Runs a prompt, or continues a run by its id, with every event in the store, and emits its updates as they are published, then its result.
 *
 * **Details**
 *
 * As `streamPrompt`: the last element is the `result`, the run does not wait for the reader, and a reader that ends the stream early
 * cancels the run. Use `dispatchPromptStored` for a run that continues without its reader.
 *
 * **Errors**
 *
 * - Those of `runPromptStored`.
 *
 * @category running
 * @since 0.1.0
 */
export const streamPromptStored = <Output>(
  runtime: Runtime<Output>,
  input: StoredStartInput | StoredContinueInput,
  options?: StoredRunOptions
): Stream.Stream<PromptUpdate<Output>, RunPromptStoredError, RunStore> =>
  streamed((onUpdate) => runPromptStored(runtime, input, { ...options, onUpdate }), options?.onUpdate)
