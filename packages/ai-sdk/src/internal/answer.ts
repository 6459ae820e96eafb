/** Reads the answers of an AI SDK model, streamed or whole, into a `ModelBridge.Answer`. */
import type {
  LanguageModelV2FinishReason,
  LanguageModelV2Usage,
  LanguageModelV4Content,
  LanguageModelV4File,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  LanguageModelV4ToolCall,
  LanguageModelV4Usage
} from "@ai-sdk/provider"
import type { RunEvent, Usage } from "@fermata/sdk/domain"
import type { ModelBridge, ModelError } from "@fermata/sdk/model"
import * as Base64 from "effect/encoding/Base64"
import type * as Schema from "effect/Schema"

/** A part of a stream, with errors as `ModelError`s. */
export type Part =
  | Exclude<LanguageModelV4StreamPart, { type: "error" }>
  | { readonly type: "failed"; readonly error: ModelError.ModelError }

/** Adds a part of a stream to the answer. */
export const addPart =
  (answer: ModelBridge.Answer) =>
  (part: Part): ModelError.ModelError | undefined => {
    switch (part.type) {
      case "failed":
        return part.error
      case "text-start":
      case "reasoning-start":
        answer.start(kindOf(part.type), part.id, payloadOf(part))
        break
      case "text-delta":
      case "reasoning-delta":
        answer.delta(kindOf(part.type), part.id, part.delta, payloadOf(part))
        break
      case "text-end":
      case "reasoning-end":
        answer.end(kindOf(part.type), part.id, payloadOf(part))
        break
      case "tool-input-start":
        if (part.providerExecuted !== true) answer.callStart(part.id, part.toolName)
        break
      case "tool-input-delta":
        answer.callDelta(part.id, part.delta)
        break
      case "tool-call":
        addCall(answer, part)
        break
      case "file":
        addFile(answer, part)
        break
      case "finish":
        finish(answer, part)
    }
    return undefined
  }

/** A part of a whole answer, or its end. */
type Content = LanguageModelV4Content | ({ readonly type: "finish" } & LanguageModelV4GenerateResult)

/** Adds a part of a whole answer to the answer. */
export const addContent =
  (answer: ModelBridge.Answer) =>
  (part: Content): undefined => {
    switch (part.type) {
      case "text":
      case "reasoning":
        answer.delta(part.type, "whole", part.text, payloadOf(part))
        answer.end(part.type, "whole")
        break
      case "tool-call":
        addCall(answer, part)
        break
      case "file":
        addFile(answer, part)
        break
      case "finish":
        finish(answer, part)
    }
  }

const kindOf = (type: string) => (type.startsWith("text") ? "text" : "reasoning")

const addCall = (answer: ModelBridge.Answer, part: LanguageModelV4ToolCall) => {
  if (part.providerExecuted === true) return
  const payload = payloadOf(part)
  // The specification requires text; some models of specification 2 give a value.
  const written = typeof part.input === "string" ? part.input : (JSON.stringify(part.input) ?? "")
  answer.call({
    providerCallId: part.toolCallId,
    name: part.toolName,
    arguments: written,
    ...(payload === undefined ? {} : { payload })
  })
}

/** Adds a file. Since specification 4 its data is tagged with its type. */
const addFile = (answer: ModelBridge.Answer, { data, mediaType }: LanguageModelV4File) => {
  const bare: unknown =
    typeof data === "object" && "type" in data ? (data.type === "url" ? data.url : data.data) : data
  if (bare instanceof URL) {
    answer.file({ _tag: "file", mediaType, source: { _tag: "url", url: bare.href } })
  } else if (typeof bare === "string" || bare instanceof Uint8Array) {
    const base64 = typeof bare === "string" ? bare : Base64.encode(bare)
    answer.file({ _tag: "file", mediaType, source: { _tag: "bytes", base64 } })
  }
}

/** Metadata as JSON, as it is stored. */
const payloadOf = ({
  providerMetadata
}: {
  readonly providerMetadata?: object
}): Schema.JsonObject | undefined =>
  providerMetadata === undefined ? undefined : JSON.parse(JSON.stringify(providerMetadata))

const finishReasons: Readonly<Record<string, RunEvent.FinishReason | "error">> = {
  stop: "stop",
  length: "length",
  "content-filter": "contentFilter",
  "tool-calls": "toolCalls",
  error: "error"
}

const finishReasonOf = (
  reason: LanguageModelV4GenerateResult["finishReason"] | LanguageModelV2FinishReason
): RunEvent.FinishReason | "error" =>
  finishReasons[typeof reason === "string" ? reason : reason.unified] ?? "other"

/** Records the end of an answer: its usage, and that of the passes that Anthropic reports and the AI SDK does not. */
const finish = (
  answer: ModelBridge.Answer,
  part: Pick<LanguageModelV4GenerateResult, "finishReason"> & { readonly usage: LanguageModelV4Usage }
) => {
  const usage = usageOf(part.usage)
  const { iterations } = (part.usage.raw ?? {}) as { readonly iterations?: unknown }
  const passes: ReadonlyArray<Pass> = Array.isArray(iterations) ? iterations : []
  const others = passes.flatMap((pass) =>
    pass.type === "advisor_message" && typeof pass.model === "string"
      ? [{ model: pass.model, usage: usageOfPass(pass) }]
      : []
  )
  const last = passes.findLast(({ type }) => type === "message" || type === "fallback_message")
  answer.finish(finishReasonOf(part.finishReason), others.map(({ usage }) => usage).reduce(added, usage), {
    ...(passes.length < 2 || last === undefined ? {} : { lastInputTokens: usageOfPass(last).inputTokens }),
    others
  })
}

/** An entry of `usage.iterations`, as Anthropic sends it. */
type Pass = Readonly<Record<string, unknown>>

const usageOfPass = (pass: Pass): Usage.ModelUsage => {
  const cachedInputTokens = numberIn(pass.cache_read_input_tokens) ?? 0
  const cacheWriteTokens = numberIn(pass.cache_creation_input_tokens) ?? 0
  return {
    inputTokens: (numberIn(pass.input_tokens) ?? 0) + cachedInputTokens + cacheWriteTokens,
    cachedInputTokens,
    cacheWriteTokens,
    outputTokens: numberIn(pass.output_tokens) ?? 0
  }
}

const added = (one: Usage.ModelUsage, other: Usage.ModelUsage): Usage.ModelUsage => ({
  ...one,
  inputTokens: one.inputTokens + other.inputTokens,
  cachedInputTokens: sum(one.cachedInputTokens, other.cachedInputTokens),
  cacheWriteTokens: sum(one.cacheWriteTokens, other.cacheWriteTokens),
  outputTokens: one.outputTokens + other.outputTokens
})

const usageOf = (usage: LanguageModelV4Usage | LanguageModelV2Usage): Usage.ModelUsage => {
  if (typeof usage.inputTokens !== "object" || typeof usage.outputTokens !== "object") {
    const { cachedInputTokens, inputTokens, outputTokens, reasoningTokens } = usage as LanguageModelV2Usage
    return counts(inputTokens, outputTokens, cachedInputTokens, undefined, reasoningTokens)
  }
  const { inputTokens, outputTokens, raw } = usage as LanguageModelV4Usage
  const { cacheRead, cacheWrite, noCache } = inputTokens
  const input = inputTokens.total ?? sum(noCache, cacheRead, cacheWrite)
  const output = outputTokens.total ?? sum(outputTokens.text, outputTokens.reasoning)
  const costUsd = costIn(raw)
  return {
    // Some providers count reasoning in the total only.
    ...counts(
      input,
      Math.max(output, (numberIn(raw?.total_tokens) ?? 0) - input),
      cacheRead,
      cacheWrite,
      outputTokens.reasoning
    ),
    ...(costUsd === undefined ? {} : { costUsd })
  }
}

/** OpenRouter reports dollars, xAI ticks of 10^-10 dollars. */
const costIn = (raw: LanguageModelV4Usage["raw"]): number | undefined => {
  const ticks = numberIn(raw?.cost_in_usd_ticks)
  return ticks === undefined ? numberIn(raw?.cost) : ticks / 1e10
}

const numberIn = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined

const sum = (...numbers: ReadonlyArray<number | undefined>) =>
  numbers.reduce<number>((total, number) => total + (number ?? 0), 0)

const counts = (
  inputTokens: number | undefined,
  outputTokens: number | undefined,
  cachedInputTokens: number | undefined,
  cacheWriteTokens: number | undefined,
  reasoningTokens: number | undefined
): Usage.ModelUsage => ({
  inputTokens: inputTokens ?? 0,
  outputTokens: outputTokens ?? 0,
  ...(cachedInputTokens === undefined ? {} : { cachedInputTokens }),
  ...(cacheWriteTokens === undefined ? {} : { cacheWriteTokens }),
  ...(reasoningTokens === undefined ? {} : { reasoningTokens })
})
