/**
 * Reads the finish reason and the usage of a `/chat/completions` response.
 *
 * Servers disagree on both. A finish reason may be missing, or be `stop` although there are calls. Some providers do not count reasoning
 * as output tokens.
 */
import { defined } from "../../../domain/internal/defined.ts"
import type { FinishReason } from "../../../domain/RunEvent.ts"
import type { ModelUsage } from "../../../domain/Usage.ts"
import { countOf, fieldsOf } from "../fields.ts"

/** Reads a usage; `undefined` for a value that is not one. */
export const usageIn = (value: unknown): ModelUsage | undefined => {
  const usage = fieldsOf(value)
  if (usage === undefined) return undefined
  const input = countOf(usage.prompt_tokens)
  const output = countOf(usage.completion_tokens)
  const total = countOf(usage.total_tokens)
  if (input === undefined && output === undefined && total === undefined) return undefined
  const inputDetails = fieldsOf(usage.prompt_tokens_details)
  // DeepSeek and Moonshot have their own fields.
  const cached =
    countOf(inputDetails?.cached_tokens) ??
    countOf(usage.prompt_cache_hit_tokens) ??
    countOf(usage.cached_tokens)
  return defined({
    inputTokens: input ?? Math.max(0, (total ?? 0) - (output ?? 0)),
    cachedInputTokens: cached,
    cacheWriteTokens: countOf(inputDetails?.cache_write_tokens),
    // xAI and Gemini do not count reasoning as output tokens; only the total includes it.
    outputTokens: Math.max(output ?? 0, input === undefined ? 0 : (total ?? 0) - input),
    reasoningTokens: countOf(fieldsOf(usage.completion_tokens_details)?.reasoning_tokens),
    costUsd: costIn(usage)
  })
}

/** Reads the cost in US dollars: OpenRouter reports a number, Perplexity an object, xAI ticks of 10^-10 dollars. */
export const costIn = ({ cost, cost_in_usd_ticks: ticks }: Readonly<Record<string, unknown>>) => {
  const usd = typeof ticks === "number" ? ticks / 1e10 : (fieldsOf(cost)?.total_cost ?? cost)
  return typeof usd === "number" && Number.isFinite(usd) && usd >= 0 ? usd : undefined
}

/**
 * Converts a finish reason: a missing one to `stop`, an unknown one to `other`. `undefined` if the provider stopped because of an error.
 */
export const finishOf = (reason: string | undefined): FinishReason | undefined => {
  if (reason === undefined) return "stop"
  const word = reason.toLowerCase()
  if (failures.has(word)) return undefined
  return finishes.get(word) ?? "other"
}

const finishes: ReadonlyMap<string, FinishReason> = new Map([
  ["stop", "stop"],
  ["tool_calls", "toolCalls"],
  ["function_call", "toolCalls"],
  ["tool_use", "toolCalls"],
  ["end", "stop"],
  ["eos", "stop"],
  ["eos_token", "stop"],
  ["end_turn", "stop"],
  ["stop_sequence", "stop"],
  ["length", "length"],
  ["max_tokens", "length"],
  ["max_output_tokens", "length"],
  ["model_context_window_exceeded", "length"],
  ["model_length", "length"],
  ["content_filter", "contentFilter"],
  ["refusal", "contentFilter"],
  ["safety", "contentFilter"],
  ["sensitive", "contentFilter"]
])

/** Finish reasons of failed responses: OpenRouter, Z.ai, DeepSeek, vLLM. */
const failures: ReadonlySet<string> = new Set([
  "error",
  "network_error",
  "insufficient_system_resource",
  "abort"
])
