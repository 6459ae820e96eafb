/**
 * What a model is asked, the same for every provider.
 *
 * @since 0.1.0
 */
import type * as Schema from "effect/Schema"
import type { RunId, SessionId } from "../domain/Id.ts"
import type { Message } from "../domain/Message.ts"

/** A tool as a model sees it. */
export interface ToolDefinition {
  readonly name: string
  readonly description: string
  /** JSON Schema (draft 2020-12) of the arguments, always of an object. */
  readonly parameters: Schema.JsonObject
}

/** Settings that most providers know; the rest goes through `extra`, as it is. What a model does not take is warned of in the log. */
export interface ModelSettings {
  readonly temperature?: number
  readonly topP?: number
  readonly maxOutputTokens?: number
  readonly stop?: ReadonlyArray<string>
  readonly seed?: number
  readonly reasoningEffort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max"
  readonly toolChoice?: "auto" | "none" | "required" | { readonly tool: string }
  readonly parallelToolCalls?: boolean
  /** Added to the provider's request body, unchanged. */
  readonly extra?: Schema.JsonObject
}

/** One model call. */
export interface ModelRequest {
  readonly runId: RunId
  readonly sessionId: SessionId
  /** Names of the agents from the root to the one that asks. */
  readonly agentPath: ReadonlyArray<string>
  /** From 1. */
  readonly turn: number
  /** The system instructions; "" for none. */
  readonly instructions: string
  /** A valid history: every tool call has exactly one result, directly after the answer that made it. */
  readonly messages: ReadonlyArray<Message>
  readonly tools: ReadonlyArray<ToolDefinition>
  /** The JSON Schema that the final answer must fit. */
  readonly output?: { readonly name: string; readonly schema: Schema.JsonObject }
  /** The model profile to use; left out for the client's default. */
  readonly profile?: string
  readonly settings?: ModelSettings
  /** Called when the client is about to retry, before it waits. */
  readonly onRetry?: (retry: ModelRetry) => void
}

/** A request that failed and will be tried again. */
export interface ModelRetry {
  /** The attempt that failed, from 1. */
  readonly attempt: number
  readonly waitMs: number
  /** The tag of the error's reason, such as `RateLimited`. */
  readonly reason: string
}
