/**
 * What the definition of a tool may say.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Schedule from "effect/Schedule"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { Safety } from "../domain/Interruption.ts"
import type { DataSchema } from "./DataSchema.ts"
import type { ToolContext } from "./ToolContext.ts"

/** A value, a promise of it, or an effect that makes it, in a scope of its own. */
export type Awaitable<A, R = never> = A | Promise<A> | Effect.Effect<A, unknown, R | Scope.Scope>

/** What a tool's `reconcile` found out about a call that was started by a process that is gone. */
export type Reconciled =
  /** It happened; this is its result. */
  | { readonly _tag: "happened"; readonly result: unknown }
  /** It did not happen: run it. */
  | { readonly _tag: "notHappened" }
  /** It went wrong and will not happen. */
  | { readonly _tag: "failed"; readonly message: string }
  /** Outcome unknown: open an `inDoubt` request. */
  | { readonly _tag: "unknown" }

/** How a tool's calls are asked about. */
export interface ApprovalOptions {
  /** How long a request waits. Default: for ever. */
  readonly expiresIn?: Duration.Input
  /** What happens then. Default: `deny`. */
  readonly onExpiry?: "deny" | "stay"
}

/** What a tool knows when it judges whether a call needs approval. */
export interface ApprovalContext {
  readonly runId: string
  readonly sessionId: string
  readonly agentPath: ReadonlyArray<string>
}

/** The definition of a tool. `R` are the services that its callbacks need; those of the handler are in `Out`. */
export interface ToolOptions<A, Out, R = never> {
  /** What it does, for the model. */
  readonly description?: string
  /** The arguments: a struct of an Effect Schema, or an object of any Standard Schema. Default: none. */
  readonly parameters?: DataSchema<A>
  /** Does it, in a scope of its own. What it returns is the result: text as it is, anything else as JSON, or `Tool.content`. */
  readonly handler: (args: A, context: ToolContext) => Out
  /**
   * The errors that the handler may fail with, as the model gets them: their message and, as JSON, their encoded fields. Of another error the
   * model gets the message. Default: that of the error itself, if it is a `Schema.TaggedError`.
   */
  readonly failure?: Schema.Codec<unknown, unknown>
  /** What it may do. Default: `sideEffecting`. */
  readonly safety?: Safety
  /**
   * Whether a call needs approval. Default: only for tools that are not `readOnly`. A judgement that fails is a yes. It, `risk`, `preview`
   * and `reconcile` may each take as long as a call.
   */
  readonly needsApproval?: boolean | ((args: A, context: ApprovalContext) => Awaitable<boolean, R>)
  /** Whether running it again with the same idempotency key does no harm. Default: no. */
  readonly idempotent?: boolean
  /** Finds out what became of a call that was started and not finished. Where it fails, an `inDoubt` request is opened. */
  readonly reconcile?: (idempotencyKey: string, args: A) => Awaitable<Reconciled, R>
  /** How long one call may take. Default: the run's `toolTimeoutMs`. */
  readonly timeout?: Duration.Input
  /** When to try again after a failure. Only for tools that are `readOnly` or `idempotent`. */
  readonly retry?: Schedule.Schedule<unknown, unknown>
  readonly approval?: ApprovalOptions
  /** What could go wrong, for the approver. One that fails, or is no text, is left out. */
  readonly risk?: string | ((args: A) => Awaitable<string, R>)
  /** What would happen, for the approver: a diff, an amount. One that fails, or is no text, is left out. */
  readonly preview?: (args: A) => Awaitable<string, R>
  /** Earlier names, so that runs that were held under them still find it. */
  readonly aliases?: ReadonlyArray<string>
  /**
   * What the tool is, where its name does not say: approvals and grants for a tool of one identity never release one of another. For
   * tools that are named elsewhere, such as the tools of a server. Default: the name alone.
   */
  readonly identity?: string
  /** Names to show it by, in this order, where another tool of the agent has its name. Default: none, and the agent is refused. */
  readonly otherNames?: ReadonlyArray<string>
}
