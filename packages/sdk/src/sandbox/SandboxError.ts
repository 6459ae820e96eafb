/**
 * The errors of sandboxes. A command that exits with a code other than 0, or that its timeout stops, has not failed: see
 * {@link Sandbox.ExecResult}.
 *
 * @since 0.2.0
 */
import * as Schema from "effect/Schema"
import { sentence } from "../domain/Display.ts"
import { TaggedError } from "../domain/TaggedError.ts"

/** The capabilities that a sandbox may have besides running commands and accessing files; see `Sandbox.capabilities`. */
export const Capability = Schema.Literals([
  /** Commands cannot change anything outside of the working directory. */
  "isolated",
  /** Commands reach no network. */
  "noNetwork",
  /** A command goes on while no process is attached, and is found again by its session; see `Sandbox.findCommand`. */
  "sessions",
  /** `Sandbox.snapshot` stores the files. */
  "snapshot",
  /** `Sandbox.portUrl` gives the address of a port. */
  "ports",
  /** A person can look at the terminal in which the commands run; see `Sandbox.screen`. */
  "screen"
])
export type Capability = typeof Capability.Type

/** The sandbox cannot be created or attached to now. The calls that need it wait: do what `problem` says, and resume the run. */
export class SandboxUnavailable extends TaggedError<SandboxUnavailable>()("SandboxUnavailable", {
  backend: Schema.String,
  /** The reason and what to do, in a clause that ends without a full stop. */
  problem: Schema.String,
  /** Whether the same attempt may succeed later. */
  retryable: Schema.Boolean
}) {
  override get message() {
    return sentence`The sandbox (${this.backend}) is not available: ${this.problem}.`
  }
}

/** The sandbox of a run is gone: it was destroyed, or its directory, container or machine no longer exists. */
export class SandboxLost extends TaggedError<SandboxLost>()("SandboxLost", {
  backend: Schema.String,
  /** The id of the sandbox. */
  id: Schema.String,
  /** What is missing, in a clause that ends without a full stop. */
  problem: Schema.String
}) {
  override get message() {
    return sentence`The sandbox ${this.id} (${this.backend}) is lost: ${this.problem}. Restore it and resume the run, or cancel the run.`
  }
}

/** The operation needs a capability that the sandbox lacks. Check its `capabilities` before you call the operation. */
export class CapabilityMissing extends TaggedError<CapabilityMissing>()("CapabilityMissing", {
  backend: Schema.String,
  capability: Capability
}) {
  override get message() {
    return sentence`This sandbox (${this.backend}) lacks the capability ${this.capability}: use a sandbox that has it, or do without.`
  }
}

/** A command could not be started, or its outcome could not be read. Unless `notStarted` is set, it may have had effects. */
export class CommandFailed extends TaggedError<CommandFailed>()("CommandFailed", {
  backend: Schema.String,
  /** What went wrong, in a clause that ends without a full stop. */
  problem: Schema.String,
  /** Set when the command certainly did not start. */
  notStarted: Schema.optionalKey(Schema.Literal(true))
}) {
  override get message() {
    return this.notStarted === true
      ? sentence`The command was not started (${this.backend}): ${this.problem}.`
      : sentence`The command was interrupted by a failure (${this.backend}), and may have had effects: ${this.problem}.`
  }
}

/** The errors of the operations of a sandbox. */
export type SandboxError = SandboxUnavailable | SandboxLost | CapabilityMissing | CommandFailed
