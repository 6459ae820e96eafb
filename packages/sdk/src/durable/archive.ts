/**
 * A stored run as one JSON value: to keep as evidence, to look at elsewhere, or to move to another store.
 *
 * An archive holds the run and those that it builds on, each with its journal and with what its journal does not hold yet: decisions,
 * messages, a request to cancel it. All of them can be folded and continued without the store that they came from. A run that is
 * not over and that a fork builds on is copied with the fork, and waits in the other store for what it waits for in its own.
 *
 * It is a copy: a run that is imported while the original can still be resumed exists twice, and what each does, it does on its own. To
 * move runs, remove the originals before you resume the copies: the fork first, then the run that it builds on.
 *
 * An archive holds decisions: whoever can write archives can write approvals. Trust one as much as the database itself. What is checked
 * when it is imported is that it adds up.
 *
 * @since 0.1.0
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { evolveAll } from "../domain/evolve.ts"
import type { Revision, RunId } from "../domain/Id.ts"
import { withoutUndefined } from "../domain/internal/untyped.ts"
import type { SessionBusy } from "../domain/RunError.ts"
import { type RunEvent, version as eventVersion } from "../domain/RunEvent.ts"
import { isEnded, type RunState } from "../domain/RunState.ts"
import { reportCalls } from "../run/internal/cancellation.ts"
import { redactDecision, redactEvent } from "../run/internal/redact.ts"
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
  type Mail,
  type RunArchive
} from "./internal/checkArchive.ts"
import { foldStored } from "./internal/foldStored.ts"
import { redactMessage } from "./internal/redactMessage.ts"

export { ArchiveInvalid, RunArchive } from "./internal/checkArchive.ts"

/**
 * Copies a run out of the store, with the runs that it builds on. Everything in an archive is as the journal holds it: secrets were
 * taken out before.
 *
 * **Errors**
 *
 * - `RunNotFound` — check the id.
 *
 * @category running
 * @since 0.1.0
 */
export const exportRun: (runId: RunId) => Effect.Effect<RunArchive, RunNotFound | RunStoreError, RunStore> =
  Effect.fn("fermata.exportRun")(function* (runId: RunId) {
    const store = yield* RunStore
    const stored = yield* store.load(runId)
    yield* foldStored(stored)
    const { decisions, events, head, messages } = stored
    const slices: Array<Slice> = [{ head, events: events.slice(events.length - head.revision) }]
    let upto = events.length - head.revision
    for (let { parent } = head; parent !== undefined;) {
      const { revision } = parent
      // It can be gone only if the run itself was removed since it was read.
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
      ...asked(head),
      ...(revoked.length === 0 ? {} : { revoked })
    }
  })

/** All grants of a run that were revoked. */
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

/** The events of one run among those of a chain. */
interface Slice extends Pick<ArchivedRun, "events" | "since"> {
  readonly head: RunHead
}

/** How a run went on behind what the next one builds on. Damage there does not keep the next one from being exported. */
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
    // Nearly all runs that another one builds on: the earlier ones of its session.
    const decisions = yield* store.decisions(runId)
    const messages = yield* store.messages(runId)
    return decisions.length + messages.length === 0 && found.cancelReason === undefined
      ? {}
      : { since: { status, revision: latest, events: [], decisions, messages, ...asked(found) } }
  }
  const stored = yield* store.load(runId)
  yield* foldStored(stored)
  const { decisions, events, head, messages } = stored
  if (head.status === "running") return {}
  const rest = events.slice(events.length - (head.revision - revision))
  const { revision: upto } = head
  return {
    since: { status: head.status, revision: upto, events: rest, decisions, messages, ...asked(head) }
  }
})

const asked = ({ cancelReason }: RunHead) => (cancelReason === undefined ? {} : { cancelReason })

/**
 * Copies the runs of an archive into the store, and returns the id of the last one.
 *
 * **Details**
 *
 * A run of the archive that is here already is left as it is if a process has worked on it in this store. If it is a copy that no
 * process has worked on, it becomes the one that went on further, with what was decided and sent here. The same archive again changes
 * nothing. A run that was at work when it was exported is copied up to where the next one took it up, and is cancelled in the copy;
 * importing its own archive later replaces that. So archives of runs that build on each other can be imported in any order.
 *
 * A revocation only narrows what may happen: those that the archive carries are taken in also where the rest of it is refused with
 * `RunExists` or `SessionBusy`. `revoked` in the error lists the grants of runs that are here, that the archive says were revoked, and
 * that are revoked here now. An archive of another run of the same id revokes nothing.
 *
 * **Errors**
 *
 * - `ArchiveInvalid` — it is not an archive, was changed so that it no longer adds up (events are missing or cannot follow from each
 *   other, a decision answers no request of the run, does not fit it, or is of an expiry that has not come), or is of a run that was at
 *   work. Nothing was written.
 * - `RunExists` — the store has a run of this id that went on by itself, or another one; `archive` says how the two stand to each other.
 * - `SessionBusy` — the store has another run in its place in the session.
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
  yield* store.restore(restored, decisions, messages, archive.revoked)
  return last.runId
})
