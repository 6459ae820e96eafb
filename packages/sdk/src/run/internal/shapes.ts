/**
 * The accepted options of the functions that start, continue and observe runs. Each shape names every key of its type.
 */
import { callable, shapeOf, string } from "../../domain/internal/misfits.ts"
import type { ContinueInput, RunOptions, StartInput } from "../runInput.ts"

/** `checkCallerOptions` checks limits, policy and context, which have errors of their own. */
export const givenShape = {
  context: "anything",
  limits: "anything",
  policy: "anything",
  answeredBy: string,
  "~allotted": "anything",
  "~policy": "anything"
} as const

export const newRunShape = {
  ...givenShape,
  prompt: "anything",
  runId: "anything",
  sessionId: "anything"
} as const

export const startShape = shapeOf<StartInput>(newRunShape)

export const continueShape = shapeOf<ContinueInput>({
  ...givenShape,
  state: "anything",
  decisions: "anything",
  prompt: "anything"
})

export const watchShape = { onUpdate: callable, cancellation: "anything", mailbox: "anything" } as const

export const runShape = shapeOf<RunOptions>(watchShape)
