/**
 * What a run or a session has consumed.
 *
 * Token counts follow the providers' own meaning after normalisation: `inputTokens` includes the cached ones,
 * `outputTokens` includes the reasoning ones. Money that is not known is not zero: requests without a price are counted in
 * `unpricedRequests`, and `costUsd` is then a lower bound.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/** Tokens, requests, turns and money; a run's own or a session's cumulative. */
export const SessionUsage = Schema.Struct({
  /** Tokens sent, cached ones included. */
  inputTokens: Schema.Natural,
  /** The part of `inputTokens` that was served from the provider's cache. */
  cachedInputTokens: Schema.Natural,
  /** Tokens received, reasoning included. */
  outputTokens: Schema.Natural,
  /** The part of `outputTokens` that was reasoning. */
  reasoningTokens: Schema.Natural,
  /** Model calls that were answered. */
  requests: Schema.Natural,
  /** Passes of the loop. */
  turns: Schema.Natural,
  /** The sum of the known costs, in US dollars. */
  costUsd: Schema.Finite,
  /** Requests whose cost is unknown; above 0, `costUsd` is a lower bound. */
  unpricedRequests: Schema.Natural
})
export type SessionUsage = typeof SessionUsage.Type

/** What one model call consumed. `costUsd` is left out when the price is not known. */
export const ModelUsage = Schema.Struct({
  inputTokens: Schema.Natural,
  cachedInputTokens: Schema.optionalKey(Schema.Natural),
  /** The part of `inputTokens` that the provider was asked to cache. */
  cacheWriteTokens: Schema.optionalKey(Schema.Natural),
  outputTokens: Schema.Natural,
  reasoningTokens: Schema.optionalKey(Schema.Natural),
  costUsd: Schema.optionalKey(Schema.Finite)
})
export type ModelUsage = typeof ModelUsage.Type

/** Nothing consumed yet. */
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

/** A sum of counts, which stays a number that can be stored: a budget that is used up so far stays used up. */
const addCount = (a: number, b: number): number => {
  const sum = a + b
  return sum <= Number.MAX_SAFE_INTEGER ? sum : Number.MAX_SAFE_INTEGER
}

/**
 * A sum in millionths of a millionth of a dollar, which does not depend on the order in which it is made, as one of fractions
 * does: 0.1 and 0.2 are 0.3, and use up a budget of 0.3.
 */
const addMoney = (a: number, b: number): number => {
  const sum = Math.round(a * 1e12) + Math.round(b * 1e12)
  return Number.isSafeInteger(sum) ? sum / 1e12 : Math.min(a + b, Number.MAX_VALUE)
}

/** Adds one model call, which is one request and one turn. */
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

/** Adds two totals; used when a sub-agent's usage is booked on its parent. */
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

/** Input and output tokens together. */
export const totalTokens = (usage: SessionUsage): number => usage.inputTokens + usage.outputTokens
