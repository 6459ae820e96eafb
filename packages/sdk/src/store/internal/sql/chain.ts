/**
 * Reads the journals of a run and of the runs that it builds on, in one statement.
 *
 * The statement terminates even if a damaged row makes a run its own ancestor. Each row of `chain` carries an ancestor that was visited
 * earlier (`mark`), which is replaced at every depth that is a power of two. A cycle therefore meets its mark after at most three times
 * its length (Brent's algorithm), without a list of the visited runs.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { SqlError } from "effect/sql/SqlError"
import { Revision, RunId } from "../../../domain/Id.ts"
import type { RunEvent } from "../../../domain/RunEvent.ts"
import type { RunStoreError } from "../../RunStoreError.ts"
import type { RunHead } from "../../RunStorePort.ts"
import { damaged, sliceBatches } from "../journal.ts"
import type { SqlAccess } from "./access.ts"
import { readAll } from "./damage.ts"
import { batchColumns, batchKind, type BatchRow, rawBatch, type RawBatch } from "./rows.ts"

/** The start of a chain of journals: after the checkpoint of `runId` at `revision`. The next run builds on `runId` at `upto`. */
export interface Start {
  readonly runId: RunId
  readonly revision: number
  readonly upto: number
}

/** A row of a chain: a journal row, with the run and revision of the checkpoint at which the chain starts, or nulls. */
export interface ChainRow {
  readonly startRunId: unknown
  readonly start: unknown
  readonly batch: RawBatch
}

/** The mark of the row of `table` that follows `chain`. The mark of the first row is its own run. */
export const nextMark = (table: string): string =>
  `CASE WHEN (chain.depth + 1) & chain.depth = 0 THEN ${table}.run_id ELSE chain.mark END`

/** The condition that stops at a cycle. A `LEFT JOIN` then produces a row of nulls, as for a missing run. */
export const isUnmarked = (table: string): string => `${table}.run_id <> chain.mark`

/** Makes the statement that reads the journals of a chain of runs. A missing run or journal is a row of nulls. */
export const makeChain = ({ journalInChain, sql }: SqlAccess) => {
  const columns = sql.literal(batchColumns("chain.upto", "chain.depth"))
  const numberOf = (table: string) =>
    sql.onDialectOrElse({ sqlite: () => sql.literal(`${table}number, `), orElse: () => sql.literal("") })
  const ofVersion = (version: number | null) => sql`LEFT JOIN fermata_checkpoints AS saved
    ON saved.run_id = run.run_id AND saved.version = ${version}`

  /** With a version, the chain starts at the nearest checkpoint of that version that is not newer than its run's part of the chain. */
  return (runId: RunId, version: number | null): Effect.Effect<ReadonlyArray<ChainRow>, SqlError> =>
    Effect.map(
      sql`WITH RECURSIVE chain (run_id, ${numberOf("")}parent_run_id, parent_revision, upto, depth, mark, start) AS (
      SELECT run.run_id, ${numberOf("run.")}run.parent_run_id, run.parent_revision, run.revision, 0, run.run_id,
        CASE WHEN saved.revision <= run.revision THEN saved.revision END
      FROM fermata_runs AS run ${ofVersion(version)} WHERE run.run_id = ${runId}
      UNION ALL
      SELECT run.run_id, ${numberOf("run.")}run.parent_run_id, run.parent_revision, chain.parent_revision,
        chain.depth + 1, ${sql.literal(nextMark("run"))},
        CASE WHEN saved.revision <= chain.parent_revision THEN saved.revision END
      FROM chain LEFT JOIN fermata_runs AS run ON run.run_id = chain.parent_run_id
        AND ${sql.literal(isUnmarked("run"))} ${ofVersion(version)}
      WHERE chain.parent_run_id IS NOT NULL AND chain.start IS NULL
    )
    SELECT CASE WHEN chain.start IS NOT NULL THEN chain.run_id END, chain.start,
      ${columns}
    FROM chain LEFT JOIN fermata_journal AS journal ON ${journalInChain}`.values,
      (rows) => rows.map(([startRunId, start, ...values]) => ({ startRunId, start, batch: rawBatch(values) }))
    )
}

const isStart = Schema.is(Schema.Struct({ runId: RunId, revision: Revision }))

/** The checkpoint at which the rows of a chain start. */
export const startOf = (rows: ReadonlyArray<ChainRow>): Start | undefined => {
  for (const { batch, start: revision, startRunId: runId } of rows) {
    const start = { runId, revision: Number(revision) }
    if (runId !== null && isStart(start)) return { ...start, upto: Number(batch.upto) }
  }
  return undefined
}

/**
 * Decodes the rows of a chain and sorts them, oldest first. Fails if a row is missing or cannot be read. With `start`, the rows begin after
 * that checkpoint.
 */
export const whole = Effect.fnUntraced(function* (
  head: RunHead,
  found: ReadonlyArray<RawBatch>,
  start?: Start
): Effect.fn.Return<ReadonlyArray<BatchRow>, RunStoreError> {
  if (found.some(({ runId }) => runId === null)) return yield* damaged(head.runId, "load")
  const rows = oldestFirst(yield* readAll(batchKind, "load", found))
  const gap = gapIn(rows, head, start)
  return gap === undefined ? rows : yield* damaged(gap, "load")
})

/** Whether the rows of one journal contain all events of a range up to the head's revision, and none after that revision. */
export const isWhole = (
  rows: ReadonlyArray<BatchRow>,
  { from, to }: { readonly from: number; readonly to: number },
  revision: unknown
): boolean => {
  const end = Number(revision)
  if (!Number.isSafeInteger(end)) return false
  let next: number | undefined
  for (const { count, sequence } of rows) {
    if (next === undefined ? sequence > from : sequence !== next) return false
    next = sequence + count
  }
  return (next ?? 0) <= end && (Math.min(to, end) <= from || (next ?? 0) >= Math.min(to, end))
}

/** Sorts rows in the order of their events. The statement does not sort them, because a database would copy all texts through its sort. */
const oldestFirst = (rows: ReadonlyArray<BatchRow>): ReadonlyArray<BatchRow> => {
  const runs: Array<Array<BatchRow>> = []
  for (const row of rows) (runs[row.depth] ??= []).push(row)
  return runs.reverse().flatMap((rows) => rows.sort((a, b) => a.sequence - b.sequence))
}

/** The events of a chain of runs, each up to the revision on which the next run builds. */
export const eventsIn = (
  rows: ReadonlyArray<BatchRow>
): Result.Result<ReadonlyArray<RunEvent>, RunStoreError> => {
  const events: Array<RunEvent> = []
  for (const row of rows) {
    const found = sliceBatches([row], { from: 0, to: row.upto }, "load")
    if (Result.isFailure(found)) return Result.fail(found.failure)
    for (const event of found.success) events.push(event)
  }
  return Result.succeed(events)
}

/**
 * The first run whose rows have a gap or exceed its revision. Without this check, a lost event would be treated as one that never
 * happened. The rows do not contain the events before `start`.
 */
const gapIn = (
  rows: ReadonlyArray<BatchRow>,
  { revision, runId }: Pick<RunHead, "revision" | "runId">,
  start: Start | undefined
): RunId | undefined => {
  const reached = new Map<RunId, { readonly next: number; readonly upto: number }>([
    [runId, { next: 0, upto: revision }]
  ])
  if (start !== undefined) reached.set(start.runId, { next: start.revision, upto: start.upto })
  for (const row of rows) {
    const next = reached.get(row.runId)?.next ?? 0
    if (row.sequence !== next) return row.runId
    reached.set(row.runId, { next: next + row.count, upto: row.upto })
  }
  for (const [runId, { next, upto }] of reached) if (next < upto) return runId
  return (reached.get(runId)?.next ?? 0) > revision ? runId : undefined
}
