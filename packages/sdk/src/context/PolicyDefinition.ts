/**
 * The types of a context policy: its input and its outcomes. `ContextPolicy` is the module to use.
 *
 * @since 0.2.0
 */
import type * as Effect from "effect/Effect"
import type { Compacting, Compaction } from "../domain/Compaction.ts"
import type * as History from "../domain/History.ts"
import type { Limits } from "../domain/Limits.ts"
import type { Message } from "../domain/Message.ts"
import type { Awaitable } from "../tool/ToolOptions.ts"
import type { CompactionPlan, Summarize } from "./CompactionPlan.ts"
import type { ContextUsage } from "./ContextUsage.ts"

/** The input of a {@link ContextPolicy}. */
export interface ContextInput {
  readonly instructions: string
  /** All messages of the session, oldest first, in a list that is made when it is read. Every tool call has its result. */
  readonly messages: ReadonlyArray<Message>
  /** Index of the message with the current prompt, which began the run. Default: that of the user's last message. */
  readonly promptAt?: number
  /** The name of the agent's tool that reads a file or a result again; see `recallTool`. Absent if it has none. */
  readonly recall?: string
  /**
   * The agent's sections, which follow the messages that the policy selects. `countTokens` includes them, and `memory`; a policy returns neither.
   * Absent if there are none.
   */
  readonly sections?: ReadonlyArray<Message>
  /** Messages retrieved from memory, which follow the selected messages, before the sections. Absent if there are none. */
  readonly memory?: ReadonlyArray<Message>
  readonly limits: Limits
  /** The size of the model's context window in tokens, response included; absent if the client does not know it. */
  readonly contextTokens?: number
  /** The most tokens that the model can write; absent if the client does not know it. */
  readonly maxOutputTokens?: number
  /** Tokens to leave for the response: the agent's setting `maxOutputTokens`. Absent if the agent does not set it. */
  readonly reservedTokens?: number
  /** Counts the tokens of a request, the agent's tools included, with the configured tokenizer. Absent: estimate the number. */
  readonly countTokens?: (context: PreparedContext) => number
  /** The parts from which a run makes `messages`, for a policy that need not read all of them. Absent outside of runs. */
  readonly view?: ContextView
}

/** The parts from which a run makes the messages of its context, and functions that count their tokens. */
export interface ContextView {
  readonly history: History.History
  /** The result of the compactions so far: the summary, and where results are replaced or shortened. */
  readonly compaction?: Compaction | undefined
  /** The compaction that was requested and has not been performed. Absent if there is none. */
  readonly compacting?: Compacting | undefined
  /** Sequence numbers of the pinned messages. */
  readonly pinned: ReadonlyArray<number>
  /** Counts the tokens of a message, always the same number for the same message. */
  readonly countMessage: (message: Message) => number
  readonly countText: (text: string) => number
  /** The tokens of the definitions of the agent's tools. */
  readonly toolTokens: number
  /** The name of the model profile that the call uses. Absent for the client's own. */
  readonly profile?: string | undefined
}

/** The instructions and messages that a model call receives. */
export interface PreparedContext {
  readonly instructions: string
  readonly messages: ReadonlyArray<Message>
  /** How the context is used, for events and displays. Absent if the policy does not measure it. */
  readonly usage?: ContextUsage
  /** Whether `usage` has reached the policy's warning level: `budget.nearing` is then recorded once. */
  readonly isNearlyFull?: boolean
  /** Called with the input tokens that the provider reported for the call. */
  readonly counted?: (inputTokens: number) => void
  /** Called if the provider refused the call as too long. Present if a compaction may help then. */
  readonly overflowed?: () => void
}

/**
 * The failure of a policy whose context needs about `tokens` tokens where `limit` are allowed. The run then asks for a larger `context`
 * budget, or fails with `BudgetExceeded` if it may not ask.
 */
export interface ContextTooLarge {
  readonly _tag: "ContextTooLarge"
  readonly tokens: number
  readonly limit: number
  /** Why nothing more can be left out, in words, for the person who is asked. */
  readonly reason?: string
}

/** The failure of a policy that wants the context compacted before the call. The run performs the plan, and asks the policy again. */
export interface CompactionDue {
  readonly _tag: "CompactionDue"
  readonly plan: CompactionPlan
  readonly usage: ContextUsage
  /** The options of the request that writes a summary. */
  readonly summary: SummaryOptions
}

/** The options of the request that writes a summary. */
export interface SummaryOptions {
  /** The model profile that writes it first. Absent: that of the agent. */
  readonly profile?: string
  /** A further sentence for the request of the summary. */
  readonly guidance?: string
  /** The window that is assumed for a profile whose window is not known. */
  readonly assumedWindow: number
  /** The factor by which the tokenizer's counts are corrected. */
  readonly ratio: number
  /** Called before a summary is written; see `CompactingOptions`. */
  readonly before?: (plan: Summarize) => Awaitable<BeforeCompaction | void>
}

/** The answer of a callback before a compaction. */
export interface BeforeCompaction {
  /** If `true`, nothing is compacted now. The call is made if it fits, and refused if it does not. */
  readonly veto?: boolean
  /** Sequence numbers of further messages that stay as they are in this compaction. */
  readonly pinned?: ReadonlyArray<number>
}

/** The failure of a strict policy: the model's window is not known. The run fails with `WindowUnknown`. */
export interface WindowUnknown {
  readonly _tag: "WindowUnknown"
  /** The model profile. Absent for the client's own. */
  readonly profile?: string
}

/**
 * Selects the context of a model call. An implementation must check `limits.maxContextTokens`, must keep each tool call together with its
 * result, and must keep the latest user message: the runtime checks none of this. If it fails otherwise than with {@link ContextTooLarge},
 * {@link CompactionDue} or {@link WindowUnknown}, the run fails with `RunDefect`.
 *
 * @category services
 * @since 0.1.0
 */
export interface ContextPolicy {
  readonly prepare: (
    input: ContextInput
  ) => Effect.Effect<PreparedContext, ContextTooLarge | CompactionDue | WindowUnknown>
}
