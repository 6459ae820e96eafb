/**
 * An independent reading of a journal for tests: requests, decisions, starts, results, messages, usage and reservations, from the
 * events alone.
 *
 * It shares no code with `evolve`, so that the two can be compared.
 */
import type { Decision } from "../../src/domain/Decision.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import type { Budget, Limits } from "../../src/domain/Limits.ts"
import { budgetOf, withBudget } from "../../src/domain/Limits.ts"
import type { Message } from "../../src/domain/Message.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import type { Target } from "../../src/domain/ToolCall.ts"
import type { ModelUsage } from "../../src/domain/Usage.ts"

export interface LedgerCall {
  readonly id: string
  readonly run: string
  readonly ordinal: number
  readonly providerCallId: string
  target: Target
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

/** The usage of a run's own model calls. Money is in cents, which add up exactly. */
interface Consumed {
  turns: number
  toolCalls: number
  requests: number
  tokens: number
  cents: number
  unpriced: number
}

export interface LedgerRun {
  readonly id: string
  readonly path: ReadonlyArray<string>
  readonly isBackground: boolean
  /** How it ended: by its own event, or with the run above it. */
  ended: false | "itself" | "implied"
  /** Ends of its own. */
  ends: number
  answers: number
  /** The number of calls in all answers. */
  calls: number
  /** The calls of the last answer. */
  turn: ReadonlyArray<LedgerCall>
  limits: Limits
  readonly own: Consumed
  /** The budget for which it was asked to wrap up, until that budget is raised. */
  wrappingUp: Budget | undefined
  /** A sub-agent has used that budget up, and the run's model has not been asked yet. */
  isDue: boolean
  /** Whether it is held itself, while the root may be working. */
  held: boolean
  /** Milliseconds of work until `since`. */
  worked: number
  since: number | undefined
  /** The user's messages, as JSON. */
  readonly said: Array<string>
  /** The budgets announced as nearing their limit. */
  warned: Set<Budget>
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

  /** The runs above a run, from the root. */
  line({ path }: LedgerRun): ReadonlyArray<LedgerRun> {
    return path.map((_, depth) => this.runAt(path.slice(0, depth)))
  }

  /** The runs under a run, at any depth. */
  under({ path }: LedgerRun): ReadonlyArray<LedgerRun> {
    return [...this.runs.values()].filter(
      (run) => run.path.length > path.length && path.every((id, depth) => run.path[depth] === id)
    )
  }

  read(wrapped: RunEvent): void {
    const { event, path } = unwrap(wrapped)
    if (event._tag === "run.started") return this.start(event, path)
    const run = this.runAt(path)
    if (run.ended !== false && path.length > 0) this.faults.push(`${run.id} goes on after its end`)
    switch (event._tag) {
      case "model.answered": {
        run.answers += 1
        this.book(run, event.usage)
        run.own.turns += 1
        const parts = event.content.flatMap((part) =>
          part._tag === "toolCall" && (run.wrappingUp === undefined || run.isDue) ? [part] : []
        )
        run.calls += parts.length
        run.own.toolCalls += parts.length
        run.turn = parts.map((part, index) => ({
          id: `${run.id}.t${run.answers}.${index + 1}`,
          run: run.id,
          ordinal: index + 1,
          providerCallId: part.providerCallId,
          target: "tool",
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
      case "model.charged":
        return this.book(run, event.usage)
      case "tool.classified": {
        const call = this.calls.get(event.callId)!
        call.target = event.target
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
      case "tool.notStarted":
        this.calls.get(event.callId)!.starts -= 1
        return
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
      case "limits.changed":
        for (const record of this.requests.values()) {
          const { request } = record
          if (request._tag !== "limit" || request.runId !== run.id || record.decision !== undefined) continue
          if (budgetOf(event.limits, request.budget) !== request.limit) record.superseded = true
        }
        return this.changeLimits(run, event.limits)
      case "message.queued":
        run.said.push(JSON.stringify(event.content))
        return
      case "budget.nearing":
        if (run.warned.has(event.budget)) this.faults.push(`${run.id} was told twice about ${event.budget}`)
        run.warned.add(event.budget)
        return
      case "wrapUp.asked":
        if (run.wrappingUp !== undefined && !run.isDue) {
          this.faults.push(`${run.id} was asked twice to come to an end`)
        }
        run.wrappingUp = event.budget
        run.isDue = false
        return this.closeTurn(run)
      case "budget.exhausted":
        if (run.wrappingUp !== undefined) return
        run.wrappingUp = event.budget
        run.isDue = true
        return
      case "run.held":
        run.held = path.length > 0
        return this.pause(event.at, run)
      case "run.recovered":
      case "run.resumed":
        run.ended = false
        run.held = false
        for (const one of [run, ...this.under(run)]) {
          if (one.ended === false && ![...this.line(one), one].some(({ held }) => held)) one.since = event.at
        }
        return
      case "run.completed":
        return this.end(run, "completed", event.at)
      case "run.cancelled":
        this.closeTurn(run)
        for (const record of this.requests.values()) {
          if (record.decision === undefined && run.path.every((id, index) => record.path[index] === id)) {
            record.superseded = true
          }
        }
        return this.end(run, "cancelled", event.at)
      case "run.failed":
        return this.end(run, "failed", event.at)
    }
  }

  private start(
    event: Extract<RunEvent, { readonly _tag: "run.started" }>,
    path: ReadonlyArray<string>
  ): void {
    const said = path.length === 0 ? (this.runs.get(this.root)?.said ?? []) : []
    if (path.length === 0) {
      this.runs = new Map()
      this.requests = new Map()
      this.root = event.runId
    }
    const call = this.calls.get(path.at(-1) ?? "")
    this.runs.set(event.runId, {
      id: event.runId,
      path,
      isBackground: call?.target === "background",
      ended: false,
      ends: 0,
      answers: 0,
      calls: 0,
      turn: [],
      limits: event.limits,
      own: { turns: 0, toolCalls: 0, requests: 0, tokens: 0, cents: 0, unpriced: 0 },
      wrappingUp: undefined,
      isDue: false,
      held: false,
      worked: 0,
      since: event.at,
      said: [...said, JSON.stringify(event.prompt)],
      warned: new Set()
    })
    if (call?.released === false) this.faults.push(`${call.id} was started without consent`)
    if (call?.target === "background") this.settle(call.id, "completed")
  }

  private book({ own }: LedgerRun, { costUsd, inputTokens, outputTokens }: ModelUsage): void {
    own.requests += 1
    own.tokens += inputTokens + outputTokens
    if (costUsd === undefined) own.unpriced += 1
    else own.cents += Math.round(costUsd * 100)
  }

  /** The usage of a run and of all runs under it, ended ones included. */
  consumed(run: LedgerRun): Consumed {
    const sum = { ...run.own }
    for (const { own } of this.under(run)) {
      for (const key of Object.keys(sum) as Array<keyof Consumed>) sum[key] += own[key]
    }
    return sum
  }

  /** The usage of a budget by a run, including the runs under it where they share the budget. */
  spent(run: LedgerRun, budget: Budget, at: number): number {
    const { cents, tokens, toolCalls, turns } = this.consumed(run)
    switch (budget) {
      case "turns":
        return run.own.turns
      case "toolCalls":
        return run.own.toolCalls
      case "treeTurns":
        return turns
      case "treeToolCalls":
        return toolCalls
      case "tokens":
        return tokens
      case "cost":
        return cents / 100
      case "wallTime":
        return run.worked + (run.since === undefined ? 0 : at - run.since)
      case "context":
        return 0
    }
  }

  /** The part of a budget that is reserved for runs under a run. */
  promised(run: LedgerRun, budget: "tokens" | "cost"): number {
    let sum = 0
    for (const child of this.under(run)) {
      if (child.path.length !== run.path.length + 1 || child.ended !== false) continue
      const limit = budgetOf(child.limits, budget)
      sum +=
        limit === undefined ? this.promised(child, budget) : Math.max(0, limit - this.spent(child, budget, 0))
    }
    return sum
  }

  private changeLimits(run: LedgerRun, limits: Limits): void {
    for (const budget of ["turns", "treeTurns", "tokens", "cost", "wallTime", "toolCalls"] as const) {
      if (budgetOf(limits, budget) !== budgetOf(run.limits, budget)) this.changeBudget(run, budget)
    }
    if (limits.maxTreeToolCalls !== run.limits.maxTreeToolCalls) this.changeBudget(run, "treeToolCalls")
    run.limits = limits
  }

  private changeBudget(run: LedgerRun, budget: Budget): void {
    run.warned.delete(budget)
    if (run.wrappingUp === budget) {
      run.wrappingUp = undefined
      run.isDue = false
    }
  }

  /** Cancels the open calls of a turn and supersedes their requests. */
  private closeTurn(run: LedgerRun): void {
    for (const call of run.turn) {
      if (call.settled !== undefined) continue
      call.settled = "cancelled"
      const child = this.runs.get(call.id)
      if (child !== undefined) this.imply(child)
      for (const record of this.requests.values()) {
        if ("callId" in record.request && record.request.callId === call.id) {
          record.superseded ||= record.decision === undefined
        }
      }
    }
  }

  private imply(run: LedgerRun): void {
    for (const one of [run, ...this.under(run)]) one.ended ||= "implied"
  }

  private pause(at: number, top: LedgerRun): void {
    for (const run of [top, ...this.under(top)]) {
      if (run.ended !== false || run.since === undefined) continue
      run.worked += at - run.since
      run.since = undefined
    }
  }

  private end(run: LedgerRun, outcome: "completed" | "cancelled" | "failed", at: number): void {
    const callId = run.path.at(-1)
    if (callId === undefined) this.pause(at, run)
    run.ended = "itself"
    run.ends += 1
    // A failed run can be resumed, with the runs under it.
    if (callId !== undefined || outcome !== "failed") this.imply(run)
    if (callId !== undefined && !run.isBackground) this.settle(callId, outcome)
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
    const { request } = record
    if (request._tag === "limit" && decision._tag === "topUp") {
      const run = this.runs.get(request.runId)!
      run.limits = withBudget(run.limits, request.budget, decision.limit)
      this.changeBudget(run, request.budget)
    }
    const callId = "callId" in request ? request.callId : undefined
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
        // The run records the result of an external call later.
        if (request._tag === "external") return
        return this.settle(callId, request._tag === "timer" ? "completed" : "supplied")
      case "fail":
        return this.settle(callId, "failed")
    }
  }

  /** Whether a request can be decided: no run on its path has ended. */
  private isAlive(record: LedgerRequest): boolean {
    return (
      this.rootRun.ended === false && record.path.every((callId) => this.runs.get(callId)!.ended === false)
    )
  }

  /** The ids of the open requests. */
  open(): ReadonlyArray<string> {
    return [...this.requests.values()]
      .filter((record) => record.decision === undefined && !record.superseded && this.isAlive(record))
      .map((record) => record.request.requestId)
  }

  /** The expected outcome of a decision: `taken`, or the tag of the rejection. */
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
      login: ["retry", "deny"],
      timer: ["supply", "fail"],
      external: ["supply", "fail"]
    }
    if (!answers[request._tag].includes(decision._tag)) return "DecisionNotApplicable"
    if (request._tag === "approval" && decision.digest !== undefined && decision.digest !== request.digest) {
      return "ArgumentsChanged"
    }
    if (request._tag === "approval" && decision._tag === "approve" && decision.grant !== undefined) {
      if (request.safety === "privileged") return "GrantRefused"
      if (decision.grant.scope === "session" && request.agentPath.length > 1) return "GrantRefused"
    }
    if (request._tag === "limit" && decision._tag === "topUp") {
      if (decision.limit <= request.spent) return "DecisionNotApplicable"
      if (request.budget !== "cost" && !Number.isInteger(decision.limit)) return "DecisionNotApplicable"
    }
    return "taken"
  }
}

/** The first fault of a history for a provider, or `undefined`. */
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

/** The path at which two JSON values differ, or `undefined`. The order of keys does not count. */
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

/** The first part of a value that is not plain JSON, or `undefined`. `seen` has the values known to be plain. */
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
