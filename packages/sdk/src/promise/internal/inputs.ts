/**
 * What the functions of a Fermata are given, as the core takes it.
 */
import type { RunId, SessionId } from "../../domain/Id.ts"
import type { ForkInput, StoredContinueInput, StoredStartInput } from "../../durable/storedInput.ts"
import type { Prompt } from "../../run/Mail.ts"
import type { ForkOptions, PromptOptions, ResumeOptions } from "./options.ts"

/** What a run is started with. */
export const startOf = (
  prompt: Prompt,
  { answeredBy, limits, mayRepeat, policy, runId, sessionId }: PromptOptions
): StoredStartInput =>
  withoutUndefined<StoredStartInput>({
    prompt,
    runId: runId as RunId | undefined,
    sessionId: sessionId as SessionId | undefined,
    answeredBy,
    limits,
    policy,
    mayRepeat
  })

/** What a run is continued with. */
export const continueOf = (
  runId: string,
  { answeredBy, decisions, limits, policy, prompt }: ResumeOptions
): StoredContinueInput =>
  withoutUndefined<StoredContinueInput>({
    runId: runId as RunId,
    decisions,
    message: prompt,
    answeredBy,
    limits,
    policy
  })

/** What a run is forked with. */
export const forkOf = (
  runId: string,
  prompt: Prompt,
  { answeredBy, limits, newRunId, policy, revision, sessionId }: ForkOptions
): ForkInput =>
  withoutUndefined<ForkInput>({
    runId: runId as RunId,
    prompt,
    answeredBy,
    revision,
    newRunId: newRunId as RunId | undefined,
    sessionId: sessionId as SessionId | undefined,
    limits,
    policy
  })

const withoutUndefined = <Input extends object>(given: {
  readonly [Key in keyof Input]: Input[Key] | undefined
}): Input => Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as Input
