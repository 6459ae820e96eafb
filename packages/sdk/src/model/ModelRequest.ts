/**
 * The request of a model call, the same for every provider.
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

/**
 * Settings of a model call that most providers support; `extra` is for all others. A setting that the request cannot express, or that the
 * model does not accept as far as the client knows, is omitted, and each client logs one warning about it.
 */
export interface ModelSettings {
  readonly temperature?: number
  readonly topP?: number
  readonly maxOutputTokens?: number
  readonly stop?: ReadonlyArray<string>
  readonly seed?: number
  readonly reasoningEffort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max"
  readonly toolChoice?: "auto" | "none" | "required" | { readonly tool: string }
  readonly parallelToolCalls?: boolean
  /** Fields that are added to the provider's request body, unchanged. They override the fields that Fermata sets. */
  readonly extra?: Schema.JsonObject
}

/** One model call. */
export interface ModelRequest {
  readonly runId: RunId
  readonly sessionId: SessionId
  /** The names of the agents from the root to the one that makes the call. */
  readonly agentPath: ReadonlyArray<string>
  /** The number of the turn, from 1. */
  readonly turn: number
  /** The system instructions; "" for none. */
  readonly instructions: string
  /** A valid history: every tool call has exactly one result, directly after the assistant message that contains the call. */
  readonly messages: ReadonlyArray<Message>
  /**
   * The number of messages at the end that the next request does not repeat, such as sections that are rendered in each turn. A client that
   * marks the part to cache puts its mark before them. Default: 0.
   */
  readonly transientMessages?: number
  readonly tools: ReadonlyArray<ToolDefinition>
  /** The JSON Schema of the final response. */
  readonly output?: { readonly name: string; readonly schema: Schema.JsonObject }
  /** The name of the model profile. Default: the client's own. */
  readonly profile?: string
  readonly settings?: ModelSettings
  /** Called when the client is about to retry, before it waits. */
  readonly onRetry?: (retry: ModelRetry) => void
  /**
   * Called with the tag of the error's reason when the client is about to make a complete call as the last attempt of a stream, because
   * the connection, a timeout or an invalid response failed the attempt before. Without it, the last attempt is a stream, too.
   */
  readonly onFallback?: (reason: string) => void
  /**
   * Set by a run: called when the client begins to wait for its turn under a rate limit, with a function that ends the wait. Returns the
   * function to call when the wait is over, with whether the turn has come.
   */
  readonly "~waits"?: (stop: () => void) => (hasTurn: boolean) => void
}

/** A request that failed and that the client will retry. */
export interface ModelRetry {
  /** The attempt that failed, from 1. */
  readonly attempt: number
  readonly waitMs: number
  /** The tag of the error's reason, such as `RateLimited`. */
  readonly reason: string
}
