/**
 * Journals in SQL: creating runs, appending, parking and reading.
 */
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Fragment } from "effect/sql/Statement"
import type { Revoked } from "../../../domain/Grant.ts"
import { Revision, type RunId, type SessionId } from "../../../domain/Id.ts"
import { SessionBusy } from "../../../domain/RunError.ts"
import { type RunEvent, version } from "../../../domain/RunEvent.ts"
import type { Status } from "../../../domain/RunState.ts"
import { encodeEvents } from "../../../domain/RunStateCodec.ts"
import { LeaseLost, RunConflict, RunNotFound, RunRemoved } from "../../RunStoreError.ts"
import type { RunHead, RunStorePort } from "../../RunStorePort.ts"
import { blobsOf } from "../blobs.ts"
import { leaseMs, position } from "../bounds.ts"
import { answererIn, damaged, isTakingUp, sliceBatches, unreadable } from "../journal.ts"
import { takenBy } from "../messages.ts"
import { areEnding, closingReason, inboxChanges, isDue, isGoing } from "../requests.ts"
import { type SqlAccess, retryOnConflict } from "./access.ts"
import { type makeBlobRows, usesOf } from "./blobs.ts"
import { eventsIn, isWhole, makeChain, startOf, whole } from "./chain.ts"
import type { makeCheckpoints } from "./checkpoints.ts"
import { readAll } from "./damage.ts"
import type { makeGrants } from "./grants.ts"
import { isInForce } from "./lease.ts"
import type { makeMemoryRows } from "./memory.ts"
import type { makeMessages } from "./messages.ts"
import type { makeRequests } from "./requests.ts"
import { batchColumns, batchKind, damagedEntry, makeHeads, rawBatch } from "./rows.ts"
import { mailColumn, type Notices, noticeColumns, noticesOf } from "./runs.ts"
import { makeSessionPositions } from "./sessionPositions.ts"

type Service = RunStorePort
type AppendOptions = Parameters<Service["append"]>[0] & Pick<Parameters<Service["park"]>[0], "checkpoint">

/** A park is refused because there is mail or a cancellation request; its transaction is rolled back. */
class NotParked extends Data.TaggedError("NotParked") {}

/** An append is refused because it relies on revoked grants; its transaction is rolled back. */
class ReliesOnRevoked extends Data.TaggedError("ReliesOnRevoked")<{
  readonly revoked: ReadonlyArray<Revoked>
}> {}

/** The run that a new run builds on. */
interface Before {
  readonly session_id: SessionId
  readonly status: Status
  readonly revision: number
}

const isRevision = Schema.is(Revision)

/** A notification on a channel of Postgres. */
export interface Notice {
  readonly channel: string
  readonly payload: string
}

/** The other parts of the store, which write in the transactions on a journal. */
export interface Parts {
  readonly requests: ReturnType<typeof makeRequests>
  readonly messages: ReturnType<typeof makeMessages>
  readonly checkpoints: ReturnType<typeof makeCheckpoints>
  readonly grants: ReturnType<typeof makeGrants>
  readonly blobs: ReturnType<typeof makeBlobRows>
  readonly memory: Pick<ReturnType<typeof makeMemoryRows>, "insert">
  readonly notice?:
    | ((runId: RunId, revision: number) => { readonly channel: string; readonly payload: string } | undefined)
    | undefined
}

/** Makes the operations on journals. */
export const makeJournal = (
  access: SqlAccess,
  { blobs, checkpoints, grants, memory, messages, notice, requests }: Parts
): Pick<Service, "create" | "append" | "park" | "load" | "events"> => {
  const { forUpdate, journalOf, newNumber, now, query, read, run, sql, write } = access
  const heads = makeHeads(access)
  const ownBatch = sql.literal(batchColumns())
  const chain = makeChain(access)
  const positions = makeSessionPositions(access)
  const unchangedColumns = sql.literal("")

  type Fenced = Notices & {
    readonly session_id: SessionId
    readonly agent: string
  }
  type LeaseRow = {
    readonly revision: number
    readonly in_force: number | boolean
    readonly cancel_reason: string | null
  }

  const insertBatch = (runId: RunId, sequence: number, events: ReadonlyArray<RunEvent>) =>
    run(access.insertBatch({ runId, sequence, count: events.length, version, events: encodeEvents(events) }))

  /** Whether the journal contains exactly these events at this revision: then an append whose response was lost was committed. */
  const holds = (runId: RunId, sequence: number, events: ReadonlyArray<RunEvent>) =>
    Effect.map(
      sql`SELECT run_id FROM fermata_journal WHERE ${journalOf(runId)} AND sequence = ${sequence}
        AND events = ${encodeEvents(events)}`,
      (rows) => rows.length > 0
    )

  const appended = ({ events, expected, lease }: AppendOptions) =>
    Effect.map(holds(lease.runId, expected, events), (ours) => (ours ? Option.some({}) : Option.none()))

  /** Determines why the update of the head matched no row. */
  const refused = Effect.fnUntraced(function* ({ expected, lease }: AppendOptions) {
    const { owner, runId } = lease
    const [row] =
      yield* sql<LeaseRow>`SELECT revision, cancel_reason, (${isInForce(access, lease)}) AS in_force
      FROM fermata_runs WHERE run_id = ${runId}`
    if (row === undefined || !row.in_force) return yield* new LeaseLost({ runId, owner })
    const actual = Number(row.revision)
    if (!isRevision(actual)) return yield* unreadable("append", damagedEntry(runId, ["revision"]))
    if (actual === expected && row.cancel_reason !== null) return yield* new NotParked()
    return yield* new RunConflict({ runId, expected, actual })
  })

  /** The statements of an append. With `parking`, they also release the lease, or fail with `NotParked` if there is mail. */
  const commit = Effect.fnUntraced(function* (options: AppendOptions, at: number, parking: boolean) {
    const { checkpoint, events, expected, lease, status } = options
    const { runId } = lease
    const notices = noticeColumns(access, runId, parking ? at : undefined)
    const watched = notice?.(runId, expected + events.length)
    const notifying =
      watched === undefined ? unchangedColumns : sql`, pg_notify(${watched.channel}, ${watched.payload})`
    // A park and a change of status share one statement text, because each connection compiles each text.
    const parked = parking ? 1 : 0
    const advance = (setting: Fragment, condition: Fragment) =>
      run(sql<Fenced>`UPDATE fermata_runs SET revision = revision + ${events.length}, updated_at = ${at},
          answered_by = coalesce(${answererIn(events) ?? null}, answered_by)${setting}
        WHERE ${isInForce(access, lease)} AND revision = ${expected}${condition}
        RETURNING session_id, agent, ${notices}${notifying}`)
    // Most appends do not change the status.
    const [unchanged] =
      parking || !access.savesUnchanged ? [] : yield* advance(unchangedColumns, sql` AND status = ${status}`)
    const [head] =
      unchanged === undefined
        ? yield* advance(
            sql`, status = ${status}, owner = CASE WHEN ${parked} = 0 THEN owner END,
              lease_until = CASE WHEN ${parked} = 0 THEN lease_until END`,
            sql` AND (${parked} = 0 OR cancel_reason IS NULL)`
          )
        : [unchanged]
    if (head === undefined) return yield* refused(options)
    if (isTakingUp(events, status)) {
      const later = yield* positions.continueRefusal(head.session_id, runId, expected)
      if (later !== undefined) return yield* later
      // The handles of the held run in other processes follow the run from now on.
      yield* access.notify
    }
    if (options.grants !== undefined && options.grants.length > 0) {
      const revoked = yield* grants.revokedOf(options.grants, at)
      if (revoked.length > 0) return yield* new ReliesOnRevoked({ revoked })
    }
    const changes = inboxChanges(events)
    // The workers of other processes sleep until the next due time that they know.
    if (changes.some(isDue)) yield* access.notify
    const mayEndUnread = !parking && areEnding(events) && (head.has_mail || !access.writesAlone)
    if (mayEndUnread && (yield* requests.leavesUnread(runId, changes))) {
      return yield* new RunConflict({ runId, expected, actual: expected })
    }
    yield* insertBatch(runId, expected, events)
    const owner = { runId, sessionId: head.session_id, agent: head.agent }
    const isTaking = takenBy(events).length > 0
    // False if the store has a different decision, or if the journal already contains one of the messages.
    const applied =
      (changes.length === 0 || (yield* requests.apply("append", owner, changes))) &&
      (!isTaking || (yield* messages.take(runId, events)))
    if (!applied) return yield* new RunConflict({ runId, expected, actual: expected })
    const closing = closingReason(status)
    if (closing !== undefined) yield* requests.close(runId, closing)
    const refs = blobsOf(events)
    if (refs.length > 0) yield* blobs.refer(parking ? "park" : "append", usesOf(runId, refs))
    if (options.memory !== undefined && options.memory.length > 0) yield* memory.insert(options.memory)
    // `has_mail` was read before these changes: mail may be in the journal now, and an opened request may have expired.
    const isOld = changes.length > 0 || isTaking
    if (parking) {
      const hasMail = isOld || !access.writesAlone ? yield* mailWaits(runId, at) : head.has_mail
      if (hasMail) return yield* new NotParked()
      if (checkpoint !== undefined) yield* checkpoints.write(runId, expected + events.length, checkpoint)
      return noticesOf(head)
    }
    // Postgres evaluated `has_mail` before the update waited for its lock: a stop that was acknowledged meanwhile is missing from it.
    return !access.writesAlone || (head.has_mail && isOld)
      ? noticesOf({ ...head, has_mail: yield* mailWaits(runId) })
      : noticesOf(head)
  })

  /** Whether there are decisions or messages that the journal does not contain. */
  const mailWaits = (runId: RunId, at?: number) =>
    Effect.map(
      run(sql<{ readonly has_mail: number | boolean }>`SELECT ${mailColumn(access, runId, at)} AS has_mail`),
      ([row]) => row?.has_mail ?? false
    )

  /**
   * Reads the chain of a run from its newest checkpoint, if there is one. `undefined` if the checkpoint is incomplete or the journal does not
   * continue it; the caller then reads all events.
   */
  const chainFrom = Effect.fnUntraced(function* (head: RunHead, version: number) {
    const rows = yield* chain(head.runId, version)
    const start = startOf(rows)
    const checkpoint = start === undefined ? undefined : yield* checkpoints.read(start, version)
    if (checkpoint === undefined && rows.some(({ startRunId }) => startRunId !== null)) return undefined
    // A run without events after the checkpoint has a row of nulls.
    const isOver = start?.revision === start?.upto
    const after = rows.flatMap(({ batch, startRunId }) =>
      batch.runId !== null || startRunId === null || !isOver ? [batch] : []
    )
    return yield* Effect.orElseSucceed(
      Effect.map(whole(head, after, start), (rows) => ({ rows, checkpoint })),
      () => undefined
    )
  })

  return {
    create: Effect.fnUntraced(function* (options) {
      const { agent, checkpoint, events, owner, parent, runId, sessionId, status } = options
      if (options.unattended !== true) yield* access.requireNoTransaction("create")
      const at = yield* Clock.currentTimeMillis
      const transaction = write(
        "create",
        Effect.gen(function* () {
          const [before] =
            parent === undefined
              ? []
              : yield* run(sql<Before>`SELECT session_id, status, revision FROM fermata_runs
                  WHERE run_id = ${parent.runId} AND revision >= ${parent.revision}
                    AND created_at = coalesce(${parent.createdAt ?? null}, created_at) ${forUpdate}`)
          if (parent !== undefined && before === undefined)
            return yield* new RunRemoved({ runId: parent.runId })
          const follows = parent !== undefined && before?.session_id === sessionId ? parent.runId : ""
          const [created] = yield* run(sql<{ readonly lease_until: number }>`INSERT INTO fermata_runs (
              ${newNumber.column}run_id, session_id, parent_run_id, parent_revision, follows, agent, answered_by, status,
              revision, owner, epoch, lease_until, lease_ms, lease_epoch, created_at, updated_at
            ) VALUES (
              ${newNumber.value}${runId}, ${sessionId}, ${parent?.runId ?? null}, ${parent?.revision ?? null}, ${follows}, ${agent},
              ${answererIn(events) ?? null}, ${status}, ${events.length}, ${owner}, 1,
              ${now} + ${leaseMs(options.ttl)}, ${leaseMs(options.ttl)}, 1, ${at}, ${at}
            ) ON CONFLICT DO NOTHING RETURNING lease_until`)
          if (created === undefined) return yield* yield* positions.insertRefusal("create", options, follows)
          if (before !== undefined && parent !== undefined && follows !== "") {
            const { status } = before
            const hasGoneOn = Number(before.revision) > parent.revision || isGoing(status)
            if (hasGoneOn) return yield* new SessionBusy({ sessionId, runId: parent.runId, status })
          }
          yield* positions.follow(follows)
          if (parent !== undefined && checkpoint !== undefined) {
            yield* checkpoints.write(parent.runId, parent.revision, checkpoint)
          }
          yield* insertBatch(runId, 0, events)
          const changes = inboxChanges(events)
          if (changes.length > 0) yield* requests.apply("create", { runId, sessionId, agent }, changes)
          if (takenBy(events).length > 0) yield* messages.take(runId, events)
          const refs = blobsOf(events)
          if (refs.length > 0) yield* blobs.refer("create", usesOf(runId, refs))
          return { runId, owner, epoch: 1, until: Number(created.lease_until) }
        }),
        Effect.gen(function* () {
          const [created] = yield* sql<{ readonly lease_until: number }>`SELECT lease_until FROM fermata_runs
            WHERE run_id = ${runId} AND owner = ${owner} AND epoch = 1`
          return created !== undefined && (yield* holds(runId, 0, events))
            ? Option.some({ runId, owner, epoch: 1, until: Number(created.lease_until) })
            : Option.none()
        })
      )
      return yield* retryOnConflict(transaction)
    }),

    append: (options) =>
      Effect.clockWith((clock) =>
        write("append", commit(options, clock.currentTimeMillisUnsafe(), false), appended(options)).pipe(
          Effect.map((notices) => ({
            revision: (options.expected + options.events.length) as Revision,
            ...notices
          })),
          Effect.catchTags({
            NotParked: Effect.die,
            ReliesOnRevoked: ({ revoked }) => Effect.succeed({ revision: options.expected, revoked })
          })
        )
      ),

    park: (options) =>
      Effect.clockWith((clock) =>
        write("park", commit(options, clock.currentTimeMillisUnsafe(), true), appended(options)).pipe(
          Effect.as({ parked: true, revision: (options.expected + options.events.length) as Revision }),
          Effect.catchTags({
            NotParked: () => Effect.succeed({ parked: false, revision: options.expected }),
            // A park starts no calls, so it relies on no grants.
            ReliesOnRevoked: Effect.die
          })
        )
      ),

    load: Effect.fnUntraced(function* (runId, { checkpointVersion } = {}) {
      const at = yield* Clock.currentTimeMillis
      const stored = yield* read(
        "load",
        Effect.gen(function* () {
          const head = yield* heads("load", sql`run_id = ${runId}`)
          if (head === undefined) return undefined
          const short =
            checkpointVersion === undefined ? undefined : yield* chainFrom(head, checkpointVersion)
          const found = short ?? {
            rows: yield* whole(
              head,
              (yield* chain(runId, null)).map(({ batch }) => batch)
            ),
            checkpoint: undefined
          }
          // Usually there is no mail, and the connection has already compiled this statement.
          if (!(yield* mailWaits(runId, at))) return { ...found, head, decisions: [], messages: [] }
          const decisions = yield* requests.decisions("load", runId, at)
          return { ...found, head, decisions, messages: yield* messages.waiting("load", runId) }
        }),
        // Every write to the run changes or locks its head.
        sql`SELECT run_id FROM fermata_runs WHERE run_id = ${runId} ${forUpdate}`
      )
      if (stored === undefined) return yield* new RunNotFound({ runId })
      const { checkpoint, decisions, head, messages: waiting, rows } = stored
      const events = yield* Effect.fromResult(eventsIn(rows))
      return {
        head,
        ...(checkpoint === undefined ? {} : { checkpoint }),
        events,
        decisions,
        messages: waiting
      }
    }),

    events: Effect.fnUntraced(function* (runId, options) {
      const from = position(options?.from, 0)
      const to = Math.min(Number.MAX_SAFE_INTEGER, from + position(options?.limit, Number.MAX_SAFE_INTEGER))
      // One statement reads the revision and the rows, so that they can be compared.
      const found = yield* query(
        "events",
        sql`SELECT run.revision, ${ownBatch}
          FROM fermata_runs AS run LEFT JOIN (
            SELECT run_id, sequence, count, version, events FROM fermata_journal
              WHERE ${journalOf(runId)} AND sequence < ${to} AND sequence >= (
                SELECT coalesce(max(sequence), 0) FROM fermata_journal WHERE ${journalOf(runId)} AND sequence <= ${from}
              )
          ) AS journal ON journal.run_id = run.run_id
          WHERE run.run_id = ${runId}`.values
      )
      const rows = found.map(([revision, ...values]) => ({ revision, batch: rawBatch(values) }))
      const revision = rows[0]?.revision
      if (revision === undefined) return yield* new RunNotFound({ runId })
      const written = rows.flatMap(({ batch }) => (batch.runId === null ? [] : [batch]))
      const batches = (yield* readAll(batchKind, "events", written)).toSorted(
        (a, b) => a.sequence - b.sequence
      )
      if (!isWhole(batches, { from, to }, revision)) return yield* damaged(runId, "events")
      return yield* Effect.fromResult(sliceBatches(batches, { from, to }, "events"))
    })
  }
}
