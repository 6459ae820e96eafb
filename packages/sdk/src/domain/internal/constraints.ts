/**
 * What the budgets of a tree leave to the sub-agents in it, as far as that can be said without a clock.
 *
 * A budget is closed for a sub-agent while a run above it waits for more of it, or comes to an end because of it; a part that was
 * set aside is used all the same, unless the whole budget is used up. A budget of which all that is left is promised to others
 * is waited for while one of those may still hand something back, and asked about when none can.
 */
import { available, isUsedUp, parted, reservedIn, shared } from "../Budget.ts"
import type { RunId } from "../Id.ts"
import type { Interruption } from "../Interruption.ts"
import * as Limits from "../Limits.ts"
import type { RunState, ToolCall } from "../RunState.ts"
import { children, interruptions, isOpen } from "../RunState.ts"

type Parted = (typeof parted)[number]

/** What a program has no definition of: it cannot go on there, and everything else can. */
export interface Unavailable {
  /** Whether the agent of a run is missing. */
  readonly run: (runId: RunId) => boolean
  /** Whether the tool of a call, or the agent that it starts, is missing. */
  readonly call: (call: ToolCall) => boolean
}

/** What the runs above a run, and the definitions that the program has, allow the run to do. */
export interface Constraints {
  /** Budgets that have to be raised first; one that is `usedUp` is closed also for those that were promised a part of it. */
  readonly closed: ReadonlyArray<{ readonly budget: Limits.Budget; readonly usedUp: boolean }>
  /** Budgets whose rest is promised to others, and whether one of those may hand something back before anybody is asked. */
  readonly promised: ReadonlyMap<Parted, () => boolean>
  /** Left out where nothing is missing. */
  readonly unavailable?: Unavailable | undefined
  /** Set where a decision has stopped a run above: nothing is begun under it. */
  readonly isStopped?: true | undefined
}

/** Whether something can happen in the run of a sub-agent before a decision. */
type CanAdvance = (child: RunState, constraints: Constraints) => boolean

/** The constraints of a root run whose definitions are all there. */
export const noConstraints: Constraints = { closed: [], promised: new Map() }

const isShared = (budget: Limits.Budget): boolean => (shared as ReadonlyArray<Limits.Budget>).includes(budget)

const isParted = (budget: Limits.Budget): budget is Parted =>
  (parted as ReadonlyArray<Limits.Budget>).includes(budget)

const isLimited = (limits: Limits.Limits, budget: Limits.Budget): boolean =>
  Limits.budgetOf(limits, budget) !== undefined

/** Whether a decision has stopped the run, or one above it. */
export const isStopped = (state: RunState, constraints: Constraints): boolean =>
  state.stop !== undefined || constraints.isStopped === true

/** What is closed for the sub-agents of a run by the run itself. */
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

/** The constraints of the sub-agents of a run: its own, and those that it adds. */
export const constraintsInside = (
  state: RunState,
  constraints: Constraints,
  canAdvance: CanAdvance
): Constraints => {
  // Nothing is begun, so that budgets do not matter.
  if (isStopped(state, constraints))
    return constraints.isStopped === true ? constraints : { ...constraints, isStopped: true }
  // Most runs have none of it: that is seen without making anything.
  const closesNone = state.requests.length === 0 && state.wrappingUp === undefined
  if (closesNone && !isLimited(state.limits, "tokens") && !isLimited(state.limits, "cost")) return constraints
  const own = closedBy(state)
  const limited = parted.filter((budget) => isLimited(state.limits, budget))
  if (own.length === 0 && limited.length === 0) return constraints
  // Of what is above its own part, only what is really used up counts.
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
 * Whether one of those to whom the rest of a budget was promised may hand something back without anybody's raising it. One that
 * waits for what is promised to others itself does not count: two could wait for each other.
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
        // More cannot be asked for; but what it is held on can be decided.
        (!state.asks && interruptions(child).length > 0))
  )
}

/** Whether a run with these limits has to wait until a budget above it is raised. */
export const isClosed = (limits: Limits.Limits, { closed }: Constraints): boolean =>
  closed.some(({ budget, usedUp }) => usedUp || !isLimited(limits, budget))

/** Whether a model call of a run with these limits waits for what was promised to others, and may come back. */
export const waitsForPromised = (limits: Limits.Limits, { promised }: Constraints): boolean =>
  promised.size > 0 &&
  parted.some((budget) => !isLimited(limits, budget) && promised.get(budget)?.() === true)

/** Whether a sub-agent may be started, or is to be asked about: not while it can only wait. */
export const mayStartUnder = ({ closed, promised }: Constraints): boolean =>
  closed.length === 0 && [...promised.values()].every((mayComeBack) => !mayComeBack())

/** Limit requests to withdraw: part of what was promised of their budgets was not used, so that these have room again. */
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
