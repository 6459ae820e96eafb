/**
 * The journals of a run and of those that it builds on, put together from their rows.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { RunId } from "../../../domain/Id.ts"
import type { RunEvent } from "../../../domain/RunEvent.ts"
import type { RunStoreError } from "../../RunStoreError.ts"
import type { RunHead } from "../../RunStorePort.ts"
import { damaged, sliceBatches } from "../journal.ts"
import type { Start } from "./checkpoints.ts"
import { type BatchRow, batchRows, type RawBatch } from "./rows.ts"

/** The rows that were found, oldest first, if they leave nothing out; from `start` on, where they begin after a checkpoint. */
export const whole = Effect.fnUntraced(function* (
  head: RunHead,
  found: ReadonlyArray<RawBatch>,
  start?: Start
): Effect.fn.Return<ReadonlyArray<BatchRow>, RunStoreError> {
  if (found.some(({ runId }) => runId === null)) return yield* damaged(head.runId, "load")
  const rows = oldestFirst(yield* batchRows("load", found))
  const gap = gapIn(rows, head, start)
  return gap === undefined ? rows : yield* damaged(gap, "load")
})

/** Whether the rows of one journal hold all events of a range that its head promises, and none behind its revision. */
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

/** Rows in the order of the events. A database would carry all their texts through a sort. */
const oldestFirst = (rows: ReadonlyArray<BatchRow>): ReadonlyArray<BatchRow> => {
  const runs: Array<Array<BatchRow>> = []
  for (const row of rows) (runs[row.depth] ??= []).push(row)
  return runs.reverse().flatMap((rows) => rows.sort((a, b) => a.sequence - b.sequence))
}

/** The events of a chain of runs, each up to where the next one took it up. */
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
 * The first run whose rows leave something out, or go on behind its revision: an event that is missing would be taken for one that
 * never happened. What is before `start` is not among the rows.
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
