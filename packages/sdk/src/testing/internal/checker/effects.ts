import type { RunId } from "../../../domain/Id.ts"
/**
 * What the tools did, against what the journals say that they were to do.
 */
import { canonicalJson } from "../../../domain/internal/json.ts"
import type { Effect, Evidence, Invariant, Violation } from "../../Evidence.ts"
import type { CallLedger, RunLedger } from "./readJournal.ts"

/** Compares the effects with the starts, approvals and results in the journals. */
export const checkEffects = (
  evidence: Evidence,
  ledgers: ReadonlyMap<RunId, RunLedger>
): ReadonlyArray<Violation> => {
  const violations: Array<Violation> = []
  const { effects, effectTools = [], reconciled = [] } = evidence
  const byKey = group(effects ?? [], ({ idempotencyKey }) => idempotencyKey)
  const answers = group(reconciled, ({ idempotencyKey }) => idempotencyKey)
  const known = new Set<string>()

  for (const [runId, ledger] of ledgers) {
    for (const call of ledger.calls.values()) {
      known.add(call.callId)
      const say = (invariant: Invariant, detail: string) => violations.push({ invariant, runId, detail })
      const cleared = (answers.get(call.callId) ?? []).filter(({ answer }) => answer === "notHappened").length
      if (!call.repeatable && call.restarts > cleared) {
        say(
          "atMostOnce",
          `${call.callId} was started again ${call.restarts} times, and ${cleared} were cleared`
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
        detail: `${call.callId} is recorded as done and was not`
      })
    }
  }
  for (const [key, [effect]] of byKey) {
    if (known.has(key)) continue
    violations.push({
      invariant: "attemptFirst",
      runId: undefined,
      detail: `${effect?.tool} had an effect for ${key}, a call that no journal knows`
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

/** The tool of a call, as the requests and the history name it. */
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

const group = <A>(items: ReadonlyArray<A>, key: (item: A) => string): Map<string, Array<A>> => {
  const groups = new Map<string, Array<A>>()
  for (const item of items) {
    const group = groups.get(key(item))
    if (group === undefined) groups.set(key(item), [item])
    else group.push(item)
  }
  return groups
}
