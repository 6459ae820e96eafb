/**
 * The context policy selects the messages of a session that a model call receives.
 *
 * It runs before each model call of a run, on the whole history; the complete call after a failed stream uses the same context. The default,
 * {@link everything} {@link withoutEarlierFiles}, sends all messages, and the files of the current prompt only; it fails if they exceed the
 * run's context budget. To compact or retrieve instead, provide another policy for the reference {@link ContextPolicy}. A policy must check the context budget, must keep each tool call together with its
 * result, and must keep the latest user message: the runtime checks none of this.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Limits } from "../domain/Limits.ts"
import type { Message } from "../domain/Message.ts"
import { withoutFiles } from "./internal/earlierFiles.ts"

/** The input of a {@link ContextPolicy}. */
export interface ContextInput {
  readonly instructions: string
  /** All messages of the session, oldest first. Every tool call has its result. */
  readonly messages: ReadonlyArray<Message>
  /** Index of the message with the current prompt, which began the run. Default: that of the user's last message. */
  readonly promptAt?: number
  /** The name of the agent's tool that reads a file again; see `recallTool`. Absent if it has none. */
  readonly recall?: string
  /**
   * The agent's sections, which follow the messages that the policy selects. `countTokens` includes them; a policy does not return them.
   * Absent if there are none.
   */
  readonly sections?: ReadonlyArray<Message>
  readonly limits: Limits
  /** The size of the model's context window in tokens, response included; absent if the client does not know it. */
  readonly contextTokens?: number
  /** Tokens to leave for the response: the agent's setting `maxOutputTokens`. Absent if the agent does not set it. */
  readonly reservedTokens?: number
  /** Counts the tokens of a request, the agent's tools included, with the configured tokenizer. Absent: estimate the number. */
  readonly countTokens?: (context: PreparedContext) => number
}

/** The instructions and messages that a model call receives. */
export interface PreparedContext {
  readonly instructions: string
  readonly messages: ReadonlyArray<Message>
}

/**
 * The failure of a policy whose context needs about `tokens` tokens where `limit` are allowed. The run then asks for a larger `context`
 * budget, or fails with `BudgetExceeded` if it may not ask.
 */
export interface ContextTooLarge {
  readonly _tag: "ContextTooLarge"
  readonly tokens: number
  readonly limit: number
}

/**
 * Selects the context of a model call. An implementation must check `limits.maxContextTokens`, must keep each tool call together with its
 * result, and must keep the latest user message: the runtime checks none of this. If it fails otherwise than with {@link ContextTooLarge},
 * the run fails with `RunDefect`.
 *
 * @category services
 * @since 0.1.0
 */
export interface ContextPolicy {
  readonly prepare: (input: ContextInput) => Effect.Effect<PreparedContext, ContextTooLarge>
}

/** Characters per token. English prose has about 4; 3 overestimates the tokens on purpose. */
const charactersPerToken = 3

/** Estimates the tokens of a text from its length: one token per three UTF-16 units, rounded up. */
export const estimateTokens = (text: string): number => Math.ceil(text.length / charactersPerToken)

/** Estimates the tokens of messages from the length of their contents' JSON; see {@link estimateTokens}. */
export const estimateMessages = (messages: ReadonlyArray<Message>): number =>
  messages.reduce((sum, message) => sum + estimateTokens(JSON.stringify(message.content)), 0)

const roughly = ({ instructions, messages }: PreparedContext): number =>
  estimateTokens(instructions) + estimateMessages(messages)

/**
 * Sends all messages with all files, and fails with {@link ContextTooLarge} if `countTokens` counts more than
 * `limits.maxContextTokens`. Without this limit it never fails, even if the request exceeds the model's context.
 */
export const everything: ContextPolicy = {
  prepare: ({ countTokens = roughly, instructions, limits, messages }) => {
    const limit = limits.maxContextTokens
    if (limit === undefined) return Effect.succeed({ instructions, messages })
    const tokens = countTokens({ instructions, messages })
    return tokens <= limit
      ? Effect.succeed({ instructions, messages })
      : Effect.fail({ _tag: "ContextTooLarge", tokens, limit })
  }
}

/**
 * A policy that sends a file with the prompt that brought it, and in the steps of that prompt. In later prompts of the session, a text stands
 * in its place, with its name, its media type, its size, its SHA-256, and how the model can read it again. `policy` receives the messages
 * with these texts. URLs and references of providers are sent each time.
 *
 * **Example** (Selecting messages, without the files of earlier prompts)
 *
 * ```ts run
 * import { ContextPolicy } from "@fermata/sdk"
 *
 * const policy = ContextPolicy.withoutEarlierFiles(
 *   ContextPolicy.make(({ instructions, messages }) => ({ instructions, messages: messages.slice(-100) }))
 * )
 * ```
 *
 * @category combinators
 * @since 0.2.0
 */
export const withoutEarlierFiles = (policy: ContextPolicy): ContextPolicy => ({
  prepare: (input) => {
    const { messages, promptAt = lastPrompt(messages), recall } = input
    const kept = mapBefore(messages, promptAt, (message) => withoutFiles(message, recall))
    return policy.prepare(kept === messages ? input : { ...input, messages: kept })
  }
})

const lastPrompt = (messages: ReadonlyArray<Message>): number =>
  messages.findLastIndex((message) => message.role === "user" && message.origin !== "runtime")

/** Maps the messages before an index. Returns the same list if none changes. */
const mapBefore = (
  messages: ReadonlyArray<Message>,
  end: number,
  f: (message: Message) => Message
): ReadonlyArray<Message> => {
  let changed: Array<Message> | undefined
  for (let index = 0; index < end; index += 1) {
    const message = messages[index]!
    const mapped = f(message)
    if (mapped !== message) (changed ??= messages.slice())[index] = mapped
  }
  return changed ?? messages
}

/**
 * A function that selects the context of a model call, with the duties of a {@link ContextPolicy}. It returns {@link ContextTooLarge} if
 * the context does not fit.
 */
export type ContextFunction = (
  input: ContextInput
) => PreparedContext | ContextTooLarge | PromiseLike<PreparedContext | ContextTooLarge>

/**
 * Makes a policy of a function. If the function throws, rejects or returns no context, the run fails with `RunDefect`.
 *
 * **Example** (Sending the last user message and what follows it)
 *
 * ```ts run
 * import { ContextPolicy } from "@fermata/sdk"
 *
 * const latest = ContextPolicy.make(({ instructions, messages }) => {
 *   const start = messages.findLastIndex(({ role }) => role === "user")
 *   return { instructions, messages: messages.slice(start) }
 * })
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (prepare: ContextFunction): ContextPolicy => ({
  prepare: (input) =>
    Effect.flatMap(
      Effect.promise(async () => prepare(input)),
      (made) => (isTooLarge(made) ? Effect.fail(made) : Effect.succeed(made))
    )
})

/** A function without types may return any value. The run fails if it is no context. */
const isTooLarge = (made: PreparedContext | ContextTooLarge | null | undefined): made is ContextTooLarge =>
  typeof made === "object" && made !== null && "_tag" in made

/** The policy that a runtime reads when it is created. Default: {@link everything} {@link withoutEarlierFiles}. */
export const ContextPolicy = Context.Reference<ContextPolicy>("@fermata/sdk/context/ContextPolicy", {
  defaultValue: () => withoutEarlierFiles(everything)
})
