/**
 * Folds the journals of a SQLite store, and compares their states with the heads, the inbox and the checkpoints.
 *
 * Each run is folded once, from the state of its parent at the revision on which it builds: a conversation of many runs is read once, and
 * not once for each of its runs.
 */
import { Decision, evolve, type Id, Interruption, RunEvent, RunState } from "@fermata/sdk"
import { SqlRunStore } from "@fermata/sdk/store"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { checkCheckpoint, checkpointOf } from "./checkpoints.ts"
import { checkReferences } from "./contents.ts"
import type { Findings } from "./findings.ts"
import { eventsOf, type Head, type Tables } from "./journals.ts"
import { type Row, rowOf, rowsOf } from "./rows.ts"

/**
 * Folds all runs, parents first, and yields after each. Skips unreadable runs, which are reported elsewhere, and the runs that build on
 * them.
 */
export function* foldAll(tables: Tables, found: Findings, heads: ReadonlyArray<Head>): Generator<void> {
  const after = Map.groupBy(heads, ({ row }) => row["parent_run_id"])
  const due: Array<{ readonly head: Head; readonly base: RunState.RunState | undefined }> = []
  for (const head of after.get(null) ?? []) due.push({ head, base: undefined })
  for (let item = due.pop(); item !== undefined; item = due.pop()) {
    const { base, head } = item
    const followers = after.get(head.runId) ?? []
    const checkpoint = checkpointOf(tables, head.runId)
    const wanted = new Set([
      checkpoint?.["revision"],
      ...followers.map((next) => next.row["parent_revision"])
    ])
    const folded = foldRun(tables, found, head, base, wanted)
    if (folded !== undefined) {
      const { events, first, state, states } = folded
      checkHead(found, head, first, state)
      checkInbox(tables, found, head, state)
      checkKept(tables, found, head, events)
      checkReferences(tables, found, head.runId, SqlRunStore.blobsOf(events))
      if (checkpoint !== undefined) {
        checkCheckpoint(tables, found, head.runId, checkpoint, states.get(checkpoint["revision"]))
      }
      for (const next of followers) {
        const from = states.get(next.row["parent_revision"])
        if (from !== undefined) due.push({ head: next, base: from })
      }
    }
    yield
  }
}

/** A run's state, and its states at the wanted revisions. */
interface Folded {
  readonly first: Extract<RunEvent.RunEvent, { readonly _tag: "run.started" }>
  readonly state: RunState.RunState
  readonly states: ReadonlyMap<unknown, RunState.RunState>
  /** The run's own events, without its parents'. */
  readonly events: ReadonlyArray<RunEvent.RunEvent>
}

const foldRun = (
  tables: Tables,
  found: Findings,
  { runId }: Head,
  base: RunState.RunState | undefined,
  wanted: ReadonlySet<unknown>
): Folded | undefined => {
  const events = eventsOf(tables, runId)
  // A run without events is reported by its revision.
  if (events === undefined || events.length === 0) return undefined
  const [first] = events
  const states = new Map<unknown, RunState.RunState>()
  let state = base
  try {
    if (first?._tag !== "run.started" || first.runId !== runId) throw new Error("It is another run's.")
    for (const [index, event] of events.entries()) {
      state = evolve(state, event)
      if (wanted.has(index + 1)) states.set(index + 1, state)
    }
    return state === undefined ? undefined : { events, first, state, states }
  } catch {
    found.problem(`The journal of ${runId} does not add up to a run: restore a backup, or remove the run.`)
    return undefined
  }
}

/** Checks that a run's head agrees with its journal. */
const checkHead = (found: Findings, head: Head, first: Folded["first"], state: RunState.RunState): void => {
  const { row, runId } = head
  // Unreadable columns and a wrong length are reported elsewhere.
  if (head.isDamaged || state.revision !== row["revision"]) return
  const { answered_by: answeredBy, parent_run_id: parent, session_id: session } = row
  if (state.status !== row["status"]) {
    found.problem(
      `The run ${runId} is ${state.status} by its journal, and listed as ${String(row["status"])}: restore a backup.`
    )
  }
  const other = (what: string, isOther: boolean) => {
    if (isOther)
      found.problem(`The run ${runId} is listed with another ${what} than its journal has: restore a backup.`)
  }
  other("agent", row["agent"] !== (first.under ?? first.agent.name))
  other("answering agent", answeredBy !== null && answeredBy !== state.agent.name)
  // Runs that once forked their session have been moved to sessions of their own.
  other("session", session !== state.sessionId && !String(session).startsWith(`${state.sessionId}.fork.`))
  other(
    "parent",
    parent !== (first.parent?.runId ?? null) || row["parent_revision"] !== (first.parent?.revision ?? null)
  )
  other("place in its session", row["follows"] !== null && row["follows"] !== "" && row["follows"] !== parent)
}

/** Checks that the inbox can decide the requests for which the journal waits, and lists no decided ones as open. */
const checkInbox = (
  { database }: Tables,
  found: Findings,
  { runId }: Head,
  state: RunState.RunState
): void => {
  const sql = "SELECT request_id, status, request, decision FROM fermata_requests WHERE run_id = ?"
  const inbox = new Map<unknown, Row>()
  for (const row of rowsOf(database, sql, runId)) {
    inbox.set(row["request_id"], row)
    checkDecision(found, runId, state, row)
  }
  const waiting = RunState.isEnded(state) ? [] : RunState.interruptions(state)
  for (const request of waiting) {
    const row = inbox.get(request.requestId)
    inbox.delete(request.requestId)
    if (row === undefined || row["status"] === "superseded" || row["status"] === "journaled") {
      found.problem(
        `The run ${runId} waits for ${request.requestId}, which cannot be decided: restore a backup, or cancel the run.`
      )
    } else if (!isSame(row["request"], request)) {
      found.problem(`The request ${request.requestId} is not what its run asked for: restore a backup.`)
    }
  }
  for (const [requestId, { status }] of inbox) {
    if (status === "open") {
      found.problem(
        `The request ${String(requestId)} is shown, but the run ${runId} does not wait for it: restore a backup, or remove the run.`
      )
    }
  }
}

/** Checks that each grant that the journal records as kept has a row: without it, a revoked one would be in force again. */
const checkKept = (
  { database }: Tables,
  found: Findings,
  { runId }: Head,
  events: ReadonlyArray<RunEvent.RunEvent>
): void => {
  for (const wrapped of events) {
    const { event } = RunEvent.unwrap(wrapped)
    if (event._tag !== "request.decided" || event.kept === undefined) continue
    const sql = "SELECT grant_id FROM fermata_grants WHERE grant_id = ?"
    if (rowOf(database, sql, event.kept) === undefined) {
      found.problem(
        `The grant ${event.kept} of the run ${runId} is gone, and calls that rely on it need a new approval: restore a backup.`
      )
    }
  }
}

/** Checks that inbox and journal have the same decisions, except for those on which the run has yet to act. */
const checkDecision = (
  found: Findings,
  runId: Head["runId"],
  state: RunState.RunState,
  { decision, request_id: requestId, status }: Row
): void => {
  const record = RunState.findRequest(state, requestId as Id.RequestId)?.record
  if (status === "decided") {
    if (record?.decision !== undefined) {
      found.problem(
        `The request ${String(requestId)} waits with a decision, and the run ${runId} has acted on one already: restore a backup, or remove the run.`
      )
    } else if (!RunState.isEnded(state) && (record === undefined || record.superseded !== undefined)) {
      found.problem(
        `The request ${String(requestId)} is decided, but the run ${runId} does not wait for it: restore a backup, or remove the run.`
      )
    }
  } else if (status === "journaled" && record?.decision !== undefined) {
    const decoded = decodeDecision(decision)
    // Unreadable rows are reported elsewhere.
    if (Result.isSuccess(decoded) && !sameDecision(decoded.success, record.decision)) {
      found.problem(
        `The decision of the request ${String(requestId)} is not the one that the run ${runId} has acted on: restore a backup, or remove the run.`
      )
    }
  }
}

const sameDecision = Schema.toEquivalence(Decision.Decision)
const decodeDecision = Schema.decodeUnknownResult(Schema.fromJsonString(Decision.Decision))

const same = Schema.toEquivalence(Interruption.Interruption)
const decodeRequest = Schema.decodeUnknownResult(Schema.fromJsonString(Interruption.Interruption))

const isSame = (text: unknown, request: Interruption.Interruption): boolean => {
  const decoded = decodeRequest(text)
  // Unreadable rows are reported elsewhere.
  return Result.isFailure(decoded) || same(decoded.success, request)
}

/** A sentence for each run that builds on itself, directly or through others. */
export const circles = (heads: ReadonlyArray<Head>): ReadonlyArray<string> => {
  const parents = new Map(heads.map(({ row, runId }) => [runId as unknown, row["parent_run_id"]]))
  /** Runs that have been visited. */
  const known = new Set<unknown>()
  const sentences: Array<string> = []
  for (const { runId: start } of heads) {
    const path: Array<unknown> = []
    let run: unknown = start
    for (; parents.has(run) && !known.has(run); run = parents.get(run)) {
      known.add(run)
      path.push(run)
    }
    const from = path.indexOf(run)
    if (from < 0) continue
    for (const inside of path.slice(from)) {
      sentences.push(`The run ${String(inside)} builds on itself: restore a backup, or remove the run.`)
    }
  }
  return sentences
}
