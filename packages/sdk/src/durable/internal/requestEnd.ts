/**
 * Asking for the end of a stored run, which is committed first, and bringing it about where no process works on the run.
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

/** Commits that a run is to end, and returns the step that ends one that no process works on. */
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
      // What was decided before belongs to what is said of it.
      const decided = foldDecisions(state, decisions)
      return [...decided.events, ...cancellation(decided.state, at, first)]
    }),
    "RunBusy",
    () => Effect.void
  )
})

/** Asks for the end of a sub-agent, with a message that is kept until the run has ended. */
const endSubRun = (store: RunStore["Service"], { root, state }: SubRun, reason: string) => {
  // A root that failed may be resumed, and ends it first.
  if (isEnded(state) || !isCancellable(root.status)) return Effect.void
  const { runId } = state
  return store.send(root.runId, { content: [text(reason)], to: runId, ends: true }).pipe(
    Effect.asVoid,
    // It has ended meanwhile, with everything in it.
    Effect.catchTag("RunEnded", () => Effect.void),
    // Nothing of it is the caller's.
    Effect.catchTag("MessageInvalid", Effect.die)
  )
}
