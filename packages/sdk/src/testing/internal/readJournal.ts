/**
 * Reads journals event by event, and counts their decisions, calls and messages in ledgers.
 */
import type { Decision } from "../../domain/Decision.ts"
import { evolve, evolveAll } from "../../domain/evolve.ts"
import type { RequestId, RunId } from "../../domain/Id.ts"
import type { Interruption } from "../../domain/Interruption.ts"
import { providerMessages, type RunState } from "../../domain/RunState.ts"
import type { Evidence, Invariant, Journal, Violation } from "../Evidence.ts"
import { validateHistory } from "../ScriptedModel.ts"
import { type CallLedger, checkEvent, checkLast, type Report } from "./checkEvent.ts"

/** The facts about one run, counted from its journal. */
export interface RunLedger {
  readonly journal: Journal
  readonly state: RunState | undefined
  readonly calls: ReadonlyMap<string, CallLedger>
  readonly requests: ReadonlyMap<RequestId, Interruption>
  readonly decisions: ReadonlyMap<RequestId, Decision>
  readonly superseded: ReadonlySet<RequestId>
  /** The ids of the messages that the journal contains. */
  readonly messages: ReadonlySet<string>
}

/** Reads all journals. Returns their ledgers, and the violations that were found on the way. */
export const readJournals = (evidence: Evidence) => {
  const byId = new Map(evidence.journals.map((journal) => [journal.runId, journal]))
  const ledgers = new Map<RunId, RunLedger>()
  const violations: Array<Violation> = []
  for (const journal of evidence.journals) {
    const report = (invariant: Invariant, detail: string) =>
      violations.push({ invariant, runId: journal.runId, detail })
    ledgers.set(journal.runId, readJournal(journal, before(journal, byId, report), report))
  }
  return { ledgers, violations }
}

/** The state on which a run builds, or `undefined` if it builds on none or its events cannot be folded. */
const before = (
  { parent }: Journal,
  byId: ReadonlyMap<RunId, Journal>,
  report: Report
): RunState | undefined => {
  if (parent === undefined) return undefined
  const journal = byId.get(parent.runId)
  if (journal === undefined || journal.events.length < parent.revision) {
    report("foldable", `it builds on ${parent.runId} at revision ${parent.revision}, which is missing`)
    return undefined
  }
  try {
    return evolveAll(
      before(journal, byId, () => {}),
      journal.events.slice(0, parent.revision)
    )
  } catch {
    return undefined
  }
}

const readJournal = (journal: Journal, parent: RunState | undefined, report: Report): RunLedger => {
  const calls = new Map<string, CallLedger>()
  const requests = new Map<RequestId, Interruption>()
  const decisions = new Map<RequestId, Decision>()
  const superseded = new Set<RequestId>()
  const messages = new Set<string>()
  const ledger = { journal, calls, requests, decisions, superseded, messages }
  if (journal.revision !== journal.events.length) {
    report(
      "gapless",
      `the head has revision ${journal.revision}, the journal has ${journal.events.length} events`
    )
  }
  let state = parent
  for (const [index, event] of journal.events.entries()) {
    const say: Report = (invariant, detail) => report(invariant, `event ${index + 1}: ${detail}`)
    if ((index === 0) !== (event._tag === "run.started")) {
      say("foldable", `${event._tag} is at the wrong place`)
      return { ...ledger, state: undefined }
    }
    try {
      if (state !== undefined && index > 0) checkEvent(state, event, ledger, say)
      state = evolve(state, event)
    } catch {
      say("foldable", `${event._tag} cannot be folded`)
      return { ...ledger, state: undefined }
    }
  }
  if (state === undefined) {
    report("foldable", "the journal is empty")
    return { ...ledger, state }
  }
  if (state.status !== journal.status) {
    report("foldable", `the head has the status ${journal.status}, the journal folds to ${state.status}`)
  }
  checkLast(journal, state, report)
  const problem = validateHistory(providerMessages(state))
  if (problem !== undefined) report("validHistory", problem)
  return { ...ledger, state }
}
