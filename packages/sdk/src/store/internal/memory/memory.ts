/**
 * The run store over plain maps. Each operation is one synchronous step, so no other operation can run between a check and a write.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { BlobRef } from "../../../domain/Blob.ts"
import type { Decision } from "../../../domain/Decision.ts"
import type { RequestId, Revision, RunId, Timestamp } from "../../../domain/Id.ts"
import { defined } from "../../../domain/internal/defined.ts"
import { decodeRecord } from "../../../domain/internal/given.ts"
import { RequestNotFound } from "../../../domain/Rejection.ts"
import { RunEnded, SessionBusy } from "../../../domain/RunError.ts"
import type { RunEvent } from "../../../domain/RunEvent.ts"
import { graceTime } from "../../BlobPort.ts"
import {
  LeaseLost,
  RunBusy,
  RunConflict,
  RunContinued,
  RunExists,
  RunNotFound,
  RunRemoved,
  type RunStoreError
} from "../../RunStoreError.ts"
import type {
  Checkpoint,
  Lease,
  ListFilter,
  NewCheckpoint,
  PendingRequest,
  RunStorePort
} from "../../RunStorePort.ts"
import { blobsIn, blobsOf, blobsOfDecisions } from "../blobs.ts"
import { pageSize, position } from "../bounds.ts"
import { refusedBusy, refusedExists, attachMail } from "../copies.ts"
import { revocationsOf, revocationsWith } from "../grants.ts"
import { inboxAfter, byAge, endsUnread, matches, nextDueIn, undelivered } from "../inbox.ts"
import { isTakingUp, sliceBatches } from "../journal.ts"
import { mailAfter, decodeMessage, isSentTo, idConflict, waiting, withDigest } from "../messages.ts"
import { makeNotifier } from "../notifier.ts"
import { readReady } from "../readyPages.ts"
import {
  closingReason,
  decisionOf,
  decodeInputs,
  endingRefusal,
  isGoing,
  judgeAll,
  judgeEntry,
  named,
  type RequestEntry
} from "../requests.ts"
import * as Blobs from "./blobs.ts"
import { assemble, newestCheckpoint } from "./checkpoints.ts"
import * as Grants from "./grants.ts"
import { readyLists } from "./ready.ts"
import * as Recollections from "./recollections.ts"
import { presentRuns, restoreInto } from "./restore.ts"
import {
  begin,
  extend,
  noticesOf,
  endingIn,
  headOf,
  isLeasedTo,
  leaseTo,
  newestFirst,
  ownerOf,
  pendingOf,
  type Run,
  write
} from "./run.ts"

/** Makes an empty store. */
export const makeMemory = (): RunStorePort => {
  const runs = new Map<RunId, Run>()
  const notifier = makeNotifier()
  const grants = Grants.make()
  const blobs = Blobs.make()
  const recollections = Recollections.make()

  const found = (runId: RunId): Result.Result<Run, RunNotFound> => {
    const run = runs.get(runId)
    return run === undefined ? Result.fail(new RunNotFound({ runId })) : Result.succeed(run)
  }

  const leasedTo = (lease: Lease, now: Timestamp): Result.Result<Run, LeaseLost> => {
    const run = runs.get(lease.runId)
    return run === undefined || !isLeasedTo(run, lease, now)
      ? Result.fail(new LeaseLost({ runId: lease.runId, owner: lease.owner }))
      : Result.succeed(run)
  }

  const childOf = (run: Run): Run | undefined =>
    Array.from(runs.values()).find((other) => other.parent?.runId === run.runId)

  /** The next run of the session, if it builds on the current revision of `run`. */
  const nextOf = (run: Run): Run | undefined =>
    Array.from(runs.values()).find(
      (other) =>
        other.sessionId === run.sessionId &&
        other.follows === run.runId &&
        other.parent?.revision === run.revision
    )

  /** Checks an append, and returns the run with the requests and messages after the events. */
  const prepare = (options: Parameters<RunStorePort["append"]>[0], now: Timestamp) =>
    Result.gen(function* () {
      const run = yield* leasedTo(options.lease, now)
      const conflict = () => conflictOf(run, options.expected)
      if (run.revision !== options.expected) return yield* Result.fail(conflict())
      const later = isTakingUp(options.events, options.status) ? nextOf(run) : undefined
      if (later !== undefined) return yield* Result.fail(busyWith(later))
      const inbox = yield* Result.mapError(inboxAfter(run.inbox, options.events), conflict)
      const mail = yield* Result.mapError(mailAfter(run.mail, options.events), conflict)
      return { run, inbox, mail }
    })

  const keep = (runId: RunId, revision: number, checkpoint: NewCheckpoint | undefined) => {
    const run = runs.get(runId)
    if (run === undefined || checkpoint === undefined) return
    run.checkpoint = newestCheckpoint(runId, run.checkpoint, revision, checkpoint)
  }

  /**
   * The events from which a run's state at revision `to` is folded. With a checkpoint version, those after the newest checkpoint of that
   * version that is not newer than the revision at which the chain uses its run.
   */
  const eventsFrom = (
    run: Run,
    to: number,
    version?: number
  ): Result.Result<
    { readonly checkpoint?: Checkpoint; readonly events: ReadonlyArray<RunEvent> },
    RunStoreError
  > =>
    Result.gen(function* () {
      const kept = run.checkpoint
      if (kept !== undefined && kept.version === version && kept.revision <= to) {
        const checkpoint = assemble(run.runId, kept, (runId) => runs.get(runId)?.checkpoint)
        if (checkpoint === undefined) return yield* eventsFrom(run, to)
        return { checkpoint, events: yield* sliceBatches(run.batches, { from: kept.revision, to }, "load") }
      }
      const own = yield* sliceBatches(run.batches, { from: 0, to }, "load")
      const before = run.parent === undefined ? undefined : runs.get(run.parent.runId)
      if (before === undefined) return { events: own }
      const found = yield* eventsFrom(before, run.parent?.revision ?? 0, version)
      return { ...found, events: [...found.events, ...own] }
    })

  const erase = (runId: RunId, now: Timestamp) => {
    runs.delete(runId)
    Grants.erase(grants, runId)
    Blobs.erase(blobs, runId, now)
    Recollections.eraseRun(recollections, runId)
  }

  /** Appends events, the grants that they create, and the references to the contents that they contain. */
  const commit = (
    run: Run,
    options: Parameters<RunStorePort["append"]>[0],
    after: Pick<Run, "inbox" | "mail">,
    refs: ReadonlyArray<BlobRef>,
    now: Timestamp
  ) => {
    write(run, { ...options, ...after }, now)
    Grants.recordGrantsOfEvents(grants, run, options.events)
    Blobs.refer(blobs, run.runId, refs)
    Recollections.insert(recollections, options.memory ?? [], now)
  }

  /** Records a decision on a request of a run, and the grant that it creates. */
  const record = (run: Run, entry: RequestEntry, decision: Decision) => {
    run.inbox = new Map(run.inbox).set(decision.requestId, { ...entry, status: "decided", decision })
    Grants.recordGrant(grants, run, decision)
  }

  const findRequest = (requestId: RequestId) => {
    for (const run of runs.values()) {
      const entry = run.inbox.get(requestId)
      if (entry !== undefined) return Result.succeed({ run, entry })
    }
    return Result.fail(new RequestNotFound({ requestId }))
  }

  const selectedRuns = (runIds: ListFilter["runIds"]): ReadonlyArray<Run> =>
    runIds === undefined
      ? Array.from(runs.values())
      : Array.from(new Set(runIds)).flatMap((runId) => runs.get(runId) ?? [])

  const allPending = (): Array<PendingRequest> =>
    Array.from(runs.values()).flatMap((run) =>
      Array.from(run.inbox.values()).flatMap((entry) =>
        entry.status === "open" ? [pendingOf(run, entry)] : []
      )
    )

  return {
    create: (options) =>
      inSteps(function* (now) {
        const { owner, parent, runId } = options
        const existing = runs.get(runId)
        if (existing !== undefined) {
          return yield* Result.fail(new RunExists({ runId, status: existing.status }))
        }
        if (parent !== undefined && !canBuildOn(runs.get(parent.runId), parent)) {
          return yield* Result.fail(new RunRemoved({ runId: parent.runId }))
        }
        const run = yield* begin(options, [...runs.values()], now)
        const before = runs.get(run.follows as RunId)
        if (before !== undefined && (isGoing(before.status) || before.revision > (parent?.revision ?? 0))) {
          return yield* Result.fail(busyWith(before))
        }
        const refs = blobsOf(options.events)
        yield* Blobs.requireAll(blobs, "create", refs)
        const lease = leaseTo(run, owner, options.ttl, now)
        runs.set(runId, run)
        Grants.recordGrantsOfEvents(grants, run, options.events)
        Blobs.refer(blobs, runId, refs)
        if (parent !== undefined) keep(parent.runId, parent.revision, options.checkpoint)
        return lease
      }),

    restore: (restored, decisions, messages, revoked = []) => {
      const revocations = revocationsWith(restored, revoked)
      /** Applies the revocations for the runs that this store has. The rest of the archive is refused. */
      const revokePresent = () =>
        Result.map(presentRuns(runs, restored), (present) => {
          const known = revocationsOf(revocations, new Set(present.map(({ runId }) => runId)))
          Grants.revokeWith(grants, known, runs)
          return Grants.revokedAmong(grants, known.revoked)
        })
      return atomically((now) => {
        const outcome = restoreInto(runs, blobs, attachMail(restored, decisions, messages), now)
        if (Result.isSuccess(outcome)) {
          for (const { runId } of restored) {
            const run = runs.get(runId)
            if (run !== undefined) Grants.recordGrantsOfRun(grants, run)
          }
          Grants.revokeWith(grants, revocations, runs)
          return Result.void
        }
        const refusal = outcome.failure
        if (refusal._tag === "RunStoreError") return Result.fail(refusal)
        const { runId: last } = restored.at(-1) ?? restored[0]
        return Result.flatMap(revokePresent(), (revoked) =>
          Result.fail(
            refusal._tag === "RunExists"
              ? refusedExists(refusal, revoked)
              : refusedBusy(refusal, last, revoked)
          )
        )
      }).pipe(Effect.tap(notifier.notify))
    },

    append: (options) =>
      inSteps(function* (now) {
        const { inbox, mail, run } = yield* prepare(options, now)
        const revoked = Grants.revokedOf(grants, options.grants ?? [])
        if (revoked.length > 0) return { revision: options.expected, revoked }
        if (endsUnread(run.inbox, options.events))
          return yield* Result.fail(conflictOf(run, options.expected))
        const refs = blobsOf(options.events)
        yield* Blobs.requireAll(blobs, "append", refs)
        commit(run, options, { inbox, mail }, refs, now)
        return { revision: run.revision as Revision, ...noticesOf(run) }
      }).pipe(
        Effect.tap(({ revoked }) =>
          revoked === undefined && isTakingUp(options.events, options.status) ? notifier.notify : Effect.void
        )
      ),

    park: (options) =>
      inSteps(function* (now) {
        const { inbox, mail, run } = yield* prepare(options, now)
        const news = undelivered(inbox, now).length + waiting(mail).length
        const parked = run.cancelReason === undefined && news === 0
        if (parked) {
          const refs = blobsOf(options.events)
          yield* Blobs.requireAll(blobs, "park", refs)
          commit(run, options, { inbox, mail }, refs, now)
          keep(run.runId, run.revision, options.checkpoint)
          run.owner = undefined
          run.leaseUntil = 0
        }
        return { parked, revision: run.revision as Revision }
      }).pipe(Effect.tap(({ parked }) => (parked ? notifier.notify : Effect.void))),

    load: (runId, { checkpointVersion } = {}) =>
      inSteps(function* (now) {
        const run = yield* found(runId)
        const journal = yield* eventsFrom(run, run.revision, checkpointVersion)
        const decisions = undelivered(run.inbox, now)
        return { head: headOf(run, now), ...journal, decisions, messages: waiting(run.mail) }
      }),

    events: (runId, options) =>
      atomically(() =>
        Result.flatMap(found(runId), (run) => {
          const from = position(options?.from, 0)
          const to = Math.min(run.revision, from + position(options?.limit, run.revision))
          return sliceBatches(run.batches, { from, to }, "events")
        })
      ),

    head: (runId) => atomically((now) => Result.map(found(runId), (run) => headOf(run, now))),

    claim: ({ owner, runId, ttl }) =>
      atomically((now) =>
        Result.flatMap(found(runId), (run) => {
          const busy = heldByOther(run, now)
          return busy === undefined ? Result.succeed(leaseTo(run, owner, ttl, now)) : Result.fail(busy)
        })
      ),

    renew: (lease, ttl) =>
      atomically((now) =>
        Result.map(leasedTo(lease, now), (run) => {
          extend(run, ttl, now)
          return { lease: { ...lease, until: run.leaseUntil }, ...noticesOf(run) }
        })
      ),

    notices: (runIds) =>
      atomically(() =>
        Result.succeed(
          selectedRuns(runIds).flatMap((run) => {
            const { cancelReason, hasMail } = noticesOf(run)
            const toCancel = isGoing(run.status) ? cancelReason : undefined
            return toCancel === undefined && hasMail === undefined
              ? []
              : [{ runId: run.runId, ...defined({ cancelReason: toCancel, hasMail }) }]
          })
        )
      ),

    release: (lease) =>
      atomically((now) => {
        const owned = leasedTo(lease, now)
        if (Result.isSuccess(owned)) {
          owned.success.owner = undefined
          owned.success.leaseUntil = 0
        }
        return Result.void
      }).pipe(Effect.tap(notifier.notify)),

    decide: (input) =>
      inSteps(function* (now) {
        const decision = yield* decodeRecord(input, now)
        const { entry, run } = yield* findRequest(decision.requestId)
        const verdict = judgeEntry(entry, decision, now)
        const { first, refusal } = verdict
        const isNew = verdict.record === decision
        const late = isNew ? endingRefusal(decision.requestId, endingIn(run)) : undefined
        if (late !== undefined) return yield* Result.fail(late)
        const refs = verdict.record === undefined ? [] : blobsOfDecisions([verdict.record])
        yield* Blobs.requireAll(blobs, "decide", refs)
        if (verdict.record !== undefined) record(run, entry, verdict.record)
        Blobs.refer(blobs, run.runId, refs)
        return refusal === undefined
          ? { runId: run.runId, decision: first ?? decision }
          : yield* Result.fail(refusal)
      }).pipe(Effect.tap(notifier.notify)),

    decideAll: (inputs) =>
      inSteps(function* (now) {
        const decisions = yield* decodeInputs(inputs, now)
        const find = (requestId: RequestId) => Result.getOrUndefined(findRequest(requestId))
        const taken = yield* judgeAll(decisions, find, now)
        for (const { decision, found, isNew } of taken) {
          const late = isNew ? endingRefusal(decision.requestId, endingIn(found.run)) : undefined
          if (late !== undefined) return yield* Result.fail(late)
        }
        const fresh = taken.filter(({ isNew }) => isNew)
        yield* Blobs.requireAll(blobs, "decideAll", blobsOfDecisions(fresh.map(({ decision }) => decision)))
        for (const { decision, found } of fresh) {
          record(found.run, found.entry, decision)
          Blobs.refer(blobs, found.run.runId, blobsOfDecisions([decision]))
        }
        return taken.map(({ decision, found }) => ({ runId: found.run.runId, decision }))
      }).pipe(Effect.tap(notifier.notify)),

    decisions: (runId) =>
      atomically((now) => Result.succeed(undelivered(runs.get(runId)?.inbox ?? new Map(), now))),

    send: (runId, input) =>
      inSteps(function* (now) {
        const sent = yield* decodeMessage(input, now, runId)
        const { messageId, ...message } = sent
        const run = yield* found(runId)
        const known = run.mail.get(messageId)
        const wrong = known === undefined ? undefined : idConflict(withDigest(known), sent)
        if (wrong !== undefined) return yield* Result.fail(wrong)
        if (known !== undefined) return { messageId, at: known.at }
        if (!isSentTo(run.status, sent)) {
          return yield* Result.fail(new RunEnded({ runId, status: run.status }))
        }
        const refs = blobsIn([message])
        yield* Blobs.requireAll(blobs, "send", refs)
        run.mail = new Map(run.mail).set(messageId, message)
        Blobs.refer(blobs, runId, refs)
        return { messageId, at: now }
      }).pipe(Effect.tap(notifier.notify)),

    grants: (filter = {}) => atomically(() => Result.succeed(Grants.list(grants, filter))),

    revokeGrant: (options) => atomically(() => Grants.revokeIn(grants, options)),

    messages: (runId) => atomically(() => Result.succeed(waiting(runs.get(runId)?.mail ?? new Map()))),

    request: (requestId) =>
      atomically((now) =>
        Result.map(findRequest(requestId), ({ entry, run }) => {
          const decision = decisionOf(entry, now)
          return { ...pendingOf(run, entry), ...(decision === undefined ? {} : { decision }) }
        })
      ),

    withToken: (token) =>
      atomically((now) => {
        const found = Array.from(runs.values()).flatMap((run) =>
          Array.from(run.inbox.values(), (entry) => ({ entry, pending: pendingOf(run, entry) }))
        )
        const rank = (one: (typeof found)[number]) => (one.entry.status === "open" ? 0 : 1)
        return Result.succeed(
          named(
            found.sort((a, b) => rank(a) - rank(b) || byAge(b.pending, a.pending)),
            token,
            now
          )
        )
      }),

    pending: (filter = {}) =>
      atomically((now) => {
        const cursor =
          filter.after === undefined ? undefined : Result.getOrUndefined(findRequest(filter.after))
        const after = cursor === undefined ? undefined : pendingOf(cursor.run, cursor.entry)
        const found = allPending().filter((pending) => matches(pending, filter, now))
        return Result.succeed(following(found, byAge, after).slice(0, pageSize(filter.limit)))
      }),

    damaged: Effect.succeed([]),

    list: (filter = {}) =>
      atomically((now) => {
        const after = filter.after === undefined ? undefined : runs.get(filter.after)
        const found = selectedRuns(filter.runIds).filter(
          ({ agent, sessionId, status }) =>
            (filter.sessionId ?? sessionId) === sessionId &&
            (filter.agent ?? agent) === agent &&
            (filter.status ?? status) === status
        )
        const page = following(found, newestFirst, after).slice(0, pageSize(filter.limit))
        return Result.succeed(page.map((run) => headOf(run, now)))
      }),

    sessions: (filter = {}) =>
      atomically((now) => {
        const after = filter.after === undefined ? undefined : runs.get(filter.after)
        const all = Array.from(runs.values())
        const followed = new Set(all.map(({ follows }) => follows))
        const began = new Map(all.filter(({ follows }) => follows === "").map((run) => [run.sessionId, run]))
        const found = all.filter(
          ({ agent, runId, status }) =>
            !followed.has(runId) && (filter.agent ?? agent) === agent && (filter.status ?? status) === status
        )
        const page = following(found, newestFirst, after).slice(0, pageSize(filter.limit))
        return Result.succeed(
          page.map((run) => ({
            sessionId: run.sessionId,
            last: headOf(run, now),
            createdAt: began.get(run.sessionId)?.createdAt ?? run.createdAt
          }))
        )
      }),

    requestCancel: (runId, reason) =>
      atomically(() =>
        Result.map(found(runId), (run) => {
          run.cancelReason ??= reason
        })
      ).pipe(Effect.tap(notifier.notify)),

    latest: (sessionId) =>
      atomically((now) => {
        const all = Array.from(runs.values()).filter((run) => run.sessionId === sessionId)
        const followed = new Set(all.map(({ parent }) => parent?.runId))
        const [last] = all.filter(({ runId }) => !followed.has(runId)).sort(newestFirst)
        return Result.succeed(last === undefined ? undefined : headOf(last, now))
      }),

    ready: (filter = {}) =>
      readReady(filter, (places, limit) =>
        atomically((now) => Result.succeed(readyLists(Array.from(runs.values()), filter, now, places, limit)))
      ),

    nextDue: ({ after = -Infinity, agents } = {}) =>
      atomically(() => {
        const times = Array.from(runs.values()).flatMap((run) =>
          agents?.includes(run.agent) === false ? [] : (nextDueIn(run.inbox, after) ?? [])
        )
        return Result.succeed(times.length === 0 ? undefined : Math.min(...times))
      }),

    changes: notifier.notifications,

    blobs: Blobs.portOf(blobs),

    memory: Recollections.portOf(recollections),

    remove: (runId) =>
      inSteps(function* (now) {
        const run = yield* found(runId)
        const busy = heldByOther(run, now)
        if (busy !== undefined) return yield* Result.fail(busy)
        const child = childOf(run)
        if (child !== undefined) return yield* Result.fail(new RunContinued({ runId, by: child.runId }))
        erase(runId, now)
      }).pipe(Effect.tap(notifier.notify)),

    prune: ({ endedBefore }) =>
      atomically((now) => {
        let count = 0
        for (const run of Array.from(runs.values()).sort(newestFirst)) {
          const isOwned = ownerOf(run, now) !== undefined
          if (
            isOwned ||
            closingReason(run.status) === undefined ||
            run.updatedAt >= endedBefore ||
            childOf(run)
          )
            continue
          erase(run.runId, now)
          count += 1
        }
        Blobs.sweep(blobs, now - graceTime)
        return Result.succeed(count)
      })
  }
}

/** Sorts a list and drops the entries up to the cursor `after`. */
const following = <A>(
  found: ReadonlyArray<A>,
  order: (one: A, other: A) => number,
  after: A | undefined
): ReadonlyArray<A> => found.filter((one) => after === undefined || order(after, one) < 0).toSorted(order)

const busyWith = ({ runId, sessionId, status }: Run): SessionBusy =>
  new SessionBusy({ sessionId, runId, status })

const heldByOther = (run: Run, now: Timestamp): RunBusy | undefined => {
  const owner = ownerOf(run, now)
  return owner === undefined ? undefined : new RunBusy({ runId: run.runId, owner, until: run.leaseUntil })
}

const conflictOf = ({ revision, runId }: Run, expected: Revision): RunConflict =>
  new RunConflict({ runId, expected, actual: revision as Revision })

/** Whether a run can be built on as the caller read it: not removed, and not replaced since. */
const canBuildOn = (
  run: Run | undefined,
  { createdAt, revision }: NonNullable<Parameters<RunStorePort["create"]>[0]["parent"]>
): boolean =>
  run !== undefined && run.revision >= revision && (createdAt === undefined || createdAt === run.createdAt)

/** Runs a generator of results as one atomic step, at the time of Effect's clock. */
const inSteps = <Step extends Result.Result<unknown, unknown>, A>(
  steps: (now: Timestamp) => Generator<Step, A, never>
) => Effect.clockWith((clock) => Effect.fromResult(Result.gen(() => steps(clock.currentTimeMillisUnsafe()))))

/** Runs a synchronous step of the store, at the time of Effect's clock. */
const atomically = <A, E>(step: (now: Timestamp) => Result.Result<A, E>): Effect.Effect<A, E> =>
  Effect.clockWith((clock) => Effect.fromResult(step(clock.currentTimeMillisUnsafe())))
