/**
 * `next(state)` computes the next step of a run. It is pure: the same state always gives the same step, so that any process can
 * continue a run where it was left.
 *
 * It also orders the calls of a turn. Calls run in the order of the response. Contiguous read-only calls run together, as do contiguous
 * sub-agents; any other call runs alone. A side-effecting call never overtakes an earlier call that is undecided. A read-only call may
 * overtake a call that waits, and a sub-agent may overtake other sub-agents. A handoff happens after all other calls of the response are
 * settled.
 *
 * Sub-agents in the background continue independently: a held one does not hold the others. The run completes after all of them have
 * ended.
 *
 * A stopped run, and the sub-agents in it, start nothing more. Their only steps determine the outcome of started bodies and finish
 * the run.
 *
 * The step of a sub-agent also depends on the runs above it: use `next(child, constraintsOf(line))`.
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
import { isTurnReleased, returnedResult } from "./internal/released.ts"
import type { Interruption, LimitRequest } from "./Interruption.ts"
import * as Limits from "./Limits.ts"
import type { RunFailure } from "./RunError.ts"
import type { RunState, ToolCall } from "./RunState.ts"
import { interruptions, isEnded, isOpen, isQueued, isRepeatable, isSettled, text } from "./RunState.ts"

export type { Constraints, Unavailable } from "./internal/constraints.ts"
export { noConstraints } from "./internal/constraints.ts"

/** The next operation of a run. */
export type Step =
  /** Call the model; `turn` counts from 1. */
  | { readonly _tag: "CallModel"; readonly turn: number }
  /** Compact the context, as was requested, before the model call of turn `turn`. */
  | { readonly _tag: "Compact"; readonly turn: number }
  /** Classify these calls: find their tools, decode their arguments, and determine which need a decision. */
  | { readonly _tag: "ClassifyCalls"; readonly callIds: ReadonlyArray<ToolCallId> }
  /** Run these calls: several read-only calls together, or one call of any safety alone. */
  | { readonly _tag: "SettleToolCalls"; readonly callIds: ReadonlyArray<ToolCallId> }
  /** Start or resume the sub-agents of these calls, together. */
  | { readonly _tag: "ResumeChildren"; readonly callIds: ReadonlyArray<ToolCallId> }
  /** Start the sub-agent of this call in the background. */
  | { readonly _tag: "StartBackground"; readonly callId: ToolCallId }
  /** Wait until a sub-agent in the background has progressed; the run itself can do nothing before. */
  | { readonly _tag: "AwaitChildren" }
  /** Answer this call about sub-agents in the background: list them, report the end of a wait for them, stop one, or send one a message. */
  | { readonly _tag: "SettleAgents"; readonly callId: ToolCallId }
  /** Hand the conversation over to another agent. */
  | { readonly _tag: "HandOff"; readonly callId: ToolCallId }
  /** Show the results that were supplied for these calls, which were completed elsewhere, to the model. */
  | { readonly _tag: "RecordResults"; readonly callIds: ReadonlyArray<ToolCallId> }
  /**
   * Determine the outcome of these calls, whose bodies an earlier process started, or may have started in a store that is lost. Their
   * tools may be missing in this program, except those of read-only calls, which wait for their tools.
   */
  | { readonly _tag: "Reconcile"; readonly callIds: ReadonlyArray<ToolCallId> }
  /** Close these limit requests without a decision: their budgets have room again. */
  | { readonly _tag: "Withdraw"; readonly requests: ReadonlyArray<Interruption> }
  /** Give the model one last turn without tools, because a budget is exhausted. */
  | { readonly _tag: "AskWrapUp"; readonly exceeded: Limits.Exceeded }
  /** Open a request for more of a budget that is exhausted, or whose rest is reserved for sub-agents. */
  | { readonly _tag: "AskLimit"; readonly exceeded: Limits.Exceeded }
  /** Decode the final response with the agent's output schema. */
  | { readonly _tag: "DecodeOutput"; readonly text: string }
  /**
   * Hold the run until one of these requests is decided; without requests, a queued run until its conductor has a slot, and a sub-agent's run
   * until a run above it goes on or ends.
   */
  | { readonly _tag: "Hold"; readonly requests: ReadonlyArray<Interruption> }
  /** End the run, or report how it ended. */
  | { readonly _tag: "Finish"; readonly end: End }

/** The end of a run: completed, cancelled or failed. */
export type End =
  | { readonly _tag: "completed" }
  | { readonly _tag: "cancelled"; readonly reason: string }
  | { readonly _tag: "failed"; readonly failure: RunFailure }

/** The name of the tool with which a model waits for sub-agents in the background; its argument `agentRuns` lists their call ids. */
export const waitName = "wait_for_agent"

/**
 * The constraints of the sub-agents under the last run of `line`, which begins at the root. `root` are the constraints of the root.
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

/** Computes the next step of a run under its constraints. */
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
      // Until `run.resumed`, with which its conductor starts it.
      if (isQueued(state)) return { _tag: "Hold", requests: none }
      const requests = withdrawable(state)
      if (requests.length > 0) return { _tag: "Withdraw", requests }
      const step = state.calls.length > 0 ? nextOfCalls(state, constraints) : nextOfTurn(state, constraints)
      return unlessLost(state, unlessUnavailable(state, constrain(state, step, constraints), constraints))
    }
  }
}

/** Restricts a run whose agent is missing in this program to the sub-agents under it. */
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

/** The step of a run that can do nothing itself: resume or await its sub-agents, or hold. */
const onlyBelow = (state: RunState, constraints: Constraints): Step => {
  const attached = advancing(state, constraints)
  return attached.length > 0 ? { _tag: "ResumeChildren", callIds: attached } : waiting(state, constraints)
}

/** Fails a run that too many processes have left without progress, instead of taking the step again. A held run needs no process. */
const unlessLost = (state: RunState, step: Step): Step => {
  if (step._tag === "Hold" || !isLost(state)) return step
  return failed({ _tag: "WorkersLost", times: state.recoveries ?? 0 })
}

/** Whether more processes in a row than `maxRecoveries` have died while they drove the run, or suspended it, without progress. */
const isLost = ({ limits, recoveries = 0 }: RunState): boolean =>
  recoveries > 0 && recoveries > (limits.maxRecoveries ?? Limits.defaults.maxRecoveries)

/**
 * The step of a run that was stopped, itself or with a run above it. The run starts nothing. First it determines the outcome of calls in
 * doubt whose definitions are available. Then it finishes, or holds until the stopped run above it ends.
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

/** Whether a call was started whose repetition may do harm, and whose tool is available. */
const isDoubtful = (call: ToolCall, constraints: Constraints): boolean =>
  isOrphan(call) && !isRepeatable(call) && !isUnavailable(call, constraints)

/** Whether a sub-agent's run, or a run under it, has such a call. */
const isInDoubt = ({ child }: { readonly child?: RunState }, constraints: Constraints): boolean => {
  if (child === undefined || isEnded(child) || isLost(child)) return false
  return (
    (!isMissing(child, constraints) && child.calls.some((call) => isDoubtful(call, constraints))) ||
    child.calls.some((call) => !isSettled(call) && isInDoubt(call, constraints)) ||
    child.background?.some((entry) => isInDoubt(entry, constraints)) === true
  )
}

/** Replaces a step that the budgets above do not permit. Steps that end a run consume no budget and are always permitted. */
const constrain = (state: RunState, step: Step, constraints: Constraints): Step => {
  if (isClosed(state.limits, constraints)) {
    return step._tag === "Finish" || step._tag === "DecodeOutput" ? step : onlyBelow(state, constraints)
  }
  const waits =
    (step._tag === "CallModel" || step._tag === "Compact") && waitsForPromised(state.limits, constraints)
  return waits ? waiting(state, constraints) : step
}

/** The calls whose started sub-agents can continue without a decision. */
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
  const returned = idsOf(state.calls, (call) => returnedResult(state, call) !== undefined)
  if (returned !== undefined) return { _tag: "RecordResults", callIds: returned }

  const orphans = idsOf(
    state.calls,
    (call) => isOrphan(call) && (call.safety !== "readOnly" || !isUnavailable(call, constraints))
  )
  if (orphans !== undefined) return { _tag: "Reconcile", callIds: orphans }

  const due = dueWrapUp(state)
  if (due !== undefined) {
    // Sub-agents that can continue finish before the run wraps up.
    const ending = advancing(state, constraints)
    if (ending.length > 0) return { _tag: "ResumeChildren", callIds: ending }
    if (!isTurnReleased(state)) return due
    // A released call still runs if it can. If it waits for more of the budget, ask for that.
    const step = runnable(state, constraints)
    return step?._tag === "SettleToolCalls" ? step : exhausted(state, due.exceeded, constraints)
  }

  const requested = idsOf(state.calls, ({ status }) => status === "requested")
  // A turn with a missing definition classifies no further calls. Its decided calls still run.
  if (requested !== undefined && !state.calls.some((call) => isUnavailable(call, constraints))) {
    const exceeded = exceededByCalls(state)
    if (exceeded !== undefined) return exhausted(state, exceeded, constraints)
    return { _tag: "ClassifyCalls", callIds: requested }
  }

  return runnable(state, constraints) ?? waiting(state, constraints)
}

/** The ids of the calls that match; `undefined`, without an allocation, if none does. */
const idsOf = (
  calls: ReadonlyArray<ToolCall>,
  isMatch: (call: ToolCall) => boolean
): ReadonlyArray<ToolCallId> | undefined => {
  if (!calls.some(isMatch)) return undefined
  return calls.length === 1 ? calls.map(idOf) : calls.filter(isMatch).map(idOf)
}

const idOf = ({ id }: ToolCall): ToolCallId => id

/** Whether the tool or agent that a call needs is missing. A call whose sub-agent has started needs neither. */
const isUnavailable = (call: ToolCall, { unavailable }: Constraints): boolean =>
  unavailable !== undefined && call.child === undefined && unavailable.call(call)

/** Whether a limit request that matches is open. */
const isAskedFor = ({ requests }: RunState, isMatch: (request: LimitRequest) => boolean): boolean =>
  requests.some((record) => record.request._tag === "limit" && isOpen(record) && isMatch(record.request))

/** Whether the run asks for more time. Until that is decided, it calls no tool. */
const asksForTime = (state: RunState): boolean =>
  isAskedFor(state, ({ budget, runId }) => budget === "wallTime" && runId === state.runId)

const isOrphan = (call: ToolCall): boolean => call.status === "started" && call.target !== "agent"

/** The step of a run that waits: for its sub-agents in the background if one can continue, else for decisions. */
const waiting = (state: RunState, constraints: Constraints): Step =>
  mayChildrenAdvance(state, constraints)
    ? { _tag: "AwaitChildren" }
    : { _tag: "Hold", requests: interruptions(state) }

/** Whether a sub-agent in the background can continue without a decision. */
const mayChildrenAdvance = (state: RunState, constraints: Constraints): boolean => {
  if (state.background?.some(({ child }) => child !== undefined) !== true) return false
  const inner = inside(state, constraints)
  return state.background.some(({ child }) => child !== undefined && canAdvance(child, inner))
}

/** Whether the next step of a sub-agent's run is other than `Hold`; also true for a run that has ended. */
export const canAdvance = (child: RunState, constraints: Constraints): boolean =>
  next(child, constraints)._tag !== "Hold"

/** Whether to try to start a sub-agent under the last run of `line`. The attempt may still find that a budget has to be raised first. */
export const mayStart = (line: ReadonlyArray<RunState>): boolean => mayStartUnder(constraintsOf(line))

/** The step that asks the model to wrap up, if a sub-agent exhausted a budget of the run; `undefined` otherwise. */
const dueWrapUp = (state: RunState): Extract<Step, { readonly _tag: "AskWrapUp" }> | undefined => {
  const { wrappingUp } = state
  if (wrappingUp?.due !== true) return undefined
  const { budget, limit } = wrappingUp
  return { _tag: "AskWrapUp", exceeded: { budget, limit, spent: spentAtLeast(state, budget, limit) } }
}

const runnable = (state: RunState, constraints: Constraints): Step | undefined => {
  const first = state.calls[0]
  // Most responses have one call.
  if (first?.target === "tool" && state.calls.length === 1) {
    const runs = first.status === "ready" && !isUnavailable(first, constraints) && !asksForTime(state)
    return runs ? alone(state, first) : undefined
  }
  const open = state.calls.filter((call) => !isSettled(call))
  // A handoff comes last: the other calls of the response belong to the agent that hands over.
  const others = open.filter(({ target }) => target !== "handoff")
  if (others.length === 0) {
    const [handoff] = open
    return handoff?.status !== "ready" || isUnavailable(handoff, constraints)
      ? undefined
      : { _tag: "HandOff", callId: handoff.id }
  }
  const inner = inside(state, constraints)
  const calls = others.map((call) => ({ call, can: abilityOf(state, call, inner) }))

  // Other sub-agents overtake a held one.
  const agents = Arr.takeWhile(calls, ({ call }) => call.target === "agent").filter(
    ({ can }) => can === "advance"
  )
  if (agents.length > 0) return { _tag: "ResumeChildren", callIds: agents.map(({ call }) => call.id) }

  const reads = Arr.takeWhile(calls, ({ can }) => can === "read")
  const barrier = calls[reads.length]
  if (reads.length === 0 && barrier?.can === "runAlone") return alone(state, barrier.call)
  // Read-only calls overtake a call that waits, but not a call that can run.
  const together =
    barrier === undefined || barrier.can === "wait" ? calls.filter(({ can }) => can === "read") : reads
  return together.length === 0
    ? undefined
    : { _tag: "SettleToolCalls", callIds: together.map(({ call }) => call.id) }
}

/** What a call can do now: run beside other read-only calls, run its sub-agent beside others, run alone, or wait. */
type Ability = "read" | "advance" | "runAlone" | "wait"

const abilityOf = (state: RunState, call: ToolCall, inner: Constraints): Ability => {
  if (!isRunnable(state, call, inner)) return "wait"
  if (call.target === "agent") return "advance"
  return call.target === "tool" && call.safety === "readOnly" ? "read" : "runAlone"
}

/** The step of a call that runs alone. */
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

/** Whether a call without an attempt may have run before its store was lost, and must not be repeated. */
const mayHaveRun = ({ mayRepeat }: RunState, { attempt, idempotent, safety }: ToolCall): boolean =>
  mayRepeat !== undefined && attempt === 0 && safety !== "readOnly" && !idempotent

/** Whether a call can make progress now. For a call with a started sub-agent: whether that sub-agent can. */
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

/**
 * The calls of the background sub-agents that a `wait_for_agent` call still waits for: those in its argument `agentRuns`, or all, that have
 * not ended. Empty for any other call.
 */
export const awaitedBy = (state: RunState, call: ToolCall): ReadonlyArray<ToolCallId> => {
  const { arguments: args } = call
  if (call.name !== waitName || typeof args !== "object" || args === null) return []
  const named: unknown = "agentRuns" in args ? args.agentRuns : undefined
  return (state.background ?? [])
    .filter(({ callId, child }) => child !== undefined && (!Array.isArray(named) || named.includes(callId)))
    .map(({ callId }) => callId)
}

/** The model call of the next turn, or the compaction before it. */
const modelCall = ({ compacting, usage }: RunState): Step => ({
  _tag: compacting === undefined ? "CallModel" : "Compact",
  turn: usage.turns + 1
})

const nextOfTurn = (state: RunState, constraints: Constraints): Step => {
  if (state.requests.some(isOpen)) return waiting(state, constraints)
  const { wrappingUp } = state
  if (wrappingUp !== undefined) {
    const { budget, limit } = wrappingUp
    return wrappingUp.answered === true
      ? exhausted(state, { budget, limit, spent: spentAtLeast(state, budget, limit) }, constraints)
      : (dueWrapUp(state) ?? modelCall(state))
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
  return promised === undefined ? modelCall(state) : awaitPromised(state, promised, constraints)
}

/**
 * The step of a run whose budget is entirely reserved for sub-agents in the background. While one of them can continue, it may return a
 * part, so the run waits. If all are held, the run asks for more. If it may not ask, it holds until the open requests are decided, and
 * fails if there are none.
 */
const awaitPromised = (state: RunState, promised: Limits.Exceeded, constraints: Constraints): Step => {
  if (mayChildrenAdvance(state, constraints)) return { _tag: "AwaitChildren" }
  if (mayAsk(state, promised)) return { _tag: "AskLimit", exceeded: promised }
  const requests = interruptions(state)
  return requests.length > 0 ? { _tag: "Hold", requests } : failed({ _tag: "BudgetExceeded", ...promised })
}

/** The amount spent of an exhausted budget, for display: its limit at least, unless the cost is unknown. Includes reservations. */
const spentAtLeast = (state: RunState, budget: Limits.Budget, limit: number): number => {
  const known = spent(state, budget, 0)
  if (budget === "cost" && state.usage.unpricedRequests > 0) return known
  const promised = budget === "tokens" || budget === "cost" ? reserved(state, budget) : 0
  return Math.max(limit, known + promised)
}

/** The step of a run with an exhausted budget: wait for the open limit request, wrap up, ask for more, or fail. */
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
 * What a run does if a sub-agent finds nothing available in one of the run's budgets:
 *
 * - `seenTo`: nothing, because a request for the budget is open or the run already wraps up for it. The sub-agent waits.
 * - `comesToItsEnd`: wrap up.
 * - `asks`: open a limit request.
 * - `refused`: nothing, because the run may not ask, the cost is unknown, or a top-up was denied. The sub-agent fails.
 */
export const onNothingLeft = (
  state: RunState,
  { exceeded, isPromised }: NothingLeft
): "seenTo" | "comesToItsEnd" | "asks" | "refused" => {
  const { budget } = exceeded
  const isAsked = isAskedFor(state, (request) => request.budget === budget)
  if (isAsked || state.wrappingUp?.budget === budget) return "seenTo"
  // A reserved part may come back, so wrapping up would be too early.
  if (!isPromised && state.wrappingUp === undefined && isToWrapUp(state)) return "comesToItsEnd"
  return mayAsk(state, exceeded) ? "asks" : "refused"
}

/** Whether the run may ask for more of a budget: it is interactive, the cost is known, and no top-up was denied. */
const mayAsk = (state: RunState, exceeded: Limits.Exceeded): boolean => {
  // A top-up does not help against an unknown cost.
  const unknown = exceeded.budget === "cost" && exceeded.spent < exceeded.limit
  return state.asks && !unknown && refusedTopUp(state) === undefined
}

/** A budget whose top-up was denied and that has not been changed since. */
const refusedTopUp = (state: RunState): Limits.Exceeded | undefined => {
  if (state.requests.length === 0) return undefined
  // Several budgets may have requests. For each budget, the last request counts.
  const seen = new Set<Limits.Budget>()
  for (let i = state.requests.length - 1; i >= 0; i--) {
    const { request, decision } = state.requests[i]!
    if (request._tag !== "limit" || request.runId !== state.runId || seen.has(request.budget)) continue
    seen.add(request.budget)
    const limit = Limits.budgetOf(state.limits, request.budget)
    // Without a limit of the run, the model's own window is the limit of the context.
    const isUnchanged = limit === request.limit || (limit === undefined && request.budget === "context")
    if (decision?._tag === "deny" && isUnchanged) {
      return { budget: request.budget, limit: request.limit, spent: request.spent }
    }
  }
  return undefined
}
