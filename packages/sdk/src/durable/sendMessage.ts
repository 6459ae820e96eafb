/**
 * Sends a message to a stored run, also one that another process drives.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import { turnOnFailure } from "../agent/internal/eventLoop.ts"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import type { RunId } from "../domain/Id.ts"
import { sameContent } from "../domain/internal/files.ts"
import { shapeOf } from "../domain/internal/misfits.ts"
import { withoutUndefined } from "../domain/internal/untyped.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import { type EmptyPrompt, RunEnded } from "../domain/RunError.ts"
import { isEnded } from "../domain/RunState.ts"
import { decodePrompt } from "../run/internal/decodePrompt.ts"
import { takenFor } from "../run/internal/mailEvents.ts"
import { redactMessage } from "../run/internal/redact.ts"
import type { Prompt } from "../run/Mail.ts"
import { otherContent } from "../store/internal/messages.ts"
import { RunStore } from "../store/RunStore.ts"
import { MessageInvalid, type RunNotFound, type RunStoreError } from "../store/RunStoreError.ts"
import type { MessageInput, Receipt } from "../store/SentMessage.ts"
import { contained, Scrubber } from "../tool/Scrubber.ts"
import { storeClean } from "./internal/storeParts.ts"
import { findSubRun } from "./internal/subRun.ts"

/** Options of `sendMessage`. */
export interface SendOptions {
  /**
   * Identifies the message, so that a repeated send stores it once: 1 to 256 visible ASCII characters. Refused with `MessageInvalid` if
   * another message of the run has the id. Default: a new id.
   */
  readonly messageId?: string
}

const shape = shapeOf<SendOptions>({ messageId: "anything" })

/**
 * Sends a message to a run and returns a receipt with the message's id. The message is in the store when this returns, and is not lost:
 * the process that drives the run delivers it with the next turn. A held run is continued for it by a worker or a handle, or by the next
 * caller that resumes the run.
 *
 * **Details**
 *
 * With the id of a sub-agent's run, that sub-agent reads the message before its next turn, once the process that drives the root has
 * taken it. If the sub-agent's run has ended by then, the nearest run above it that has not ended receives the message, with the ended
 * run's id.
 *
 * If it is not known whether a message was sent, send it again with the same `messageId`: the message is delivered once. A run does not
 * complete before it has read its messages. A run that is cancelled or fails before its next turn does not read the message, which then
 * stays readable in the store; a failed run that is resumed reads it.
 *
 * **Errors**
 *
 * - `RunNotFound` — check the id.
 * - `RunEnded` — start a new run in its session with a prompt; for a sub-agent's run, send the message to the root, which the error names.
 * - `OptionsInvalid` — an option is unknown, or the options are not an object; for a misspelt key, the error names the nearest one.
 * - `EmptyPrompt`, `MessageInvalid` — give the message content; choose another `messageId`, if another message has it, or if it is
 *   malformed or has the form of a secret.
 * - `RunStoreError` — send it again.
 *
 * @category running
 * @since 0.1.0
 */
export const sendMessage: (
  runId: string,
  prompt: Prompt,
  options?: SendOptions
) => Effect.Effect<
  Receipt,
  EmptyPrompt | OptionsInvalid | RunNotFound | RunEnded | MessageInvalid | RunStoreError,
  RunStore
> = Effect.fn("fermata.sendMessage")(function* (id: string, prompt: Prompt, options: SendOptions = {}) {
  const runId = id as RunId
  yield* requireOptions("sendMessage", options, shape)
  const scrubber = contained(yield* Scrubber)
  const store = yield* RunStore
  const given = yield* decodePrompt(prompt)
  const { messageId } = options
  if (typeof messageId === "string" && scrubber.redact(messageId) !== messageId) {
    // The id cannot be scrubbed: the journal must contain the id under which the message was sent.
    return yield* new MessageInvalid({ issues: "its messageId has the form of a secret" })
  }
  const inline = redactMessage(scrubber, { content: given, ...withoutUndefined({ messageId }) })
  const message = { ...inline, content: yield* storeClean(store, inline.content) }
  const send = (to: RunId, of: Pick<MessageInput, "to"> = {}) =>
    Effect.catchTag(store.send(to, { ...message, ...of }), "MessageInvalid", (error) =>
      // An earlier version may have sent the same message with its bytes.
      message.content === inline.content ? Effect.fail(error) : store.send(to, { ...inline, ...of })
    )
  const found = yield* findSubRun(store, runId)
  if (found === undefined) return yield* send(runId)
  const { path, root, state, stored } = found
  if (isEnded(state) || isEnded(root)) {
    // A message that is sent again gets its receipt even if the run has ended.
    const known = takenFor(stored.events, runId, path).find((taken) => taken.messageId === messageId)
    if (known !== undefined) {
      if (!sameContent(known.content, message.content))
        return yield* new MessageInvalid({ issues: otherContent })
      return { messageId: known.messageId, at: known.at }
    }
    return yield* new RunEnded({
      runId,
      status: isEnded(state) ? state.status : root.status,
      root: root.runId
    })
  }
  return yield* send(root.runId, { to: runId })
}, turnOnFailure)
