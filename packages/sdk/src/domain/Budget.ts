/**
 * Budgets: what a run has spent, what it has reserved for its sub-agents, and what is available.
 *
 * If a sub-agent has a token or cost budget of its own, that amount, reduced to what is available, is reserved in the nearest run above
 * that has such a budget; the runs above that one have reserved its whole budget. The reservation begins with the sub-agent's first event,
 * in the step that starts it, so that two sub-agents cannot be promised the same amount. It ends with the sub-agent, and the unused part is
 * available again. A sub-agent without a budget of its own spends what is available above it.
 *
 * @since 0.1.0
 */
import { isTurnReleased } from "./internal/released.ts"
import * as Limits from "./Limits.ts"
import type { RunState } from "./RunState.ts"
import { children } from "./RunState.ts"
import { totalTokens } from "./Usage.ts"

/** The budgets that include the sub-agents under a run. */
export const shared = ["tokens", "cost", "treeTurns", "treeToolCalls", "wallTime"] as const

/** The budgets of which a part can be reserved for a sub-agent. */
export const parted = ["tokens", "cost"] as const

/** Milliseconds of work up to `now`. The time in which the run was held does not count, nor does the last work of a process that died. */
export const workedMs = (state: RunState, now: number): number =>
  (state.workedMs ?? 0) +
  (state.status !== "running" || state.workingSince === undefined ? 0 : Math.max(0, now - state.workingSince))

/**
 * The amount spent of a budget, in the unit of its limit; for money, a lower bound. 0 for `context`, which applies to each call. `turns`
 * leaves out the run's `reportTurns`, which only took reports of sub-agents in the background. Only `wallTime` uses `now`.
 */
export const spent = (state: RunState, budget: Limits.Budget, now: number): number => {
  switch (budget) {
    case "turns":
      return state.usage.turns - (state.reportTurns ?? 0)
    case "treeTurns":
      return state.usage.turns + (state.below?.turns ?? 0)
    case "toolCalls":
      return state.toolCalls
    case "treeToolCalls":
      return state.toolCalls + (state.below?.toolCalls ?? 0)
    case "tokens":
      return totalTokens(state.usage)
    case "cost":
      return state.usage.costUsd
    case "wallTime":
      return workedMs(state, now)
    case "context":
      return 0
  }
}

/** The amount of a budget that a run has reserved for its sub-agents and that they have not spent. */
export const reserved = (state: RunState, budget: "tokens" | "cost"): number =>
  children(state).reduce((sum, { child }) => sum + reservedIn(child, budget), 0)

/**
 * The unspent part of the amount that is reserved for one sub-agent. For a sub-agent without such a budget of its own, the unspent amounts
 * that are reserved for the sub-agents under it.
 */
export const reservedIn = (child: RunState, budget: "tokens" | "cost"): number => {
  const limit = Limits.budgetOf(child.limits, budget)
  return limit === undefined ? reserved(child, budget) : Math.max(0, limit - spent(child, budget, 0))
}

/** The amount of a budget that is neither spent nor reserved, negative if too much was spent; `undefined` if the budget is unlimited. */
export const available = (state: RunState, budget: "tokens" | "cost"): number | undefined => {
  const limit = Limits.budgetOf(state.limits, budget)
  return limit === undefined ? undefined : limit - spent(state, budget, 0) - reserved(state, budget)
}

/**
 * Whether the amount spent has reached the budget's limit; false if the budget is unlimited. Reservations do not count. One request of
 * unknown price exhausts a limited `cost`. Only `wallTime` uses `now`.
 */
export const isUsedUp = (state: RunState, budget: Limits.Budget, now: number): boolean => {
  const limit = Limits.budgetOf(state.limits, budget)
  return (
    limit !== undefined &&
    (spent(state, budget, now) >= limit || (budget === "cost" && state.usage.unpricedRequests > 0))
  )
}

const report = (state: RunState, budget: Limits.Budget, now: number): Limits.Exceeded => ({
  budget,
  limit: Limits.budgetOf(state.limits, budget) ?? 0,
  spent: spent(state, budget, now)
})

/** A budget with its reservations counted as spent, so that a request states how much more is needed. */
const reportPromised = (state: RunState, budget: "tokens" | "cost"): Limits.Exceeded => {
  const { limit, spent } = report(state, budget, 0)
  return { budget, limit, spent: Math.max(limit, spent + reserved(state, budget)) }
}

const ofModelCalls = ["turns", "treeTurns", "tokens", "cost", "wallTime"] as const

const ofToolCalls = ["toolCalls", "treeToolCalls"] as const

/**
 * The first exhausted budget of the run that forbids another model call; `undefined` if there is none. Reservations, the tool-call budgets
 * and `context` do not count. Without `now`, the current period of work does not count as `wallTime`.
 */
export const exceeded = (state: RunState, now = 0): Limits.Exceeded | undefined => {
  const budget = ofModelCalls.find((budget) => isUsedUp(state, budget, now))
  return budget && report(state, budget, now)
}

/**
 * The first of the budgets tokens and cost of which the spent and the reserved amounts together reach the limit, also if nothing of it is
 * reserved; `undefined` if there is none. Its `spent` includes the reservations.
 */
export const promisedAway = (state: RunState): Limits.Exceeded | undefined => {
  const budget = parted.find((budget) => (available(state, budget) ?? 1) <= 0)
  return budget && reportPromised(state, budget)
}

/** The tool-call budget of the run that the calls of its responses exceed; `undefined` if there is none. */
export const exceededByCalls = (state: RunState): Limits.Exceeded | undefined => {
  const budget = ofToolCalls.find(
    (budget) => spent(state, budget, 0) > (Limits.budgetOf(state.limits, budget) ?? Infinity)
  )
  return budget && report(state, budget, 0)
}

/** A budget of a run above a sub-agent of which nothing is available. */
export interface NothingLeft {
  /** The index of the budget's run in the line from the root, from 0. */
  readonly depth: number
  readonly exceeded: Limits.Exceeded
  /** Whether the unspent rest is reserved for other sub-agents, which may return a part of it. If not, the budget is exhausted. */
  readonly isPromised: boolean
}

/**
 * The budget of a run above a sub-agent that forbids the sub-agent's next model call; `undefined` if there is none. If several do, that of
 * the nearest run.
 *
 * **Details**
 *
 * `line` holds the runs from the root to the sub-agent's starter, and `own` the sub-agent's limits. If an amount is reserved for the
 * sub-agent or for a run between, a run above that reservation forbids the call only if its budget is exhausted.
 */
export const exceededAbove = (
  line: ReadonlyArray<RunState>,
  own: Limits.Limits,
  now: number
): NothingLeft | undefined => {
  const promised = new Set(parted.filter((budget) => Limits.budgetOf(own, budget) !== undefined))
  for (let depth = line.length - 1; depth >= 0; depth--) {
    const state = line[depth]!
    for (const budget of ["treeTurns", "tokens", "cost", "wallTime"] as const) {
      if (isUsedUp(state, budget, now))
        return { depth, exceeded: report(state, budget, now), isPromised: false }
    }
    for (const budget of parted) {
      const left = available(state, budget)
      if (left === undefined) continue
      if (left <= 0 && !promised.has(budget)) {
        return { depth, exceeded: reportPromised(state, budget), isPromised: true }
      }
      promised.add(budget)
    }
  }
  return undefined
}

/**
 * The `treeToolCalls` budget of the nearest run in `line` that the calls of this run and of the sub-agents under it exceed; `undefined` if
 * there is none.
 */
export const exceededByCallsAbove = (line: ReadonlyArray<RunState>): NothingLeft | undefined => {
  for (let depth = line.length - 1; depth >= 0; depth--) {
    const state = line[depth]!
    const limit = state.limits.maxTreeToolCalls
    if (limit !== undefined && spent(state, "treeToolCalls", 0) > limit) {
      return { depth, exceeded: report(state, "treeToolCalls", 0), isPromised: false }
    }
  }
  return undefined
}

/**
 * The limits for a new sub-agent, or the token or cost budget above it of which nothing is available. `line` holds the runs from the root
 * to the sub-agent's starter. Reduces the token and the cost budget in `asked` to what is available in the nearest run that has such a
 * budget; other limits, and a budget that `asked` lacks, stay as they are.
 */
export const carve = (line: ReadonlyArray<RunState>, asked: Limits.Limits): Limits.Limits | NothingLeft => {
  let limits = asked
  for (const budget of parted) {
    for (let depth = line.length - 1; depth >= 0; depth--) {
      const state = line[depth]!
      const left = available(state, budget)
      if (left === undefined) continue
      if (left <= 0) {
        const isPromised = !isUsedUp(state, budget, 0)
        return { depth, exceeded: reportPromised(state, budget), isPromised }
      }
      const wanted = Limits.budgetOf(limits, budget)
      if (wanted !== undefined) limits = Limits.withBudget(limits, budget, Math.min(wanted, left))
      // The runs above have already reserved this run's budget.
      break
    }
  }
  return limits
}

/** Whether the model of a run was asked to wrap up. */
export const isWrappingUp = ({ wrappingUp }: RunState): boolean =>
  wrappingUp !== undefined && wrappingUp.due !== true

/**
 * Whether a run wraps up now if a budget of it is exhausted, before it asks for more or fails. Only a run with `limits.wrapUp` does: once,
 * and again only after further turns. It does not while a decision has released a call of the turn, or of a sub-agent that the turn waits
 * for: closing the turn would drop that decision.
 */
export const isToWrapUp = (state: RunState): boolean =>
  state.limits.wrapUp === true &&
  !isWrappingUp(state) &&
  state.wrappedUp !== state.usage.turns &&
  !isTurnReleased(state)

/**
 * The milliseconds of work that the limits of all runs of `line`, which begins at the root, leave to its last run: 0 or less if the time
 * is exhausted, `undefined` if it is unlimited. While the last run wraps up, its own limit does not count.
 */
export const timeLeft = (line: ReadonlyArray<RunState>, now: number): number | undefined => {
  let least: number | undefined
  for (let depth = 0; depth < line.length; depth += 1) {
    const state = line[depth]!
    const { maxWallMs } = state.limits
    // A run that wraps up gets its last turn in any case.
    if (maxWallMs === undefined || (depth === line.length - 1 && isWrappingUp(state))) continue
    least = Math.min(least ?? Number.POSITIVE_INFINITY, maxWallMs - workedMs(state, now))
  }
  return least
}

/** The budgets, except `context`, that have reached `warnAt` and for which no warning is recorded. */
export const nearing = (state: RunState, now: number): ReadonlyArray<Limits.Exceeded> => {
  const { limits, warned } = state
  const part = limits.warnAt ?? Limits.defaults.warnAt
  // Runs after each response and usually finds nothing, so it allocates only when it does.
  let found: Array<Limits.Exceeded> | undefined
  for (const budget of Limits.Budget.literals) {
    const limit = Limits.budgetOf(limits, budget)
    if (limit === undefined || budget === "context" || warned?.includes(budget) === true) continue
    const used = spent(state, budget, now)
    if (used < limit * part || used <= 0) continue
    found ??= []
    found.push({ budget, limit, spent: used })
  }
  return found ?? none
}

const none: ReadonlyArray<never> = []
