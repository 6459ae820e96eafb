/**
 * Whether the checkpoints of a SQLite store are what the journals beside them amount to.
 */
import type { DatabaseSync } from "node:sqlite"
import { isDeepStrictEqual } from "node:util"
import { CheckpointCodec, type Id, type RunState } from "@fermata/sdk"

interface Findings {
  readonly problem: (sentence: string) => void
}

/** The tables that there are since checkpoints are kept. */
export const checkpointTables = ["fermata_checkpoints", "fermata_chunks"] as const

/** What to do about one that is wrong. */
const remedy = (runId: string) =>
  `The journal has everything: delete the rows of ${runId} in fermata_checkpoints and fermata_chunks.`

/** The runs with a checkpoint, once all rows are known to belong to a run. */
export const checkpointed = (database: DatabaseSync, found: Findings): ReadonlyArray<string> => {
  for (const table of checkpointTables) {
    const strays = database
      .prepare(`SELECT DISTINCT run_id FROM ${table} WHERE run_id NOT IN (SELECT run_id FROM fermata_runs)`)
      .all()
    for (const row of strays) {
      found.problem(
        `There is a checkpoint of ${String(row["run_id"])}, but no such run: delete its rows in ${table}.`
      )
    }
  }
  return database
    .prepare("SELECT run_id FROM fermata_checkpoints WHERE run_id IN (SELECT run_id FROM fermata_runs)")
    .all()
    .map((row) => String(row["run_id"]))
}

/** The checkpoint of one run. One that was written by another version is not used, and not looked at. */
export const checkCheckpoint = (
  database: DatabaseSync,
  found: Findings,
  runId: string,
  foldTo: (revision: number) => RunState.RunState | undefined
): void => {
  const row = database
    .prepare("SELECT revision, version, chunks, state FROM fermata_checkpoints WHERE run_id = ?")
    .get(runId)
  if (row === undefined || row["version"] !== CheckpointCodec.version) return
  const chunks = chunksOf(database, runId, Number(row["chunks"]))
  const revision = Number(row["revision"]) as Id.Revision
  const state =
    chunks === undefined
      ? undefined
      : CheckpointCodec.decode({ runId: runId as Id.RunId, revision, chunks, state: String(row["state"]) })
  if (state === undefined) {
    return found.problem(`The checkpoint of ${runId} cannot be read, and is not used. ${remedy(runId)}`)
  }
  const folded = foldTo(revision)
  // A journal that cannot be read is told already.
  if (folded !== undefined && !isDeepStrictEqual(state, folded)) {
    found.problem(`The checkpoint of ${runId} is not what its journal amounts to. ${remedy(runId)}`)
  }
}

/** The chunks of a checkpoint, those of the ones that it builds on first; `undefined` when they are not all there. */
const chunksOf = (
  database: DatabaseSync,
  runId: string,
  count: number
): ReadonlyArray<string> | undefined => {
  const base = database.prepare("SELECT base_run_id, base_chunks FROM fermata_checkpoints WHERE run_id = ?")
  const own = database.prepare(
    "SELECT place, messages FROM fermata_chunks WHERE run_id = ? AND version = ? AND place >= ? AND place < ?"
  )
  const chunks: Array<string> = []
  const seen = new Set<string>()
  let left = count
  for (let id: unknown = runId; typeof id === "string" && left > 0 && !seen.has(id);) {
    seen.add(id)
    const row = base.get(id)
    const first = Math.min(left, Number(row?.["base_chunks"]))
    for (const { messages, place } of own.all(id, CheckpointCodec.version, first, left)) {
      chunks[Number(place)] = String(messages)
    }
    left = first
    id = row?.["base_run_id"]
  }
  return Array.from(chunks).every((text) => text !== undefined) && chunks.length === count
    ? chunks
    : undefined
}
