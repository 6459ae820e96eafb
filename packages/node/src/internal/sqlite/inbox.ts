/**
 * Checks that the requests, messages and grants of a SQLite store can be read, and agree with their runs.
 */
import type { DatabaseSync } from "node:sqlite"
import { SqlRunStore } from "@fermata/sdk/store"
import { checkReferences } from "./contents.ts"
import type { Findings } from "./findings.ts"
import type { Tables } from "./journals.ts"
import { type Row, rowsOf } from "./rows.ts"

/** Rows between two yields. */
const atOnce = 100

/** Checks every request, and yields from time to time. */
export function* checkRequests(database: DatabaseSync, found: Findings): Generator<void> {
  const rows = rowsOf(
    database,
    `SELECT entry.*, run.run_id AS root, run.session_id AS root_session, run.agent AS root_agent
      FROM fermata_requests AS entry LEFT JOIN fermata_runs AS run ON run.run_id = entry.run_id ORDER BY entry.request_id`
  )
  for (const row of rows) {
    found.requests += 1
    // A request without a run is reported elsewhere.
    if (row["root"] !== null) checkRequest(found, row)
    if (found.requests % atOnce === 0) yield
  }
}

const checkRequest = (found: Findings, row: Row): void => {
  const read = {
    warn_at: null,
    ...row,
    session_id: row["root_session"] ?? null,
    agent: row["root_agent"] ?? null
  }
  const problems = SqlRunStore.rowProblems("requests", [read])
  for (const problem of problems) found.problem(problem)
  if (problems.length > 0) return
  const { at, by } = row["decision"] === null ? { at: null, by: null } : JSON.parse(String(row["decision"]))
  const copies: Row = { session_id: read.session_id, agent: read.agent, decided_at: at, decided_by: by }
  const wrong = Object.keys(copies).filter((name) => row[name] !== stored(copies[name]))
  if (wrong.length > 0) {
    found.problem(
      `The request ${String(row["request_id"])} is damaged (${wrong.join(", ")}): restore a backup, or remove its run.`
    )
  }
}

/** A value as SQLite returns it: it stores half of a surrogate pair as U+FFFD, where JSON keeps it. */
const stored = (value: Row[string] | undefined): Row[string] | undefined =>
  typeof value === "string" ? value.toWellFormed() : value

/** Checks every message, and yields from time to time. */
export function* checkMessages(tables: Tables, found: Findings): Generator<void> {
  const rows = rowsOf(
    tables.database,
    `SELECT entry.*, run.run_id AS root FROM fermata_messages AS entry
      LEFT JOIN fermata_runs AS run ON run.run_id = entry.run_id ORDER BY entry.run_id, entry.position`
  )
  let count = 0
  for (const row of rows) {
    checkMessage(tables, found, row)
    if (++count % atOnce === 0) yield
  }
}

const checkMessage = (tables: Tables, found: Findings, row: Row): void => {
  const name = `The message ${String(row["message_id"])} to ${String(row["run_id"])}`
  const waits = row["status"] === "waiting"
  if (row["root"] === null) found.problem(`${name} exists, but there is no such run.`)
  else if (!waits && row["status"] !== "journaled") found.problem(`${name} has an unknown status.`)
  else {
    // A journaled message has no content here; its row answers a repeated send.
    const read = { recipient: null, intent: null, reopens: null, ...row, ...(waits ? {} : { content: "[]" }) }
    const problems = SqlRunStore.rowProblems("messages", [read])
    for (const problem of problems) found.problem(problem)
    if (problems.length === 0) {
      const refs = SqlRunStore.blobsIn([{ content: JSON.parse(String(read.content)) }])
      checkReferences(tables, found, String(row["run_id"]), refs)
    }
    if (typeof row["position"] !== "number") found.problem(`${name} has no position.`)
  }
}

/** Checks every grant, and yields from time to time. */
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
    // A revocation outlives its run, and an import writes it before the run.
    if (problems.length === 0 && row["run_session"] === null && row["revoked_at"] === null) {
      found.problem(
        `The grant ${String(row["grant_id"])} belongs to ${String(row["run_id"])}, but there is no such run: restore a backup, or revoke it.`
      )
    }
    if (++count % atOnce === 0) yield
  }
}
