/**
 * Encodes the setting `reasoningEffort` for `/v1/messages`.
 *
 * From Claude 4.6 on, a model decides itself how much it thinks, and receives an effort. Older models, and those of other providers,
 * receive a number of tokens, which is a share of the output limit. Thinking is omitted if the provider would refuse the request with it:
 * if a tool must be called, and for older models also if the limit leaves no space for it, or if the current turn began without it.
 *
 * See https://platform.claude.com/docs/en/build-with-claude/extended-thinking and `adaptive-thinking` beside it.
 */
import type * as Schema from "effect/Schema"
import type { ModelSettings } from "../../ModelRequest.ts"
import { claudeVersionOf } from "../sampling.ts"

type Effort = NonNullable<ModelSettings["reasoningEffort"]>

/** The fields of a request about thinking. */
export interface Thinking {
  readonly thinking: Schema.JsonObject | undefined
  readonly effort: string | undefined
}

/** No fields about thinking. */
export const noThinking: Thinking = { thinking: undefined, effort: undefined }

/** Returns the fields of a request about thinking. */
export const thinkingOf = (
  model: string,
  { reasoningEffort: asked, toolChoice }: ModelSettings,
  maxTokens: number,
  history: ReadonlyArray<Schema.JsonObject>
): Thinking => {
  if (asked === undefined) return noThinking
  const forced = toolChoice === "required" || typeof toolChoice === "object"
  const version = claudeVersionOf(model)
  if (version >= 4.6) {
    if (asked === "none" && alwaysThinks.test(model)) return { thinking: undefined, effort: "low" }
    if (asked === "none") return { thinking: { type: "disabled" }, effort: undefined }
    return { thinking: forced ? undefined : { type: "adaptive" }, effort: effortOf(asked, version) }
  }
  const budget = Math.max(1024, Math.min(128_000, Math.floor(maxTokens * shares[asked])))
  if (asked === "none" || forced || budget >= maxTokens || isBegunWithout(history)) return noThinking
  return { thinking: { type: "enabled", budget_tokens: budget }, effort: undefined }
}

/** Models for which the provider refuses to disable thinking. They get the lowest effort instead. */
const alwaysThinks = /claude-(?:(?:opus|sonnet)-5[-.]5|fable-5)/

const effortOf = (asked: Effort, version: number): string =>
  asked === "minimal" ? "low" : asked === "xhigh" && version < 4.7 ? "high" : asked

/** Shares of the output limit. */
const shares: Readonly<Record<Effort, number>> = {
  none: 0,
  minimal: 0.1,
  low: 0.2,
  medium: 0.5,
  high: 0.8,
  xhigh: 0.9,
  max: 0.95
}

/** Returns `true` if the request continues a turn whose latest assistant message does not begin with thinking. */
const isBegunWithout = (history: ReadonlyArray<Schema.JsonObject>): boolean => {
  const last = history.at(-1)
  const goesOn =
    last?.role === "assistant" ||
    (last?.content as ReadonlyArray<Schema.JsonObject> | undefined)?.[0]?.type === "tool_result"
  if (!goesOn) return false
  const answer = history.findLast(({ role }) => role === "assistant")
  const first = (answer?.content as ReadonlyArray<Schema.JsonObject> | undefined)?.[0]
  return first?.type !== "thinking" && first?.type !== "redacted_thinking"
}
