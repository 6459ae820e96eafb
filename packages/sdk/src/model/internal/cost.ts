/**
 * The usage and cost of a model call, including the usage of its failed attempts.
 */
import type { ModelUsage } from "../../domain/Usage.ts"
import type { ModelError } from "../ModelError.ts"
import type { Ending } from "../ModelPart.ts"
import type { ModelProfile, Rates } from "../ModelProfile.ts"
import { changed } from "./modelError.ts"

const perToken = 1 / 1_000_000

/** The part of a usage that another model of the provider used, such as an advisor. */
export interface OtherModel {
  readonly model: string
  readonly usage: ModelUsage
}

/** A usage as a provider reports it. */
export interface ReportedUsage extends ModelUsage {
  readonly others?: ReadonlyArray<OtherModel>
}

/**
 * Adds the cost to a usage: the provider's own, otherwise computed from the profile's prices. Without either, the cost stays
 * `undefined`, never 0. So it does if no input tokens are reported, or if a part is of another model without a price.
 */
export const priced = (
  { prices }: Pick<ModelProfile, "prices">,
  usage: ModelUsage,
  others: ReadonlyArray<OtherModel> = []
): ModelUsage => {
  // Every call has input, so 0 means that the provider did not report it.
  if (usage.costUsd !== undefined || prices === undefined || usage.inputTokens === 0) return usage
  let own = usage
  let costUsd = 0
  for (const { model, usage: part } of others) {
    const rates = prices.models?.[model]
    if (rates === undefined) return usage
    costUsd += costOf(rates, part)
    own = without(own, part)
  }
  costUsd += costOf(prices.tiers?.findLast(({ above }) => own.inputTokens > above) ?? prices, own)
  return { ...usage, costUsd }
}

const costOf = (
  { input, output, cacheWrite = input, cachedInput = input }: Rates,
  { cacheWriteTokens = 0, cachedInputTokens = 0, inputTokens, outputTokens }: ModelUsage
): number => {
  const fresh = Math.max(0, inputTokens - cachedInputTokens - cacheWriteTokens)
  const cached = cachedInputTokens * cachedInput + cacheWriteTokens * cacheWrite
  return (fresh * input + cached + outputTokens * output) * perToken
}

const without = (usage: ModelUsage, part: ModelUsage): ModelUsage => ({
  inputTokens: usage.inputTokens - part.inputTokens,
  cachedInputTokens: (usage.cachedInputTokens ?? 0) - (part.cachedInputTokens ?? 0),
  cacheWriteTokens: (usage.cacheWriteTokens ?? 0) - (part.cacheWriteTokens ?? 0),
  outputTokens: usage.outputTokens - part.outputTokens
})

const counts = [
  "inputTokens",
  "cachedInputTokens",
  "cacheWriteTokens",
  "outputTokens",
  "reasoningTokens"
] as const

/** Above the tokens of any request, and low enough that sums of many requests stay safe integers. */
const most = 1e12

/** Validates the usage that a provider reported: an invalid count becomes 0, an invalid cost is omitted. */
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

/** Sums two usages. The cost is known if both costs are, a count if one of them is. */
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

/** The usage of earlier requests for the same response or error. */
export type Spent = ModelUsage | undefined

/** Sums two usages that may be unknown. */
export const addSpent = (before: Spent, more: Spent): Spent =>
  before === undefined ? more : more === undefined ? before : sumOf(before, more)

/** Adds the earlier usage to a response, or to the `finish` of one. */
export const withSpent = <A extends Ending>(before: Spent, answer: A): A =>
  before === undefined
    ? answer
    : {
        ...answer,
        usage: sumOf(before, answer.usage),
        lastInputTokens: answer.lastInputTokens ?? answer.usage.inputTokens
      }

/** Adds the earlier usage to an error. */
export const failedAfterSpending = (before: Spent, error: ModelError): ModelError => {
  const usage = addSpent(before, error.usage)
  return usage === error.usage || usage === undefined ? error : changed(error, { usage })
}
