/**
 * Decodes a response of `/chat/completions`, streamed or complete.
 *
 * Text and reasoning are emitted as they arrive, calls only at the end, when they are known to be complete. A stream is complete with
 * `[DONE]` or a finish reason; without either, the connection was cut off. A refusal is emitted as text, so that users can read it, and
 * the response then ends with `contentFilter`. Only the first choice is read.
 */
import type * as Result from "effect/Result"
import type { FinishReason } from "../../../domain/RunEvent.ts"
import type { ModelUsage } from "../../../domain/Usage.ts"
import { type ModelError, ProviderFault } from "../../ModelError.ts"
import type { ModelPart, ModelResponse } from "../../ModelPart.ts"
import type { ModelProfile } from "../../ModelProfile.ts"
import { isPresent, notAnswered, statedError, wholeAnswer } from "../decoding.ts"
import { countOf, type Fields, fieldsOf, parseJson, textOf, writtenArguments } from "../fields.ts"
import {
  callCut,
  streamCut,
  invalid,
  modelError,
  notAnAnswer,
  notJson,
  tooManyPieces
} from "../modelError.ts"
import { type AnswerDecoder, providerOf } from "../protocol.ts"
import { reasonOf } from "../providerErrors.ts"
import { extraOf, makeChatCalls } from "./chatCalls.ts"
import { makeReasoningDetails, payloadFor, type ReasoningField, reasoningIn } from "./chatReasoning.ts"
import { finishOf, usageIn } from "./chatUsage.ts"

type Emit = (part: ModelPart) => void

/** Makes a decoder for one streamed response. */
export const decoder = (profile: ModelProfile): AnswerDecoder => {
  const reader = makeReader(providerOf(profile))
  let done = false
  let unread = false
  return {
    event: (name, data, emit) => {
      if (done) return undefined
      const text = data.trim()
      if (text === "") return undefined
      if (text === "[DONE]") {
        done = true
        return unread ? notJson() : undefined
      }
      // An event after an unreadable one: a piece of the response is missing.
      if (unread) return notJson()
      const body = parseJson(text)
      if (name === "error") return statedError(body ?? readableText(text), reader.hasBegun())
      if (body === undefined) {
        // An unreadable event is an error only if another one follows: the last event may have been cut off.
        unread = name === "message" || text.startsWith("{")
        return undefined
      }
      return reader.read(body, false, emit)
    },
    end: (emit) => {
      if (!done && !reader.isFinished()) return streamCut()
      return reader.end(emit)
    },
    isDone: () => done,
    usage: reader.usage
  }
}

/** Decodes a complete response. */
export const decode = (body: unknown, profile: ModelProfile): Result.Result<ModelResponse, ModelError> => {
  const reader = makeReader(providerOf(profile))
  return wholeAnswer(reader, (emit) => reader.read(body, true, emit), notACompletion)
}

const makeReader = (provider: string) => {
  const calls = makeChatCalls()
  const details = makeReasoningDetails()
  let choiceIndex: number | undefined
  let deltas = false
  let finish: string | undefined
  let usage: ModelUsage | undefined
  let hasText = false
  let refused = false
  /** The open reasoning, if any, and the field in which it arrives. */
  let reasoning: { field: ReasoningField | undefined } | undefined
  let extra: ReturnType<typeof extraOf>

  const endReasoning = (emit: Emit) => {
    const payload = payloadFor(reasoning?.field, details.take(), extra)
    extra = undefined
    if (reasoning === undefined && payload === undefined) return
    reasoning = undefined
    emit({ _tag: "reasoning-end", ...(payload === undefined ? {} : { provider, payload }) })
  }
  const addReasoning = (text: string, field: ReasoningField | undefined, emit: Emit) => {
    if (reasoning !== undefined && reasoning.field !== field) endReasoning(emit)
    reasoning = { field }
    emit({ _tag: "reasoning-delta", delta: text })
  }
  const addText = (text: string, emit: Emit) => {
    if (reasoning !== undefined) endReasoning(emit)
    hasText = true
    emit({ _tag: "text-delta", delta: text })
  }
  const addContent = (content: unknown, emit: Emit): void => {
    if (typeof content === "string") {
      if (content !== "") addText(content, emit)
      return
    }
    if (!Array.isArray(content)) return
    for (const item of content) {
      const part = fieldsOf(item)
      if (part?.type === "thinking") {
        const text = textsIn(part.thinking)
        if (text !== "") addReasoning(text, "thinking", emit)
      } else {
        addContent(textOf(part?.text) ?? "", emit)
        addRefusal(part?.refusal, emit)
      }
    }
  }
  const addRefusal = (refusal: unknown, emit: Emit) => {
    if (typeof refusal !== "string" || refusal === "") return
    refused = true
    addText(refusal, emit)
  }
  const withoutCalls = (finished: FinishReason): FinishReason => {
    if (refused && finished === "stop") return "contentFilter"
    if (finished !== "toolCalls") return finished
    return hasText ? "stop" : "other"
  }
  const addMessage = (message: Fields, whole: boolean, emit: Emit) => {
    const thought = reasoningIn(message)
    if (thought !== undefined) addReasoning(thought.text, thought.field, emit)
    details.add(message.reasoning_details)
    extra = extraOf(message.extra_content) ?? extra
    addContent(message.content, emit)
    addRefusal(message.refusal, emit)
    if (Array.isArray(message.tool_calls)) {
      for (const entry of message.tool_calls) calls.add(entry, whole, emit)
    }
    // OpenAI's older form, for a single call.
    if (fieldsOf(message.function_call) !== undefined) {
      calls.add({ index: -1, function: message.function_call }, whole, emit)
    }
  }

  return {
    /** Reads a chunk of a stream, or a complete response. */
    read: (body: unknown, whole: boolean, emit: Emit): ModelError | undefined => {
      const chunk = fieldsOf(body)
      if (chunk === undefined) {
        const isError = Array.isArray(body) && isPresent(fieldsOf(body[0])?.error)
        return isError ? statedError(body, choiceIndex !== undefined) : undefined
      }
      usage = usageIn(chunk.usage) ?? usageIn(fieldsOf(chunk.x_groq)?.usage) ?? usage
      if (isPresent(chunk.error) || chunk.type === "error" || chunk.object === "error") {
        return statedError(body, choiceIndex !== undefined)
      }
      if (!Array.isArray(chunk.choices)) {
        if (whole) return notAnswered(body, notACompletion)
        return isPresent(chunk.detail) ? statedError(body, choiceIndex !== undefined) : undefined
      }
      for (const item of chunk.choices) {
        const choice = fieldsOf(item)
        if (choice === undefined) continue
        if (isPresent(choice.error)) return modelError(reasonOf(choice))
        const index = countOf(choice.index) ?? 0
        choiceIndex ??= index
        if (index !== choiceIndex) continue
        usage = usageIn(choice.usage) ?? usage
        const delta = fieldsOf(choice.delta)
        deltas ||= delta !== undefined
        // Perplexity sends the whole message so far beside each delta.
        const message = whole
          ? (fieldsOf(choice.message) ?? delta)
          : (delta ?? (deltas ? undefined : fieldsOf(choice.message)))
        if (message !== undefined) addMessage(message, whole, emit)
        const reason = textOf(choice.finish_reason)
        if (reason === undefined) continue
        finish = reason
        calls.finish()
      }
      return calls.areTooMany() ? tooManyPieces() : undefined
    },
    isFinished: () => finish !== undefined,
    hasBegun: () => choiceIndex !== undefined,
    usage: () => usage,
    end: (emit: Emit): ModelError | undefined => {
      if (choiceIndex === undefined) return notACompletion()
      const finished = finishOf(finish)
      if (finished === undefined) {
        return modelError(
          new ProviderFault({ description: `The provider stopped in the middle of the answer (${finish}).` })
        )
      }
      endReasoning(emit)
      const whole: Array<ModelPart> = []
      // The calls of a filtered response do not run.
      for (const call of finished === "contentFilter" ? [] : calls.calls) {
        if (finished === "length") return callCut(call.name === "" ? "a tool" : call.name)
        if (call.name === "") return invalid("The answer contains a tool call without a name.")
        whole.push({
          _tag: "tool-call",
          providerCallId: call.id,
          name: call.name,
          arguments: writtenArguments(call.arguments),
          ...(call.extra === undefined ? {} : { provider, payload: { extra_content: call.extra } })
        })
      }
      for (const part of whole) emit(part)
      emit({
        _tag: "finish",
        finishReason: whole.length > 0 ? "toolCalls" : withoutCalls(finished),
        usage: usage ?? { inputTokens: 0, outputTokens: 0 }
      })
      return undefined
    }
  }
}

/** The texts of Mistral's thinking, which is a list of parts. */
const textsIn = (value: unknown): string =>
  typeof value === "string"
    ? value
    : Array.isArray(value)
      ? value.map((part: unknown) => textOf(fieldsOf(part)?.text) ?? "").join("")
      : ""

/** Omits JSON that was cut off: it is not a readable message. */
const readableText = (text: string): string => (text.startsWith("{") || text.startsWith("[") ? "" : text)

const notACompletion = (): ModelError => notAnAnswer("a chat completion")
