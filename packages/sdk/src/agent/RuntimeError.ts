/**
 * The errors of creating, using and reconfiguring runtimes, and of restoring captures. An operation that fails with one of them has
 * changed nothing, except that `ExtensionFailed` at the start closes the runtime.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { lines, sentence } from "../domain/Display.ts"
import { TaggedError } from "../domain/TaggedError.ts"

/**
 * The options of a runtime, including those given to a Fermata, or a change of its configuration are invalid, or a duration in the options
 * of a function of the Promise API is. Other invalid options of functions fail with `OptionsInvalid`. `problems` states what is wrong with
 * each option.
 */
export class RuntimeOptionsInvalid extends TaggedError<RuntimeOptionsInvalid>()("RuntimeOptionsInvalid", {
  /** Each invalid option by its key (`knob`), once for each problem. */
  problems: Schema.Array(Schema.Struct({ knob: Schema.String, problem: Schema.String }))
}) {
  override get message() {
    return sentence`The options are invalid: ${lines(this.problems.map(({ problem }) => problem).join("; "))}.`
  }
}

/** The runtime that is created, reconfigured or restored from a capture has no capability profile of this name. */
export class CapabilityProfileNotFound extends TaggedError<CapabilityProfileNotFound>()(
  "CapabilityProfileNotFound",
  { profile: Schema.String, known: Schema.Array(Schema.String) }
) {
  override get message() {
    return sentence`There is no capability profile "${this.profile}": use one of ${this.known.join(", ")}, or add it to the option "profiles".`
  }
}

/**
 * The model client of the runtime that is created, reconfigured or restored from a capture lists its profiles, and has none of this name.
 */
export class ModelProfileNotFound extends TaggedError<ModelProfileNotFound>()("ModelProfileNotFound", {
  profile: Schema.String,
  known: Schema.Array(Schema.String)
}) {
  override get message() {
    return sentence`There is no model profile "${this.profile}": use one of ${this.known.join(", ")}, or add it to the model client.`
  }
}

/** An extension failed to make its tools, when the runtime was created or reconfigured, or to start. */
export class ExtensionFailed extends TaggedError<ExtensionFailed>()("ExtensionFailed", {
  extension: Schema.String,
  during: Schema.Literals(["tools", "sections", "start"]),
  description: Schema.String
}) {
  override get message() {
    const what = this.during === "start" ? "start" : `make its ${this.during}`
    return sentence`The extension "${this.extension}" could not ${what}: ${lines(this.description)}`
  }
}

/**
 * A reconfiguration or a restored capture met runs in the middle of a turn: a call is open or a model call is running. Retry between turns.
 */
export class RuntimeBusy extends TaggedError<RuntimeBusy>()("RuntimeBusy", {
  /** The ids of these runs. */
  runs: Schema.Array(Schema.String)
}) {
  readonly isRetryable = true
  override get message() {
    const [first, ...more] = this.runs
    const who =
      more.length === 0
        ? sentence`The run ${first} is`
        : sentence`${this.runs.length} runs (${first}${more.length > 1 ? ", …" : sentence`, ${more[0]}`}) are`
    return sentence`${who} in the middle of a turn: reconfigure between turns, when the calls are settled, or cancel first.`
  }
}

/**
 * How a runtime was closed: by its scope as `completed` if the scope succeeded, `cancelled` if the scope was interrupted, `error` if the
 * scope failed; by an extension that failed to start as `error`; by a call of `Runtime.close` as the call says.
 */
export const CloseStatus = Schema.Literals(["completed", "cancelled", "error"])
export type CloseStatus = typeof CloseStatus.Type

/** The runtime was closed, and takes no more runs and no change. */
export class RuntimeClosed extends TaggedError<RuntimeClosed>()("RuntimeClosed", {
  agent: Schema.String,
  status: CloseStatus
}) {
  override get message() {
    return sentence`The runtime of the agent "${this.agent}" was closed (${this.status}): create another one.`
  }
}

/** The runtime cannot be reconfigured. */
export class ReconfigureRefused extends TaggedError<ReconfigureRefused>()("ReconfigureRefused", {
  /** `sandbox`: the profiles have different sandbox providers, and the runs of the runtime act in a sandbox of the current one. */
  reason: Schema.Literals(["sandbox"]),
  /** The name of the current capability profile. */
  from: Schema.String,
  /** The name of the profile that was asked for. */
  to: Schema.String
}) {
  override get message() {
    return sentence`The profiles "${this.from}" and "${this.to}" have different sandbox providers, and a live runtime keeps its own: close it, and create a runtime with the profile "${this.to}".`
  }
}

/**
 * `restoreState` was given a text that is not JSON, or does not have the fields of a capture. A damaged state in it is `RunStateMalformed`.
 * Other changes to a capture are not detected.
 */
export class CaptureMalformed extends TaggedError<CaptureMalformed>()("CaptureMalformed", {
  issues: Schema.String
}) {
  override get message() {
    return sentence`This is not a capture: ${lines(this.issues)}. Pass what captureState returned, unchanged.`
  }
}

/** `restoreState` was given a capture that a newer version of Fermata made. */
export class CaptureTooNew extends TaggedError<CaptureTooNew>()("CaptureTooNew", {
  version: Schema.Finite,
  supported: Schema.Finite
}) {
  override get message() {
    return sentence`This capture has version ${this.version}, and this Fermata reads up to ${this.supported}: update Fermata to restore it.`
  }
}
