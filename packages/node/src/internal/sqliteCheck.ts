/**
 * Reads a whole SQLite store and tells what is wrong with it.
 */
import type { DatabaseSync, SQLOutputValue } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { Decision, Display, evolveAll, Interruption, Message, RunState, RunStateCodec } from "@fermata/sdk"
import type { RunStoreError } from "@fermata/sdk/store"
import type { CheckReport } from "../SqliteStore.ts"
import { checkCheckpoint, checkpointed, checkpointTables } from "./sqliteCheckpoints.ts"
import { openExisting, patiently } from "./sqliteFile.ts"

/** Reads every page, every run and every request of a store. */
export const check = (options: {
  readonly filename: string
}): Effect.Effect<CheckReport, RunStoreError.RunStoreError> => {
  const found = new Findings()
  return Effect.scoped(
    Effect.gen(function* () {
      const database = yield* openExisting("check", options.filename)
      yield* patiently("check", () => checkPages(database, found))
      yield* checkTables(database, found)
    })
  ).pipe(
    Effect.catchIf(
      (error) => error.reason._tag === "StoreUnreadable" || error.reason._tag === "StoreFault",
      (error) => Effect.sync(() => found.problem(error.message))
    ),
    Effect.map(() => found.report())
  )
}

class Findings {
  runs = 0
  events = 0
  requests = 0
  readonly problems: Array<string> = []
  #more = 0

  problem(sentence: string): void {
    if (this.problems.length < mostProblems) this.problems.push(Display.line(sentence))
    else this.#more += 1
  }

  report(): CheckReport {
    const { events, problems, requests, runs } = this
    const rest = this.#more === 0 ? [] : [`There are ${this.#more} more problems.`]
    return { ok: problems.length === 0, runs, events, requests, problems: [...problems, ...rest] }
  }
}

const mostProblems = 100

/** SQLite's own check of the file. Its lines name pages, rows and indexes, never contents. */
const checkPages = (database: DatabaseSync, found: Findings): void => {
  for (const row of database.prepare("PRAGMA integrity_check").iterate()) {
    if (row["integrity_check"] !== "ok") {
      found.problem(
        `The file is damaged: ${String(row["integrity_check"])}. Restore a backup; what still can be read is in this file.`
      )
    }
  }
}

/** Fermata's own check. All statements see the same moment. */
const checkTables = (database: DatabaseSync, found: Findings) =>
  Effect.gen(function* () {
    const step = (act: () => void) => Effect.andThen(patiently("check", act), Effect.yieldNow)
    let tables = new Set<unknown>()
    yield* step(() => {
      database.exec("BEGIN")
      tables = new Set(
        database
          .prepare("SELECT name FROM sqlite_schema")
          .all()
          .map((row) => row["name"])
      )
    })
    const missing = needed.filter((name) => !tables.has(name))
    // Stores of before have no messages, until a newer Fermata opens them.
    const hasMessages = missing.length === 0 && versionOf(database) >= 3
    if (hasMessages && !tables.has("fermata_messages")) missing.push("fermata_messages")
    // The same with checkpoints.
    if (checkpointTables.some((name) => tables.has(name))) {
      missing.push(...checkpointTables.filter((name) => !tables.has(name)))
    }
    if (missing.length > 0) {
      return found.problem(
        missing.length === needed.length
          ? "This is a database, but no Fermata store: it has none of its tables. Check the name of the file."
          : `Tables are missing (${missing.join(", ")}): restore a backup.`
      )
    }
    const heads = database.prepare("SELECT run_id, status, revision FROM fermata_runs ORDER BY run_id").all()
    for (const head of heads) {
      yield* step(() => checkRun(database, found, String(head["run_id"]), head))
    }
    yield* step(() => checkBelonging(database, found))
    for (const head of heads) yield* step(() => checkFold(database, found, String(head["run_id"])))
    if (hasMessages) yield* step(() => checkMessages(database, found))
    if (checkpointTables.every((name) => tables.has(name))) {
      let runs: ReadonlyArray<string> = []
      yield* step(() => {
        runs = checkpointed(database, found)
      })
      for (const runId of runs) {
        yield* step(() => checkCheckpoint(database, found, runId, (upto) => foldOf(database, runId, upto)))
      }
    }
    const requests = database.prepare("SELECT request_id FROM fermata_requests ORDER BY request_id").all()
    const read = database.prepare(
      "SELECT request, decision, status FROM fermata_requests WHERE request_id = ?"
    )
    for (const { request_id: id } of requests) {
      yield* step(() => checkRequest(found, String(id), read.get(id ?? null)))
    }
  })

const needed = ["fermata_schema", "fermata_runs", "fermata_journal", "fermata_requests"]

/** The version of the tables. */
const versionOf = (database: DatabaseSync): number =>
  Number(database.prepare("SELECT max(version) AS version FROM fermata_schema").get()?.["version"])

/** The rows of the journal of `:runId`. */
const journalOf = (database: DatabaseSync): string =>
  versionOf(database) < 5
    ? "run_id = :runId"
    : `id BETWEEN (SELECT number << 32 FROM fermata_runs WHERE run_id = :runId)
        AND (SELECT (number << 32) + 4294967295 FROM fermata_runs WHERE run_id = :runId)`

type Row = Record<string, SQLOutputValue>

const isStatus = Schema.is(RunState.Status)

/** One run: its journal has no gap, adds up to the revision of its head, and can be read. */
const checkRun = (database: DatabaseSync, found: Findings, runId: string, head: Row): void => {
  found.runs += 1
  if (!isStatus(head["status"])) found.problem(`The run ${runId} has a status that is none.`)
  let next = 0
  const batches = database
    .prepare(
      `SELECT sequence, count, version, events FROM fermata_journal WHERE ${journalOf(database)} ORDER BY sequence`
    )
    .iterate({ runId })
  for (const { count, events, sequence, version } of batches) {
    if (sequence !== next) {
      found.problem(
        `The journal of ${runId} goes on at ${String(sequence)} after ${next} events: restore a backup, or remove the run.`
      )
    }
    const decoded = RunStateCodec.decodeEvents(String(events), Number(version))
    if (Result.isFailure(decoded)) {
      found.problem(
        decoded.failure._tag === "RunStateTooNew"
          ? `The journal of ${runId} at revision ${String(sequence)} was written by a newer version of Fermata: update, then check again.`
          : `The journal of ${runId} at revision ${String(sequence)} cannot be read: restore a backup, or remove the run.`
      )
    } else if (decoded.success.length !== count) {
      found.problem(
        `The journal of ${runId} at revision ${String(sequence)} holds ${decoded.success.length} events, not ${String(count)}: restore a backup, or remove the run.`
      )
    }
    next = Number(sequence) + Number(count)
    found.events += Number(count)
  }
  if (next !== head["revision"]) {
    found.problem(
      `The run ${runId} is at revision ${String(head["revision"])}, but its journal ends at ${next}: restore a backup, or remove the run.`
    )
  }
}

/**
 * What a run's journal amounts to is what its head and the inbox say of it: a request that the journal waits for and the inbox does
 * not hold is one that nobody can decide.
 */
const checkFold = (database: DatabaseSync, found: Findings, runId: string): void => {
  const head = database
    .prepare("SELECT session_id, agent, status, revision, parent_run_id FROM fermata_runs WHERE run_id = ?")
    .get(runId)
  const state = foldOf(database, runId, Infinity)
  // What cannot be read is told already.
  if (head === undefined || state === undefined || state.revision !== head["revision"]) return
  if (state.status !== head["status"] || state.agent.name !== head["agent"]) {
    found.problem(
      `The run ${runId} is ${state.status} by its journal, and listed as ${String(head["status"])}: restore a backup.`
    )
  }
  const rows = database
    .prepare("SELECT request_id, status, request FROM fermata_requests WHERE run_id = ?")
    .all(runId)
  const inbox = new Map(rows.map((row) => [String(row["request_id"]), row]))
  for (const request of RunState.isEnded(state) ? [] : RunState.interruptions(state)) {
    const row = inbox.get(request.requestId)
    if (row === undefined || row["status"] === "superseded" || row["status"] === "journaled") {
      found.problem(
        `The run ${runId} waits for ${request.requestId}, which nobody can decide: restore a backup, or cancel the run.`
      )
    } else if (!isSame(row["request"], request)) {
      found.problem(`The request ${request.requestId} is not what its run asked for: restore a backup.`)
    }
  }
}

const same = Schema.toEquivalence(Interruption.Interruption)

const isSame = (text: unknown, request: Interruption.Interruption): boolean => {
  const decoded = decodeRequest(text)
  // What cannot be read is told already.
  return Result.isFailure(decoded) || same(decoded.success, request)
}

/** The state of a run up to a revision; `undefined` when it cannot be read. */
const foldOf = (database: DatabaseSync, runId: string, upto: number): RunState.RunState | undefined => {
  const head = database
    .prepare("SELECT parent_run_id, parent_revision FROM fermata_runs WHERE run_id = ?")
    .get(runId)
  if (head === undefined) return undefined
  const { parent_revision: revision, parent_run_id: parent } = head
  let state = parent === null ? undefined : foldOf(database, String(parent), Number(revision))
  if (parent !== null && state === undefined) return undefined
  let left = upto
  const batches = database
    .prepare(`SELECT version, events FROM fermata_journal WHERE ${journalOf(database)} ORDER BY sequence`)
    .all({ runId })
  for (const { events, version } of batches) {
    const decoded = RunStateCodec.decodeEvents(String(events), Number(version))
    if (Result.isFailure(decoded)) return undefined
    try {
      state = evolveAll(state, decoded.success.slice(0, Math.max(0, Math.min(left, Number.MAX_SAFE_INTEGER))))
    } catch {
      return undefined
    }
    left -= decoded.success.length
  }
  return state
}

/** Rows that belong to a run which is not there, or not as far as it must be. */
const checkBelonging = (database: DatabaseSync, found: Findings): void => {
  const strays = (sql: string, sentence: (row: Row) => string) => {
    for (const row of database.prepare(sql).iterate()) found.problem(sentence(row))
  }
  strays(
    "SELECT DISTINCT run_id FROM fermata_journal WHERE run_id NOT IN (SELECT run_id FROM fermata_runs)",
    (row) => `There is a journal of ${String(row["run_id"])}, but no such run.`
  )
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
      `The run ${String(row["run_id"])} builds on ${String(row["parent_run_id"])}, which is not there as far as it must be: restore a backup.`
  )
}

const decodeContent = Schema.decodeUnknownResult(Schema.fromJsonString(Schema.Array(Message.UserPart)))

/** Every message belongs to a run, and one that waits can be read. */
const checkMessages = (database: DatabaseSync, found: Findings): void => {
  const rows = database.prepare(
    `SELECT run_id, message_id, status, content,
      run_id NOT IN (SELECT run_id FROM fermata_runs) AS stray FROM fermata_messages ORDER BY run_id, position`
  )
  for (const row of rows.iterate()) {
    const name = `The message ${String(row["message_id"])} to ${String(row["run_id"])}`
    const waits = row["status"] === "waiting"
    if (row["stray"] === 1) found.problem(`${name} is there, but there is no such run.`)
    else if (!waits && row["status"] !== "journaled") found.problem(`${name} has a status that is none.`)
    else if (waits && Result.isFailure(decodeContent(row["content"]))) {
      found.problem(`${name} cannot be read: restore a backup, or remove its run.`)
    }
  }
}

const decodeRequest = Schema.decodeUnknownResult(Schema.fromJsonString(Interruption.Interruption))
const decodeDecision = Schema.decodeUnknownResult(Schema.fromJsonString(Decision.Decision))

/** Whether a request of this status has a decision; a superseded one may have. */
const isDecided: ReadonlyMap<unknown, boolean | undefined> = new Map([
  ["open", false],
  ["decided", true],
  ["journaled", true],
  ["superseded", undefined]
])

const checkRequest = (found: Findings, requestId: string, row: Row | undefined): void => {
  if (row === undefined) return
  found.requests += 1
  const request = decodeRequest(row["request"])
  if (Result.isFailure(request) || request.success.requestId !== requestId) {
    found.problem(`The request ${requestId} cannot be read: restore a backup, or remove its run.`)
  }
  const decided = isDecided.get(row["status"])
  if (!isDecided.has(row["status"])) found.problem(`The request ${requestId} has a status that is none.`)
  else if (decided !== undefined && decided !== (row["decision"] !== null)) {
    found.problem(
      `The request ${requestId} is ${decided ? "decided, but its decision is missing" : "open, but has a decision"}: restore a backup, or remove its run.`
    )
  }
  if (row["decision"] !== null && Result.isFailure(decodeDecision(row["decision"]))) {
    found.problem(`The decision on ${requestId} cannot be read: restore a backup, or remove its run.`)
  }
}
