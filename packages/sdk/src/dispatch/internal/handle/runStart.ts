/**
 * What a stored run is dispatched with, and how it is run.
 */
import * as Effect from "effect/Effect"
import type { Runtime } from "../../../agent/Runtime.ts"
import type { RunId } from "../../../domain/Id.ts"
import { forkRun } from "../../../durable/forkRun.ts"
import { runPromptStored } from "../../../durable/runPromptStored.ts"
import type {
  ForkInput,
  StoredContinueInput,
  StoredRunOptions,
  StoredStartInput
} from "../../../durable/storedInput.ts"

/** A prompt; or a prompt to a fork of another run. */
export type Start = StoredStartInput | (ForkInput & { readonly newRunId: RunId })

/** Begins a run, or goes on with one. */
export const runStart = <Output>(
  runtime: Runtime<Output>,
  input: Start | StoredContinueInput,
  options: StoredRunOptions
) =>
  "newRunId" in input
    ? // Neither can be: it is the last revision of a session that was just made.
      Effect.catchTag(forkRun(runtime, input, options), ["RevisionNotFound", "SessionTaken"], Effect.die)
    : runPromptStored(runtime, input, options)
