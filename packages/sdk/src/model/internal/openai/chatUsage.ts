/**
 * What a `/chat/completions` answer says about itself: why it ended, and what it used.
 *
 * Neither can be trusted as it stands. A finish reason may be missing, or say `stop` beside calls; some providers count
 * reasoning beside the output tokens instead of among them.
 */
import { defined } from "../../../domain/internal/defined.ts"
import type { FinishReason } from "../../../domain/RunEvent.ts"
import type { ModelUsage } from "../../../domain/Usage.ts"
import { countOf, fieldsOf } from "../fields.ts"

/** What an answer used; `undefined` for what is no usage at all. */
export const usageIn = (value: unknown): ModelUsage | undefined => {
  const usage = fieldsOf(value)
  if (usage === undefined) return undefined
  const input = countOf(usage.prompt_tokens)
  const output = countOf(usage.completion_tokens)
  const total = countOf(usage.total_tokens)
  if (input === undefined && output === undefined && total === undefined) return undefined
  const inputDetails = fieldsOf(usage.prompt_tokens_details)
  // DeepSeek has its own name for it, and so has Moonshot.
  const cached =
    countOf(inputDetails?.cached_tokens) ??
    countOf(usage.prompt_cache_hit_tokens) ??
    countOf(usage.cached_tokens)
  return defined({
    inputTokens: input ?? Math.max(0, (total ?? 0) - (output ?? 0)),
    cachedInputTokens: cached,
    cacheWriteTokens: countOf(inputDetails?.cache_write_tokens),
    // xAI and Gemini leave reasoning out of the output tokens; only the total has it.
    outputTokens: Math.max(output ?? 0, input === undefined ? 0 : (total ?? 0) - input),
    reasoningTokens: countOf(fieldsOf(usage.completion_tokens_details)?.reasoning_tokens),
    costUsd: costIn(usage)
  })
}

/** US dollars, where the provider says so: OpenRouter plainly, Perplexity in parts, xAI in ticks of which 10^10 are a dollar. */
export const costIn = ({ cost, cost_in_usd_ticks: ticks }: Readonly<Record<string, unknown>>) => {
  const usd = typeof ticks === "number" ? ticks / 1e10 : (fieldsOf(cost)?.total_cost ?? cost)
  return typeof usd === "number" && Number.isFinite(usd) && usd >= 0 ? usd : undefined
}

/** How an answer ended by the provider's word; `undefined` when the provider gave up in the middle. */
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

/** The ends that are none: OpenRouter, Z.ai, DeepSeek, vLLM. */
const failures: ReadonlySet<string> = new Set([
  "error",
  "network_error",
  "insufficient_system_resource",
  "abort"
])
