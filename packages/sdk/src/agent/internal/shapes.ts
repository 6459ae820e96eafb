/**
 * What the functions that start, continue and watch runs may be given, key by key: each shape names every key of its type.
 */
import { flag, shapeOf } from "../../domain/internal/misfits.ts"
import type { ForkInput } from "../forkRun.ts"
import type { RecoverOptions } from "../recover.ts"
import type { ContinueInput, RunOptions, StartInput } from "../runPrompt.ts"
import type { StoredContinueInput, StoredRunOptions, StoredStartInput } from "../runPromptStored.ts"
import type { SendOptions } from "../sendMessage.ts"
import type { WorkerOptions } from "../Worker.ts"

/** Limits and a policy are looked into where their errors are: see `checkGiven`. */
const given = {
  limits: "anything",
  policy: "anything",
  answeredBy: "anything",
  "~allotted": "anything"
} as const

const start = { ...given, prompt: "anything", runId: "anything", sessionId: "anything" } as const

export const startShape = shapeOf<StartInput>(start)

export const continueShape = shapeOf<ContinueInput>({
  ...given,
  state: "anything",
  decisions: "anything",
  prompt: "anything"
})

export const storedStartShape = shapeOf<StoredStartInput>({ ...start, mayRepeat: flag })

export const storedContinueShape = shapeOf<StoredContinueInput>({
  ...given,
  runId: "anything",
  decisions: "anything",
  message: "anything"
})

export const forkShape = shapeOf<ForkInput>({
  ...given,
  runId: "anything",
  revision: "anything",
  prompt: "anything",
  newRunId: "anything",
  sessionId: "anything"
})

const run = { onUpdate: "anything", cancellation: "anything", mailbox: "anything" } as const

export const runShape = shapeOf<RunOptions>(run)

export const storedRunShape = shapeOf<StoredRunOptions>({ ...run, leaving: "anything" })

export const sendShape = shapeOf<SendOptions>({ messageId: "anything" })

export const recoverShape = shapeOf<RecoverOptions>({
  onUpdate: "anything",
  limit: "anything",
  concurrency: "anything",
  leaving: "anything"
})

export const workerShape = shapeOf<WorkerOptions>({
  onUpdate: "anything",
  concurrency: "anything",
  pollInterval: "anything",
  drainTimeout: "anything",
  onTakingUp: "anything",
  onTakenUp: "anything"
})
