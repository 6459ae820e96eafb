/**
 * Reopens denied requests of stored runs.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { turnOnFailure } from "../agent/internal/eventLoop.ts"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import { lineOf, type RequestId, runOfRequest } from "../domain/Id.ts"
import { note, shapeOf } from "../domain/internal/misfits.ts"
import { type ReopenError, reopenMessage, type ReopenOptions } from "../domain/internal/reopening.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import { RequestNotFound } from "../domain/Rejection.ts"
import { withDecisions } from "../run/internal/mailEvents.ts"
import { redactMessage, redactText } from "../run/internal/redact.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import { contained, Scrubber } from "../tool/Scrubber.ts"
import { loadRun } from "./internal/loadRun.ts"

const shape = shapeOf<ReopenOptions>({ by: "anything", note })

/**
 * Reopens a denied approval request. The run denies an equal call, one with the same digest, without asking again; after this, it asks
 * about the next one. The run receives a message that says so, as `sendMessage` sends it. A repeated call changes nothing.
 *
 * **Details**
 *
 * The call that was denied keeps its result. A reopening permits nothing: the new request needs a decision of its own.
 *
 * **Errors**
 *
 * - `RequestNotFound` — the store has no run with this request.
 * - `RequestNotDenied` — no denial by a party stands, for example because the request is open or was decided by expiry.
 * - `RunEnded` — the run has ended, and its denials with it: a new run asks anew.
 * - `PrincipalInvalid` — `by` is not a name or a valid principal, or not a person.
 * - `OptionsInvalid` — an option is unknown; for a misspelt key, the error names the nearest one.
 * - `RunStoreError` — nothing was stored: reopen again.
 *
 * @category running
 * @since 0.1.0
 */
export const reopenRequest: (
  requestId: RequestId,
  options: ReopenOptions
) => Effect.Effect<void, ReopenError | OptionsInvalid | RunStoreError, RunStore> = Effect.fn(
  "fermata.reopenRequest"
)(function* (requestId: RequestId, options: ReopenOptions) {
  yield* requireOptions("reopenRequest", options, shape)
  const store = yield* RunStore
  const scrubber = contained(yield* Scrubber)
  const at = yield* Clock.currentTimeMillis
  const notFound = () => new RequestNotFound({ requestId: String(requestId) })
  const runId = typeof requestId === "string" ? runOfRequest(requestId) : undefined
  if (runId === undefined) return yield* notFound()
  const { decisions, messages, state } = yield* Effect.catchTag(
    loadRun(store, lineOf(runId).root),
    "RunNotFound",
    notFound
  )
  const message = yield* Effect.fromResult(
    reopenMessage(withDecisions(state, decisions), requestId, { ...options, at }, messages)
  )
  if (message === undefined) return
  const { by, principal } = message.reopens
  const reopens = {
    ...message.reopens,
    by: redactText(scrubber, by),
    ...(principal === undefined
      ? {}
      : { principal: { ...principal, id: redactText(scrubber, principal.id) } })
  }
  const sending = store.send(state.runId, redactMessage(scrubber, { ...message, reopens }))
  yield* Effect.catchTags(sending, { RunNotFound: notFound, MessageInvalid: Effect.die })
}, turnOnFailure)
