/**
 * `next(state)` says what has to happen now. It is pure: the same state always asks for the same step, so that a run goes on
 * exactly where it stood, in whichever process.
 *
 * The order of calls within a turn is decided here. Calls are taken in the order of the answer: contiguous read-only calls
 * run together, contiguous sub-agents too, any other call runs alone; a side-effecting call never overtakes one that precedes
 * it and is still undecided, a read may, and a sub-agent may overtake sub-agents. Another agent takes over when all other calls
 * of the answer are settled.
 *
 * Sub-agents in the background go on by themselves. One that is held stops no other; the run is over when all of them are.
 *
 * A run that a decision has stopped begins nothing more, and neither do the sub-agents in it: its only steps find out what became of
 * bodies that were started, and finish it.
 *
 * What a sub-agent may do depends on the budgets above it, too: `next(child, constraintsOf(line))`.
 *
 * @since 0.1.0
 */
import * as Arr from "effect/Array"
import {
  exceeded as exceededBudget,
  exceededByCalls,
  isToWrapUp,
  type NothingLeft,
  promisedAway,
  reserved,
  spent
} from "./Budget.ts"
import * as History from "./History.ts"
import type { ToolCallId } from "./Id.ts"
import {
  type Constraints,
  constraintsInside,
  isClosed,
  isStopped,
  mayStartUnder,
  withdrawable,
  noConstraints,
  waitsForPromised
} from "./internal/constraints.ts"
import { isTurnReleased } from "./internal/released.ts"
import type { Interruption, LimitRequest } from "./Interruption.ts"
import * as Limits from "./Limits.ts"
import type { RunFailure } from "./RunError.ts"
import type { RunState, ToolCall } from "./RunState.ts"
import { interruptions, isEnded, isOpen, isRepeatable, isSettled, text } from "./RunState.ts"

export type { Constraints, Unavailable } from "./internal/constraints.ts"
export { noConstraints } from "./internal/constraints.ts"

/** What has to happen now. */
export type Step =
  /** Ask the model; `turn` counts from 1. */
  | { readonly _tag: "CallModel"; readonly turn: number }
  /** Understand what the model asked for: tools, arguments, who has to be asked. */
  | { readonly _tag: "ClassifyCalls"; readonly callIds: ReadonlyArray<ToolCallId> }
  /** Run these calls: several are read-only and run together, one alone may be anything. */
  | { readonly _tag: "SettleToolCalls"; readonly callIds: ReadonlyArray<ToolCallId> }
  /** Start the sub-agents of these calls, or go on with them: together. */
  | { readonly _tag: "ResumeChildren"; readonly callIds: ReadonlyArray<ToolCallId> }
  /** Start the sub-agent of this call in the background. */
  | { readonly _tag: "StartBackground"; readonly callId: ToolCallId }
  /** Nothing can happen here before one of the sub-agents in the background has got further. */
  | { readonly _tag: "AwaitChildren" }
  /** Say what became of the sub-agents, stop one, or send it a message. */
  | { readonly _tag: "SettleAgents"; readonly callId: ToolCallId }
  /** Give the conversation to another agent. */
  | { readonly _tag: "HandOff"; readonly callId: ToolCallId }
  /** These bodies were started by a process that is gone, or may have been in a store that is lost: find out what became of them. */
  | { readonly _tag: "Reconcile"; readonly callIds: ReadonlyArray<ToolCallId> }
  /** Nobody needs to answer these any more: there is room in the budget again. */
  | { readonly _tag: "Withdraw"; readonly requests: ReadonlyArray<Interruption> }
  /** A budget is used up: the model gets one more turn, without tools. */
  | { readonly _tag: "AskWrapUp"; readonly exceeded: Limits.Exceeded }
  /** A budget is used up and more can be asked for. */
  | { readonly _tag: "AskLimit"; readonly exceeded: Limits.Exceeded }
  /** Decode the answer with the agent's output schema. */
  | { readonly _tag: "DecodeOutput"; readonly text: string }
  /** Nothing can happen before one of these is decided. */
  | { readonly _tag: "Hold"; readonly requests: ReadonlyArray<Interruption> }
  /** The run is over. */
  | { readonly _tag: "Finish"; readonly end: End }

/** How a run is over. */
export type End =
  | { readonly _tag: "completed" }
  | { readonly _tag: "cancelled"; readonly reason: string }
  | { readonly _tag: "failed"; readonly failure: RunFailure }

/** The tool with which a model waits for sub-agents in the background; its argument `agentRuns` names their calls. */
export const waitName = "wait_for_agent"

/**
 * The constraints of the sub-agents of the last run of a line, which begins at the root; `root` are those of the root itself.
 */
export const constraintsOf = (
  line: ReadonlyArray<RunState>,
  root: Constraints = noConstraints
): Constraints => line.reduce((constraints, state) => inside(state, constraints), root)

const inside = (state: RunState, constraints: Constraints): Constraints =>
  constraintsInside(state, constraints, canAdvance)

/** @deprecated Use `Constraints`. */
export type Above = Constraints

/** @deprecated Use `noConstraints`. */
export const nothingAbove = noConstraints

/** @deprecated Use `constraintsOf`. */
export const aboveOf: typeof constraintsOf = (line, root) => constraintsOf(line, root)

/** What has to happen now under the constraints of a run. */
export const next = (state: RunState, constraints: Constraints = noConstraints): Step => {
  switch (state.status) {
    case "completed":
      return { _tag: "Finish", end: { _tag: "completed" } }
    case "cancelled":
      return { _tag: "Finish", end: { _tag: "cancelled", reason: state.cancelled?.reason ?? "" } }
    case "error":
      return failed(state.failure ?? { _tag: "RunDefect", description: "unknown" })
    default: {
      if (isStopped(state, constraints)) return stopping(state, constraints)
      const requests = withdrawable(state)
      if (requests.length > 0) return { _tag: "Withdraw", requests }
      const step = state.calls.length > 0 ? nextOfCalls(state, constraints) : nextOfTurn(state, constraints)
      return unlessLost(state, unlessUnavailable(state, constrain(state, step, constraints), constraints))
    }
  }
}

/** Without its agent, a run can only go on with what is under it. */
const unlessUnavailable = (state: RunState, step: Step, constraints: Constraints): Step => {
  if (!isMissing(state, constraints)) return step
  switch (step._tag) {
    case "Finish":
    case "Hold":
    case "Withdraw":
    case "AwaitChildren":
      return step
    default:
      return onlyBelow(state, constraints)
  }
}

/** What can happen in the sub-agents of a run that can do nothing itself. */
const onlyBelow = (state: RunState, constraints: Constraints): Step => {
  const attached = advancing(state, constraints)
  return attached.length > 0 ? { _tag: "ResumeChildren", callIds: attached } : waiting(state, constraints)
}

/** A step that processes die over is not taken for ever. Waiting for a decision is none: no process has died of that. */
const unlessLost = (state: RunState, step: Step): Step => {
  if (step._tag === "Hold" || !isLost(state)) return step
  return failed({ _tag: "WorkersLost", times: state.recoveries ?? 0 })
}

/** Whether more processes than the run allows have died over it without its getting any further. */
const isLost = ({ limits, recoveries = 0 }: RunState): boolean =>
  recoveries > 0 && recoveries > (limits.maxRecoveries ?? Limits.defaults.maxRecoveries)

/**
 * A run that was stopped, itself or with one above it: nothing is begun. What was started and may have happened is found out first, as
 * far as its definition is there; then the run finishes, or waits for the end of the one above that was stopped.
 */
const stopping = (state: RunState, constraints: Constraints): Step => {
  if (!isLost(state)) {
    const doubtful = isMissing(state, constraints)
      ? undefined
      : idsOf(state.calls, (call) => isDoubtful(call, constraints))
    if (doubtful !== undefined) return { _tag: "Reconcile", callIds: doubtful }
    const attached = idsOf(state.calls, (call) => !isSettled(call) && isInDoubt(call, constraints))
    if (attached !== undefined) return { _tag: "ResumeChildren", callIds: attached }
    if (state.background?.some((entry) => isInDoubt(entry, constraints)) === true)
      return { _tag: "AwaitChildren" }
  }
  return state.stop === undefined && constraints.isStopped === true
    ? { _tag: "Hold", requests: none }
    : stopped(state)
}

const none: ReadonlyArray<never> = []

const isMissing = ({ runId }: RunState, { unavailable }: Constraints): boolean =>
  unavailable?.run(runId) === true

/** Whether a body was started whose repetition may do harm. */
const isDoubtful = (call: ToolCall, constraints: Constraints): boolean =>
  isOrphan(call) && !isRepeatable(call) && !isUnavailable(call, constraints)

/** Whether the run of a sub-agent, or of one under it, has such a body. */
const isInDoubt = ({ child }: { readonly child?: RunState }, constraints: Constraints): boolean => {
  if (child === undefined || isEnded(child) || isLost(child)) return false
  return (
    (!isMissing(child, constraints) && child.calls.some((call) => isDoubtful(call, constraints))) ||
    child.calls.some((call) => !isSettled(call) && isInDoubt(call, constraints)) ||
    child.background?.some((entry) => isInDoubt(entry, constraints)) === true
  )
}

/** What the budgets above leave of a step. What brings a run to its end takes nothing of them. */
const constrain = (state: RunState, step: Step, constraints: Constraints): Step => {
  if (isClosed(state.limits, constraints)) {
    return step._tag === "Finish" || step._tag === "DecodeOutput" ? step : onlyBelow(state, constraints)
  }
  const waits = step._tag === "CallModel" && waitsForPromised(state.limits, constraints)
  return waits ? waiting(state, constraints) : step
}

/** The calls whose sub-agents can go on by themselves. */
const advancing = (state: RunState, constraints: Constraints): ReadonlyArray<ToolCallId> => {
  const started = state.calls.filter((call) => call.child !== undefined && !isSettled(call))
  if (started.length === 0) return []
  const inner = inside(state, constraints)
  return started.flatMap(({ child, id }) => (child !== undefined && canAdvance(child, inner) ? [id] : []))
}

const failed = (failure: RunFailure): Step => ({ _tag: "Finish", end: { _tag: "failed", failure } })

const stopped = (state: RunState): Step => ({
  _tag: "Finish",
  end: { _tag: "cancelled", reason: state.stop?.reason ?? "" }
})

const nextOfCalls = (state: RunState, constraints: Constraints): Step => {
  const orphans = idsOf(state.calls, (call) => isOrphan(call) && !isUnavailable(call, constraints))
  if (orphans !== undefined) return { _tag: "Reconcile", callIds: orphans }

  const due = dueWrapUp(state)
  if (due !== undefined) {
    // What has come to its end says so first.
    const ending = advancing(state, constraints)
    if (ending.length > 0) return { _tag: "ResumeChildren", callIds: ending }
    if (!isTurnReleased(state)) return due
    // What a decision has released runs where it can; where it waits for more of the budget, that is asked for.
    const step = runnable(state, constraints)
    return step?._tag === "SettleToolCalls" ? step : exhausted(state, due.exceeded, constraints)
  }

  const requested = idsOf(state.calls, ({ status }) => status === "requested")
  // A turn that waits for a definition begins nothing more; what was decided in it still runs.
  if (requested !== undefined && !state.calls.some((call) => isUnavailable(call, constraints))) {
    const exceeded = exceededByCalls(state)
    if (exceeded !== undefined) return exhausted(state, exceeded, constraints)
    return { _tag: "ClassifyCalls", callIds: requested }
  }

  return runnable(state, constraints) ?? waiting(state, constraints)
}

/** The ids of the calls of one kind; nothing is made where there is none. */
const idsOf = (
  calls: ReadonlyArray<ToolCall>,
  isOne: (call: ToolCall) => boolean
): ReadonlyArray<ToolCallId> | undefined => {
  if (!calls.some(isOne)) return undefined
  return calls.length === 1 ? calls.map(idOf) : calls.filter(isOne).map(idOf)
}

const idOf = ({ id }: ToolCall): ToolCallId => id

/** Whether what a call needs is missing. The sub-agent of one that has started it is looked at by itself. */
const isUnavailable = (call: ToolCall, { unavailable }: Constraints): boolean =>
  unavailable !== undefined && call.child === undefined && unavailable.call(call)

/** Whether a request for more of a budget is open. */
const isAskedFor = ({ requests }: RunState, isOne: (request: LimitRequest) => boolean): boolean =>
  requests.some((record) => record.request._tag === "limit" && isOpen(record) && isOne(record.request))

/** Whether the run asks for more time: until that is decided, no tool is called. */
const asksForTime = (state: RunState): boolean =>
  isAskedFor(state, ({ budget, runId }) => budget === "wallTime" && runId === state.runId)

const isOrphan = (call: ToolCall): boolean => call.status === "started" && call.target !== "agent"

/** Nothing can happen in the run itself. */
const waiting = (state: RunState, constraints: Constraints): Step =>
  mayChildrenAdvance(state, constraints)
    ? { _tag: "AwaitChildren" }
    : { _tag: "Hold", requests: interruptions(state) }

/** Whether something in the background can go on before a decision. */
const mayChildrenAdvance = (state: RunState, constraints: Constraints): boolean => {
  if (state.background?.some(({ child }) => child !== undefined) !== true) return false
  const inner = inside(state, constraints)
  return state.background.some(({ child }) => child !== undefined && canAdvance(child, inner))
}

/** Whether something can happen in the run of a sub-agent before a decision. */
export const canAdvance = (child: RunState, constraints: Constraints): boolean =>
  next(child, constraints)._tag !== "Hold"

/** Whether a sub-agent can be started under the last run of a line, or its budgets are to be asked about. */
export const mayStart = (line: ReadonlyArray<RunState>): boolean => mayStartUnder(constraintsOf(line))

/** The model is to be asked to come to an end. */
const dueWrapUp = (state: RunState): Extract<Step, { readonly _tag: "AskWrapUp" }> | undefined => {
  const { wrappingUp } = state
  if (wrappingUp?.due !== true) return undefined
  const { budget, limit } = wrappingUp
  return { _tag: "AskWrapUp", exceeded: { budget, limit, spent: spentAtLeast(state, budget, limit) } }
}

const runnable = (state: RunState, constraints: Constraints): Step | undefined => {
  const first = state.calls[0]
  // The most frequent answer has one call.
  if (first?.target === "tool" && state.calls.length === 1) {
    const runs = first.status === "ready" && !isUnavailable(first, constraints) && !asksForTime(state)
    return runs ? alone(state, first) : undefined
  }
  const open = state.calls.filter((call) => !isSettled(call))
  // The other calls of the answer are those of the agent that hands over.
  const others = open.filter(({ target }) => target !== "handoff")
  if (others.length === 0) {
    const [handoff] = open
    return handoff === undefined || isUnavailable(handoff, constraints)
      ? undefined
      : { _tag: "HandOff", callId: handoff.id }
  }
  const inner = inside(state, constraints)
  const calls = others.map((call) => ({ call, can: abilityOf(state, call, inner) }))

  // One that is held lets the others overtake it.
  const agents = Arr.takeWhile(calls, ({ call }) => call.target === "agent").filter(
    ({ can }) => can === "advance"
  )
  if (agents.length > 0) return { _tag: "ResumeChildren", callIds: agents.map(({ call }) => call.id) }

  const reads = Arr.takeWhile(calls, ({ can }) => can === "read")
  const barrier = calls[reads.length]
  if (reads.length === 0 && barrier?.can === "runAlone") return alone(state, barrier.call)
  // Reads overtake a call that waits; a call that can run keeps those behind it back.
  const together =
    barrier === undefined || barrier.can === "wait" ? calls.filter(({ can }) => can === "read") : reads
  return together.length === 0
    ? undefined
    : { _tag: "SettleToolCalls", callIds: together.map(({ call }) => call.id) }
}

/** What a call can do now: run beside other reads, run its sub-agent beside others, run by itself, or nothing. */
type Ability = "read" | "advance" | "runAlone" | "wait"

const abilityOf = (state: RunState, call: ToolCall, inner: Constraints): Ability => {
  if (!isRunnable(state, call, inner)) return "wait"
  if (call.target === "agent") return "advance"
  return call.target === "tool" && call.safety === "readOnly" ? "read" : "runAlone"
}

/** What happens with a call that nothing may run beside. */
const alone = (state: RunState, call: ToolCall): Step => {
  const { id, target } = call
  switch (target) {
    case "background":
      return { _tag: "StartBackground", callId: id }
    case "agents":
      return { _tag: "SettleAgents", callId: id }
    default:
      return mayHaveRun(state, call)
        ? { _tag: "Reconcile", callIds: [id] }
        : { _tag: "SettleToolCalls", callIds: [id] }
  }
}

/** Whether a call that has not been started here may have been, and must not be repeated. */
const mayHaveRun = ({ mayRepeat }: RunState, { attempt, idempotent, safety }: ToolCall): boolean =>
  mayRepeat !== undefined && attempt === 0 && safety !== "readOnly" && !idempotent

/** A sub-agent that is held is undecided; one with a decision to act on, or left behind by a crash, goes on. */
const isRunnable = (state: RunState, call: ToolCall, inner: Constraints): boolean => {
  if (isUnavailable(call, inner)) return false
  switch (call.target) {
    case "agent":
      if (call.child !== undefined) return canAdvance(call.child, inner)
      return call.status === "ready" && mayStartUnder(inner)
    case "background":
      return call.status === "ready" && mayStartUnder(inner)
    case "agents":
      return call.status === "ready" && awaitedBy(state, call).length === 0
    default:
      return call.status === "ready" && !asksForTime(state)
  }
}

/** The sub-agents that a call of `wait_for_agent` has still to wait for. */
export const awaitedBy = (state: RunState, call: ToolCall): ReadonlyArray<ToolCallId> => {
  const { arguments: args } = call
  if (call.name !== waitName || typeof args !== "object" || args === null) return []
  const named: unknown = "agentRuns" in args ? args.agentRuns : undefined
  return (state.background ?? [])
    .filter(({ callId, child }) => child !== undefined && (!Array.isArray(named) || named.includes(callId)))
    .map(({ callId }) => callId)
}

const nextOfTurn = (state: RunState, constraints: Constraints): Step => {
  if (state.requests.some(isOpen)) return waiting(state, constraints)
  const { wrappingUp } = state
  if (wrappingUp !== undefined) {
    const { budget, limit } = wrappingUp
    return wrappingUp.answered === true
      ? exhausted(state, { budget, limit, spent: spentAtLeast(state, budget, limit) }, constraints)
      : (dueWrapUp(state) ?? { _tag: "CallModel", turn: state.usage.turns + 1 })
  }
  const last = History.last(state.history)
  if (last?.role === "assistant") {
    if (state.background?.some(({ child }) => child !== undefined) === true)
      return waiting(state, constraints)
    return state.structured
      ? { _tag: "DecodeOutput", text: text(state) }
      : { _tag: "Finish", end: { _tag: "completed" } }
  }
  const refused = refusedTopUp(state)
  if (refused !== undefined) return failed({ _tag: "BudgetExceeded", ...refused })
  const exceeded = exceededBudget(state)
  if (exceeded !== undefined) return exhausted(state, exceeded, constraints)
  const promised = promisedAway(state)
  return promised === undefined
    ? { _tag: "CallModel", turn: state.usage.turns + 1 }
    : awaitPromised(state, promised, constraints)
}

/**
 * Everything that is left of a budget is promised to sub-agents in the background. While one of them is at work it may hand
 * something back; when all are held, more is asked for; the approver may as well decide what they are held on.
 */
const awaitPromised = (state: RunState, promised: Limits.Exceeded, constraints: Constraints): Step => {
  if (mayChildrenAdvance(state, constraints)) return { _tag: "AwaitChildren" }
  if (mayAsk(state, promised)) return { _tag: "AskLimit", exceeded: promised }
  const requests = interruptions(state)
  return requests.length > 0 ? { _tag: "Hold", requests } : failed({ _tag: "BudgetExceeded", ...promised })
}

/** What has been spent of a budget that was found used up: with what was promised of it, by now, or at a price that is not known. */
const spentAtLeast = (state: RunState, budget: Limits.Budget, limit: number): number => {
  const known = spent(state, budget, 0)
  if (budget === "cost" && state.usage.unpricedRequests > 0) return known
  const promised = budget === "tokens" || budget === "cost" ? reserved(state, budget) : 0
  return Math.max(limit, known + promised)
}

/** What a run does about a budget that is used up. */
export const exhausted = (
  state: RunState,
  exceeded: Limits.Exceeded,
  constraints: Constraints = noConstraints
): Step => {
  if (isAskedFor(state, () => true)) return waiting(state, constraints)
  if (isToWrapUp(state)) return { _tag: "AskWrapUp", exceeded }
  return mayAsk(state, exceeded)
    ? { _tag: "AskLimit", exceeded }
    : failed({ _tag: "BudgetExceeded", ...exceeded })
}

/**
 * What a run does about a budget of its own that leaves nothing to a sub-agent: it was seen to already, it comes to its end, it asks,
 * or nothing can be asked for, or it was refused.
 */
export const onNothingLeft = (
  state: RunState,
  { exceeded, isPromised }: NothingLeft
): "seenTo" | "comesToItsEnd" | "asks" | "refused" => {
  const { budget } = exceeded
  const isAsked = isAskedFor(state, (request) => request.budget === budget)
  if (isAsked || state.wrappingUp?.budget === budget) return "seenTo"
  // What is promised may come back: that is not the end yet.
  if (!isPromised && state.wrappingUp === undefined && isToWrapUp(state)) return "comesToItsEnd"
  return mayAsk(state, exceeded) ? "asks" : "refused"
}

/** Whether more of a budget can be asked for, and was not refused. */
const mayAsk = (state: RunState, exceeded: Limits.Exceeded): boolean => {
  // An unknown cost is no amount that could be topped up.
  const unknown = exceeded.budget === "cost" && exceeded.spent < exceeded.limit
  return state.asks && !unknown && refusedTopUp(state) === undefined
}

/** A budget whose top-up was refused, unless it has been raised since. */
const refusedTopUp = (state: RunState): Limits.Exceeded | undefined => {
  if (state.requests.length === 0) return undefined
  // Several may have been asked for at once; of each, the last answer counts.
  const seen = new Set<Limits.Budget>()
  for (let i = state.requests.length - 1; i >= 0; i--) {
    const { request, decision } = state.requests[i]!
    if (request._tag !== "limit" || request.runId !== state.runId || seen.has(request.budget)) continue
    seen.add(request.budget)
    if (decision?._tag === "deny" && Limits.budgetOf(state.limits, request.budget) === request.limit) {
      return { budget: request.budget, limit: request.limit, spent: request.spent }
    }
  }
  return undefined
}
