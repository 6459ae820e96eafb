/**
 * Stores a run without driving it, for the workers of the store.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Cancellation from "../agent/Cancellation.ts"
import type { Runtime } from "../agent/Runtime.ts"
import type { RunSuspended } from "../domain/RunError.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunHead } from "../store/RunStorePort.ts"
import { runPromptStored, type RunPromptStoredError } from "./runPromptStored.ts"
import type { StoredStartInput } from "./storedInput.ts"

/**
 * Stores a run with a prompt and returns the run's head, without driving the run. A worker with the agent takes the run up at once, and
 * `recover` with its next call. `attach` and `runPromptStored` can drive it, too.
 *
 * **When to use**
 *
 * In a program that should neither call the model nor run tools, such as a web server.
 *
 * **Details**
 *
 * The run is orphaned until a process claims it. The first claim counts towards `maxRecoveries` until the run makes progress, as after a
 * process that was stopped.
 *
 * **Errors**
 *
 * - Those of `runPromptStored` that prevent a start. A repeated submission with the same `runId` fails with `RunExists`.
 *
 * @category running
 * @since 0.1.0
 */
export const submitPrompt: (
  runtime: Runtime<any>,
  input: StoredStartInput
) => Effect.Effect<RunHead, Exclude<RunPromptStoredError, RunSuspended>, RunStore> = Effect.fn(
  "fermata.submitPrompt"
)(function* (runtime: Runtime<any>, input: StoredStartInput) {
  const store = yield* RunStore
  const suspension = { soon: Cancellation.make(), now: Cancellation.make() }
  suspension.soon.cancel("The run is left to a worker.")
  const runId = yield* runPromptStored(runtime, input, { suspension }).pipe(
    Effect.map((run) => run.runId),
    Effect.catchTag("RunSuspended", ({ runId }) => Effect.succeed(runId))
  )
  return yield* store.head(runId)
})
