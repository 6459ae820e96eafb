/**
 * What a run has spent of its budgets, what its sub-agents were promised of them, and what is left.
 *
 * A sub-agent with a budget of its own has that much set aside in the runs above it from its first event on, in the same step in
 * which it is started, so that two that are started at once cannot be promised the same; what it did not use is free again when
 * it ends. One without takes what is left as it goes.
 *
 * @since 0.1.0
 */
import { isTurnReleased } from "./internal/released.ts"
import * as Limits from "./Limits.ts"
import type { RunState } from "./RunState.ts"
import { children } from "./RunState.ts"
import { totalTokens } from "./Usage.ts"

/** The budgets that a run shares with the sub-agents under it. */
export const shared = ["tokens", "cost", "treeTurns", "treeToolCalls", "wallTime"] as const

/** Those of which a part can be set aside. */
export const parted = ["tokens", "cost"] as const

/** Milliseconds at work, up to `now`. */
export const workedMs = (state: RunState, now: number): number =>
  (state.workedMs ?? 0) +
  (state.status !== "running" || state.workingSince === undefined ? 0 : Math.max(0, now - state.workingSince))

/** What has been spent of a budget; for money a lower bound. `now` matters to `wallTime` only. */
export const spent = (state: RunState, budget: Limits.Budget, now: number): number => {
  switch (budget) {
    case "turns":
      return state.usage.turns
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

/** What the sub-agents under a run were promised of a budget and have not spent. */
export const reserved = (state: RunState, budget: "tokens" | "cost"): number =>
  children(state).reduce((sum, { child }) => sum + reservedIn(child, budget), 0)

/** What is promised of a budget above it to a sub-agent, or to those under it, and not spent. */
export const reservedIn = (child: RunState, budget: "tokens" | "cost"): number => {
  const limit = Limits.budgetOf(child.limits, budget)
  return limit === undefined ? reserved(child, budget) : Math.max(0, limit - spent(child, budget, 0))
}

/** What is left of a budget that was promised to no sub-agent; `undefined` is without bound. */
export const available = (state: RunState, budget: "tokens" | "cost"): number | undefined => {
  const limit = Limits.budgetOf(state.limits, budget)
  return limit === undefined ? undefined : limit - spent(state, budget, 0) - reserved(state, budget)
}

/** Whether nothing is left of a budget, promised or not. `now` matters to `wallTime` only. */
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

/** What is promised to sub-agents counts as spent too, where more is asked for. */
const reportPromised = (state: RunState, budget: "tokens" | "cost"): Limits.Exceeded => {
  const { limit, spent } = report(state, budget, 0)
  return { budget, limit, spent: Math.max(limit, spent + reserved(state, budget)) }
}

const ofModelCalls = ["turns", "treeTurns", "tokens", "cost", "wallTime"] as const

const ofToolCalls = ["toolCalls", "treeToolCalls"] as const

/** The first budget that leaves no room for another model call of the run, or `undefined`. */
export const exceeded = (state: RunState, now = 0): Limits.Exceeded | undefined => {
  const budget = ofModelCalls.find((budget) => isUsedUp(state, budget, now))
  return budget && report(state, budget, now)
}

/** A budget of which everything that is left was promised to sub-agents, or `undefined`. */
export const promisedAway = (state: RunState): Limits.Exceeded | undefined => {
  const budget = parted.find((budget) => (available(state, budget) ?? 1) <= 0)
  return budget && reportPromised(state, budget)
}

/** The budget of tool calls that the calls which were asked for exceed, or `undefined`. */
export const exceededByCalls = (state: RunState): Limits.Exceeded | undefined => {
  const budget = ofToolCalls.find(
    (budget) => spent(state, budget, 0) > (Limits.budgetOf(state.limits, budget) ?? Infinity)
  )
  return budget && report(state, budget, 0)
}

/** A budget of one of the runs above that has nothing left. */
export interface NothingLeft {
  /** The place of the run in the line from the root, from 0. */
  readonly depth: number
  readonly exceeded: Limits.Exceeded
  /** Whether what is left is promised to others: then it may come back. */
  readonly isPromised: boolean
}

/**
 * The budget above a sub-agent that leaves no room for another model call of it, or `undefined`.
 *
 * **Details**
 *
 * `line` are the runs from the root to the one that has started it, `own` its limits. A part that was set aside for it, or for
 * one between, is its own: of what is above that, only what is really spent counts.
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

/** The budget above a sub-agent that the calls which it has asked for exceed, or `undefined`. */
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

/** The limits that a sub-agent is started with: what it asks for, of what the runs above it have left. */
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
      // What is above was set aside for this one already.
      break
    }
  }
  return limits
}

/** Whether the model of a run is being asked, or was asked, to come to an end. */
export const isWrappingUp = ({ wrappingUp }: RunState): boolean =>
  wrappingUp !== undefined && wrappingUp.due !== true

/**
 * Whether a run is to say how far it has come before anybody is asked: once, as long as it does nothing else meanwhile. Not while a call of
 * its turn has been released by a decision: a turn that is closed for it would drop what was acknowledged.
 */
export const isToWrapUp = (state: RunState): boolean =>
  state.limits.wrapUp === true &&
  !isWrappingUp(state) &&
  state.wrappedUp !== state.usage.turns &&
  !isTurnReleased(state)

/**
 * Milliseconds at work that are left to the last run of a line, which begins at the root; `undefined` is without bound, and 0
 * or less is none.
 */
export const timeLeft = (line: ReadonlyArray<RunState>, now: number): number | undefined => {
  let least: number | undefined
  for (let depth = 0; depth < line.length; depth += 1) {
    const state = line[depth]!
    const { maxWallMs } = state.limits
    // Who comes to an end has its last turn in any case.
    if (maxWallMs === undefined || (depth === line.length - 1 && isWrappingUp(state))) continue
    least = Math.min(least ?? Number.POSITIVE_INFINITY, maxWallMs - workedMs(state, now))
  }
  return least
}

/** Budgets that are running out and for which no warning was recorded. */
export const nearing = (state: RunState, now: number): ReadonlyArray<Limits.Exceeded> => {
  const { limits, warned } = state
  const part = limits.warnAt ?? Limits.defaults.warnAt
  // Looked at after each answer, and most of the time there is none: nothing is made to find that out.
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
