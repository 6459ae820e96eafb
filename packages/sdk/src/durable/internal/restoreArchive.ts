/**
 * Stores the runs of a sound archive.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { Sha256 } from "../../domain/Blob.ts"
import { sentence } from "../../domain/Display.ts"
import { evolveAll } from "../../domain/evolve.ts"
import type { Timestamp } from "../../domain/Id.ts"
import { callIdOf, tokenOf } from "../../domain/Interruption.ts"
import { type RunEvent, unwrap } from "../../domain/RunEvent.ts"
import { isEnded, type RunState } from "../../domain/RunState.ts"
import { reportCalls } from "../../run/internal/cancellation.ts"
import { Contents } from "../../run/internal/Contents.ts"
import { redactDecision, redactEvent, redactMessage } from "../../run/internal/redact.ts"
import { blobsOfCopy } from "../../store/internal/blobs.ts"
import { copyOf, endOfPartialCopy } from "../../store/internal/copies.ts"
import { RunStore } from "../../store/RunStore.ts"
import type { RunStoreError } from "../../store/RunStoreError.ts"
import type { RestoredRun } from "../../store/RunStorePort.ts"
import { counted } from "../../tool/internal/scrub/redactions.ts"
import { contained, Scrubber } from "../../tool/Scrubber.ts"
import { type ArchiveInvalid, invalid, type Mail, type RunArchive } from "./checkArchive.ts"

/**
 * Scrubs and stores the runs of an archive that `checkArchive` has accepted, and returns the id of the last one. Fails with `ArchiveInvalid`
 * if one of its calls has the token of another call of the store. After that check, `storeContents` is called with the SHA-256 of the
 * contents that the runs refer to, and stores those that it has; they stay stored if the store then refuses the runs. An earlier run that
 * has not ended, and whose rest is not in the archive, is stored as cancelled at `at`.
 */
export const restoreArchive = Effect.fnUntraced(function* <E>(
  archive: RunArchive,
  at: Timestamp,
  storeContents: (needed: ReadonlySet<Sha256>) => Effect.Effect<void, E>
) {
  const scrubber = contained(yield* Scrubber)
  const last = Arr.lastNonEmpty(archive.runs)
  const store = yield* RunStore
  const contents = store.blobs === undefined ? undefined : new Contents(store.blobs)
  const clean = (events: ReadonlyArray<RunEvent>) =>
    events.map((given) => {
      const event = redactEvent(scrubber, given)
      return contents?.separate(event) ?? event
    })
  const mailOf = ({ cancelReason, decisions, messages = [] }: Mail) => ({
    decisions: decisions.map((decision) => redactDecision(scrubber, decision)),
    messages: messages.map((message) => {
      const { content } = redactMessage(scrubber, message)
      return { ...message, content: contents?.separateParts(content) ?? content }
    }),
    ...(cancelReason === undefined
      ? {}
      : { cancelReason: counted(cancelReason, scrubber.scrub(cancelReason)) })
  })
  let state: RunState | undefined
  const restored = Arr.map(archive.runs, ({ since, ...run }): RestoredRun => {
    const events = clean(run.events) as Arr.NonEmptyArray<RunEvent>
    state = evolveAll(state, events)
    if (run.runId === last.runId) return { ...run, events, ...mailOf(archive) }
    if (since !== undefined) {
      return { ...run, events, status: since.status, rest: clean(since.events), ...mailOf(since) }
    }
    if (state === undefined || isEnded(state)) return { ...run, events }
    const rest = [endOfPartialCopy(at, last.runId, reportCalls(state))]
    return { ...run, events, rest, status: "cancelled" }
  })
  const { decisions = [], messages = [] } = Arr.lastNonEmpty(restored)
  yield* requireOwnTokens(store, restored)
  if (contents !== undefined) yield* contents.flush
  yield* storeContents(
    new Set(restored.flatMap((run) => blobsOfCopy(copyOf(run)).map(({ sha256 }) => sha256)))
  )
  yield* store.restore(restored, decisions, messages, archive.revoked)
  return last.runId
})

/** Fails if a call of the archive has the token of another call of the store: a result would then reach either of them. */
const requireOwnTokens = Effect.fnUntraced(function* (
  store: RunStore["Service"],
  runs: ReadonlyArray<RestoredRun>
): Effect.fn.Return<void, ArchiveInvalid | RunStoreError> {
  for (const wrapped of runs.flatMap(({ events, rest = [] }) => [...events, ...rest])) {
    const { event } = unwrap(wrapped)
    const token = event._tag === "request.opened" ? tokenOf(event.request) : undefined
    if (event._tag !== "request.opened" || token === undefined) continue
    const callId = callIdOf(event.request)
    const other = (yield* store.withToken(token)).find(({ request }) => callIdOf(request) !== callId)
    if (other === undefined) continue
    return yield* invalid(
      sentence`its call ${callId} has the token "${token}", which a call of the run ${other.runId} of this store has, too`
    )
  }
})
