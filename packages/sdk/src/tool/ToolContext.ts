/**
 * The data and functions that a tool's handler receives about its call.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import type * as Scope from "effect/Scope"
import type { RunId, SessionId, ToolCallId } from "../domain/Id.ts"
import type { RunContext } from "../domain/RunContext.ts"
import type { OutputChunk, Shape as Sandbox } from "../sandbox/Sandbox.ts"
import type { WebUnavailable } from "./WebAccess.ts"

export type { OutputChunk } from "../sandbox/Sandbox.ts"

/** Where a call acts: in the run's sandbox if its tool has `sandbox: true`, otherwise in this process. */
export interface ToolTarget {
  /** `process`, or the backend of the sandbox, such as `local` or `bubblewrap`. */
  readonly kind: string
  /** Where that is, in words for a person, such as `this machine, not confined`. */
  readonly description: string
  /** The directory at which relative paths start. Absent in a program without one, such as a web page. */
  readonly cwd?: string
  /** Whether commands there cannot change anything outside of `cwd`. */
  readonly isolated: boolean
}

/** The judgement about a call: it would run, a person would be asked, it would be denied, or the agent cannot make it. */
export type CallJudgement =
  /** `by` is what permits the call: the tool, a rule, a policy or a grant, in words. */
  | { readonly _tag: "run"; readonly by: string }
  /** `reason` is present in unusual cases, for example if the call needs a decision under every policy. */
  | { readonly _tag: "ask"; readonly reason?: string }
  /** `message` is what the model would read. */
  | { readonly _tag: "deny"; readonly message: string }
  /** The agent has no tool of this name, or the name is that of a sub-agent, a handoff or a question. */
  | { readonly _tag: "unknownTool" }
  /** The tool does not take the arguments. */
  | { readonly _tag: "invalid"; readonly problem: string }

/** Judges calls by the policies, grants and tools of a run. */
export interface CallPolicy {
  /**
   * Judges a call of a tool of the same agent as if the model made it now, without making it. Arguments are JSON, as a model writes them.
   * The answer holds for this moment: a call is judged again before it starts.
   */
  readonly judge: (tool: string, args?: unknown) => Effect.Effect<CallJudgement>
}

/** What a handler receives about its call. `Context` is the context of the run as the tool's schema `context` decodes it. */
export interface ToolContext<Context = RunContext> {
  readonly runId: RunId
  readonly sessionId: SessionId
  readonly callId: ToolCallId
  /** The names of the agents from the root to the agent that made the call. */
  readonly agentPath: ReadonlyArray<string>
  /** The context of the run, which its caller gave: for example, its tenant and user. Without a schema, JSON. */
  readonly context: Context
  /**
   * The number of this attempt, from 1: above 1 after a crash, after the loss of a store in which the call may have run, or by a `retry`
   * decision. The tries of a `retry` schedule share one number.
   */
  readonly attempt: number
  /** A key that all attempts of this call share and no other call has. Pass it to the external service. */
  readonly idempotencyKey: string
  /**
   * Whether a person, or a program in the place of one, has approved this call by a decision. False for a call that a policy, a grant or
   * the tool itself lets through. Read it in a tool that does more for an approved call, such as one that writes protected files.
   */
  readonly isApproved: boolean
  /** Aborted when the call is cancelled or times out, or the process suspends the run, before the handler's effect is interrupted. */
  readonly signal: AbortSignal
  /** Publishes a progress message to the run's subscribers. It is not stored, and is dropped after the end of the call. */
  readonly progress: (message: string) => void
  /**
   * Publishes a piece of output to the run's subscribers: a text, or a text of one of two named streams. It is not stored, and is dropped
   * after the end of the call; the handler's return value is the result.
   */
  readonly output: (chunk: string | OutputChunk) => void
  /**
   * Publishes that the call made or read a file, such as an image, by a virtual path: `/workspace/…` for a file in `target.cwd`, and
   * `/outside/` with its name otherwise. No directory of the machine is published. Returns the virtual path, as the `name` of a file part
   * of the result, which has the bytes. Like progress, it is not stored.
   */
  readonly media: (file: { readonly path: string; readonly mediaType: string }) => string
  /** Where the call acts. */
  readonly target: ToolTarget
  /**
   * The guarded HTTP client of the program; see `WebAccess`. Its connections close with the scope, which is that of the handler's effect.
   * A program without one fails with `WebUnavailable`: no request is sent in another way.
   */
  readonly http: Effect.Effect<HttpClient.HttpClient, WebUnavailable, Scope.Scope>
  /** Judges other calls of the agent's tools, without making them. */
  readonly policy: CallPolicy
}

/**
 * The sandbox in the context of a handler whose tool has `sandbox: true`: that of the run, which all of its calls and sub-agents share.
 * Without the option, the context has neither.
 */
export type InSandbox<Sandboxed extends boolean> = [Sandboxed] extends [true]
  ? {
      readonly sandbox: Sandbox
      /**
       * Lives until the run is cancelled or its sandbox is released, for what goes on after the call, such as a command in the background. A
       * run that completes, fails or is held keeps it.
       */
      readonly runScope: Scope.Scope
    }
  : unknown
