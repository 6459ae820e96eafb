/**
 * A model client that plays prepared responses, for tests and examples.
 *
 * Each model call takes the next response of the script: text, tool calls, an error, a delay, or a function of the request. The client
 * records the requests, and checks each history as a provider would: every tool call must have exactly one result, directly after the
 * response that made the call.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { Message } from "../domain/Message.ts"
import type { AnsweredPart, FinishReason } from "../domain/RunEvent.ts"
import type { ModelUsage } from "../domain/Usage.ts"
import { ModelClient } from "../model/ModelClient.ts"
import { ContextOverflow, InvalidRequest, ModelError, type Reason } from "../model/ModelError.ts"
import type { ModelPart, ModelResponse } from "../model/ModelPart.ts"
import { partsOf } from "../model/ModelPart.ts"
import type { ModelRequest } from "../model/ModelRequest.ts"
import { countMessages, countText, countTools, type Tokenizer } from "../model/Tokenizer.ts"

/** A tool call in a scripted response. */
export interface ScriptedCall {
  readonly tool: string
  /** The arguments as a value. Default: `{}`. */
  readonly arguments?: Schema.Json
  /** The arguments as raw text, instead of `arguments`. */
  readonly argumentsText?: string
  /** The provider's id. Default: `call_0`, `call_1`, … in each response, so ids repeat, as with some providers. */
  readonly id?: string
}

/** A response of the script. */
export interface ScriptedAnswer {
  readonly text?: string
  readonly reasoning?: string
  readonly calls?: ReadonlyArray<ScriptedCall>
  /** Further parts, after the text and before the calls. */
  readonly content?: ReadonlyArray<AnsweredPart>
  /**
   * The usage. Default of each field: 10 input tokens, 5 output tokens, a cost of 0. With an `error`, the usage in the error; default:
   * none.
   */
  readonly usage?: Partial<ModelUsage>
  /** Default: `toolCalls` for a response with calls, otherwise `stop`. */
  readonly finishReason?: FinishReason
  /** Number of characters in each streamed piece of the text. Default: all in one piece. */
  readonly chunkSize?: number
  /** Time before the first part, the complete response or the `error`. */
  readonly delay?: Duration.Input
  /** Fails with this reason: in a stream after `failAfter` parts, in a complete call at once. */
  readonly error?: Reason
  /** Number of parts before the `error`. Default: 0. */
  readonly failAfter?: number
  /** Makes the `error` fail only the stream. The following complete call takes the same response and succeeds. */
  readonly errorOnlyStreaming?: boolean
  /** Ends the stream without its last part, `finish`. */
  readonly cut?: boolean
  /** Never responds. */
  readonly hang?: boolean
  /** Streams this many parts and never ends. A complete call never responds. */
  readonly hangAfter?: number
}

/** One entry of a script: a text, a response, or a function that makes either from the request. */
export type Script = string | ScriptedAnswer | ((request: ModelRequest) => string | ScriptedAnswer)

/**
 * A scripted model with its recorded requests.
 *
 * @category models
 * @since 0.1.0
 */
export interface ScriptedModel {
  readonly client: ModelClient["Service"]
  /** The requests so far, oldest first. */
  readonly requests: ReadonlyArray<ModelRequest>
  /** The number of responses of a list that were not taken yet; 0 if the script is a function. */
  readonly remaining: () => number
  /** Provides the model as the `ModelClient`. */
  readonly layer: Layer.Layer<ModelClient>
}

/** The options of a scripted model. */
export interface ScriptedModelOptions {
  /**
   * Counts the tokens of requests and responses, which then are the default of `usage`, as a provider reports them. Default: every response
   * reports 10 input and 5 output tokens.
   */
  readonly tokenizer?: Tokenizer
  /**
   * The size of the context, response included, that the client reports for every profile. With a `tokenizer`, a request that is larger fails
   * with the reason `ContextOverflow`, and takes no response. Default: unknown.
   */
  readonly contextTokens?: number
  /** The most output tokens, which the client reports for every profile. Default: unknown. */
  readonly maxOutputTokens?: number
}

/**
 * Makes a scripted model from a list of responses or from a function.
 *
 * **Details**
 *
 * A list is played in order. A request after the last response fails with the reason `InvalidRequest`; so does a request with an invalid
 * history, which takes no response. A function is called for each request: use it for programs with several concurrent runs.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (
  script: ReadonlyArray<Script> | ((request: ModelRequest) => string | ScriptedAnswer),
  options: ScriptedModelOptions = {}
): ScriptedModel => {
  const answers = typeof script === "function" ? undefined : script
  const requests: Array<ModelRequest> = []
  let at = 0
  const take = (request: ModelRequest): Effect.Effect<ScriptedAnswer, ModelError> =>
    Effect.suspend(() => {
      requests.push(request)
      const problem = validateRequest(request.messages)
      if (problem !== undefined) return refuse(`The history is not valid: ${problem}`)
      const { contextTokens = Infinity, tokenizer } = options
      const inputTokens = tokenizer === undefined ? 0 : countWhole(tokenizer, request)
      if (inputTokens > contextTokens) {
        const description = `The request has ${inputTokens} tokens, and the context ${contextTokens}.`
        return Effect.fail(new ModelError({ reason: new ContextOverflow({ description }) }))
      }
      const entry = typeof script === "function" ? script : script[at++]
      if (entry === undefined) {
        return refuse(`The script has ${script.length} responses, and the model was called once more.`)
      }
      const given = typeof entry === "function" ? entry(request) : entry
      const answer = typeof given === "string" ? { text: given } : given
      if (tokenizer === undefined || answer.error !== undefined) return Effect.succeed(answer)
      const outputTokens = countText(
        tokenizer,
        `${answer.reasoning ?? ""}${answer.text ?? ""}${JSON.stringify(answer.calls ?? "")}`
      )
      return Effect.succeed({ ...answer, usage: { inputTokens, outputTokens, ...answer.usage } })
    })
  const waited = (answer: ScriptedAnswer): Effect.Effect<ScriptedAnswer> => {
    if (answer.hang === true) return Effect.never
    return answer.delay === undefined ? Effect.succeed(answer) : Effect.as(Effect.sleep(answer.delay), answer)
  }
  const client: ModelClient["Service"] = {
    stream: (request) =>
      Stream.unwrap(
        Effect.map(Effect.flatMap(take(request), waited), (answer) => {
          const parts = streamed(answer)
          if (answer.error === undefined)
            return answer.hangAfter === undefined
              ? Stream.fromArray(answer.cut === true ? parts.slice(0, -1) : parts)
              : Stream.concat(Stream.fromArray(parts.slice(0, answer.hangAfter)), Stream.never)
          if (answer.errorOnlyStreaming === true) at -= 1
          return Stream.concat(
            Stream.fromArray(parts.slice(0, answer.failAfter ?? 0)),
            Stream.fail(failureOf(answer.error, answer))
          )
        })
      ),
    complete: (request) =>
      Effect.flatMap(Effect.flatMap(take(request), waited), (answer) =>
        answer.hangAfter !== undefined
          ? Effect.never
          : answer.error === undefined || answer.errorOnlyStreaming === true
            ? Effect.succeed(responseOf(answer))
            : Effect.fail(failureOf(answer.error, answer))
      )
  }
  const { contextTokens, maxOutputTokens } = options
  return {
    client: {
      ...client,
      ...(contextTokens === undefined ? {} : { contextTokens: () => contextTokens }),
      ...(maxOutputTokens === undefined ? {} : { maxOutputTokens: () => maxOutputTokens })
    },
    requests,
    remaining: () => Math.max(0, (answers?.length ?? at) - at),
    get layer() {
      return Layer.succeed(ModelClient, this.client)
    }
  }
}

/** Counts a whole request, without what providers have reported for earlier ones. */
const countWhole = (tokenizer: Tokenizer, { instructions, messages, tools }: ModelRequest): number =>
  countText(tokenizer, instructions) + countTools(tokenizer, tools) + countMessages(tokenizer, messages)

const refuse = (description: string) =>
  Effect.fail(new ModelError({ reason: new InvalidRequest({ description }) }))

const failureOf = (reason: Reason, { usage }: ScriptedAnswer): ModelError =>
  new ModelError({
    reason,
    ...(usage === undefined ? {} : { usage: { inputTokens: 0, outputTokens: 0, ...usage } })
  })

const responseOf = (answer: ScriptedAnswer): ModelResponse => {
  const calls = answer.calls ?? []
  return {
    content: [
      ...(answer.reasoning === undefined ? [] : [{ _tag: "reasoning", text: answer.reasoning } as const]),
      ...(answer.text === undefined ? [] : [{ _tag: "text", text: answer.text } as const]),
      ...(answer.content ?? []),
      ...calls.map(
        (call, index) =>
          ({
            _tag: "toolCall",
            providerCallId: call.id ?? `call_${index}`,
            name: call.tool,
            arguments: call.argumentsText ?? JSON.stringify(call.arguments ?? {})
          }) as const
      )
    ],
    usage: { inputTokens: 10, outputTokens: 5, costUsd: 0, ...answer.usage },
    finishReason: answer.finishReason ?? (calls.length > 0 ? "toolCalls" : "stop")
  }
}

const streamed = (answer: ScriptedAnswer): ReadonlyArray<ModelPart> => {
  const parts = partsOf(responseOf(answer))
  const { chunkSize } = answer
  if (chunkSize === undefined) return parts
  return parts.flatMap((part): ReadonlyArray<ModelPart> => {
    if (part._tag !== "text-delta") return [part]
    const pieces: Array<ModelPart> = []
    for (let i = 0; i < part.delta.length; i += chunkSize) {
      pieces.push({ _tag: "text-delta", delta: part.delta.slice(i, i + chunkSize) })
    }
    return pieces
  })
}

/**
 * Checks the messages of a request: every tool call has exactly one result, directly after the response that made the call; every result has
 * a call; and sequence numbers do not descend. Messages may be missing, as a context policy leaves them out. Returns the first problem as
 * text, or `undefined` if the messages are valid.
 */
export const validateRequest = (messages: ReadonlyArray<Message>): string | undefined => {
  const index = messages.findIndex(
    (message, index) => index > 0 && message.sequence < messages[index - 1]!.sequence
  )
  return index === -1 ? pairingFault(messages) : `message ${index} has sequence ${messages[index]!.sequence}`
}

/**
 * Checks a history: every tool call has exactly one result, directly after the response that made the call; every result has a call; and
 * sequence numbers have no gap. Returns the first problem as text, or `undefined` if the history is valid.
 */
export const validateHistory = (messages: ReadonlyArray<Message>): string | undefined => {
  const index = messages.findIndex(
    (message, index) => index > 0 && message.sequence !== messages[index - 1]!.sequence + 1
  )
  return index === -1 ? pairingFault(messages) : `message ${index} has sequence ${messages[index]!.sequence}`
}

/** The first call or result without its counterpart, as text. */
const pairingFault = (messages: ReadonlyArray<Message>): string | undefined => {
  let open: Array<string> = []
  for (const [index, message] of messages.entries()) {
    if (message.role === "tool") {
      const at = open.indexOf(message.callId)
      if (at === -1) return `the result of ${message.callId} answers no open call`
      open.splice(at, 1)
      continue
    }
    if (open.length > 0) return `${open.join(", ")} has no result before message ${index}`
    if (message.role === "assistant") {
      open = message.content.flatMap((part) => (part._tag === "toolCall" ? [part.callId] : []))
      if (new Set(open).size !== open.length) return "two calls have the same id"
    }
  }
  return open.length > 0 ? `${open.join(", ")} has no result` : undefined
}
