/**
 * Reads the usage of a response of `/v1/messages`. The first and the last events of a response report counts; later ones are cumulative,
 * and any count may be in one event only. `input_tokens` does not include the input read from or written to the cache.
 */
import type { ModelUsage } from "../../../domain/Usage.ts"
import { countOf, fieldsOf } from "../fields.ts"

/** The counts reported so far. */
export interface MessagesUsage {
  readonly input?: number | undefined
  readonly output?: number | undefined
  readonly read?: number | undefined
  readonly written?: number | undefined
  readonly thinking?: number | undefined
  /** If the provider compacted the context, the sum over all passes of the request. */
  readonly passes?: MessagesUsage | undefined
}

/** Updates the counts with those of another event. */
export const addUsage = (counts: MessagesUsage | undefined, value: unknown): MessagesUsage | undefined => {
  const usage = fieldsOf(value)
  if (usage === undefined) return counts
  const before = counts ?? {}
  const { iterations } = usage
  return {
    input: countOf(usage.input_tokens) ?? before.input,
    output: countOf(usage.output_tokens) ?? before.output,
    read: countOf(usage.cache_read_input_tokens) ?? before.read,
    written: countOf(usage.cache_creation_input_tokens) ?? before.written,
    thinking: countOf(fieldsOf(usage.output_tokens_details)?.thinking_tokens) ?? before.thinking,
    passes: (Array.isArray(iterations) ? passesOf(iterations) : undefined) ?? before.passes
  }
}

/** Sums all passes. Without a compaction `undefined`, since the top-level counts are then complete. */
const passesOf = (iterations: ReadonlyArray<unknown>): MessagesUsage | undefined => {
  let compacted = false
  const sum = { input: 0, output: 0, read: 0, written: 0 }
  for (const iteration of iterations) {
    const pass = fieldsOf(iteration)
    if (pass?.type !== "compaction" && pass?.type !== "message") continue
    compacted ||= pass.type === "compaction"
    sum.input += countOf(pass.input_tokens) ?? 0
    sum.output += countOf(pass.output_tokens) ?? 0
    sum.read += countOf(pass.cache_read_input_tokens) ?? 0
    sum.written += countOf(pass.cache_creation_input_tokens) ?? 0
  }
  return compacted ? sum : undefined
}

/** Converts the counts to a `ModelUsage`. */
export const usageOf = (counts: MessagesUsage): ModelUsage => {
  const { input = 0, output = 0, read = 0, written = 0 } = counts.passes ?? counts
  return {
    inputTokens: input + read + written,
    cachedInputTokens: read,
    cacheWriteTokens: written,
    outputTokens: output,
    ...(counts.thinking === undefined ? {} : { reasoningTokens: counts.thinking })
  }
}
