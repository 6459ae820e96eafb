/**
 * `restore` in SQL: stores all runs of an archive in one transaction, or none.
 *
 * The transaction locks the archive's runs that this store has, newest first, in the order in which `prune` locks runs. A concurrent removal
 * of such a run is therefore either committed before, and the run is restored with the others, or comes after the restore.
 */
import type * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { SqlError } from "effect/sql/SqlError"
import { type GrantId, type RunId, runOfGrant, type Timestamp } from "../../../domain/Id.ts"
import type { SessionBusy } from "../../../domain/RunError.ts"
import { type RunEvent, version } from "../../../domain/RunEvent.ts"
import { encodeEvents } from "../../../domain/RunStateCodec.ts"
import { RunExists, type RunStoreError } from "../../RunStoreError.ts"
import type { RestoredRun, RunHead, RunStorePort } from "../../RunStorePort.ts"
import { blobsOfCopy } from "../blobs.ts"
import {
  type Copy,
  copyOf,
  isOriginOf,
  judgeCopy,
  type PresentRun,
  refusedBusy,
  refusedExists,
  attachMail
} from "../copies.ts"
import { type RestoredRevocations, revocationsOf, revocationsWith } from "../grants.ts"
import { answererIn, sliceBatches, startsWith } from "../journal.ts"
import { closingReason, inboxChanges } from "../requests.ts"
import { TransactionConflict, type SqlAccess, retryOnConflict } from "./access.ts"
import { usesOf } from "./blobs.ts"
import { readAll } from "./damage.ts"
import type { Parts } from "./journal.ts"
import { batchColumns, batchKind, headColumns, headKind, rawBatch } from "./rows.ts"
import { eraseContents } from "./runs.ts"
import { makeSessionPositions } from "./sessionPositions.ts"

/** A stored run of the archive, locked. */
interface Locked {
  readonly head: RunHead
  readonly isClaimed: boolean
  /** The column, because the head omits the reason for a cancelled run, such as a partial copy. */
  readonly cancelReason: string | null
}

/** Makes `restore`. */
export const makeRestore = (
  access: SqlAccess,
  { blobs, checkpoints, grants, messages, requests }: Parts
): RunStorePort["restore"] => {
  const { forUpdate, insertBatch, journalOf, journalOrder, newNumber, notify, sql, write } = access
  const columns = headColumns(access)
  const ownBatch = sql.literal(batchColumns())
  const positions = makeSessionPositions(access)

  const lock = Effect.fnUntraced(function* (
    runId: RunId
  ): Effect.fn.Return<Locked | undefined, SqlError | RunStoreError> {
    const rows = yield* sql<{
      readonly epoch: number
      readonly cancel_reason: string | null
    }>`SELECT ${columns} FROM fermata_runs
      WHERE run_id = ${runId} ${forUpdate}`
    const [head] = yield* readAll(headKind, "restore", rows)
    const [row] = rows
    return head === undefined || row === undefined
      ? undefined
      : { head, isClaimed: Number(row.epoch) > 0, cancelReason: row.cancel_reason }
  })

  /** Reads a run's own events up to the revision `to`. */
  const journal = Effect.fnUntraced(function* (
    runId: RunId,
    to: number
  ): Effect.fn.Return<ReadonlyArray<RunEvent>, SqlError | RunStoreError> {
    const rows = yield* sql`SELECT ${ownBatch}
      FROM fermata_journal AS journal WHERE ${journalOf(runId)} AND sequence < ${to} ORDER BY ${journalOrder}`
      .values
    const batches = yield* readAll(batchKind, "restore", rows.map(rawBatch))
    return yield* Effect.fromResult(sliceBatches(batches, { from: 0, to }, "restore"))
  })

  const presentOf = Effect.fnUntraced(function* ({
    cancelReason,
    head,
    isClaimed
  }: Locked): Effect.fn.Return<PresentRun, SqlError | RunStoreError> {
    const { runId } = head
    const [most] = yield* sql<{ readonly built_on: number | null }>`SELECT max(parent_revision) AS built_on
      FROM fermata_runs WHERE parent_run_id = ${runId}`
    const builtOn = most?.built_on ?? undefined
    return {
      ...head,
      ...(cancelReason === null ? {} : { cancelReason }),
      events: yield* journal(runId, head.revision),
      isClaimed,
      ...(builtOn === undefined ? {} : { builtOn: Number(builtOn) }),
      // At time 0 no request has expired.
      decisions: yield* mailIn(isClaimed, requests.decisions("restore", runId, 0)),
      messages: yield* mailIn(isClaimed, messages.waiting("restore", runId))
    }
  })

  /** The mail of a claimed run is not needed, because the run stays unchanged; so mail that cannot be read is ignored there. */
  const mailIn = <A>(isClaimed: boolean, read: Effect.Effect<ReadonlyArray<A>, SqlError | RunStoreError>) =>
    isClaimed ? Effect.catchTag(read, "RunStoreError", () => Effect.succeed<ReadonlyArray<A>>([])) : read

  /** Writes the journal and the mail of a run that has only a head. */
  const fill = Effect.fnUntraced(function* (copy: Copy) {
    const { events, runId, status } = copy
    yield* insertBatch({ runId, sequence: 0, count: events.length, version, events: encodeEvents(events) })
    yield* requests.apply("restore", copy, inboxChanges(events))
    for (const decision of copy.decisions) yield* requests.record(decision)
    const closing = closingReason(status)
    if (closing !== undefined) yield* requests.close(runId, closing)
    yield* messages.take(runId, events)
    for (const message of copy.messages) yield* messages.record(runId, message)
  })

  const insert = Effect.fnUntraced(function* (copy: Copy, at: Timestamp) {
    const { agent, cancelReason, events, parent, runId, sessionId, status } = copy
    const follows = yield* positions.predecessorOf(copy)
    const [created] = yield* sql`INSERT INTO fermata_runs (
        ${newNumber.column}run_id, session_id, parent_run_id, parent_revision, follows, agent, answered_by, status,
        revision, epoch, cancel_reason, created_at, updated_at
      ) VALUES (
        ${newNumber.value}${runId}, ${sessionId}, ${parent?.runId ?? null}, ${parent?.revision ?? null}, ${follows}, ${agent},
        ${answererIn(events) ?? null}, ${status}, ${events.length}, 0, ${cancelReason ?? null}, ${at}, ${at}
      ) ON CONFLICT DO NOTHING RETURNING run_id`
    if (created === undefined) {
      const refusal = yield* positions.insertRefusal("restore", copy, follows)
      // The run was stored after the runs were locked.
      return yield* refusal._tag === "RunExists" ? new TransactionConflict() : refusal
    }
    yield* positions.follow(follows)
    yield* fill(copy)
  })

  const replace = Effect.fnUntraced(function* (copy: Copy, createdAt: Timestamp, at: Timestamp) {
    const { cancelReason, events, runId, status } = copy
    yield* eraseContents(access, checkpoints, runId)
    yield* sql`UPDATE fermata_runs SET status = ${status}, revision = ${events.length}, created_at = ${Math.max(at, createdAt + 1)}, updated_at = ${at},
      answered_by = ${answererIn(events) ?? null}, cancel_reason = ${cancelReason ?? null} WHERE run_id = ${runId}`
    yield* fill(copy)
  })

  const lockAll = Effect.fnUntraced(function* (runs: ReadonlyArray<RestoredRun>) {
    const locked = new Map<RunId, Locked>()
    for (const { runId } of runs.toReversed()) {
      const found = yield* lock(runId)
      if (found !== undefined) locked.set(runId, found)
    }
    return locked
  })

  /**
   * Applies revocations. For a run that a process of this store has claimed, only grants that this store has are revoked: the run may later
   * create other grants with the ids of the archive's.
   */
  const revokeAll = Effect.fnUntraced(function* (
    { kept, revoked }: RestoredRevocations,
    locked: ReadonlyMap<RunId, Locked>
  ) {
    const isClaimed = (grantId: GrantId) => {
      const giver = runOfGrant(grantId)
      return giver !== undefined && locked.get(giver)?.isClaimed === true
    }
    for (const one of kept) if (!isClaimed(one.grant.id)) yield* grants.insert(one)
    for (const one of revoked) {
      // An earlier version of Fermata may have recorded the decision without a row for the grant.
      yield* requests.keepGiven(one.grantId)
      yield* grants.revokeKept(one)
    }
  })

  /** Applies the revocations for the archive's runs that this store has. The rest of the archive is refused. */
  const revokePresent = Effect.fnUntraced(function* (
    runs: ReadonlyArray<RestoredRun>,
    revocations: RestoredRevocations
  ) {
    const locked = yield* lockAll(runs)
    const present = new Set<RunId>()
    for (const given of runs) {
      const found = locked.get(given.runId)
      if (found === undefined) continue
      if (isOriginOf(given, { ...found.head, events: yield* journal(given.runId, 1) }))
        present.add(given.runId)
    }
    const known = revocationsOf(revocations, present)
    yield* revokeAll(known, locked)
    return (yield* grants.standing(known.revoked)).revoked
  })

  const restoreAll = Effect.fnUntraced(function* (
    runs: ReadonlyArray<RestoredRun>,
    revocations: RestoredRevocations,
    at: Timestamp
  ) {
    const locked = yield* lockAll(runs)
    const stored: Array<Copy> = []
    for (const [index, given] of runs.entries()) {
      const { runId } = given
      const found = locked.get(runId)
      if (found === undefined) {
        const copy = copyOf(given)
        yield* insert(copy, at)
        stored.push(copy)
        continue
      }
      const verdict = judgeCopy(given, yield* presentOf(found), index === runs.length - 1)
      if (verdict._tag === "exists") {
        return yield* new RunExists({ runId, status: found.head.status, archive: verdict.archive })
      }
      if (verdict._tag !== "replace") continue
      yield* replace(verdict.copy, found.head.createdAt, at)
      stored.push(verdict.copy)
    }
    // The journal of a copy that is replaced begins that of the new one, so that its references stay.
    yield* blobs.refer(
      "restore",
      stored.flatMap((copy) => usesOf(copy.runId, blobsOfCopy(copy)))
    )
    yield* revokeAll(revocations, locked)
    yield* notify
  })

  return Effect.fnUntraced(function* (
    runs: Arr.NonEmptyReadonlyArray<RestoredRun>,
    decisions: Parameters<RunStorePort["restore"]>[1],
    sent: Parameters<RunStorePort["restore"]>[2],
    revoked: Parameters<RunStorePort["restore"]>[3] = []
  ) {
    const at = yield* Clock.currentTimeMillis
    const last = copyOf(runs.at(-1) ?? runs[0])
    const revocations = revocationsWith(runs, revoked)
    // The refused transaction is rolled back. The revocations are committed before the error is returned.
    const refuse = <E extends RunExists | SessionBusy>(withRevoked: (revoked: ReadonlyArray<GrantId>) => E) =>
      Effect.flatMap(
        write(
          "restore",
          revokePresent(runs, revocations),
          Effect.map(grants.standing(revocations.revoked), ({ inForce, revoked }) =>
            inForce.length === 0 ? Option.some(revoked) : Option.none()
          )
        ),
        (revoked) => Effect.fail(withRevoked(revoked))
      )
    yield* retryOnConflict(
      write(
        "restore",
        restoreAll(attachMail(runs, decisions, sent), revocations, at),
        Effect.map(journal(last.runId, last.events.length), (known) =>
          startsWith(known, last.events) ? Option.some(undefined) : Option.none()
        )
      )
    ).pipe(
      Effect.catchTag("RunExists", (exists) => refuse((revoked) => refusedExists(exists, revoked))),
      Effect.catchTag("SessionBusy", (busy) => refuse((revoked) => refusedBusy(busy, last.runId, revoked)))
    )
  })
}
