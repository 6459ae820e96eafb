/**
 * Decodes a response of Anthropic's `/v1/messages`, streamed or complete.
 *
 * A response is a list of blocks, each sent with a beginning, deltas and an end. Calls are emitted only when the stop reason is known: a
 * response that is cut off or refused during a call ends that call, too, with incomplete arguments.
 *
 * Thinking is sent back with its signature. A block that is neither text, thinking nor a call (encrypted thinking, tools that ran at the
 * provider) becomes empty reasoning with the block as its payload, so that it is sent back at its place.
 */
import type * as Schema from "effect/Schema"
import { isDeeperThan, maxGivenDepth } from "../../../domain/internal/json.ts"
import type { FinishReason } from "../../../domain/RunEvent.ts"
import type { ModelError } from "../../ModelError.ts"
import type { ModelPart } from "../../ModelPart.ts"
import type { ModelProfile } from "../../ModelProfile.ts"
import { readTypedEvents, statedError } from "../decoding.ts"
import { argumentsValue, type Fields, fieldsOf, textOf, wholeArguments, writtenArguments } from "../fields.ts"
import { brokenCall, callCut, changed, streamCut, invalid, tooManyPieces } from "../modelError.ts"
import { type Ending, makePieces, type Piece, placeIn } from "../pieces.ts"
import { type AnswerDecoder, providerOf } from "../protocol.ts"
import { addUsage, lastInputOf, type MessagesUsage, usageOf } from "./messagesUsage.ts"

type Emit = (part: ModelPart) => void

/** The names of the protocol's events. `message` is the name of an event without one. */
const ours = /^(?:error|message.*|content_block_.*)$/

/** One block of the response, as received so far. */
interface Block extends Piece {
  readonly type: string
  /** The fields at the block's beginning, updated by deltas other than text. */
  fields: Fields
  /** The input of a tool, as received so far. */
  input: string
  readonly citations: Array<unknown>
  /** An unknown delta belongs to the block, so that it is incomplete. */
  unknown: boolean
  /** The end of the block was received. */
  stopped: boolean
  /** The server has begun the block again after its end: the deltas that follow are repetitions. */
  repeated: boolean
  readonly ordinal: number
}

/** A decoder that also reads a complete response. */
export interface MessagesDecoder extends AnswerDecoder {
  readonly whole: (message: Fields, emit: Emit) => undefined
}

/** Makes a decoder for one response. Its blocks are sent back only to the same provider. */
export const messagesDecoder = (profile: ModelProfile): MessagesDecoder => {
  const provider = providerOf(profile)
  const blocks = makePieces<Block>(provider)
  let calls = 0
  let latest = -1
  let usage: MessagesUsage | undefined
  let stopReason: string | undefined
  let container: string | undefined
  let stopped = false

  const open = (event: Fields, emit: Emit) => {
    const fields = fieldsOf(event.content_block)
    if (fields === undefined) return
    const position = placeIn(event.index)
    const there = position === undefined ? undefined : blocks.at(position)
    const type = textOf(fields.type) ?? ""
    if (there !== undefined && type === "tool_use" && isSameCall(there.fields, fields)) {
      there.repeated = there.stopped
      return
    }
    const index = position === undefined || there !== undefined ? latest + 1 : position
    latest = Math.max(latest, index)
    const block: Block = {
      index,
      type,
      kind: type === "text" ? "text" : type === "thinking" ? "reasoning" : "other",
      text: textOf(type === "text" ? fields.text : type === "thinking" ? fields.thinking : "") ?? "",
      emitted: 0,
      ending: undefined,
      fields,
      input: "",
      citations: [...listOf(fields.citations)],
      unknown: false,
      stopped: false,
      repeated: false,
      ordinal: type === "tool_use" ? calls++ : -1
    }
    blocks.add(block, emit)
  }

  const grow = (event: Fields, emit: Emit) => {
    const block = blocks.at(placeIn(event.index) ?? latest)
    const delta = fieldsOf(event.delta)
    if (block === undefined || block.repeated || delta === undefined) return
    switch (delta.type) {
      case "text_delta":
        if (block.type === "text" && typeof delta.text === "string") blocks.write(block, delta.text, emit)
        return
      case "thinking_delta":
        if (block.type === "thinking" && typeof delta.thinking === "string") {
          blocks.write(block, delta.thinking, emit)
        }
        return
      case "signature_delta":
        block.fields = { ...block.fields, signature: delta.signature }
        return
      case "citations_delta":
        block.citations.push(delta.citation)
        return
      case "compaction_delta":
        block.fields = {
          ...block.fields,
          content: (textOf(block.fields.content) ?? "") + (textOf(delta.content) ?? "")
        }
        return
      case "input_json_delta": {
        if (typeof delta.partial_json !== "string") return
        block.input += delta.partial_json
        const name = textOf(block.fields.name)
        if (block.ordinal >= 0 && name !== undefined) {
          emit({ _tag: "tool-call-delta", index: block.ordinal, name, delta: delta.partial_json })
        }
        return
      }
      default:
        block.unknown = true
    }
  }

  const ending = (fields: Fields | undefined, used: unknown) => {
    stopReason = textOf(fields?.stop_reason) ?? stopReason
    container = textOf(fieldsOf(fields?.container)?.id) ?? container
    usage = addUsage(usage, used)
  }

  const event = (type: string, data: Fields, emit: Emit): ModelError | undefined => {
    switch (type) {
      case "message_start":
        // Some servers send it twice. After the first block, it begins another response.
        if (latest >= 0) return invalid("A second answer began in the middle of the first.")
        usage = addUsage(usage, fieldsOf(data.message)?.usage)
        return
      case "content_block_start":
        open(data, emit)
        return
      case "content_block_delta":
        grow(data, emit)
        return
      case "content_block_stop": {
        const block = blocks.at(placeIn(data.index) ?? latest)
        if (block === undefined) return
        block.stopped = true
        if (block.type !== "tool_use") blocks.close(block, endingOf(block), emit)
        return
      }
      case "message_delta":
        ending(fieldsOf(data.delta), data.usage)
        return
      case "message_stop":
        stopped = true
        return
      case "error": {
        return changed(statedError(data, latest >= 0), { requestId: textOf(data.request_id) })
      }
    }
  }

  const isDone = () => stopped

  const end = (emit: Emit): ModelError | undefined => {
    if (!stopped) return streamCut()
    if (blocks.areTooMany()) return tooManyPieces()
    const all = blocks.all()
    const called = all.filter(({ type }) => type === "tool_use")
    const finish = finishOf(stopReason)
    if (finish === "length" && called.length > 0) return callCut(nameOf(called.at(-1)!))
    // The calls of a refused response do not run.
    const calls = finish === "contentFilter" ? [] : called
    for (const block of calls) {
      const ending = callOf(block, provider)
      if (ending === undefined) return brokenCall(nameOf(block))
      blocks.close(block, ending, emit)
    }
    for (const block of all) blocks.close(block, block.type === "tool_use" ? {} : endingOf(block), emit)
    emit({
      _tag: "finish",
      finishReason: calls.length > 0 ? "toolCalls" : finish,
      usage: usageOf(usage ?? {}, profile.model),
      ...lastInputOf(usage ?? {}),
      // A continued request needs the same container, in which the provider's tools keep their files.
      ...(stopReason === "pause_turn" && calls.length === 0
        ? { paused: container === undefined ? {} : { container } }
        : {})
    })
    return undefined
  }

  return {
    event: readTypedEvents({ names: ours, pieces: blocks, isDone, read: event }),
    end,
    isDone,
    usage: () => (usage === undefined ? undefined : usageOf(usage, profile.model)),
    whole: (message, emit) => {
      for (const block of listOf(message.content)) open({ content_block: block }, emit)
      ending(message, message.usage)
      stopped = true
      return undefined
    }
  }
}

const listOf = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

const isSameCall = (one: Fields, other: Fields): boolean =>
  one.type === other.type && one.name === other.name && textOf(one.id) !== undefined && one.id === other.id

const nameOf = (block: Block): string => textOf(block.fields.name) ?? "a tool"

/** The end of a block that is not a call. */
const endingOf = (block: Block): Ending => {
  const { citations, fields, input, type, unknown } = block
  switch (type) {
    case "text":
      // Citations of the provider's own searches must be sent back with the text.
      return citations.length === 0 ? {} : keep({ type, citations })
    case "thinking": {
      const { signature } = fields
      if (block.text === "" && textOf(signature) === undefined) return {}
      return keep({ type, ...(typeof signature === "string" ? { signature } : {}) })
    }
    case "":
      return {}
    default: {
      if (unknown) return {}
      if (input === "") return keep(fields)
      return wholeArguments(input) === undefined ? {} : keep({ ...fields, input: argumentsValue(input) })
    }
  }
}

const keep = (fields: Fields): Ending =>
  isDeeperThan(fields, maxGivenDepth) ? {} : { payload: fields as Schema.JsonObject }

/** A call with its payload; `undefined` if it has no name. */
const callOf = (block: Block, provider: string): Ending | undefined => {
  const { id, input, name, type: _, ...rest } = block.fields
  const text = writtenArguments(block.input === "" ? argumentsOf(input) : block.input)
  if (textOf(name) === undefined) return undefined
  const { payload } = Object.keys(rest).length === 0 ? {} : keep(rest)
  return {
    part: {
      _tag: "tool-call",
      providerCallId: textOf(id) ?? "",
      name: name as string,
      arguments: text,
      ...(payload === undefined ? {} : { provider, payload })
    }
  }
}

/** The input at the beginning of a block. In a stream it is empty. */
const argumentsOf = (input: unknown): string =>
  typeof input === "string"
    ? input
    : input === undefined || isDeeperThan(input, maxGivenDepth)
      ? ""
      : JSON.stringify(input)

const finishOf = (reason: string | undefined): FinishReason => {
  switch (reason) {
    case "end_turn":
    case "stop_sequence":
    case undefined:
      return "stop"
    case "max_tokens":
    case "model_context_window_exceeded":
      return "length"
    case "refusal":
      return "contentFilter"
    // `pause_turn`, `tool_use` without a call, and unknown reasons.
    default:
      return "other"
  }
}
