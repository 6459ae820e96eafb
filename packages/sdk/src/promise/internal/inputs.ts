/**
 * Converts the options of the Promise API to the inputs of runs.
 */
import * as Struct from "effect/Struct"
import type { DecisionInput } from "../../domain/Decision.ts"
import { withoutUndefined } from "../../domain/internal/untyped.ts"
import type { Principal } from "../../domain/Principal.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { ForkInput, StoredContinueInput, StoredStartInput } from "../../durable/storedInput.ts"
import type { Prompt } from "../../run/Mail.ts"
import type { ContinueInput } from "../../run/runInput.ts"
import { decisionOn } from "../RunHandle.ts"
import type { ForkOptions, PromptOptions, ResumeOptions } from "./options.ts"

const given = ["answeredBy", "context", "limits", "policy"] as const
const startKeys = [...given, "runId", "sessionId", "mayRepeat"] as const
const forkKeys = [...given, "sessionId", "revision", "newRunId"] as const

/** The input that starts a run. */
export const startOf = (prompt: Prompt, options: PromptOptions): StoredStartInput =>
  ({ prompt, ...withoutUndefined(Struct.pick(options, startKeys)) }) as StoredStartInput

/** The input that continues a run. */
export const continueOf = (
  runId: string,
  options: ResumeOptions,
  by: string | Principal
): StoredContinueInput =>
  ({
    // Kept if it is undefined, so that it is refused as an id.
    runId,
    ...withoutUndefined({ message: options.prompt, ...continuing(options, by) })
  }) as StoredContinueInput

/** The input that continues a run from its state. */
export const continueStateOf = (
  state: RunState,
  options: ResumeOptions,
  by: string | Principal
): ContinueInput =>
  withoutUndefined({ state, prompt: options.prompt, ...continuing(options, by) }) as ContinueInput

/** What both kinds of continued runs take. */
const continuing = (options: ResumeOptions, by: string | Principal) => ({
  ...Struct.pick(options, given),
  decisions: decisionsOf(options.decisions, by)
})

/** Decisions may be given as `decideAll` takes them. A value that is no list is refused later. */
const decisionsOf = (
  decisions: ResumeOptions["decisions"],
  by: string | Principal
): ReadonlyArray<DecisionInput> | undefined =>
  Array.isArray(decisions)
    ? (decisions as NonNullable<ResumeOptions["decisions"]>).map((one) =>
        typeof one === "object" && one !== null && "decision" in one ? decisionOn(one, by) : one
      )
    : (decisions as undefined)

/** The input that forks a run. */
export const forkOf = (runId: string, prompt: Prompt, options: ForkOptions): ForkInput =>
  ({ runId, prompt, ...withoutUndefined(Struct.pick(options, forkKeys)) }) as ForkInput
