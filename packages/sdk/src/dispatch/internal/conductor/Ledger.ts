/**
 * What the runs of a conductor may spend together: set aside for each before it begins, in one synchronous step, and booked when it
 * is over.
 */
import * as Effect from "effect/Effect"
import type { Runtime } from "../../../agent/Runtime.ts"
import { spent } from "../../../domain/Budget.ts"
import { problemsOf } from "../../../domain/internal/given.ts"
import { natural, nonNegative, optionMisfits, shapeOf } from "../../../domain/internal/misfits.ts"
import type { Limits } from "../../../domain/Limits.ts"
import { LimitsInvalid, type PolicyInvalid } from "../../../domain/RunError.ts"
import { isEnded, type RunState } from "../../../domain/RunState.ts"
import { checkLimitsAndPolicy } from "../../../run/internal/staging.ts"
import type { LimitsAndPolicy } from "../../../run/internal/startOptions.ts"
import { ConductorBudgetExceeded, type SharedBudget } from "../../DispatchError.ts"

/** What the runs of a conductor may consume together. What is left out is unlimited. */
export interface SharedLimits {
  /** Runs that may be dispatched. */
  readonly maxRuns?: number
  /** Model calls of all runs and of their sub-agents. */
  readonly maxTurns?: number
  /** Input and output tokens. */
  readonly maxTokens?: number
  /** US dollars. While this is set, nothing is begun after a run whose cost is not known. */
  readonly maxCostUsd?: number
}

const sharedShape = shapeOf<SharedLimits>({
  maxRuns: natural,
  maxTurns: natural,
  maxTokens: natural,
  maxCostUsd: nonNegative
})

/** Whether limits can be: what is no number bounds nothing. */
export const checkShared = (limits: SharedLimits): Effect.Effect<void, LimitsInvalid> => {
  const found = optionMisfits(limits, sharedShape, "the limits")
  return found.length === 0
    ? Effect.void
    : Effect.fail(new LimitsInvalid({ issues: problemsOf(found), misfits: found }))
}

/** What the runs of a conductor have consumed, and what is set aside for those that have not ended. */
export interface Spending {
  readonly spent: { readonly [Budget in SharedBudget]: number }
  readonly reserved: { readonly [Budget in SharedBudget]: number }
  /** Whether the price of everything is known; if not, `spent.cost` is a lower bound. */
  readonly isCostKnown: boolean
}

/** The budgets of which a part is set aside for a run, and the run's own limit of each. */
const parts = {
  tokens: { shared: "maxTokens", own: "maxTokens", spent: "tokens", isWhole: true },
  cost: { shared: "maxCostUsd", own: "maxCostUsd", spent: "cost", isWhole: false },
  turns: { shared: "maxTurns", own: "maxTreeTurns", spent: "treeTurns", isWhole: true }
} as const

type Part = keyof typeof parts
const partNames = ["tokens", "cost", "turns"] as const

type Amounts = { [P in Part]?: number }

/** What a run is begun with. */
export interface AllottedInput extends LimitsAndPolicy {
  readonly state?: RunState
  readonly prompt?: unknown
}

export class Ledger {
  private readonly limits: SharedLimits
  private readonly spentOf = { tokens: 0, cost: 0, turns: 0 }
  private readonly reservedOf = { tokens: 0, cost: 0, turns: 0 }
  private readonly reserved = new Map<
    object,
    { readonly amounts: Amounts; readonly before: RunState | undefined }
  >()
  private runs = 0
  private isCostKnown = true

  constructor(limits: SharedLimits) {
    this.limits = limits
  }

  /** Counts one more run, or says why there may not be one. */
  refuse(): ConductorBudgetExceeded | undefined {
    const { maxRuns } = this.limits
    if (maxRuns !== undefined && this.runs >= maxRuns) {
      return new ConductorBudgetExceeded({ budget: "runs", limit: maxRuns, spent: this.runs, reserved: 0 })
    }
    this.runs += 1
    return undefined
  }

  /** A run that was counted has not begun. */
  discount(): void {
    this.runs -= 1
  }

  /**
   * Sets aside what a run may spend, and returns the limits that keep it within: its own, or what is left if that is less. One
   * without a limit of its own gets an equal part of what is left for each free slot.
   */
  private reserve(
    key: object,
    run: { readonly limits: Limits; readonly isAlone: boolean; readonly before?: RunState | undefined },
    freeSlots: number
  ): Partial<Limits> | ConductorBudgetExceeded {
    const amounts: Amounts = {}
    const limits: { -readonly [K in keyof Limits]?: Limits[K] } = {}
    for (const part of partNames) {
      const { isWhole, own, shared } = parts[part]
      const limit = this.limits[shared]
      if (limit === undefined) continue
      const left = limit - this.spentOf[part] - this.reservedOf[part]
      if (left <= 0 || (part === "cost" && !this.isCostKnown)) return this.exceeded(part, limit)
      const used = run.before === undefined ? 0 : spent(run.before, parts[part].spent, 0)
      // Without sub-agents its own turns are all there are.
      const given = run.limits[own] ?? (part === "turns" && run.isAlone ? run.limits.maxTurns : undefined)
      const share = left / Math.max(1, freeSlots)
      const amount = given === undefined ? (isWhole ? Math.max(1, Math.floor(share)) : share) : given - used
      amounts[part] = Math.max(0, Math.min(left, amount))
      limits[own] = used + amounts[part]
    }
    for (const part of partNames) this.reservedOf[part] += amounts[part] ?? 0
    this.reserved.set(key, { amounts, before: run.before })
    return limits
  }

  /** An input with the limits that keep its run within what is set aside for it. */
  allot<I extends AllottedInput>(
    key: object,
    { bound }: Runtime,
    given: I,
    freeSlots: number
  ): Effect.Effect<I, ConductorBudgetExceeded | LimitsInvalid | PolicyInvalid> {
    // Before they are counted with: what is no number would leave no budget at all.
    return Effect.flatMap(checkLimitsAndPolicy(given), (input) => {
      // A new run after one that has ended continues what the caller of that one gave.
      const isNew = input.state === undefined || (isEnded(input.state) && input.prompt !== undefined)
      const before = isNew ? undefined : input.state
      const own = { ...bound.limits, ...input.state?.startedWith?.limits }
      const limits: Limits = { ...(before?.limits ?? own), ...input.limits }
      const isAlone = (bound.agent.options.subAgents ?? []).length === 0
      const reserved = this.reserve(key, { limits, isAlone, before }, freeSlots)
      if (reserved instanceof ConductorBudgetExceeded) return Effect.fail(reserved)
      if (Object.keys(reserved).length === 0) return Effect.succeed(input)
      return Effect.succeed({ ...input, "~allotted": reserved })
    })
  }

  /** Counts what a run spends from now on, that keeps its own limits. */
  follow(key: object, before: RunState | undefined): void {
    this.reserved.set(key, { amounts: {}, before })
  }

  /** Books what a run has spent. Of one whose end is not known, all that was set aside counts as spent. */
  book(key: object, after: RunState | undefined): void {
    const claim = this.reserved.get(key)
    if (claim === undefined) return
    this.reserved.delete(key)
    const { amounts, before } = claim
    for (const part of partNames) {
      this.reservedOf[part] -= amounts[part] ?? 0
      if (after === undefined) this.spentOf[part] += amounts[part] ?? 0
      else {
        const budget = parts[part].spent
        this.spentOf[part] += spent(after, budget, 0) - (before === undefined ? 0 : spent(before, budget, 0))
      }
    }
    const unpriced = (after?.usage.unpricedRequests ?? 0) - (before?.usage.unpricedRequests ?? 0)
    if (unpriced > 0) this.isCostKnown = false
  }

  /** How it stands. */
  spending(): Spending {
    const { cost, tokens, turns } = this.spentOf
    return {
      spent: { cost, tokens, turns, runs: this.runs },
      reserved: { ...this.reservedOf, runs: 0 },
      isCostKnown: this.isCostKnown
    }
  }

  private exceeded(budget: Part, limit: number): ConductorBudgetExceeded {
    return new ConductorBudgetExceeded({
      budget,
      limit,
      spent: this.spentOf[budget],
      reserved: this.reservedOf[budget]
    })
  }
}
