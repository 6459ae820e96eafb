import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
/**
 * What the store keeps beside the journals, and what it told others, against the journals.
 */
import type { Decision, DecisionInput } from "../../../domain/Decision.ts"
import type { RunId } from "../../../domain/Id.ts"
import { canonicalJson } from "../../../domain/internal/json.ts"
import { asSent, sameDecision } from "../../../domain/internal/judge.ts"
import { interruptions, isEnded } from "../../../domain/RunState.ts"
import { decodeInput } from "../../../store/internal/requests.ts"
import type { Acknowledged, Evidence, Inbox, Invariant, Violation } from "../../Evidence.ts"
import type { RunLedger } from "./readJournal.ts"

const json = (value: unknown): string => canonicalJson(JSON.parse(JSON.stringify(value)) as Schema.Json)

/** The inbox shows what the journals wait for, less what is decided and not delivered yet. */
export const checkInbox = (
  inbox: Inbox,
  ledgers: ReadonlyMap<RunId, RunLedger>
): ReadonlyArray<Violation> => {
  const violations: Array<Violation> = []
  for (const { message, runId } of inbox.messages ?? []) {
    const ledger = ledgers.get(runId)
    const say = (detail: string) => violations.push({ invariant: "oneMessage", runId, detail })
    if (ledger?.messages.has(message.messageId) === true) {
      say(`the message ${message.messageId} waits and is in the journal`)
    }
    // A cancelled run ends whatever was said to it, and a failed one takes its messages when it is resumed.
    else if (ledger?.state?.status === "completed")
      say(`the message ${message.messageId} waits in a completed run`)
  }
  for (const [runId, { journal, state }] of ledgers) {
    if (state === undefined) continue
    const say = (detail: string) => violations.push({ invariant: "inbox", runId, detail })
    const open = new Map(
      inbox.open.flatMap((entry) => (entry.runId === runId ? [[entry.request.requestId, entry.request]] : []))
    )
    const decided = new Set(
      inbox.undelivered.flatMap((entry) => (entry.runId === runId ? [entry.decision.requestId] : []))
    )
    if (isEnded(state)) {
      for (const requestId of open.keys()) say(`${requestId} is open in a run that is ${journal.status}`)
      continue
    }
    const waiting = new Map(interruptions(state).map((request) => [request.requestId, request]))
    for (const [requestId, request] of waiting) {
      const shown = open.get(requestId)
      if (shown === undefined && !decided.has(requestId)) say(`${requestId} waits and is not in the inbox`)
      if (shown !== undefined && json(shown) !== json(request)) say(`${requestId} is shown differently`)
    }
    for (const requestId of open.keys()) {
      if (!waiting.has(requestId)) say(`${requestId} is in the inbox and does not wait`)
    }
  }
  return violations
}

/** What was acknowledged is there. */
export const checkAcknowledged = (
  acknowledged: Acknowledged,
  { inbox }: Evidence,
  ledgers: ReadonlyMap<RunId, RunLedger>
): ReadonlyArray<Violation> => {
  const violations: Array<Violation> = []
  const say = (runId: RunId, detail: string, invariant: Invariant = "acknowledged") =>
    violations.push({ invariant, runId, detail })
  for (const { events, revision, runId } of acknowledged.appended ?? []) {
    const stored = ledgers.get(runId)?.journal.events.slice(revision, revision + events.length)
    if (stored === undefined || json(stored) !== json(events)) {
      say(runId, `${events.length} acknowledged events behind revision ${revision} are not in the journal`)
    }
  }
  for (const { asked, decision, runId } of acknowledged.decisions ?? []) {
    if (asked !== undefined && !isAnswerTo(asked, decision)) {
      const detail = `${asked._tag} by ${nameOf(asked.by)} on ${decision.requestId} was acknowledged with ${decision._tag} by ${decision.by}`
      say(runId, detail, "oneDecision")
    }
    const ledger = ledgers.get(runId)
    const { requestId } = decision
    const journaled = ledger?.decisions.get(requestId)
    if (journaled !== undefined) {
      if (json(journaled) !== json(decision)) say(runId, `another decision on ${requestId} was journaled`)
      continue
    }
    const kept = inbox?.undelivered.some((entry) => json(entry.decision) === json(decision))
    // A request that was withdrawn and a run that was cancelled need no decision any more, and a failed run takes it when it is resumed. A
    // run completes only with every decision in its journal.
    const over =
      ledger?.superseded.has(requestId) === true ||
      (ledger?.state !== undefined && isEnded(ledger.state) && ledger.state.status !== "completed")
    if (kept !== true && !over) say(runId, `the acknowledged decision on ${requestId} is gone`)
  }
  for (const { message, runId } of acknowledged.messages ?? []) {
    const { messageId } = message
    const waits = inbox?.messages?.some(
      (entry) => entry.runId === runId && entry.message.messageId === messageId
    )
    if (waits !== true && ledgers.get(runId)?.messages.has(messageId) !== true) {
      say(runId, `the acknowledged message ${messageId} is gone`)
    }
  }
  for (const { runId, status } of acknowledged.ended ?? []) {
    const actual = ledgers.get(runId)?.journal.status
    if (actual !== status)
      say(runId, `the run was reported as ${status} and is ${actual ?? "gone"}`, "terminal")
  }
  return violations
}

/** Whether a decision is the one that a caller sent. A digest only says what was looked at: a repeat may leave it out. */
const isAnswerTo = (asked: DecisionInput, recorded: Decision): boolean => {
  const sent = Result.getOrUndefined(decodeInput(asked, recorded.at))
  return sent !== undefined && sameDecision({ ...asSent(sent), at: recorded.at }, asSent(recorded))
}

const nameOf = (by: DecisionInput["by"]): string => (typeof by === "string" ? by : by.id)
