/**
 * Checks that the head and the journal of each run of a SQLite store can be read, and have the same length.
 */
import type { DatabaseSync } from "node:sqlite"
import { type RunEvent, RunStateCodec } from "@fermata/sdk"
import { SqlRunStore } from "@fermata/sdk/store"
import * as Result from "effect/Result"
import type { Findings } from "./findings.ts"
import { type Row, rowsOf } from "./rows.ts"

/** A store, and the tables and columns that its version has. */
export interface Tables {
  readonly database: DatabaseSync
  /** Whether runs have numbers, which are part of the ids of their journal's rows. */
  readonly isNumbered: boolean
  readonly hasCheckpoints: boolean
  readonly hasContents: boolean
  readonly hasFiles: boolean
}

/** The head of a run. */
export interface Head {
  readonly runId: string
  readonly row: Row
  /** Whether a column cannot be read, which has been reported. */
  readonly isDamaged: boolean
}

/** Values of columns that earlier versions do not have. */
const later: Row = { answered_by: null, follows: null }

/** Reads the heads of all runs that have an id, and reports their problems. */
export const headsOf = ({ database }: Tables, found: Findings): ReadonlyArray<Head> => {
  const heads: Array<Head> = []
  for (const row of rowsOf(database, "SELECT * FROM fermata_runs ORDER BY run_id")) {
    found.runs += 1
    const { run_id: runId } = row
    const head = { ...later, ...row }
    const problems = SqlRunStore.rowProblems("runs", [head])
    for (const problem of problems) found.problem(problem)
    if (typeof runId === "string") heads.push({ runId, row: head, isDamaged: problems.length > 0 })
  }
  return heads
}

/** The rows of a run's journal. */
const batchesOf = ({ database, isNumbered }: Tables, runId: string): Iterable<Row> =>
  rowsOf(
    database,
    `SELECT sequence, count, version, events, run_id FROM fermata_journal WHERE ${
      isNumbered
        ? `id BETWEEN (SELECT number << 32 FROM fermata_runs WHERE run_id = ?1)
            AND (SELECT (number << 32) + 4294967295 FROM fermata_runs WHERE run_id = ?1)`
        : "run_id = ?1"
    } AND run_id = ?1 ORDER BY sequence`,
    runId
  )

/** The events of a run; `undefined` when they cannot be read, which {@link checkJournal} reports. */
export const eventsOf = (tables: Tables, runId: string): ReadonlyArray<RunEvent.RunEvent> | undefined => {
  const events: Array<RunEvent.RunEvent> = []
  for (const { events: text, sequence, version } of batchesOf(tables, runId)) {
    const decoded = RunStateCodec.decodeEvents(String(text), Number(version))
    if (Result.isFailure(decoded) || sequence !== events.length) return undefined
    for (const event of decoded.success) events.push(event)
  }
  return events
}

/** Checks one run: its journal has no gap, ends at the revision of its head, and can be read. */
export const checkJournal = (tables: Tables, found: Findings, { isDamaged, row, runId }: Head): void => {
  let next = 0
  for (const { count, events, sequence, version } of batchesOf(tables, runId)) {
    const place = `The journal of ${runId} at revision ${String(sequence)}`
    if (sequence !== next) {
      found.problem(
        `The journal of ${runId} goes on at ${String(sequence)} after ${next} events: restore a backup, or remove the run.`
      )
    }
    if (![sequence, count, version].every(Number.isFinite) || typeof events !== "string") {
      // The place of the remaining rows is unknown.
      return found.problem(`${place} cannot be read: restore a backup, or remove the run.`)
    }
    const decoded = RunStateCodec.decodeEvents(events, Number(version))
    if (Result.isFailure(decoded)) {
      found.problem(
        decoded.failure._tag === "RunStateTooNew"
          ? `${place} was written by a newer version of Fermata: update, then check again.`
          : `${place} cannot be read: restore a backup, or remove the run.`
      )
    } else if (decoded.success.length !== count) {
      found.problem(
        `${place} holds ${decoded.success.length} events, not ${String(count)}: restore a backup, or remove the run.`
      )
    }
    next = Number(sequence) + Number(count)
    found.events += Number(count)
  }
  const { revision } = row
  if (next !== revision && !isDamaged) {
    found.problem(
      `The run ${runId} is at revision ${String(revision)}, but its journal ends at ${next}: restore a backup, or remove the run.`
    )
  }
}
