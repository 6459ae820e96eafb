/**
 * What a model call used and costs, where that can be known: also what was used in vain, by attempts that failed.
 */
import type { ModelUsage } from "../../domain/Usage.ts"
import type { ModelError } from "../ModelError.ts"
import type { Ending } from "../ModelPart.ts"
import type { ModelProfile } from "../ModelProfile.ts"
import { changed } from "./modelError.ts"

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

const counts = [
  "inputTokens",
  "cachedInputTokens",
  "cacheWriteTokens",
  "outputTokens",
  "reasoningTokens"
] as const

/** No request uses as many tokens; and the sum of many is still a number that can be counted with. */
const most = 1e12

/** The usage that a provider reports, which may be anything: an invalid count becomes 0, an invalid cost unknown. */
export const validUsage = (usage: ModelUsage): ModelUsage => {
  const out: { -readonly [Name in keyof ModelUsage]: ModelUsage[Name] } = { inputTokens: 0, outputTokens: 0 }
  for (const name of counts) {
    const value = usage[name]
    if (value !== undefined) out[name] = value > 0 && value < most ? Math.round(value) : 0
  }
  const { costUsd } = usage
  if (typeof costUsd === "number" && costUsd >= 0 && costUsd < Infinity) out.costUsd = costUsd
  return out
}

/** What two requests used together. The cost is known where both are, a count where one is. */
const sumOf = (one: ModelUsage, other: ModelUsage): ModelUsage => {
  const sum = validUsage(one) as { -readonly [Name in keyof ModelUsage]: ModelUsage[Name] }
  for (const name of counts) {
    const more = other[name]
    if (more !== undefined) sum[name] = (sum[name] ?? 0) + more
  }
  delete sum.costUsd
  if (one.costUsd !== undefined && other.costUsd !== undefined) sum.costUsd = one.costUsd + other.costUsd
  return sum
}

/** What requests used before this one, of which the caller gets one answer or one error. */
export type Spent = ModelUsage | undefined

/** The sum of two usages. */
export const addSpent = (before: Spent, more: Spent): Spent =>
  before === undefined ? more : more === undefined ? before : sumOf(before, more)

/** The end of an answer, or the whole of it, with what was used before it. */
export const withSpent = <A extends Ending>(before: Spent, answer: A): A =>
  before === undefined
    ? answer
    : {
        ...answer,
        usage: sumOf(before, answer.usage),
        lastInputTokens: answer.lastInputTokens ?? answer.usage.inputTokens
      }

/** The error with what was used before it. */
export const failedAfterSpending = (before: Spent, error: ModelError): ModelError => {
  const usage = addSpent(before, error.usage)
  return usage === error.usage || usage === undefined ? error : changed(error, { usage })
}
