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
import { InvalidRequest, ModelError, type Reason } from "../model/ModelError.ts"
import type { ModelPart, ModelResponse } from "../model/ModelPart.ts"
import { partsOf } from "../model/ModelPart.ts"
import type { ModelRequest } from "../model/ModelRequest.ts"

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
  script: ReadonlyArray<Script> | ((request: ModelRequest) => string | ScriptedAnswer)
): ScriptedModel => {
  const answers = typeof script === "function" ? undefined : script
  const requests: Array<ModelRequest> = []
  let at = 0
  const take = (request: ModelRequest): Effect.Effect<ScriptedAnswer, ModelError> =>
    Effect.suspend(() => {
      requests.push(request)
      const problem = validateHistory(request.messages)
      if (problem !== undefined) return refuse(`The history is not valid: ${problem}`)
      const entry = typeof script === "function" ? script : script[at++]
      if (entry === undefined) {
        return refuse(`The script has ${script.length} responses, and the model was called once more.`)
      }
      const answer = typeof entry === "function" ? entry(request) : entry
      return Effect.succeed(typeof answer === "string" ? { text: answer } : answer)
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
  return {
    client,
    requests,
    remaining: () => Math.max(0, (answers?.length ?? at) - at),
    layer: Layer.succeed(ModelClient, client)
  }
}

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
 * Checks a history: every tool call has exactly one result, directly after the response that made the call; every result has a call; and
 * sequence numbers have no gap. Returns the first problem as text, or `undefined` if the history is valid.
 */
export const validateHistory = (messages: ReadonlyArray<Message>): string | undefined => {
  let open: Array<string> = []
  for (const [index, message] of messages.entries()) {
    if (index > 0 && message.sequence !== messages[index - 1]!.sequence + 1) {
      return `message ${index} has sequence ${message.sequence}`
    }
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
