/**
 * The context policy selects the messages of a session that a model call receives.
 *
 * It runs before each model call of a run; the complete call after a failed stream uses the same context. There are two policies:
 *
 * - {@link compacting}, the default of `createFermata`, sends a summary in place of the oldest messages when the context is nearly full.
 * - {@link everything} {@link withoutEarlierFiles}, the default of the reference {@link ContextPolicy}, sends all messages, and the files of
 *   the current prompt only; it fails if they exceed the run's context budget.
 *
 * A policy of your own must check the context budget, must keep each tool call together with its result, and must keep the latest user
 * message: the runtime checks none of this.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Message } from "../domain/Message.ts"
import { type CompactingOptions, make as makeCompacting } from "./internal/compacting.ts"
import { withoutFiles } from "./internal/earlierFiles.ts"
import type {
  ContextInput,
  ContextPolicy as Policy,
  ContextTooLarge,
  PreparedContext
} from "./PolicyDefinition.ts"

export type {
  CompactionDue,
  ContextInput,
  ContextTooLarge,
  PreparedContext,
  WindowUnknown
} from "./PolicyDefinition.ts"
export type { CompactingOptions } from "./internal/compacting.ts"

/**
 * Selects the context of a model call; see `PolicyDefinition.ContextPolicy` for the duties of an implementation.
 *
 * @category services
 * @since 0.1.0
 */
export type ContextPolicy = Policy

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
export const everything: {
  readonly prepare: (input: ContextInput) => Effect.Effect<PreparedContext, ContextTooLarge>
} = {
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
export const withoutEarlierFiles = (policy: Policy): Policy => ({
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
export const make = (prepare: ContextFunction): Policy => ({
  prepare: (input) =>
    Effect.flatMap(
      Effect.promise(async () => prepare(input)),
      (made) => (isTooLarge(made) ? Effect.fail(made) : Effect.succeed(made))
    )
})

/** A function without types may return any value. The run fails if the value is not a context. */
const isTooLarge = (made: PreparedContext | ContextTooLarge | null | undefined): made is ContextTooLarge =>
  typeof made === "object" && made !== null && "_tag" in made

/**
 * A policy for conversations of any length: it sends a summary in place of the oldest messages when the context is nearly full. The journal
 * and the history keep every message.
 *
 * **When to use**
 *
 * In programs whose sessions can outgrow the model's window. `createFermata` uses it by default.
 *
 * **Details**
 *
 * Before each model call, the policy estimates the context: the instructions, the definitions of the tools, the sections, the summary and the
 * messages. Above `trigger`, it first replaces long results of earlier calls by short texts, if that frees enough; the model can read them
 * again with the tool that `recallTool` makes. If it does not, a model writes a summary, and the newest steps stay as they are, as do the
 * user's latest message, pinned messages and open calls. Files of earlier prompts are left out as by {@link withoutEarlierFiles}.
 *
 * A summary is a step of the run, with usage, budgets and a place in the journal: `context.compacted`. An answer that is empty, calls a
 * tool or quotes the request is refused, and the agent's own profile is asked. If that answer is refused, too, the runtime lists the user's
 * messages and the calls instead (`quality: "degraded"`). If two compactions in a row do not make enough room, the run asks for a larger
 * `context` budget instead of trying again.
 *
 * The window is `contextTokens` of the model's profile, or the option `contextTokens` (128,000 by default) if the client does not know it.
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for an option that is unknown or has a wrong value. With `strict`, a run whose model has no known window fails with
 * `WindowUnknown`. A context whose latest message, pinned messages or newest step alone do not fit opens a `limit` request, or fails the run
 * with `BudgetExceeded`.
 *
 * **Example** (Summaries by a cheaper model)
 *
 * ```ts run
 * import { ContextPolicy } from "@fermata/sdk"
 *
 * const policy = ContextPolicy.compacting({ profile: "small", trigger: 0.8 })
 * ```
 *
 * @category constructors
 * @since 0.2.0
 */
export const compacting = (options: CompactingOptions = {}): Policy => makeCompacting(options)

/** The policy that a runtime reads when it is created. Default: {@link everything} {@link withoutEarlierFiles}. */
export const ContextPolicy = Context.Reference<Policy>("@fermata/sdk/context/ContextPolicy", {
  defaultValue: () => withoutEarlierFiles(everything)
})
