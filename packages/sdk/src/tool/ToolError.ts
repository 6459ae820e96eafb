/**
 * Errors of the definitions of tools and agents, and {@link ToolFailure}.
 *
 * `Tool.make` and `Agent.make` throw the definition errors for an empty name, an unknown or missing key, a value of the wrong type or an
 * invalid policy. Binding an agent to a runtime fails with them for every other problem, before anything runs.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { lines, sentence, text } from "../domain/Display.ts"
import { Misfit } from "../domain/Misfit.ts"
import { TaggedError } from "../domain/TaggedError.ts"

/**
 * An agent cannot be bound to a runtime, because two of its tools, including those by which its model calls other agents, or two of its
 * sub-agents have the same name or alias.
 */
export class ToolNameTaken extends TaggedError<ToolNameTaken>()("ToolNameTaken", {
  agent: Schema.String,
  tool: Schema.String
}) {
  override get message() {
    return sentence`The agent "${this.agent}" has two tools that answer to "${this.tool}": rename one of them (names and aliases count; the tools of a server take a \`prefix\`).`
  }
}

/** The definition of a tool is invalid, or a bridge to toolkits cannot convert the tool, for example because it needs a run. */
export class ToolDefinitionError extends TaggedError<ToolDefinitionError>()("ToolDefinitionError", {
  /** The agent that has the tool. Absent if the tool has none yet: in errors of `Tool.make` and of the bridges to toolkits. */
  agent: Schema.optionalKey(Schema.String),
  /** The name of the tool; empty if it has none. */
  tool: Schema.String,
  problem: Schema.String,
  /** The unknown keys of the definition, and the values of the wrong type. */
  misfits: Schema.optionalKey(Schema.Array(Misfit))
}) {
  override get message() {
    const of = this.agent === undefined ? "" : sentence` of the agent "${this.agent}"`
    const subject = this.tool === "" ? "A tool" : sentence`The tool "${this.tool}"`
    return sentence`${subject}${of} cannot be used: ${lines(this.problem)}.`
  }
}

/**
 * The definition of an agent is invalid; its policy has a rule for a tool that the agents do not have; two agents of a Fermata have the
 * same name or alias; or a resource of an agent's tools is closed.
 */
export class AgentDefinitionError extends TaggedError<AgentDefinitionError>()("AgentDefinitionError", {
  /** The name of the agent; empty if it has none. */
  agent: Schema.String,
  problem: Schema.String,
  /** The unknown keys of the definition, and the values of the wrong type. */
  misfits: Schema.optionalKey(Schema.Array(Misfit))
}) {
  override get message() {
    const subject = this.agent === "" ? "An agent" : sentence`The agent "${this.agent}"`
    return sentence`${subject} cannot be used: ${lines(this.problem)}.`
  }
}

/** A failure with a description for the model. A handler may fail with it, and the runtime uses it for failures such as a timeout. */
export class ToolFailure extends TaggedError<ToolFailure>()("ToolFailure", {
  description: Schema.String
}) {
  override get message() {
    return text(this.description)
  }
}

/**
 * A secret that the arguments of a call refer to cannot be used, for the `reason`. The body does not start now; it may have run in an
 * earlier try or attempt. `Secrets.get` describes the outcome of the call.
 */
export class SecretUnavailable extends TaggedError<SecretUnavailable>()("SecretUnavailable", {
  tool: Schema.String,
  /** The name of the secret, or the text in its place that is no name. */
  secret: Schema.String,
  /**
   * `notStated`: the tool does not state it. `missing`: the source has none of this name for the call. `failed`: the source failed; its
   * failure is logged. `short`: its value is under 6 characters. `unfit`: its value does not fit the parameters of the tool.
   */
  reason: Schema.Literals(["notStated", "missing", "failed", "short", "unfit"])
}) {
  override get message() {
    return sentence`The secret "${this.secret}" cannot be used by ${this.tool}: ${whyUnavailable[this.reason]}.`
  }
}

const whyUnavailable = {
  notStated: "state it in the option secrets of the tool",
  missing: "the source of secrets has none of this name for the call",
  failed: "the source of secrets failed",
  short: "its value is under 6 characters and may be a part of words",
  unfit: "its value does not fit the parameters of the tool"
}

/**
 * A value cannot be shown to a model. The call whose result it is fails after its body has run, which may have taken effect;
 * `Tool.toContent` throws the error.
 */
export class ToolResultInvalid extends TaggedError<ToolResultInvalid>()("ToolResultInvalid", {
  /** The tool; absent where a value is read without one. */
  tool: Schema.optionalKey(Schema.String),
  problem: Schema.String
}) {
  override get message() {
    const of = this.tool === undefined ? "" : sentence` of the tool "${this.tool}"`
    return sentence`The result${of} cannot be shown to a model: ${lines(this.problem)}. Return text, a plain object, bytes or Tool.content.`
  }
}
