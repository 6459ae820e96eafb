/**
 * What can be wrong with a runtime, and with what is asked of it. None of these changed anything.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { lines, sentence } from "../domain/Display.ts"

/** What a runtime was told does not fit. Every knob that is wrong is named, with what it takes. */
export class RuntimeOptionsInvalid extends Schema.TaggedError<RuntimeOptionsInvalid>()(
  "RuntimeOptionsInvalid",
  {
    /** Each knob that is wrong, once or more, and what is wrong with it. */
    problems: Schema.Array(Schema.Struct({ knob: Schema.String, problem: Schema.String }))
  }
) {
  override get message() {
    return sentence`The runtime cannot be used like this: ${lines(this.problems.map(({ problem }) => problem).join("; "))}.`
  }
}

/** No capability profile has this name. */
export class CapabilityProfileNotFound extends Schema.TaggedError<CapabilityProfileNotFound>()(
  "CapabilityProfileNotFound",
  { profile: Schema.String, known: Schema.Array(Schema.String) }
) {
  override get message() {
    return sentence`There is no capability profile "${this.profile}": use one of ${this.known.join(", ")}, or add it to the option "profiles".`
  }
}

/** The model client has no profile of this name. */
export class ModelProfileNotFound extends Schema.TaggedError<ModelProfileNotFound>()("ModelProfileNotFound", {
  profile: Schema.String,
  known: Schema.Array(Schema.String)
}) {
  override get message() {
    return sentence`There is no model profile "${this.profile}": use one of ${this.known.join(", ")}, or add it to the model client.`
  }
}

/** An extension could not make its tools, or could not start. */
export class ExtensionFailed extends Schema.TaggedError<ExtensionFailed>()("ExtensionFailed", {
  extension: Schema.String,
  during: Schema.Literals(["tools", "start"]),
  description: Schema.String
}) {
  override get message() {
    const what = this.during === "tools" ? "make its tools" : "start"
    return sentence`The extension "${this.extension}" could not ${what}: ${lines(this.description)}`
  }
}

/** Runs are in the middle of a turn: a call is open, or a model is being asked. */
export class RuntimeBusy extends Schema.TaggedError<RuntimeBusy>()("RuntimeBusy", {
  /** The ids of those runs. */
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

/** How a runtime was closed: its work was done, was called off, or went wrong. */
export const CloseStatus = Schema.Literals(["completed", "cancelled", "error"])
export type CloseStatus = typeof CloseStatus.Type

/** The runtime was closed. */
export class RuntimeClosed extends Schema.TaggedError<RuntimeClosed>()("RuntimeClosed", {
  agent: Schema.String,
  status: CloseStatus
}) {
  override get message() {
    return sentence`The runtime of the agent "${this.agent}" was closed (${this.status}): create another one.`
  }
}

/** This runtime cannot be reconfigured at all. */
export class ReconfigureRefused extends Schema.TaggedError<ReconfigureRefused>()("ReconfigureRefused", {
  /** `remote`: its tools act in a remote sandbox, which was set up for the profile that it has. */
  reason: Schema.Literals(["remote"])
}) {
  override get message() {
    return "The tools of this runtime act in a remote sandbox, which cannot be reconfigured: close it, and create a runtime with the other profile."
  }
}

/** The text is not what `captureState` made. */
export class CaptureMalformed extends Schema.TaggedError<CaptureMalformed>()("CaptureMalformed", {
  issues: Schema.String
}) {
  override get message() {
    return sentence`This is not a capture: ${lines(this.issues)}. Pass what captureState returned, unchanged.`
  }
}

/** The capture was made by a newer Fermata. */
export class CaptureTooNew extends Schema.TaggedError<CaptureTooNew>()("CaptureTooNew", {
  version: Schema.Finite,
  supported: Schema.Finite
}) {
  override get message() {
    return sentence`This capture has version ${this.version}, and this Fermata reads up to ${this.supported}: update Fermata to go on with it.`
  }
}
