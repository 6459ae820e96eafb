/**
 * Copies a stored run as one JSON value: as evidence, for inspection elsewhere, or to move it to another store.
 *
 * An archive contains a run and the runs that it builds on, each with its journal and its mail: the decisions, the messages and the
 * cancellation request that the journal does not contain yet. It also lists the grants of these runs that were revoked. The runs can be
 * folded and continued without the store that they came from. A held run that a fork builds on is copied with the fork, and is held in the
 * other store, too.
 *
 * An archive is a copy. If the original can still be resumed, the run exists twice after an import: both the original and the copy run the
 * calls that are left. To move runs, remove the originals before you resume the copies: the fork first, then the run that it builds on.
 *
 * An archive contains decisions, so a program that can write archives can write approvals. Trust an archive as much as the database. An
 * import checks that the archive is consistent, not where it comes from.
 *
 * @since 0.1.0
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { sentence } from "../domain/Display.ts"
import { evolveAll } from "../domain/evolve.ts"
import type { Revision, RunId } from "../domain/Id.ts"
import { withoutUndefined } from "../domain/internal/untyped.ts"
import { callIdOf } from "../domain/Interruption.ts"
import type { SessionBusy } from "../domain/RunError.ts"
import { type RunEvent, unwrap, version as eventVersion } from "../domain/RunEvent.ts"
import { isEnded, type RunState } from "../domain/RunState.ts"
import { reportCalls } from "../run/internal/cancellation.ts"
import { redactDecision, redactEvent, redactMessage } from "../run/internal/redact.ts"
import { endOfPartialCopy } from "../store/internal/copies.ts"
import { RunStore } from "../store/RunStore.ts"
import { type RunExists, RunNotFound, type RunStoreError } from "../store/RunStoreError.ts"
import type { RestoredRun, RunHead } from "../store/RunStorePort.ts"
import type { StoredGrant } from "../store/StoredGrant.ts"
import { contained, Scrubber } from "../tool/Scrubber.ts"
import {
  type ArchivedRun,
  type ArchiveInvalid,
  checkArchive,
  invalid,
  type Mail,
  type RunArchive
} from "./internal/checkArchive.ts"
import { foldStored } from "./internal/foldStored.ts"

export { ArchiveInvalid, RunArchive } from "./internal/checkArchive.ts"

/**
 * Returns a copy of a run and of the runs that it builds on. The content is as the store has it: secrets were removed before it was
 * written. A running run can be exported for inspection; its archive cannot be imported.
 *
 * **Errors**
 *
 * - `RunNotFound` — check the id.
 * - `RunStoreError` — the store failed, or the journal of the run is damaged; see its `reason`.
 *
 * @category running
 * @since 0.1.0
 */
export const exportRun: (runId: string) => Effect.Effect<RunArchive, RunNotFound | RunStoreError, RunStore> =
  Effect.fn("fermata.exportRun")(function* (given: string) {
    const runId = given as RunId
    const store = yield* RunStore
    const stored = yield* store.load(runId)
    yield* foldStored(stored)
    const { decisions, events, head, messages } = stored
    const slices: Array<Slice> = [{ head, events: events.slice(events.length - head.revision) }]
    let upto = events.length - head.revision
    for (let { parent } = head; parent !== undefined;) {
      const { revision } = parent
      // A parent is missing only if the run itself was removed after it was read.
      const before = yield* Effect.catchTag(store.head(parent.runId), "RunNotFound", () =>
        Effect.fail(new RunNotFound({ runId }))
      )
      const since = yield* Effect.catchTag(sinceOf(store, before, revision), "RunNotFound", () =>
        Effect.fail(new RunNotFound({ runId }))
      )
      slices.unshift({ head: before, events: events.slice(upto - revision, upto), ...since })
      upto -= revision
      parent = before.parent
    }
    let state: RunState | undefined
    const runs = slices.map(({ events, head, since }) => {
      state = evolveAll(state, events)
      const { agent, parent, runId, sessionId } = head
      return {
        runId,
        sessionId,
        agent,
        status: state?.status ?? head.status,
        revision: events.length as Revision,
        events,
        ...withoutUndefined({ parent, since })
      }
    })
    const revoked = (yield* Effect.forEach(runs, ({ runId }) => revokedOf(store, runId))).flat()
    return {
      format: "fermata.run",
      version: eventVersion,
      runs: runs as [(typeof runs)[number]],
      decisions,
      messages,
      ...cancelRequestOf(head),
      ...(revoked.length === 0 ? {} : { revoked })
    }
  })

/** All revoked grants of a run. */
const revokedOf = Effect.fnUntraced(function* (store: RunStore["Service"], runId: RunId) {
  const limit = 1000
  const found: Array<StoredGrant> = []
  for (let after: StoredGrant | undefined, isMore = true; isMore;) {
    const page = yield* store.grants({
      runId,
      limit,
      ...(after === undefined ? {} : { after: after.grant.id })
    })
    found.push(...page.filter(({ grant }) => grant.revoked !== undefined))
    after = page.at(-1)
    isMore = page.length === limit
  }
  return found
})

/** One run of a chain, with its part of the chain's events. */
interface Slice extends Pick<ArchivedRun, "events" | "since"> {
  readonly head: RunHead
}

/** What a run did after the revision that the next run builds on. Damage in that part does not prevent an export of the next run. */
const sinceOf = (store: RunStore["Service"], head: RunHead, revision: Revision) =>
  Effect.catchIf(
    readSince(store, head, revision),
    (error) => error._tag === "RunStoreError" && error.reason._tag === "StoreUnreadable",
    () => Effect.succeed<Pick<Slice, "since">>({})
  )

const readSince = Effect.fnUntraced(function* (
  store: RunStore["Service"],
  found: RunHead,
  revision: Revision
): Effect.fn.Return<Pick<Slice, "since">, RunNotFound | RunStoreError> {
  const { revision: latest, runId, status } = found
  if (status === "running") return {}
  if (latest === revision && status !== "held") {
    // The usual case: an earlier run of the same session.
    const decisions = yield* store.decisions(runId)
    const messages = yield* store.messages(runId)
    return decisions.length + messages.length === 0 && found.cancelReason === undefined
      ? {}
      : { since: { status, revision: latest, events: [], decisions, messages, ...cancelRequestOf(found) } }
  }
  const stored = yield* store.load(runId)
  yield* foldStored(stored)
  const { decisions, events, head, messages } = stored
  if (head.status === "running") return {}
  const rest = events.slice(events.length - (head.revision - revision))
  const { revision: upto } = head
  return {
    since: {
      status: head.status,
      revision: upto,
      events: rest,
      decisions,
      messages,
      ...cancelRequestOf(head)
    }
  }
})

const cancelRequestOf = ({ cancelReason }: RunHead) => (cancelReason === undefined ? {} : { cancelReason })

/**
 * Stores the runs of an archive, and returns the id of the last one.
 *
 * **Details**
 *
 * A run that the store already has does not change if a process has claimed it in this store. A copy that no process has claimed is
 * replaced if the archive has more of the run, and keeps the decisions and messages that this store acknowledged. A second import of
 * the same archive changes nothing. A run that was running when its fork was exported is copied up to the revision that the fork builds
 * on, and is cancelled in the copy; an import of its own archive replaces that copy. Archives of runs that build on each other can
 * therefore be imported in any order.
 *
 * The revocations in an archive are stored even if its runs are refused with `RunExists` or `SessionBusy`, because a revocation only
 * restricts. `revoked` in the error lists the grants of stored runs that the archive lists as revoked and that are revoked in this
 * store now. An archive of a different run with the same id revokes nothing.
 *
 * **Errors**
 *
 * - `ArchiveInvalid` — the value is not an archive; or it is inconsistent (events are missing or cannot follow from each other, a
 *   decision answers no request of the run, does not fit it, or is an expiry that has not come); or its last run was running; or a call
 *   of it has the token of another call of the store. Nothing was written.
 * - `RunExists` — the store has the run, which has continued there, or has a different run with the id; `archive` says which.
 * - `SessionBusy` — another run has the position in the session.
 * - `RunStoreError` — the store failed, or has damaged data of one of the runs; see its `reason`.
 *
 * @category running
 * @since 0.1.0
 */
export const importRun: (
  given: unknown
) => Effect.Effect<RunId, ArchiveInvalid | RunExists | SessionBusy | RunStoreError, RunStore> = Effect.fn(
  "fermata.importRun"
)(function* (given: unknown) {
  const scrubber = contained(yield* Scrubber)
  const at = yield* Clock.currentTimeMillis
  const archive = yield* checkArchive(given, at)
  const last = Arr.lastNonEmpty(archive.runs)
  const redacted = (events: ReadonlyArray<RunEvent>) => events.map((event) => redactEvent(scrubber, event))
  const mailOf = ({ cancelReason, decisions, messages = [] }: Mail) => ({
    decisions: decisions.map((decision) => redactDecision(scrubber, decision)),
    messages: messages.map((message) => redactMessage(scrubber, message)),
    ...(cancelReason === undefined ? {} : { cancelReason: scrubber.scrub(cancelReason) })
  })
  let state: RunState | undefined
  const restored = Arr.map(archive.runs, ({ since, ...run }): RestoredRun => {
    const events = redacted(run.events) as Arr.NonEmptyArray<RunEvent>
    state = evolveAll(state, events)
    if (run.runId === last.runId) return { ...run, events, ...mailOf(archive) }
    if (since !== undefined) {
      return { ...run, events, status: since.status, rest: redacted(since.events), ...mailOf(since) }
    }
    if (state === undefined || isEnded(state)) return { ...run, events }
    const rest = [endOfPartialCopy(at, last.runId, reportCalls(state))]
    return { ...run, events, rest, status: "cancelled" }
  })
  const { decisions = [], messages = [] } = Arr.lastNonEmpty(restored)
  const store = yield* RunStore
  yield* requireOwnTokens(store, restored)
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
    if (event._tag !== "request.opened" || event.request._tag !== "external") continue
    const { callId, token } = event.request
    const other = (yield* store.withToken(token)).find(({ request }) => callIdOf(request) !== callId)
    if (other === undefined) continue
    return yield* invalid(
      sentence`its call ${callId} has the token "${token}", which a call of the run ${other.runId} of this store has, too`
    )
  }
})
