/**
 * Usage: what a run or a session has consumed.
 *
 * Token counts of all providers are normalized: `inputTokens` includes cached tokens, and `outputTokens` includes reasoning tokens.
 * A request without a known price adds nothing to `costUsd` and counts in `unpricedRequests`; `costUsd` is then a lower bound.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/** Tokens, requests, turns and money of one run or, cumulatively, of a session. Includes the sub-agents, except in `turns`. */
export const SessionUsage = Schema.Struct({
  /** Tokens sent, including cached ones. */
  inputTokens: Schema.Natural,
  /** The part of `inputTokens` that the provider served from its cache. */
  cachedInputTokens: Schema.Natural,
  /** Tokens received, including reasoning tokens. */
  outputTokens: Schema.Natural,
  /** The part of `outputTokens` that was reasoning. */
  reasoningTokens: Schema.Natural,
  /** Model calls that returned a response, or were charged without one. */
  requests: Schema.Natural,
  /** Responses of the run's own model calls. */
  turns: Schema.Natural,
  /** The sum of the known costs, in US dollars. */
  costUsd: Schema.Finite,
  /** Requests whose cost is unknown; above 0, `costUsd` is a lower bound. */
  unpricedRequests: Schema.Natural
})
export type SessionUsage = typeof SessionUsage.Type

/** The usage of one model call. `costUsd` is absent if the price is unknown. */
export const ModelUsage = Schema.Struct({
  inputTokens: Schema.Natural,
  cachedInputTokens: Schema.optionalKey(Schema.Natural),
  /** The part of `inputTokens` that the provider wrote to its cache. Absent if the provider does not report it. */
  cacheWriteTokens: Schema.optionalKey(Schema.Natural),
  outputTokens: Schema.Natural,
  reasoningTokens: Schema.optionalKey(Schema.Natural),
  costUsd: Schema.optionalKey(Schema.Finite)
})
export type ModelUsage = typeof ModelUsage.Type

/** The usage of a run that has made no model call. */
export const zero: SessionUsage = {
  inputTokens: 0,
  cachedInputTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  requests: 0,
  turns: 0,
  costUsd: 0,
  unpricedRequests: 0
}

/** Adds counts, up to the largest safe integer. An exhausted budget stays exhausted and can be stored. */
const addCount = (a: number, b: number): number => {
  const sum = a + b
  return sum <= Number.MAX_SAFE_INTEGER ? sum : Number.MAX_SAFE_INTEGER
}

/**
 * Adds dollars in units of 1e-12, so that the sum does not depend on the order of the additions: 0.1 and 0.2 make 0.3 exactly, and
 * exhaust a budget of 0.3.
 */
const addMoney = (a: number, b: number): number => {
  const sum = Math.round(a * 1e12) + Math.round(b * 1e12)
  return Number.isSafeInteger(sum) ? sum / 1e12 : Math.min(a + b, Number.MAX_VALUE)
}

/** Adds the usage of one model call, as one request and one turn. Without `costUsd`, the call counts as one unpriced request. */
export const addModelCall = (total: SessionUsage, call: ModelUsage): SessionUsage => ({
  inputTokens: addCount(total.inputTokens, call.inputTokens),
  cachedInputTokens: addCount(total.cachedInputTokens, call.cachedInputTokens ?? 0),
  outputTokens: addCount(total.outputTokens, call.outputTokens),
  reasoningTokens: addCount(total.reasoningTokens, call.reasoningTokens ?? 0),
  requests: total.requests + 1,
  turns: total.turns + 1,
  costUsd: addMoney(total.costUsd, call.costUsd ?? 0),
  unpricedRequests: total.unpricedRequests + (call.costUsd === undefined ? 1 : 0)
})

/** Adds two totals. */
export const add = (a: SessionUsage, b: SessionUsage): SessionUsage => ({
  inputTokens: addCount(a.inputTokens, b.inputTokens),
  cachedInputTokens: addCount(a.cachedInputTokens, b.cachedInputTokens),
  outputTokens: addCount(a.outputTokens, b.outputTokens),
  reasoningTokens: addCount(a.reasoningTokens, b.reasoningTokens),
  requests: a.requests + b.requests,
  turns: a.turns + b.turns,
  costUsd: addMoney(a.costUsd, b.costUsd),
  unpricedRequests: a.unpricedRequests + b.unpricedRequests
})

/** The sum of input and output tokens. */
export const totalTokens = (usage: SessionUsage): number => usage.inputTokens + usage.outputTokens
