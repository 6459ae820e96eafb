/**
 * Limits: how much a run may consume. Budgets count over the whole run, across resumes. The `context` budget and the timeouts apply to
 * each call.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import type { SessionUsage } from "./Usage.ts"
import { totalTokens } from "./Usage.ts"

/**
 * The limits of one run. A budget that is absent is unlimited.
 *
 * Tokens, money and time include the sub-agents under the run, at any depth. `maxTurns` and `maxToolCalls` count only the run's own
 * turns and calls; `maxTreeTurns` and `maxTreeToolCalls` include those of the sub-agents.
 *
 * Tokens and money are checked before each model call, so the last call may exceed them. An exhausted budget opens a limit request in a
 * stored, interactive run. It fails any other run with `BudgetExceeded`, and also one whose cost is unknown or whose limit request was
 * denied; see `wrapUp`.
 */
export const Limits = Schema.Struct({
  /**
   * Turns of the run: model calls that returned a response. Default 8. Turns that only take reports of sub-agents in the background do not
   * count against the default, and count against a given `maxTurns`.
   */
  maxTurns: Schema.Natural,
  /**
   * Tool calls of the run, over all turns, also those that did not run. If a response exceeds the budget, none of its calls runs unless the
   * budget is raised.
   */
  maxToolCalls: Schema.optionalKey(Schema.Natural),
  /** Turns of the run and of all sub-agents under it. */
  maxTreeTurns: Schema.optionalKey(Schema.Natural),
  /** Tool calls of the run and of all sub-agents under it. */
  maxTreeToolCalls: Schema.optionalKey(Schema.Natural),
  /** Input and output tokens of all model calls. */
  maxTokens: Schema.optionalKey(Schema.Natural),
  /** US dollars. While this is set, one request with an unknown price exhausts the budget. */
  maxCostUsd: Schema.optionalKey(Schema.Finite),
  /**
   * Milliseconds of work. The time in which the run is held does not count, nor does the last work of a process that died. Also bounds the
   * calls of the sub-agents under it.
   */
  maxWallMs: Schema.optionalKey(Schema.Natural),
  /** Fraction of each budget except `context`, from 0 to 1, at which a warning is recorded. Default 0.8. */
  warnAt: Schema.optionalKey(Schema.Finite),
  /**
   * Whether an exhausted budget, except `context`, gives the model one more turn, without tools, to summarize its progress, before the run
   * asks for more or fails. Default: false.
   */
  wrapUp: Schema.optionalKey(Schema.Boolean),
  /** Tokens of the context of one model call, estimated before the call. The default context policy checks it; a custom one has to. */
  maxContextTokens: Schema.optionalKey(Schema.Natural),
  /**
   * Timeout of one model call in milliseconds, with the client's retries; a complete call that the run itself makes after a failed stream
   * has its own. Default 600,000.
   */
  modelTimeoutMs: Schema.Natural,
  /**
   * Timeout of one try of a tool's body, of each of the tool's callbacks and of decoding with its schema, in milliseconds, unless the tool
   * declares its own. Also bounds decoding with an output schema. None for a sub-agent. Default 600,000.
   */
  toolTimeoutMs: Schema.Natural,
  /**
   * How often in a row, without progress, the run may be taken up again after its process died or suspended it. The first claim of a
   * submitted run counts, too. One time more, and it fails with `WorkersLost`. Default 3.
   */
  maxRecoveries: Schema.optionalKey(Schema.Natural),
  /** Read-only calls of one turn that run concurrently. Default 100; 0 counts as 1. */
  toolConcurrency: Schema.Natural,
  /** Sub-agents of this run that work concurrently; the others wait. Default 16; 0 counts as 1. */
  agentConcurrency: Schema.optionalKey(Schema.Natural)
})
export type Limits = typeof Limits.Type

/** Changes to limits; an absent field keeps its value. */
export const LimitChanges = Schema.Struct(Struct.map(Limits.fields, Schema.optionalKey))
export type LimitChanges = Partial<Limits>

/** The name of a budget: a limit that can be exhausted and topped up. */
export const Budget = Schema.Literals([
  "turns",
  "toolCalls",
  "treeTurns",
  "treeToolCalls",
  "tokens",
  "cost",
  "wallTime",
  "context"
])
export type Budget = typeof Budget.Type

/** The default limits. Times are in milliseconds. */
export const defaults: Limits & {
  readonly maxRecoveries: number
  readonly agentConcurrency: number
  readonly warnAt: number
} = {
  maxTurns: 8,
  modelTimeoutMs: 600_000,
  toolTimeoutMs: 600_000,
  maxRecoveries: 3,
  toolConcurrency: 100,
  agentConcurrency: 16,
  warnAt: 0.8
}

/**
 * A budget with its limit and the amount spent, both in the budget's unit: a count, tokens, US dollars or milliseconds. For money, `spent`
 * is a lower bound.
 */
export interface Exceeded {
  readonly budget: Budget
  readonly limit: number
  readonly spent: number
}

/**
 * The first of the budgets turns, tokens and cost that permits no further model call; `undefined` if all permit one. Counts every turn. For
 * the budgets of a run, use `Budget.exceeded`.
 */
export const exceeded = (limits: Limits, usage: SessionUsage): Exceeded | undefined => {
  if (usage.turns >= limits.maxTurns) return { budget: "turns", limit: limits.maxTurns, spent: usage.turns }
  if (limits.maxTokens !== undefined && totalTokens(usage) >= limits.maxTokens) {
    return { budget: "tokens", limit: limits.maxTokens, spent: totalTokens(usage) }
  }
  if (limits.maxCostUsd !== undefined && (usage.costUsd >= limits.maxCostUsd || usage.unpricedRequests > 0)) {
    return { budget: "cost", limit: limits.maxCostUsd, spent: usage.costUsd }
  }
  return undefined
}

/** The field of `Limits` that holds each budget. */
export const limitOf = {
  turns: "maxTurns",
  toolCalls: "maxToolCalls",
  treeTurns: "maxTreeTurns",
  treeToolCalls: "maxTreeToolCalls",
  tokens: "maxTokens",
  cost: "maxCostUsd",
  wallTime: "maxWallMs",
  context: "maxContextTokens"
} as const satisfies { readonly [B in Budget]: keyof Limits }

/** Sets one budget to a new total. */
export const withBudget = (limits: Limits, budget: Budget, limit: number): Limits => ({
  ...limits,
  [limitOf[budget]]: limit
})

/** The limit of a budget; `undefined` if it is unlimited. */
export const budgetOf = (limits: Limits, budget: Budget): number | undefined => {
  // Called about twenty times per turn. A lookup by a varying key is several times slower than this switch.
  switch (budget) {
    case "turns":
      return limits.maxTurns
    case "toolCalls":
      return limits.maxToolCalls
    case "treeTurns":
      return limits.maxTreeTurns
    case "treeToolCalls":
      return limits.maxTreeToolCalls
    case "tokens":
      return limits.maxTokens
    case "cost":
      return limits.maxCostUsd
    case "wallTime":
      return limits.maxWallMs
    case "context":
      return limits.maxContextTokens
  }
}
