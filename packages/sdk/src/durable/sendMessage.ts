/**
 * Sending a message to a stored run, whichever process works on it.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import { turnOnFailure } from "../agent/internal/eventLoop.ts"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import type { RunId } from "../domain/Id.ts"
import { shapeOf } from "../domain/internal/misfits.ts"
import { eventOfSubAgent } from "../domain/internal/subAgents.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import { type EmptyPrompt, RunEnded } from "../domain/RunError.ts"
import { isEnded } from "../domain/RunState.ts"
import { tookFor } from "../run/internal/mailEvents.ts"
import { redactText } from "../run/internal/redact.ts"
import { decodePrompt } from "../run/internal/staging.ts"
import type { Prompt } from "../run/Mail.ts"
import { takenBy } from "../store/internal/messages.ts"
import { RunStore } from "../store/RunStore.ts"
import { MessageInvalid, type RunNotFound, type RunStoreError } from "../store/RunStoreError.ts"
import type { Receipt } from "../store/SentMessage.ts"
import { contained, Scrubber } from "../tool/Scrubber.ts"
import { redactMessage } from "./internal/redactMessage.ts"
import { findSubRun } from "./internal/subRun.ts"

/** How a message is sent. */
export interface SendOptions {
  /** Chosen by the caller: a message that is sent again with the same id is the same message. Default: made. */
  readonly messageId?: string
}

const shape = shapeOf<SendOptions>({ messageId: "anything" })

/**
 * Sends a message to a run and says under which id it is kept. It is in the store when this returns, and is not lost: whoever
 * works on the run delivers it with the run's next turn; a run that is held is taken up for it by a worker, or when somebody
 * resumes it.
 *
 * **Details**
 *
 * With the run of a sub-agent it is said to that one, and read before its next turn, once whoever works on the run that it lies in has
 * taken it. One that has ended by then leaves the message to the agent that it has worked for, which reads whom it was for.
 *
 * Send it again with the same `messageId` when you do not know whether it was sent: it is delivered once. Only a run whose end
 * comes before its next turn does not take it; then it stays readable in the store.
 *
 * **Errors**
 *
 * - `RunNotFound` — check the id.
 * - `RunEnded` — start a new run in its session with a prompt; of a sub-agent's run, say it to the run that it has worked for.
 * - `OptionsInvalid` — a key that there is not; the error names the nearest one.
 * - `EmptyPrompt`, `MessageInvalid` — say something; choose another `messageId`.
 * - `RunStoreError` — send it again.
 *
 * @category running
 * @since 0.1.0
 */
export const sendMessage: (
  runId: RunId,
  prompt: Prompt,
  options?: SendOptions
) => Effect.Effect<
  Receipt,
  EmptyPrompt | OptionsInvalid | RunNotFound | RunEnded | MessageInvalid | RunStoreError,
  RunStore
> = Effect.fn("fermata.sendMessage")(function* (runId: RunId, prompt: Prompt, options: SendOptions = {}) {
  yield* requireOptions("sendMessage", options, shape)
  const scrubber = contained(yield* Scrubber)
  const store = yield* RunStore
  const content = yield* decodePrompt(prompt)
  const { messageId } = options
  if (typeof messageId === "string" && redactText(scrubber, messageId) !== messageId) {
    // It is no text that could be cleaned: the journal must know the message by the id that it was sent under.
    return yield* new MessageInvalid({ issues: "its messageId has the form of a secret" })
  }
  const message = redactMessage(scrubber, { content, ...(messageId === undefined ? {} : { messageId }) })
  const found = yield* findSubRun(store, runId)
  if (found === undefined) return yield* store.send(runId, message)
  const { path, root, state, stored } = found
  if (isEnded(state) || isEnded(root)) {
    // Sent again it gets its answer, whatever has come of the run.
    const known = takenBy(
      stored.events.filter((event) => eventOfSubAgent(event, path) !== undefined || tookFor(event, runId))
    )
    const receipt = known.find((taken) => taken.messageId === messageId)
    if (receipt !== undefined) return receipt
    return yield* new RunEnded({
      runId,
      status: isEnded(state) ? state.status : root.status,
      root: root.runId
    })
  }
  return yield* store.send(root.runId, { ...message, to: runId })
}, turnOnFailure)
