/**
 * What of a session a model gets to see.
 *
 * Before every model call the policy turns the whole history into the messages of that call. The one here sends everything,
 * and fails when that is over the run's context budget; policies that compact or retrieve replace it by providing the
 * reference. Whatever a policy does, it keeps a tool call and its result together and never drops the latest user message.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Limits } from "../domain/Limits.ts"
import type { Message } from "../domain/Message.ts"

/** What a policy chooses from. */
export interface ContextInput {
  readonly instructions: string
  /** The whole, valid history. */
  readonly messages: ReadonlyArray<Message>
  readonly limits: Limits
  /** What fits into the model's context, answer included, where that is known. No top-up makes it more. */
  readonly contextTokens?: number
  /** Tokens to leave for the answer. */
  readonly reservedTokens?: number
  /** Counts what would be sent, with the tokenizer in force and the agent's tools. Left out: counted roughly. */
  readonly countTokens?: (context: PreparedContext) => number
}

/** What the model gets to see. */
export interface PreparedContext {
  readonly instructions: string
  readonly messages: ReadonlyArray<Message>
}

/** The context does not fit: it would take about `tokens`, and `limit` are allowed. */
export interface ContextTooLarge {
  readonly _tag: "ContextTooLarge"
  readonly tokens: number
  readonly limit: number
}

/**
 * Chooses what the model sees.
 *
 * @category services
 * @since 0.1.0
 */
export interface ContextPolicy {
  readonly prepare: (input: ContextInput) => Effect.Effect<PreparedContext, ContextTooLarge>
}

/** Characters that count as one token. English prose has about 4; 3 errs on the safe side. */
const charactersPerToken = 3

/** A rough count of the tokens of a text. */
export const estimateTokens = (text: string): number => Math.ceil(text.length / charactersPerToken)

/** A rough count of the tokens of messages, from the size of their JSON. */
export const estimateMessages = (messages: ReadonlyArray<Message>): number =>
  messages.reduce((sum, message) => sum + estimateTokens(JSON.stringify(message.content)), 0)

const roughly = ({ instructions, messages }: PreparedContext): number =>
  estimateTokens(instructions) + estimateMessages(messages)

/** Sends everything; fails when that is over `limits.maxContextTokens`. */
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

/** The policy in force; {@link everything} unless another is provided. */
export const ContextPolicy = Context.Reference<ContextPolicy>("@fermata/sdk/context/ContextPolicy", {
  defaultValue: () => everything
})
