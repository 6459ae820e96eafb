/**
 * What a model call costs, where that can be known.
 */
import type { ModelUsage } from "../../domain/Usage.ts"
import type { ModelProfile } from "../ModelProfile.ts"

const perToken = 1 / 1_000_000

/**
 * The usage with its cost: what the provider said, or else what the profile's prices make of it. Without prices it stays unknown,
 * and unknown is never nothing.
 */
export const priced = ({ prices }: Pick<ModelProfile, "prices">, usage: ModelUsage): ModelUsage => {
  if (usage.costUsd !== undefined || prices === undefined) return usage
  const { cacheWriteTokens = 0, cachedInputTokens = 0, inputTokens, outputTokens } = usage
  // No call is made of nothing: the provider did not say what it was.
  if (inputTokens === 0) return usage
  const rates = prices.tiers?.findLast(({ above }) => inputTokens > above) ?? prices
  const { cacheWrite = rates.input, cachedInput = rates.input, input, output } = rates
  const fresh = Math.max(0, inputTokens - cachedInputTokens - cacheWriteTokens)
  const costUsd =
    (fresh * input +
      cachedInputTokens * cachedInput +
      cacheWriteTokens * cacheWrite +
      outputTokens * output) *
    perToken
  return { ...usage, costUsd }
}
