/**
 * Checks that the checkpoints of a SQLite store agree with the journals.
 */
import type { DatabaseSync } from "node:sqlite"
import { isDeepStrictEqual } from "node:util"
import { CheckpointCodec, type Id, type RunState } from "@fermata/sdk"
import type { Findings } from "./findings.ts"
import type { Tables } from "./journals.ts"
import { type Row, rowOf, rowsOf } from "./rows.ts"

/** The tables of checkpoints, which earlier versions do not have. */
export const checkpointTables = ["fermata_checkpoints", "fermata_chunks"] as const

/** The advice for a wrong checkpoint. */
const remedy = (runId: string) =>
  `The journal has everything: delete the rows of ${runId} in fermata_checkpoints and fermata_chunks.`

/** Checks that all rows of checkpoints belong to a run. */
export const checkBelongingOfCheckpoints = (database: DatabaseSync, found: Findings): void => {
  for (const table of checkpointTables) {
    const strays = `SELECT DISTINCT run_id FROM ${table} WHERE run_id NOT IN (SELECT run_id FROM fermata_runs)`
    for (const row of rowsOf(database, strays)) {
      found.problem(
        `There is a checkpoint of ${String(row["run_id"])}, but no such run: delete its rows in ${table}.`
      )
    }
  }
}

/** The checkpoint of a run; `undefined` for one of another version, which is not used. */
export const checkpointOf = ({ database, hasCheckpoints }: Tables, runId: string): Row | undefined => {
  if (!hasCheckpoints) return undefined
  const row = rowOf(
    database,
    "SELECT revision, version, chunks, state FROM fermata_checkpoints WHERE run_id = ?",
    runId
  )
  return row?.["version"] === CheckpointCodec.version ? row : undefined
}

/** Checks a checkpoint against the state at its revision: `folded`; `undefined` when the journal does not reach it. */
export const checkCheckpoint = (
  { database }: Tables,
  found: Findings,
  runId: string,
  row: Row,
  folded: RunState.RunState | undefined
): void => {
  const chunks = chunksOf(database, runId, Number(row["chunks"]))
  const revision = Number(row["revision"]) as Id.Revision
  const state =
    chunks === undefined
      ? undefined
      : CheckpointCodec.decode({ runId: runId as Id.RunId, revision, chunks, state: String(row["state"]) })
  if (state === undefined) {
    found.problem(`The checkpoint of ${runId} cannot be read, and is not used. ${remedy(runId)}`)
  } else if (!isDeepStrictEqual(state, folded)) {
    found.problem(`The checkpoint of ${runId} differs from its journal. ${remedy(runId)}`)
  }
}

/** The chunks of a checkpoint, beginning with those of its bases; `undefined` when some are missing. */
const chunksOf = (
  database: DatabaseSync,
  runId: string,
  count: number
): ReadonlyArray<string> | undefined => {
  const chunks = new Map<number, string>()
  const seen = new Set<string>()
  let left = count
  for (let id: unknown = runId; typeof id === "string" && left > 0 && !seen.has(id);) {
    seen.add(id)
    const row = rowOf(
      database,
      "SELECT base_run_id, base_chunks FROM fermata_checkpoints WHERE run_id = ?",
      id
    )
    const first = Math.min(left, Number(row?.["base_chunks"]))
    const own = rowsOf(
      database,
      "SELECT place, messages FROM fermata_chunks WHERE run_id = ? AND version = ? AND place >= ? AND place < ?",
      id,
      CheckpointCodec.version,
      first,
      left
    )
    for (const { messages, place } of own) chunks.set(Number(place), String(messages))
    left = first
    id = row?.["base_run_id"]
  }
  const texts: Array<string> = []
  for (let text = chunks.get(0); text !== undefined; text = chunks.get(texts.length)) texts.push(text)
  return texts.length === count && chunks.size === count ? texts : undefined
}
