/**
 * Requests the end of a stored run in a commit, and ends the run at once if no process drives it.
 */
import * as Effect from "effect/Effect"
import type { RunId } from "../../domain/Id.ts"
import { text } from "../../domain/Message.ts"
import { isEnded } from "../../domain/RunState.ts"
import { cancellation } from "../../run/internal/cancellation.ts"
import { foldDecisions } from "../../run/internal/mailEvents.ts"
import { redactText } from "../../run/internal/redact.ts"
import { isCancellable } from "../../store/internal/requests.ts"
import { RunStore } from "../../store/RunStore.ts"
import { contained, Scrubber } from "../../tool/Scrubber.ts"
import { appendOnce } from "./appendOnce.ts"
import { findSubRun, type SubRun } from "./subRun.ts"

/** Commits the request to end a run, and returns the step that ends a run that no process drives. */
export const requestEnd = Effect.fnUntraced(function* (runId: RunId, given: string) {
  const store = yield* RunStore
  const scrubber = contained(yield* Scrubber)
  const reason = redactText(scrubber, given)
  const found = yield* findSubRun(store, runId)
  if (found !== undefined) return yield* Effect.as(endSubRun(store, found, reason), Effect.void)
  yield* store.requestCancel(runId, reason)
  return Effect.catchTag(
    appendOnce(runId, ({ decisions, state }, at, first = reason) => {
      if (isEnded(state)) return []
      // The call reports of the cancelled run depend on the decisions before it.
      const decided = foldDecisions(state, decisions)
      return [...decided.events, ...cancellation(decided.state, at, first)]
    }),
    "RunBusy",
    () => Effect.void
  )
})

/** Requests the end of a sub-agent, with a message that is stored until the sub-agent's run has ended. */
const endSubRun = (store: RunStore["Service"], { root, state }: SubRun, reason: string) => {
  // A failed root can be resumed, and ends the sub-agent first.
  if (isEnded(state) || !isCancellable(root.status)) return Effect.void
  const { runId } = state
  return store.send(root.runId, { content: [text(reason)], to: runId, ends: true }).pipe(
    Effect.asVoid,
    // The root has ended meanwhile, with everything under it.
    Effect.catchTag("RunEnded", () => Effect.void),
    // The message has no part that the caller could have made invalid.
    Effect.catchTag("MessageInvalid", Effect.die)
  )
}
