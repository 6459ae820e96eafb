/**
 * Creates sandboxes, attaches to them again, and destroys them.
 *
 * A runtime asks its provider for a sandbox when the first call of a run needs one, and stores the reference with the run. A process that
 * resumes the run attaches by that reference. Releasing a sandbox at the end of a scope never destroys it.
 *
 * @since 0.2.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { RunId, SessionId } from "../domain/Id.ts"
import type { SandboxRef } from "../domain/SandboxRef.ts"
import type { Shape as Sandbox } from "./Sandbox.ts"
import type { Capability, SandboxError, SandboxLost, SandboxUnavailable } from "./SandboxError.ts"

/** The run for which a sandbox is created. */
export interface SandboxSpec {
  readonly runId: RunId
  readonly sessionId: SessionId
  /** The directory in which the tools act. Default: chosen by the provider. */
  readonly workdir?: string
}

/** The operations of a provider. */
export interface Shape {
  /** The kind of its sandboxes, such as `local`. */
  readonly backend: string
  /** The capabilities of its sandboxes, known before one exists, for approvals. */
  readonly capabilities: ReadonlySet<Capability>
  /**
   * Where its sandboxes act, in words for a person who approves a command: the `target` of each of them. An approval is bound to this text,
   * so it must not contain anything that changes from process to process.
   */
  readonly target: string
  /** Whether the provider attaches to this sandbox, which another backend made. */
  readonly accepts: (ref: SandboxRef) => boolean
  /** Whether its sandboxes are on another machine. Default: `false`. */
  readonly isRemote?: boolean
  /**
   * Creates a sandbox. If a process dies before it has stored the reference, the next process calls `create` for the same run again: a
   * provider whose sandboxes cost something names them after the run, and returns the existing one.
   */
  readonly create: (spec: SandboxSpec) => Effect.Effect<Sandbox, SandboxUnavailable, Scope.Scope>
  /** Attaches to an existing sandbox. */
  readonly attach: (ref: SandboxRef) => Effect.Effect<Sandbox, SandboxLost | SandboxUnavailable, Scope.Scope>
  /** Destroys a sandbox, with its files if they belong to it alone. Does nothing if it is gone. */
  readonly destroy: (ref: SandboxRef) => Effect.Effect<void, SandboxError>
}

/** The provider of the sandboxes of a program's runs. By default there is none: a tool that needs a sandbox is unavailable. */
export const SandboxProvider = Context.Reference<Shape | undefined>("@fermata/sdk/SandboxProvider", {
  defaultValue: () => undefined
})
