/**
 * Constraints: what the runs above a run and the program's definitions permit the run to do, as far as that does not depend on the time.
 *
 * A budget is closed for a sub-agent while a run above asks for more of it or wraps up because of it. A reserved part may still be spent,
 * unless the whole budget is exhausted. If the rest of a budget is reserved for other sub-agents, a sub-agent without a part waits while
 * one of them may return some of it; if none can, the run that has the budget asks for more.
 */
import { available, isUsedUp, parted, reservedIn, shared } from "../Budget.ts"
import type { RunId } from "../Id.ts"
import type { Interruption } from "../Interruption.ts"
import * as Limits from "../Limits.ts"
import type { RunState, ToolCall } from "../RunState.ts"
import { children, interruptions, isOpen } from "../RunState.ts"

type Parted = (typeof parted)[number]

/** The runs and calls whose definitions are missing in this program. They wait; the rest of the tree continues. */
export interface Unavailable {
  /** Whether the agent of a run is missing. */
  readonly run: (runId: RunId) => boolean
  /** Whether the tool of a call, or the agent that it starts, is missing. */
  readonly call: (call: ToolCall) => boolean
}

/** The constraints of a run, set by the runs above it and by the definitions that the program has. */
export interface Constraints {
  /** Budgets that must be raised first. With `usedUp`, sub-agents with a reserved part may not spend it either. */
  readonly closed: ReadonlyArray<{ readonly budget: Limits.Budget; readonly usedUp: boolean }>
  /** Budgets whose rest is reserved for other sub-agents; the function returns whether one of these may return a part without a top-up. */
  readonly promised: ReadonlyMap<Parted, () => boolean>
  /** Absent if no definition is missing. */
  readonly unavailable?: Unavailable | undefined
  /** Set if a decision stopped a run above. Runs under it start nothing. */
  readonly isStopped?: true | undefined
}

/** Whether the next step of a sub-agent's run is other than `Hold`; also true for a run that has ended. */
type CanAdvance = (child: RunState, constraints: Constraints) => boolean

/** The constraints of a root run without missing definitions. */
export const noConstraints: Constraints = { closed: [], promised: new Map() }

const isShared = (budget: Limits.Budget): boolean => (shared as ReadonlyArray<Limits.Budget>).includes(budget)

const isParted = (budget: Limits.Budget): budget is Parted =>
  (parted as ReadonlyArray<Limits.Budget>).includes(budget)

const isLimited = (limits: Limits.Limits, budget: Limits.Budget): boolean =>
  Limits.budgetOf(limits, budget) !== undefined

/** Whether a decision has stopped the run, or one above it. */
export const isStopped = (state: RunState, constraints: Constraints): boolean =>
  state.stop !== undefined || constraints.isStopped === true

/** The budgets that a run itself closes for its sub-agents. */
const closedBy = (state: RunState): Constraints["closed"] => {
  const closed = state.requests.flatMap((record) =>
    isOpen(record) && record.request._tag === "limit" && isShared(record.request.budget)
      ? [closing(state, record.request.budget)]
      : []
  )
  const { wrappingUp } = state
  return wrappingUp !== undefined && isShared(wrappingUp.budget)
    ? [...closed, { budget: wrappingUp.budget, usedUp: true }]
    : closed
}

const closing = (state: RunState, budget: Limits.Budget) => ({
  budget,
  usedUp: !isParted(budget) || isUsedUp(state, budget, 0)
})

/** The constraints of the sub-agents of a run: those of the run, and those that the run adds. */
export const constraintsInside = (
  state: RunState,
  constraints: Constraints,
  canAdvance: CanAdvance
): Constraints => {
  // A stopped run starts nothing, so budgets do not matter.
  if (isStopped(state, constraints))
    return constraints.isStopped === true ? constraints : { ...constraints, isStopped: true }
  // Most runs add no constraint, which is detected without an allocation.
  const closesNone = state.requests.length === 0 && state.wrappingUp === undefined
  if (closesNone && !isLimited(state.limits, "tokens") && !isLimited(state.limits, "cost")) return constraints
  const own = closedBy(state)
  const limited = parted.filter((budget) => isLimited(state.limits, budget))
  if (own.length === 0 && limited.length === 0) return constraints
  // A run with its own part of a budget is closed only if the budget above is exhausted.
  const inherited = constraints.closed.filter(
    ({ budget, usedUp }) => usedUp || !isLimited(state.limits, budget)
  )
  const closed = [...own, ...inherited]
  const promised = new Map(constraints.promised)
  const { unavailable } = constraints
  const inner: Constraints = { closed, promised, unavailable }
  for (const budget of limited) {
    promised.delete(budget)
    if ((available(state, budget) ?? 1) > 0) continue
    let known: boolean | undefined
    promised.set(budget, () => (known ??= mayComeBack(state, budget, inner, canAdvance)))
  }
  return inner
}

/**
 * Whether a sub-agent with a reserved part of a budget may return some of it without a top-up. A sub-agent that itself waits for a
 * reserved part does not count, because two could wait for each other.
 */
const mayComeBack = (
  state: RunState,
  budget: Parted,
  inner: Constraints,
  canAdvance: CanAdvance
): boolean => {
  const waiting = new Map([...inner.promised.keys()].map((budget) => [budget, () => true] as const))
  return children(state).some(
    ({ child }) =>
      reservedIn(child, budget) > 0 &&
      (canAdvance(child, { ...inner, promised: waiting }) ||
        // The run may not ask for more, but the requests of the sub-agent can be decided.
        (!state.asks && interruptions(child).length > 0))
  )
}

/** Whether a run with these limits has to wait until a budget above it is raised. */
export const isClosed = (limits: Limits.Limits, { closed }: Constraints): boolean =>
  closed.some(({ budget, usedUp }) => usedUp || !isLimited(limits, budget))

/** Whether a model call of a run with these limits waits until another sub-agent returns a part of a budget that is reserved for it. */
export const waitsForPromised = (limits: Limits.Limits, { promised }: Constraints): boolean =>
  promised.size > 0 &&
  parted.some((budget) => !isLimited(limits, budget) && promised.get(budget)?.() === true)

/** Whether to try to start a sub-agent. Not while a budget is closed, or while it would wait for a reserved part. */
export const mayStartUnder = ({ closed, promised }: Constraints): boolean =>
  closed.length === 0 && [...promised.values()].every((mayComeBack) => !mayComeBack())

/** Limit requests to withdraw, because a reserved part was returned and their budgets have room again. */
export const withdrawable = (state: RunState): ReadonlyArray<Interruption> =>
  state.requests.length === 0
    ? none
    : state.requests.flatMap((record) => {
        const { request } = record
        if (!isOpen(record) || request._tag !== "limit" || request.runId !== state.runId) return []
        const { budget } = request
        if (!isParted(budget) || isUsedUp(state, budget, 0)) return []
        return (available(state, budget) ?? 1) > 0 ? [request] : []
      })

const none: ReadonlyArray<never> = []
