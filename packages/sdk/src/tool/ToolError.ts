/**
 * What can be wrong with a definition. Thrown where a tool or an agent is defined with a key that there is not, or a value of another kind;
 * everything else is found when an agent is bound to a runtime, before anything runs.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { lines, sentence, text } from "../domain/Display.ts"
import { Misfit } from "../domain/Misfit.ts"

/** Two tools answer to one name. */
export class ToolNameTaken extends Schema.TaggedError<ToolNameTaken>()("ToolNameTaken", {
  agent: Schema.String,
  tool: Schema.String
}) {
  override get message() {
    return sentence`The agent "${this.agent}" has two tools that answer to "${this.tool}": rename one of them (names and aliases count; the tools of a server take a \`prefix\`).`
  }
}

/** The definition of a tool cannot work. */
export class ToolDefinitionError extends Schema.TaggedError<ToolDefinitionError>()("ToolDefinitionError", {
  /** The agent that has the tool; absent where the tool is defined and no agent has it yet. */
  agent: Schema.optionalKey(Schema.String),
  tool: Schema.String,
  problem: Schema.String,
  /** The keys in the definition that there are not, and values that do not fit. */
  misfits: Schema.optionalKey(Schema.Array(Misfit))
}) {
  override get message() {
    const of = this.agent === undefined ? "" : sentence` of the agent "${this.agent}"`
    return sentence`The tool "${this.tool}"${of} cannot be used: ${lines(this.problem)}.`
  }
}

/** The definition of an agent cannot work. */
export class AgentDefinitionError extends Schema.TaggedError<AgentDefinitionError>()("AgentDefinitionError", {
  agent: Schema.String,
  problem: Schema.String,
  /** The keys in the definition that there are not, and values that do not fit. */
  misfits: Schema.optionalKey(Schema.Array(Misfit))
}) {
  override get message() {
    return sentence`The agent "${this.agent}" cannot be used: ${lines(this.problem)}.`
  }
}

/** A handler fails with this to say to the model, in its own words, what went wrong. */
export class ToolFailure extends Schema.TaggedError<ToolFailure>()("ToolFailure", {
  description: Schema.String
}) {
  override get message() {
    return text(this.description)
  }
}
