/**
 * Copies of runs in SQL: all of an archive or nothing, in one transaction.
 *
 * The runs of the archive that are here are locked until the transaction ends, newest first, as `prune` locks runs. A run that the
 * archive builds on is therefore removed before, and is restored with the others; or it is not removed.
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
import { readAll } from "./damage.ts"
import type { Parts } from "./journal.ts"
import { batchColumns, batchKind, headColumns, headKind, rawBatch } from "./rows.ts"
import { eraseContents } from "./runs.ts"
import { makeSessionPositions } from "./sessionPositions.ts"

/** A run of the archive that the store has, locked. */
interface Locked {
  readonly head: RunHead
  readonly isClaimed: boolean
  /** Also of a part of a run, which is cancelled until the whole of it comes. */
  readonly cancelReason: string | null
}

/** Makes `restore`. */
export const makeRestore = (
  access: SqlAccess,
  { checkpoints, grants, messages, requests }: Parts
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

  /** The first events of a run's own journal. */
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
      // At the beginning of time no request has expired.
      decisions: yield* mailIn(isClaimed, requests.decisions("restore", runId, 0)),
      messages: yield* mailIn(isClaimed, messages.waiting("restore", runId))
    }
  })

  /** Of a run that stays as it is, what cannot be read does not keep another one from being built on it. */
  const mailIn = <A>(isClaimed: boolean, read: Effect.Effect<ReadonlyArray<A>, SqlError | RunStoreError>) =>
    isClaimed ? Effect.catchTag(read, "RunStoreError", () => Effect.succeed<ReadonlyArray<A>>([])) : read

  /** Writes the journal of a run that has a head and nothing else, and what the journal does not hold. */
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
      // It was not here when the runs were locked.
      return yield* refusal._tag === "RunExists" ? new TransactionConflict() : refusal
    }
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

  /** Revokes grants. Of a run that went on by itself here only those that it gave: others of their ids will be given here. */
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
      // A process of an earlier version has taken the decision, and kept no grant.
      yield* requests.keepGiven(one.grantId)
      yield* grants.revokeKept(one)
    }
  })

  /** Revokes the grants of the runs that are here, and of which the archive has copies. Its other contents are refused. */
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
    for (const [index, given] of runs.entries()) {
      const { runId } = given
      const found = locked.get(runId)
      if (found === undefined) {
        yield* insert(copyOf(given), at)
        continue
      }
      const verdict = judgeCopy(given, yield* presentOf(found), index === runs.length - 1)
      if (verdict._tag === "exists") {
        return yield* new RunExists({ runId, status: found.head.status, archive: verdict.archive })
      }
      if (verdict._tag === "replace") yield* replace(verdict.copy, found.head.createdAt, at)
    }
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
    // What is refused is rolled back, and its revocations are taken in before that is answered.
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
