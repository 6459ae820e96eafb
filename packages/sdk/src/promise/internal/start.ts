import type { RunId, SessionId } from "../../domain/Id.ts"
import type { StoredStartInput } from "../../durable/storedInput.ts"
/**
 * What a run is started with, as the core takes it.
 */
import type { Prompt } from "../../run/prompt.ts"
import type { PromptOptions } from "./options.ts"

export const startOf = (
  prompt: Prompt,
  { answeredBy, limits, mayRepeat, policy, runId, sessionId }: PromptOptions
): StoredStartInput => ({
  prompt,
  ...(runId === undefined ? {} : { runId: runId as RunId }),
  ...(sessionId === undefined ? {} : { sessionId: sessionId as SessionId }),
  ...(answeredBy === undefined ? {} : { answeredBy }),
  ...(limits === undefined ? {} : { limits }),
  ...(policy === undefined ? {} : { policy }),
  ...(mayRepeat === undefined ? {} : { mayRepeat })
})
