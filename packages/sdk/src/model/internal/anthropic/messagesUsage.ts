/**
 * Reads the usage of a response of `/v1/messages`. The first and the last events of a response report counts; later ones are cumulative,
 * and any count may be in one event only. `input_tokens` does not include the input read from or written to the cache.
 *
 * The counts of a response with several passes are the sums of the model's own. Passes that compacted the context, and those of another
 * model (an advisor, a fallback), are billed, too.
 */
import type { ModelUsage } from "../../../domain/Usage.ts"
import type { Finish } from "../../ModelPart.ts"
import type { OtherModel, ReportedUsage } from "../cost.ts"
import { countOf, type Fields, fieldsOf, textOf } from "../fields.ts"

/** The counts reported so far. */
export interface MessagesUsage {
  readonly input?: number | undefined
  readonly output?: number | undefined
  readonly read?: number | undefined
  readonly written?: number | undefined
  readonly thinking?: number | undefined
  /** The provider's passes over the request, if it reports them. */
  readonly passes?: ReadonlyArray<Fields> | undefined
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
    passes: Array.isArray(iterations)
      ? iterations.map(fieldsOf).filter((pass) => pass !== undefined)
      : before.passes
  }
}

/** A pass of a model over the conversation, whose input is the size of the context. */
const isMessage = ({ type }: Fields): boolean => type === "message" || type === "fallback_message"

/** Converts the counts to a usage. The passes of a model other than this one are its `others`. */
export const usageOf = (counts: MessagesUsage, model: string): ReportedUsage => {
  const { passes = [], thinking } = counts
  const reasoned = thinking === undefined ? {} : { reasoningTokens: thinking }
  // The counts at the top include the passes of `message`, and no others.
  if (passes.every(({ type }) => type === "message")) return { ...usageFrom(counts), ...reasoned }
  const others = passes.flatMap((pass): ReadonlyArray<OtherModel> => {
    const other = textOf(pass.model)
    return other === undefined || other === model ? [] : [{ model: other, usage: usageOfPass(pass) }]
  })
  const sum = { input: 0, output: 0, read: 0, written: 0 }
  for (const pass of passes) {
    const { input, output, read, written } = countsOf(pass)
    sum.input += input
    sum.output += output
    sum.read += read
    sum.written += written
  }
  return { ...usageFrom(sum), ...reasoned, ...(others.length === 0 ? {} : { others }) }
}

/** The size of the context, if the usage covers several passes. */
export const lastInputOf = ({ passes = [] }: MessagesUsage): Pick<Finish, "lastInputTokens"> => {
  const last = passes.findLast(isMessage)
  return passes.length < 2 || last === undefined ? {} : { lastInputTokens: usageOfPass(last).inputTokens }
}

const countsOf = (pass: Fields) => ({
  input: countOf(pass.input_tokens) ?? 0,
  output: countOf(pass.output_tokens) ?? 0,
  read: countOf(pass.cache_read_input_tokens) ?? 0,
  written: countOf(pass.cache_creation_input_tokens) ?? 0
})

const usageOfPass = (pass: Fields): ModelUsage => usageFrom(countsOf(pass))

const usageFrom = ({ input = 0, output = 0, read = 0, written = 0 }: MessagesUsage): ModelUsage => ({
  inputTokens: input + read + written,
  cachedInputTokens: read,
  cacheWriteTokens: written,
  outputTokens: output
})
