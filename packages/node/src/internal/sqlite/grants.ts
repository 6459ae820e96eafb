/**
 * Whether the grants of a SQLite store can be read, and belong to runs that are there.
 */
import type { DatabaseSync } from "node:sqlite"
import { SqlRunStore } from "@fermata/sdk/store"
import type { Findings } from "./findings.ts"
import { rowsOf } from "./rows.ts"

/** Rows between two stops. */
const atOnce = 100

/** Checks every grant, and stops now and then. */
export function* checkGrants(database: DatabaseSync, found: Findings): Generator<void> {
  const rows = rowsOf(
    database,
    `SELECT entry.*, run.session_id AS run_session FROM fermata_grants AS entry
      LEFT JOIN fermata_runs AS run ON run.run_id = entry.run_id ORDER BY entry.grant_id`
  )
  let count = 0
  for (const row of rows) {
    const problems = SqlRunStore.rowProblems("grants", [row])
    for (const problem of problems) found.problem(problem)
    // A revocation outlives its run, and an import keeps it before the run is there.
    if (problems.length === 0 && row["run_session"] === null && row["revoked_at"] === null) {
      found.problem(
        `The grant ${String(row["grant_id"])} belongs to ${String(row["run_id"])}, but there is no such run: restore a backup, or revoke it.`
      )
    }
    if (++count % atOnce === 0) yield
  }
}
