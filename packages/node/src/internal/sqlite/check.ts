/**
 * Reads a whole SQLite store and reports its problems: in the pages, then in each row that a read of the store could not decode, then
 * between the rows.
 */
import type { DatabaseSync } from "node:sqlite"
import type { RunStoreError } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import type { CheckReport } from "../../SqliteStore.ts"
import { checkBelongingOfCheckpoints, checkpointTables } from "./checkpoints.ts"
import { checkFiles } from "./contentFiles.ts"
import { checkContents, contentTables } from "./contents.ts"
import { openExisting, patiently } from "./file.ts"
import { Findings } from "./findings.ts"
import { circles, foldAll } from "./fold.ts"
import { checkGrants, checkMessages, checkRequests } from "./inbox.ts"
import { checkJournal, headsOf, type Tables } from "./journals.ts"
import { type Row, rowOf, rowsOf } from "./rows.ts"

/** Checks every page of a store, and all its runs, requests, messages, grants, contents and checkpoints. */
export const check = (options: {
  readonly filename: string
  readonly contents?: string
}): Effect.Effect<CheckReport, RunStoreError.RunStoreError> => {
  const found = new Findings()
  return Effect.scoped(
    Effect.gen(function* () {
      const database = yield* openExisting("check", options.filename)
      yield* patiently("check", () => checkPages(database, found))
      const hasFiles = yield* checkTables(database, found)
      if (hasFiles) yield* checkFiles(database, options.contents, found)
    })
  ).pipe(
    Effect.catchIf(
      (error) => error.reason._tag === "StoreUnreadable" || error.reason._tag === "StoreFault",
      (error) => Effect.sync(() => found.problem(error.message))
    ),
    Effect.map(() => found.report())
  )
}

/** SQLite's own check of the file. Its lines name pages, rows and indexes, never contents. */
const checkPages = (database: DatabaseSync, found: Findings): void => {
  for (const row of database.prepare("PRAGMA integrity_check").iterate()) {
    if (row["integrity_check"] !== "ok") {
      found.problem(
        `The file is damaged: ${String(row["integrity_check"])}. Restore a backup, and keep this file for its readable part.`
      )
    }
  }
}

/** Fermata's own check, in one read transaction. Returns whether contents may be in files. */
const checkTables = (database: DatabaseSync, found: Findings) =>
  Effect.gen(function* () {
    const step = <A>(act: () => A) => Effect.andThen(Effect.yieldNow, patiently("check", act))
    const names = yield* step(() => {
      database.exec("BEGIN")
      const tables = rowsOf(database, "SELECT name FROM sqlite_schema WHERE type = 'table'")
      return new Set(Array.from(tables, (row) => row["name"]))
    })
    const missing = needed.filter((name) => !names.has(name))
    // Stores of earlier versions have no messages, until a newer Fermata opens them.
    const hasMessages = missing.length === 0 && versionOf(database) >= 3
    if (hasMessages && !names.has("fermata_messages")) missing.push("fermata_messages")
    // The same applies to grants, contents and checkpoints.
    const hasGrants = missing.length === 0 && versionOf(database) >= 7
    if (hasGrants && !names.has("fermata_grants")) missing.push("fermata_grants")
    const hasContents = missing.length === 0 && versionOf(database) >= 14
    if (hasContents) missing.push(...contentTables.filter((name) => !names.has(name)))
    const hasCheckpoints = checkpointTables.some((name) => names.has(name))
    if (hasCheckpoints) missing.push(...checkpointTables.filter((name) => !names.has(name)))
    const hasFiles = hasContents && versionOf(database) >= 15
    if (hasFiles && !names.has("fermata_blob_directory")) missing.push("fermata_blob_directory")
    if (missing.length > 0) {
      found.problem(
        missing.length === needed.length
          ? "This is a database, but not a Fermata store: it has none of its tables. Check the name of the file."
          : `Tables are missing (${missing.join(", ")}): restore a backup.`
      )
      return false
    }
    const isNumbered = versionOf(database) >= 5
    const tables: Tables = { database, hasCheckpoints, hasContents, hasFiles, isNumbered }
    yield* step(() => checkSteps(database, found))
    const heads = yield* step(() => headsOf(tables, found))
    for (const head of heads) yield* step(() => checkJournal(tables, found, head))
    yield* step(() => checkBelonging(tables, found))
    for (const sentence of circles(heads)) found.problem(sentence)
    if (hasCheckpoints) yield* step(() => checkBelongingOfCheckpoints(database, found))
    const parts = [
      foldAll(tables, found, heads),
      ...(hasMessages ? [checkMessages(tables, found)] : []),
      ...(hasGrants ? [checkGrants(database, found)] : []),
      ...(hasContents ? [checkContents(tables, found)] : []),
      checkRequests(database, found)
    ]
    for (const part of parts) while ((yield* step(() => part.next())).done !== true);
    database.exec("COMMIT")
    return hasFiles
  })

const needed = ["fermata_schema", "fermata_runs", "fermata_journal", "fermata_requests"]

/** The version of the tables. */
const versionOf = (database: DatabaseSync): number =>
  Number(rowOf(database, "SELECT max(version) AS version FROM fermata_schema")?.["version"])

/** Checks the list of migrations, by which a store is opened or refused. */
const checkSteps = (database: DatabaseSync, found: Findings): void => {
  const steps = Array.from(rowsOf(database, "SELECT version FROM fermata_schema ORDER BY version"))
  if (steps.some(({ version }, index) => version !== index + 1)) {
    found.problem("The list of migrations has a gap: restore a backup.")
  }
}

/** Reports rows whose run, or its part, is missing, and rows that lie in another run's place. */
const checkBelonging = ({ database, isNumbered }: Tables, found: Findings): void => {
  const strays = (sql: string, sentence: (row: Row) => string) => {
    for (const row of rowsOf(database, sql)) found.problem(sentence(row))
  }
  strays(
    "SELECT DISTINCT run_id FROM fermata_journal WHERE run_id NOT IN (SELECT run_id FROM fermata_runs)",
    (row) => `There is a journal of ${String(row["run_id"])}, but no such run.`
  )
  if (isNumbered) {
    strays(
      `SELECT DISTINCT journal.run_id FROM fermata_journal AS journal JOIN fermata_runs AS run ON run.run_id = journal.run_id
        WHERE journal.id <> (run.number << 32) + journal.sequence`,
      (row) =>
        `A part of the journal of ${String(row["run_id"])} is out of its place: restore a backup, or remove the run.`
    )
  }
  strays(
    "SELECT request_id, run_id FROM fermata_requests WHERE run_id NOT IN (SELECT run_id FROM fermata_runs)",
    (row) =>
      `The request ${String(row["request_id"])} belongs to ${String(row["run_id"])}, but there is no such run.`
  )
  strays(
    `SELECT child.run_id, child.parent_run_id FROM fermata_runs AS child
      LEFT JOIN fermata_runs AS parent ON parent.run_id = child.parent_run_id
      WHERE child.parent_run_id IS NOT NULL AND coalesce(parent.revision, -1) < child.parent_revision`,
    (row) =>
      `The run ${String(row["run_id"])} builds on ${String(row["parent_run_id"])}, which is missing or too short: restore a backup.`
  )
}
