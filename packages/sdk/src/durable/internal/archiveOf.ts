/**
 * Makes the archive of a run, without the contents to which its runs refer.
 */
import * as Effect from "effect/Effect"
import { evolveAll } from "../../domain/evolve.ts"
import type { Revision, RunId } from "../../domain/Id.ts"
import { withoutUndefined } from "../../domain/internal/untyped.ts"
import { version as eventVersion } from "../../domain/RunEvent.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { RunStore } from "../../store/RunStore.ts"
import { RunNotFound, type RunStoreError } from "../../store/RunStoreError.ts"
import type { RunHead } from "../../store/RunStorePort.ts"
import type { StoredGrant } from "../../store/StoredGrant.ts"
import type { ArchivedRun, RunArchive } from "./checkArchive.ts"
import { foldStored } from "./foldStored.ts"

/** The archive of a run and of the runs that it builds on. */
export const archiveOf = Effect.fnUntraced(function* (
  store: RunStore["Service"],
  runId: RunId
): Effect.fn.Return<RunArchive, RunNotFound | RunStoreError> {
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
