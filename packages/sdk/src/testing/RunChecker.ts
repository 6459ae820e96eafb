/**
 * Checks the invariants of stored runs.
 *
 * The checker takes the journals, the inbox of the store, and the effects that tools recorded, and returns the violated invariants. It is
 * a pure function without a store, so your tests, a crash campaign, or a nightly check of production data can call it. It counts effects,
 * starts, approvals and decisions itself, from the events; open calls, open requests and grants come from the folded state.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { Decision, DecisionInput, DecisionToRecord } from "../domain/Decision.ts"
import { line } from "../domain/Display.ts"
import type { RunId } from "../domain/Id.ts"
import { decodeRecord } from "../domain/internal/given.ts"
import { canonicalJson } from "../domain/internal/json.ts"
import { asSent, sameDecision } from "../domain/internal/judgeDecision.ts"
import { interruptions, isEnded } from "../domain/RunState.ts"
import type { Acknowledged, Effect, Evidence, Inbox, Invariant, Violation } from "./Evidence.ts"
import type { CallLedger } from "./internal/checkEvent.ts"
import { readJournals, type RunLedger } from "./internal/readJournal.ts"

export type {
  Acknowledged,
  Effect,
  Evidence,
  Inbox,
  Invariant,
  Journal,
  Reconciliation,
  Violation
} from "./Evidence.ts"

/**
 * Checks all invariants for which the evidence has data. Returns the violations; an empty list means that all of them hold.
 *
 * @category checking
 * @since 0.1.0
 */
export const check = (evidence: Evidence): ReadonlyArray<Violation> => {
  const { ledgers, violations } = readJournals(evidence)
  const found = [
    ...violations,
    ...checkEffects(evidence, ledgers),
    ...(evidence.inbox === undefined ? [] : checkInbox(evidence.inbox, ledgers)),
    ...(evidence.acknowledged === undefined
      ? []
      : checkAcknowledged(evidence.acknowledged, evidence, ledgers)),
    ...checkSecrets(evidence)
  ]
  return found.map((violation) => ({ ...violation, detail: line(violation.detail) }))
}

const checkSecrets = ({ secrets }: Evidence): ReadonlyArray<Violation> =>
  secrets === undefined
    ? []
    : secrets.values.flatMap((value, index) =>
        secrets.texts.some((text) => text.includes(value))
          ? [{ invariant: "secret", runId: undefined, detail: `secret number ${index + 1} is in a text` }]
          : []
      )

/** Compares the effects with the starts, approvals and results in the journals. */
const checkEffects = (
  evidence: Evidence,
  ledgers: ReadonlyMap<RunId, RunLedger>
): ReadonlyArray<Violation> => {
  const violations: Array<Violation> = []
  const { effects, effectTools = [], reconciled = [] } = evidence
  const byKey = Map.groupBy(effects ?? [], ({ idempotencyKey }) => idempotencyKey)
  const answers = Map.groupBy(reconciled, ({ idempotencyKey }) => idempotencyKey)
  const known = new Set<string>()

  for (const [runId, ledger] of ledgers) {
    for (const call of ledger.calls.values()) {
      known.add(call.callId)
      const say = (invariant: Invariant, detail: string) => violations.push({ invariant, runId, detail })
      const cleared = (answers.get(call.callId) ?? []).filter(({ answer }) => answer === "notHappened").length
      if (!call.repeatable && call.restarts > cleared) {
        say(
          "atMostOnce",
          `${call.callId} was started again ${call.restarts} times, and reconciled as not happened ${cleared} times`
        )
      }
      checkApproved(call, say)
      if (effects !== undefined) checkCall(call, byKey.get(call.callId) ?? [], cleared, say)
    }
    if (effects === undefined || ledger.state === undefined) continue
    for (const call of ledger.calls.values()) {
      if (!call.completed || call.starts.length === 0 || byKey.has(call.callId)) continue
      const tool = toolOf(ledger, call)
      if (tool === undefined || !effectTools.includes(tool)) continue
      violations.push({
        invariant: "lostEffect",
        runId,
        detail: `${call.callId} is recorded as completed and had no effect`
      })
    }
  }
  for (const [key, [effect]] of byKey) {
    if (known.has(key)) continue
    violations.push({
      invariant: "attemptFirst",
      runId: undefined,
      detail: `${effect?.tool} had an effect for ${key}, a call that no journal contains`
    })
  }
  return violations
}

type Say = (invariant: Invariant, detail: string) => void

const checkCall = (call: CallLedger, effects: ReadonlyArray<Effect>, cleared: number, say: Say): void => {
  if (effects.length === 0) return
  const { callId, retries, starts } = call
  for (const { attempt } of effects) {
    if (attempt > starts.length)
      say("attemptFirst", `${callId} ran as attempt ${attempt} of ${starts.length}`)
  }
  if (!call.repeatable) {
    const allowed = 1 + retries + cleared
    if (effects.length > allowed) {
      say("atMostOnce", `${callId} took effect ${effects.length} times and was released ${allowed} times`)
    }
    if (new Set(effects.map(({ attempt }) => attempt)).size < effects.length) {
      say("atMostOnce", `${callId} took effect twice in one attempt`)
    }
  }
  for (const effect of effects) {
    const expected = starts[effect.attempt - 1]
    if (effect.arguments === undefined || expected === undefined) continue
    if (canonicalJson(effect.arguments) !== canonicalJson(expected)) {
      say("asApproved", `${callId} ran with other arguments than the journal has`)
    }
  }
}

const checkApproved = ({ approved, callId, needsApproval, starts }: CallLedger, say: Say): void => {
  if (!needsApproval || approved === undefined) return
  for (const started of starts) {
    if (started !== undefined && canonicalJson(started) !== canonicalJson(approved.arguments)) {
      say("asApproved", `${callId} was started with other arguments than were approved`)
    }
  }
}

/** The name of a call's tool, from the model's response in the journal. */
const toolOf = ({ journal }: RunLedger, { callId }: CallLedger): string | undefined => {
  const [, turn = "", ordinal = ""] = /\.t(\d+)\.(\d+)$/.exec(callId) ?? []
  const runOfCall = callId.slice(0, callId.length - `.t${turn}.${ordinal}`.length)
  let answers = 0
  for (const wrapped of journal.events) {
    let event = wrapped
    let runId: string = journal.runId
    while (event._tag === "child.advanced") {
      runId = event.callId
      event = event.event
    }
    if (event._tag !== "model.answered" || runId !== runOfCall) continue
    answers += 1
    if (answers !== Number(turn)) continue
    const parts = event.content.filter((part) => part._tag === "toolCall")
    return parts[Number(ordinal) - 1]?.name
  }
  return undefined
}

const json = (value: unknown): string => canonicalJson(JSON.parse(JSON.stringify(value)) as Schema.Json)

/** Checks that the inbox contains the requests that the journals wait for, except those with a decision that no journal contains yet. */
const checkInbox = (inbox: Inbox, ledgers: ReadonlyMap<RunId, RunLedger>): ReadonlyArray<Violation> => {
  const violations: Array<Violation> = []
  for (const { message, runId } of inbox.messages ?? []) {
    const ledger = ledgers.get(runId)
    const say = (detail: string) => violations.push({ invariant: "oneMessage", runId, detail })
    if (ledger?.messages.has(message.messageId) === true) {
      say(`the message ${message.messageId} waits and is in the journal`)
    }
    // A cancelled run leaves messages unread, and a failed run reads them when it is resumed.
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

/** Checks that acknowledged data is stored. */
const checkAcknowledged = (
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
      say(runId, `${events.length} acknowledged events at revision ${revision} are not in the journal`)
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
    // A superseded request or a cancelled run needs no decision, and a failed run reads it when it is resumed. A run completes only with
    // every decision in its journal.
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

/** Whether a recorded decision is the one that a caller sent. The digest may differ, because a repetition may omit it. */
const isAnswerTo = (asked: DecisionToRecord, recorded: Decision): boolean => {
  const sent = Result.getOrUndefined(decodeRecord(asked, recorded.at))
  return sent !== undefined && sameDecision({ ...asSent(sent), at: recorded.at }, asSent(recorded))
}

const nameOf = (by: DecisionInput["by"]): string => (typeof by === "string" ? by : by.id)
