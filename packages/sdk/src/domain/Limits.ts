/**
 * How much a run may consume. Budgets are counted over the whole run, resumes included; timeouts are per call.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import type { SessionUsage } from "./Usage.ts"
import { totalTokens } from "./Usage.ts"

/**
 * The budgets and bounds of one run. A budget that is left out is unlimited.
 *
 * Tokens, money and time are those of the run and of the sub-agents under it, at any depth; turns and tool calls are the run's
 * own, and those of the whole tree with `maxTreeTurns` and `maxTreeToolCalls`.
 */
export const Limits = Schema.Struct({
  /** Model calls. Default 8. */
  maxTurns: Schema.Natural,
  /** Tool calls of all turns. */
  maxToolCalls: Schema.optionalKey(Schema.Natural),
  /** Model calls of the run and of all sub-agents under it. */
  maxTreeTurns: Schema.optionalKey(Schema.Natural),
  /** Tool calls of the run and of all sub-agents under it. */
  maxTreeToolCalls: Schema.optionalKey(Schema.Natural),
  /** Input and output tokens of all model calls. */
  maxTokens: Schema.optionalKey(Schema.Natural),
  /** US dollars. While this is set, an unknown price counts as exceeded. */
  maxCostUsd: Schema.optionalKey(Schema.Finite),
  /** Milliseconds at work. The time for which a run is held does not count. Bounds the calls of the sub-agents under it, too. */
  maxWallMs: Schema.optionalKey(Schema.Natural),
  /** The part of a budget, from 0 to 1, from which on a warning is published. Default 0.8. */
  warnAt: Schema.optionalKey(Schema.Finite),
  /** Whether the model gets one more turn, without tools, to say how far it has come when a budget is used up. Default: no. */
  wrapUp: Schema.optionalKey(Schema.Boolean),
  /** Tokens of one model call's context, as estimated before the call. */
  maxContextTokens: Schema.optionalKey(Schema.Natural),
  /** Milliseconds for one model call. Default 600,000. */
  modelTimeoutMs: Schema.Natural,
  /** Milliseconds for one tool call, unless the tool says otherwise. Default 600,000. */
  toolTimeoutMs: Schema.Natural,
  /** Processes that may die over the run in a row, without its getting any further, before it fails. Default 3. */
  maxRecoveries: Schema.optionalKey(Schema.Natural),
  /** Read-only calls of one turn that run at the same time. Default 100; at least one does. */
  toolConcurrency: Schema.Natural,
  /** Sub-agents of this run that are at work at the same time; the others wait for their turn. Default 16; at least one is. */
  agentConcurrency: Schema.optionalKey(Schema.Natural)
})
export type Limits = typeof Limits.Type

/** Changes to limits: those that are given. */
export const LimitChanges = Schema.Struct(Struct.map(Limits.fields, Schema.optionalKey))
export type LimitChanges = Partial<Limits>

/** A budget that can be used up and topped up. */
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

/** The limits of a run that sets none. Times are in milliseconds. */
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

/** A budget that has been used up: `spent` is what was consumed (for money, a lower bound), `limit` what was allowed. */
export interface Exceeded {
  readonly budget: Budget
  readonly limit: number
  readonly spent: number
}

/** The first budget that leaves no room for another model call, or `undefined`. */
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

/** The limit of each budget. */
const limitOf = {
  turns: "maxTurns",
  toolCalls: "maxToolCalls",
  treeTurns: "maxTreeTurns",
  treeToolCalls: "maxTreeToolCalls",
  tokens: "maxTokens",
  cost: "maxCostUsd",
  wallTime: "maxWallMs",
  context: "maxContextTokens"
} as const satisfies { readonly [B in Budget]: keyof Limits }

/** The limits with one budget set to a new total. */
export const withBudget = (limits: Limits, budget: Budget, limit: number): Limits => ({
  ...limits,
  [limitOf[budget]]: limit
})

/** What a budget allows; `undefined` is unlimited. */
export const budgetOf = (limits: Limits, budget: Budget): number | undefined => {
  // Asked some twenty times a turn: a switch, because a lookup by a key that changes costs several times as much.
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
