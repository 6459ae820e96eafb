/**
 * Converts the options of the Promise API to the inputs of stored runs.
 */
import * as Struct from "effect/Struct"
import { withoutUndefined } from "../../domain/internal/untyped.ts"
import type { ForkInput, StoredContinueInput, StoredStartInput } from "../../durable/storedInput.ts"
import type { Prompt } from "../../run/Mail.ts"
import type { ForkOptions, PromptOptions, ResumeOptions } from "./options.ts"

const given = ["answeredBy", "limits", "policy"] as const
const startKeys = [...given, "runId", "sessionId", "mayRepeat"] as const
const forkKeys = [...given, "sessionId", "revision", "newRunId"] as const
const continueKeys = [...given, "decisions"] as const

/** The input that starts a run. */
export const startOf = (prompt: Prompt, options: PromptOptions): StoredStartInput =>
  ({ prompt, ...withoutUndefined(Struct.pick(options, startKeys)) }) as StoredStartInput

/** The input that continues a run. */
export const continueOf = (runId: string, options: ResumeOptions): StoredContinueInput =>
  withoutUndefined({
    runId,
    message: options.prompt,
    ...Struct.pick(options, continueKeys)
  }) as StoredContinueInput

/** The input that forks a run. */
export const forkOf = (runId: string, prompt: Prompt, options: ForkOptions): ForkInput =>
  ({ runId, prompt, ...withoutUndefined(Struct.pick(options, forkKeys)) }) as ForkInput
