/**
 * A second reading of a journal, for tests: what has been asked, decided, started and settled, from the events alone.
 *
 * It shares nothing with `evolve`, so that the two can be held against each other.
 */
import type { Decision } from "../../src/domain/Decision.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import { type Budget, budgetOf } from "../../src/domain/Limits.ts"
import type { Message } from "../../src/domain/Message.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"

export interface LedgerCall {
  readonly id: string
  readonly run: string
  readonly ordinal: number
  readonly providerCallId: string
  readOnly: boolean
  repeatable: boolean
  /** Let through by the tool, a rule, a policy, a grant or a person. */
  released: boolean
  /** Bodies started, and how many of those starts were allowed. */
  starts: number
  allowedStarts: number
  settled: string | undefined
}

export interface LedgerRequest {
  readonly request: Interruption
  readonly path: ReadonlyArray<string>
  decision: Decision | undefined
  superseded: boolean
}

interface LedgerRun {
  readonly id: string
  readonly path: ReadonlyArray<string>
  ended: boolean
  answers: number
  /** Calls of all answers. */
  calls: number
  /** The calls of the last answer. */
  turn: ReadonlyArray<LedgerCall>
  /** The budget for which it was asked to come to its end, until it has answered. */
  lastTurnFor: { readonly budget: Budget; readonly limit: number } | undefined
}

export class Ledger {
  runs = new Map<string, LedgerRun>()
  calls = new Map<string, LedgerCall>()
  requests = new Map<string, LedgerRequest>()
  readonly faults: Array<string> = []
  private root = ""

  get rootRun(): LedgerRun {
    return this.runs.get(this.root)!
  }

  runAt(path: ReadonlyArray<string>): LedgerRun {
    return this.runs.get(path.at(-1) ?? this.root)!
  }

  read(wrapped: RunEvent): void {
    const { event, path } = unwrap(wrapped)
    if (event._tag === "run.started") {
      if (path.length === 0) {
        this.runs = new Map()
        this.requests = new Map()
        this.root = event.runId
      }
      const { runId: id } = event
      const nothing = { ended: false, answers: 0, calls: 0, turn: [], lastTurnFor: undefined }
      this.runs.set(id, { id, path, ...nothing })
      return
    }
    const run = this.runAt(path)
    switch (event._tag) {
      case "model.answered": {
        run.answers += 1
        // Whoever was asked to come to an end calls nothing any more.
        const parts = event.content.flatMap((part) =>
          part._tag === "toolCall" && run.lastTurnFor === undefined ? [part] : []
        )
        run.lastTurnFor = undefined
        run.calls += parts.length
        run.turn = parts.map((part, index) => ({
          id: `${run.id}.t${run.answers}.${index + 1}`,
          run: run.id,
          ordinal: index + 1,
          providerCallId: part.providerCallId,
          readOnly: false,
          repeatable: false,
          released: false,
          starts: 0,
          allowedStarts: 1,
          settled: undefined
        }))
        for (const call of run.turn) {
          if (this.calls.has(call.id)) this.faults.push(`${call.id} was made twice`)
          this.calls.set(call.id, call)
        }
        return
      }
      case "tool.classified": {
        const call = this.calls.get(event.callId)!
        call.readOnly = event.safety === "readOnly" && event.target === "tool"
        call.repeatable = event.safety === "readOnly" || event.idempotent
        call.released = event.allowedBy !== undefined
        return
      }
      case "tool.started": {
        const call = this.calls.get(event.callId)!
        call.starts += 1
        if (!call.released) this.faults.push(`${call.id} was started without consent`)
        if (call.settled !== undefined) this.faults.push(`${call.id} was started after it was settled`)
        if (call.starts > call.allowedStarts && !call.repeatable)
          this.faults.push(`${call.id} was started again`)
        return
      }
      case "tool.completed":
        return this.settle(event.callId, "completed")
      case "tool.failed":
        return this.settle(event.callId, "failed")
      case "tool.denied":
        return this.settle(event.callId, "denied")
      case "request.opened":
        if (this.requests.has(event.request.requestId))
          this.faults.push(`${event.request.requestId} was asked twice`)
        for (const record of this.requests.values()) {
          if (
            "callId" in record.request &&
            "callId" in event.request &&
            record.request.callId === event.request.callId
          ) {
            record.superseded ||= record.decision === undefined
          }
        }
        this.requests.set(event.request.requestId, {
          request: event.request,
          path,
          decision: undefined,
          superseded: false
        })
        return
      case "request.decided":
        return this.decide(event.decision)
      case "request.superseded":
        this.requests.get(event.requestId)!.superseded = true
        return
      case "wrapUp.asked":
        for (const call of run.turn) {
          if (call.settled !== undefined) continue
          call.settled = "cancelled"
          for (const record of this.requests.values()) {
            const { decision, request } = record
            if (decision === undefined && "callId" in request && request.callId === call.id)
              record.superseded = true
          }
        }
        run.lastTurnFor = event
        return
      case "limits.changed":
        if (run.lastTurnFor !== undefined) {
          const { budget, limit } = run.lastTurnFor
          if (budgetOf(event.limits, budget) !== limit) run.lastTurnFor = undefined
        }
        for (const record of this.requests.values()) {
          const { request } = record
          if (request._tag !== "limit" || request.runId !== run.id || record.decision !== undefined) continue
          if (budgetOf(event.limits, request.budget) !== request.limit) record.superseded = true
        }
        return
      case "run.resumed":
        run.ended = false
        return
      case "run.completed":
        return this.end(run, "completed")
      case "run.cancelled":
        for (const call of run.turn) if (call.settled === undefined) call.settled = "cancelled"
        for (const record of this.requests.values()) {
          if (record.decision === undefined && run.path.every((id, index) => record.path[index] === id)) {
            record.superseded = true
          }
        }
        return this.end(run, "cancelled")
      case "run.failed":
        return this.end(run, "failed")
    }
  }

  private end(run: LedgerRun, outcome: string): void {
    run.ended = true
    const callId = run.path.at(-1)
    if (callId !== undefined) this.settle(callId, outcome)
  }

  private settle(callId: string, outcome: string): void {
    const call = this.calls.get(callId)!
    if (call.settled !== undefined) this.faults.push(`${callId} was settled twice`)
    call.settled ??= outcome
  }

  private decide(decision: Decision): void {
    const record = this.requests.get(decision.requestId)!
    if (record.decision !== undefined) this.faults.push(`${decision.requestId} was decided twice`)
    record.decision ??= decision
    const callId = "callId" in record.request ? record.request.callId : undefined
    if (callId === undefined) return
    switch (decision._tag) {
      case "approve":
        this.calls.get(callId)!.released = true
        return
      case "retry":
        this.calls.get(callId)!.allowedStarts += 1
        return
      case "deny":
        return this.settle(callId, "denied")
      case "answer":
        return this.settle(callId, "completed")
      case "supply":
        return this.settle(callId, "supplied")
      case "fail":
        return this.settle(callId, "failed")
    }
  }

  /** Whether a request can still be decided: nothing on the way to it is over. */
  private isAlive(record: LedgerRequest): boolean {
    return (
      !this.rootRun.ended &&
      record.path.every(
        (callId) => !this.runs.get(callId)!.ended && this.calls.get(callId)!.settled === undefined
      )
    )
  }

  /** The ids of the requests that wait for somebody. */
  open(): ReadonlyArray<string> {
    return [...this.requests.values()]
      .filter((record) => record.decision === undefined && !record.superseded && this.isAlive(record))
      .map((record) => record.request.requestId)
  }

  /** What has to come of a decision: `taken`, or the tag of the refusal. */
  verdict(decision: Decision): string {
    const record = this.requests.get(decision.requestId)
    if (record === undefined) return "RequestNotFound"
    if (record.decision !== undefined) return "AlreadyDecided"
    if (record.superseded || !this.isAlive(record)) return "RequestSuperseded"
    const { request } = record
    const answers: Record<Interruption["_tag"], ReadonlyArray<string>> = {
      approval: ["approve", "deny", "supply"],
      question: ["answer", "deny"],
      inDoubt: ["retry", "supply", "fail"],
      limit: ["topUp", "deny"],
      login: ["retry", "deny"]
    }
    if (!answers[request._tag].includes(decision._tag)) return "DecisionNotApplicable"
    if (request._tag === "approval" && decision.digest !== undefined && decision.digest !== request.digest) {
      return "ArgumentsChanged"
    }
    if (request._tag === "approval" && decision._tag === "approve" && decision.grant !== undefined) {
      if (request.safety === "privileged") return "GrantRefused"
    }
    if (request._tag === "limit" && decision._tag === "topUp") {
      if (decision.limit <= request.spent) return "DecisionNotApplicable"
      if (request.budget !== "cost" && !Number.isInteger(decision.limit)) return "DecisionNotApplicable"
    }
    return "taken"
  }
}

/** What is wrong with a history for a provider, or `undefined`. */
export const historyFault = (messages: ReadonlyArray<Message>): string | undefined => {
  const results: Array<string> = []
  for (let i = 0; i < messages.length; i++) {
    const message = messages[i]!
    if (message.sequence !== i) return `the message at ${i} has sequence ${message.sequence}`
    if (message.role === "tool") return `the result of ${message.callId} at ${i} follows no answer`
    if (message.role !== "assistant") continue
    for (const part of message.content) {
      if (part._tag !== "toolCall") continue
      const result = messages[++i]
      if (result?.role !== "tool") return `${part.callId} has no result at ${i}`
      if (result.sequence !== i) return `the message at ${i} has sequence ${result.sequence}`
      if (result.callId !== part.callId) return `${part.callId} has the result of ${result.callId}`
      if (result.providerCallId !== part.providerCallId || result.name !== part.name) {
        return `the result of ${part.callId} names another call`
      }
      results.push(result.callId)
    }
  }
  return new Set(results).size === results.length ? undefined : "a call has two results"
}

/** Where two JSON values differ, or `undefined`. Keys may stand in another order. */
export const difference = (a: unknown, b: unknown, path = "$"): string | undefined => {
  if (Object.is(a, b)) return undefined
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return path
  if (Array.isArray(a) !== Array.isArray(b)) return path
  const keys = Object.keys(a)
  if (keys.length !== Object.keys(b).length) return `${path} has other keys`
  for (const key of keys) {
    if (!Object.hasOwn(b, key)) return `${path}.${key} is missing`
    const inside = difference(
      (a as Record<string, unknown>)[key],
      (b as Record<string, unknown>)[key],
      `${path}.${key}`
    )
    if (inside !== undefined) return inside
  }
  return undefined
}

/** What keeps a value from being plain JSON, or `undefined`. Remembers in `seen` what was found plain. */
export const notPlain = (value: unknown, seen: WeakSet<object>, path = "$"): string | undefined => {
  switch (typeof value) {
    case "string":
    case "boolean":
      return undefined
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0) ? undefined : `${path} is ${value}`
    case "object":
      break
    default:
      return `${path} is a ${typeof value}`
  }
  if (value === null || seen.has(value)) return undefined
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== (Array.isArray(value) ? Array.prototype : Object.prototype))
    return `${path} has a prototype`
  if (Object.getOwnPropertySymbols(value).length > 0) return `${path} has a symbol`
  for (const [key, property] of Object.entries(Object.getOwnPropertyDescriptors(value))) {
    if (Array.isArray(value) && key === "length") continue
    if (property.get !== undefined || property.set !== undefined) return `${path}.${key} is computed`
    const inside = notPlain(property.value, seen, `${path}.${key}`)
    if (inside !== undefined) return inside
  }
  seen.add(value)
  return undefined
}
