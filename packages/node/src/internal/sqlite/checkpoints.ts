/**
 * Whether the checkpoints of a SQLite store are what the journals beside them amount to.
 */
import type { DatabaseSync } from "node:sqlite"
import { isDeepStrictEqual } from "node:util"
import { CheckpointCodec, type Id, type RunState } from "@fermata/sdk"
import type { Findings } from "./findings.ts"
import type { Tables } from "./journals.ts"
import { type Row, rowOf, rowsOf } from "./rows.ts"

/** The tables that there are since checkpoints are kept. */
export const checkpointTables = ["fermata_checkpoints", "fermata_chunks"] as const

/** What to do about one that is wrong. */
const remedy = (runId: string) =>
  `The journal has everything: delete the rows of ${runId} in fermata_checkpoints and fermata_chunks.`

/** All rows of checkpoints belong to a run. */
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

/** The checkpoint of a run. One that was written by another version is not used, and not looked at. */
export const checkpointOf = ({ database, hasCheckpoints }: Tables, runId: string): Row | undefined => {
  if (!hasCheckpoints) return undefined
  const row = rowOf(
    database,
    "SELECT revision, version, chunks, state FROM fermata_checkpoints WHERE run_id = ?",
    runId
  )
  return row?.["version"] === CheckpointCodec.version ? row : undefined
}

/** A checkpoint is what the run came to at its revision: `folded`; `undefined` where the journal does not get there. */
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
    found.problem(`The checkpoint of ${runId} is not what its journal amounts to. ${remedy(runId)}`)
  }
}

/** The chunks of a checkpoint, those of the ones that it builds on first; `undefined` when they are not all there. */
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
