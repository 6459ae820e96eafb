/**
 * What can be wrong with a tool's definition. Raised when an agent is bound to a runtime, before anything runs.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { lines, sentence, text } from "../domain/Display.ts"

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
  agent: Schema.String,
  tool: Schema.String,
  problem: Schema.String
}) {
  override get message() {
    return sentence`The tool "${this.tool}" of the agent "${this.agent}" cannot be used: ${lines(this.problem)}.`
  }
}

/** The definition of an agent cannot work. */
export class AgentDefinitionError extends Schema.TaggedError<AgentDefinitionError>()("AgentDefinitionError", {
  agent: Schema.String,
  problem: Schema.String
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
