/**
 * A prompt that is repeated in its session because its run ended before a model answered.
 */
import * as History from "../History.ts"
import type { UserPart } from "../Message.ts"
import type { RunState } from "../RunState.ts"
import { sameContent } from "./files.ts"

/** Whether a prompt repeats the prompt of a session's last run, which failed or was cancelled before a model answered. */
export const repeatsPrompt = (previous: RunState, prompt: ReadonlyArray<UserPart>): boolean =>
  (previous.status === "error" || previous.status === "cancelled") && endsWithPrompt(previous.history, prompt)

/** Whether the last message is this prompt, from the user. */
export const endsWithPrompt = (history: History.History, prompt: ReadonlyArray<UserPart>): boolean => {
  const last = History.last(history)
  return last?.role === "user" && last.origin === undefined && sameContent(last.content, prompt)
}
