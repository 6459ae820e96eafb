/**
 * The shared budgets of a conductor. A part is reserved for each run before it starts, in one synchronous step, and the run's consumption
 * is booked when it has ended.
 */
import * as Effect from "effect/Effect"
import type { Runtime } from "../../../agent/Runtime.ts"
import { spent } from "../../../domain/Budget.ts"
import { problemsOf } from "../../../domain/internal/given.ts"
import { natural, nonNegative, optionMisfits, shapeOf } from "../../../domain/internal/misfits.ts"
import type { Limits } from "../../../domain/Limits.ts"
import { type ContextInvalid, LimitsInvalid, type PolicyInvalid } from "../../../domain/RunError.ts"
import { isEnded, type RunState } from "../../../domain/RunState.ts"
import { checkCallerOptions } from "../../../run/internal/staging.ts"
import type { CallerOptions } from "../../../run/internal/startOptions.ts"
import { ConductorBudgetExceeded, type SharedBudget } from "../../DispatchError.ts"

/**
 * The budgets that the runs of a conductor share. A budget that is left out is unlimited.
 *
 * Of each budget except `maxRuns`, a part is reserved for a run when it starts, and limits that run: its own limit if it has one, otherwise
 * the rest of the budget divided by the free slots; never more than the rest. What the run has not used is available again at its end.
 */
export interface SharedLimits {
  /** The number of runs that may be dispatched or attached. Runs that fail to start do not count. */
  readonly maxRuns?: number
  /** The number of turns of all runs and of their sub-agents. */
  readonly maxTurns?: number
  /** The number of input and output tokens of all runs and of their sub-agents. */
  readonly maxTokens?: number
  /** The cost of all runs and of their sub-agents in US dollars. While it is set, no run starts after a run of unknown cost has ended. */
  readonly maxCostUsd?: number
}

const sharedShape = shapeOf<SharedLimits>({
  maxRuns: natural,
  maxTurns: natural,
  maxTokens: natural,
  maxCostUsd: nonNegative
})

/** Refuses unknown limits and limits that are not numbers, which would limit nothing. */
export const checkShared = (limits: SharedLimits): Effect.Effect<void, LimitsInvalid> => {
  const found = optionMisfits(limits, sharedShape, "the limits")
  return found.length === 0
    ? Effect.void
    : Effect.fail(new LimitsInvalid({ issues: problemsOf(found), misfits: found }))
}

/** The consumption of the runs of a conductor that have ended, and the amounts that are reserved for those that have not. */
export interface Spending {
  /** `runs` counts the dispatched and attached runs, also those that have not ended. */
  readonly spent: { readonly [Budget in SharedBudget]: number }
  /** `runs` is always 0. */
  readonly reserved: { readonly [Budget in SharedBudget]: number }
  /** Whether the cost of all ended runs is known; otherwise `spent.cost` is a lower bound. */
  readonly isCostKnown: boolean
}

/** The budgets of which a part is reserved for each run, with the keys of the shared limit, the run's own limit and its consumption. */
const parts = {
  tokens: { shared: "maxTokens", own: "maxTokens", spent: "tokens", isWhole: true },
  cost: { shared: "maxCostUsd", own: "maxCostUsd", spent: "cost", isWhole: false },
  turns: { shared: "maxTurns", own: "maxTreeTurns", spent: "treeTurns", isWhole: true }
} as const

type Part = keyof typeof parts
const partNames = ["tokens", "cost", "turns"] as const

type Amounts = { [P in Part]?: number }

/** The input of a run, as far as the ledger reads it. */
export interface AllottedInput extends CallerOptions {
  readonly state?: RunState
  readonly prompt?: unknown
}

export class Ledger {
  private readonly limits: SharedLimits
  private readonly spentOf = { tokens: 0, cost: 0, turns: 0 }
  private readonly reservedOf = { tokens: 0, cost: 0, turns: 0 }
  private readonly reserved = new WeakMap<
    object,
    { readonly amounts: Amounts; readonly before: RunState | undefined }
  >()
  private runs = 0
  private isCostKnown = true

  constructor(limits: SharedLimits) {
    this.limits = limits
  }

  /** Counts one more run. Returns the error if `maxRuns` is reached. */
  refuse(): ConductorBudgetExceeded | undefined {
    const { maxRuns } = this.limits
    if (maxRuns !== undefined && this.runs >= maxRuns) {
      return new ConductorBudgetExceeded({ budget: "runs", limit: maxRuns, spent: this.runs, reserved: 0 })
    }
    this.runs += 1
    return undefined
  }

  /** Uncounts a run that was not started. */
  discount(): void {
    this.runs -= 1
  }

  /**
   * Reserves a part of each budget for a run, and returns the limits that keep the run within it: its own limit, or the rest of the budget
   * if that is less. For a run without a limit of its own, the rest is divided equally among the free slots.
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
      // Without sub-agents, `maxTurns` limits all turns of the run.
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

  /** Reserves a part of the budgets for a run, and returns its input with the limits that keep it within. */
  allot<I extends AllottedInput>(
    key: object,
    { bound }: Runtime,
    given: I,
    freeSlots: number
  ): Effect.Effect<I, ConductorBudgetExceeded | ContextInvalid | LimitsInvalid | PolicyInvalid> {
    // Checked before the arithmetic, in which a limit that is not a number would corrupt the budget.
    return Effect.flatMap(checkCallerOptions(given), (input) => {
      // A new run after one that has ended inherits the start options of that one.
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

  /** Books what an attached run consumes from now on. Reserves nothing: the run keeps its own limits, unless it was queued. */
  follow(key: object, before: RunState | undefined): void {
    if (!this.reserved.has(key)) this.reserved.set(key, { amounts: {}, before })
  }

  /**
   * Books the consumption of a run, and releases what was reserved for it. If its final state is unknown, the whole reservation is booked.
   */
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
