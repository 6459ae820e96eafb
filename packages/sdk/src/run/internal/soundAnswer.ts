/**
 * What a model client returned, in a form that can be stored: a client may be anybody's, and written without types.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { isDeeperThan, maxGivenDepth } from "../../domain/internal/json.ts"
import { AnsweredPart, FinishReason } from "../../domain/RunEvent.ts"
import type { ModelUsage } from "../../domain/Usage.ts"
import { ofClient } from "../../model/internal/modelError.ts"
import type { ModelError } from "../../model/ModelError.ts"
import type { Ending, ModelResponse } from "../../model/ModelPart.ts"

/** An answer that can be stored; or what keeps it from being one. What it has cost is known of either. */
type Answer = Sound | { readonly fault: ModelError; readonly usage: ModelUsage }

interface Sound extends Omit<Ending, "paused"> {
  readonly content: ReadonlyArray<AnsweredPart>
}

/** Checks an answer. Its usage is corrected; anything else that is wrong makes it none. */
export const soundAnswer = (response: ModelResponse | undefined): Answer => {
  let usage = noUsage
  try {
    usage = soundUsage(response?.usage)
    const answer = read(response, usage)
    return typeof answer === "string" ? { fault: ofClient(answer), usage } : answer
  } catch {
    return { fault: ofClient("something that cannot be read"), usage }
  }
}

/** The answer, or what it is instead of one. */
const read = (response: ModelResponse | undefined, usage: ModelUsage): Sound | string => {
  const { content, finishReason, lastInputTokens, profile }: Loose = response ?? {}
  if (!Array.isArray(content)) return "no list of parts"
  let parts: ReadonlyArray<AnsweredPart> = content
  for (let index = 0; index < content.length; index += 1) {
    const given: unknown = content[index]
    const part = soundPart(given)
    if (part === undefined) return "a part that is none"
    if (part !== given) parts = parts.with(index, part)
  }
  if (!isFinishReason(finishReason)) return "no reason why it ended"
  const answer: { -readonly [Key in keyof Sound]: Sound[Key] } = { content: parts, finishReason, usage }
  if (typeof profile === "string") answer.profile = profile
  else if (profile !== undefined) return "a profile that is no name"
  if (lastInputTokens !== undefined) answer.lastInputTokens = count(lastInputTokens)
  return answer
}

type Loose = { readonly [Key in keyof ModelResponse]?: unknown }

const isFinishReason = (reason: unknown): reason is FinishReason =>
  (FinishReason.literals as ReadonlyArray<unknown>).includes(reason)

/** A part as the journal holds it; most are that already. `undefined` where it is none. */
const soundPart = (part: unknown): AnsweredPart | undefined => {
  if (typeof part !== "object" || part === null) return undefined
  if (isPlain(part as AnsweredPart)) return part as AnsweredPart
  // What could not be read back from the journal is refused before it gets there.
  if (isDeeperThan(part, maxGivenDepth)) return undefined
  const fields = Object.fromEntries(Object.entries(part).filter(([, field]) => field !== undefined))
  return Result.getOrUndefined(decodePart(fields))
}

const decodePart = Schema.decodeUnknownResult(AnsweredPart)

/** Whether it is a text or a call, with nothing else in it: that is seen faster than by the schema. */
const isPlain = (part: AnsweredPart): boolean => {
  switch (part._tag) {
    case "text":
    case "reasoning":
      return typeof part.text === "string" && hasFields(part, 2)
    case "toolCall": {
      const { arguments: args, name, providerCallId } = part
      const areTexts =
        typeof args === "string" && typeof name === "string" && typeof providerCallId === "string"
      return areTexts && hasFields(part, 4)
    }
    default:
      return false
  }
}

const hasFields = (part: object, count: number): boolean => {
  let found = 0
  for (const _ in part) found += 1
  return found === count
}

/**
 * Usage as it can be stored. Providers report anything, or nothing: a count that is none is 0, a cost that is none is unknown, and what
 * is more than can be counted is the most that can.
 */
export const soundUsage = (given: ModelUsage | undefined): ModelUsage => {
  const usage: Partial<ModelUsage> = given ?? {}
  const { cacheWriteTokens, costUsd } = usage
  const sound: { -readonly [Key in keyof ModelUsage]: ModelUsage[Key] } = {
    inputTokens: count(usage.inputTokens),
    cachedInputTokens: count(usage.cachedInputTokens),
    outputTokens: count(usage.outputTokens),
    reasoningTokens: count(usage.reasoningTokens)
  }
  if (cacheWriteTokens !== undefined) sound.cacheWriteTokens = count(cacheWriteTokens)
  if (typeof costUsd === "number" && costUsd >= 0) sound.costUsd = Math.min(costUsd, Number.MAX_VALUE)
  return sound
}

const count = (value: unknown): number =>
  typeof value === "number" && value > 0 ? Math.min(Math.round(value), Number.MAX_SAFE_INTEGER) : 0

const noUsage: ModelUsage = soundUsage(undefined)
