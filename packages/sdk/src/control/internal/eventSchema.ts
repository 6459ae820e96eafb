/**
 * The pieces from which the schemas of events are built.
 */
import * as Schema from "effect/Schema"
import { RunId, SessionId } from "../../domain/Id.ts"

/** Defines an event of a family, with the sentence of the event reference. */
export const eventOf = <
  const Family extends string,
  const Tag extends string,
  const Fields extends Schema.Struct.Fields
>(
  family: Family,
  tag: Tag,
  description: string,
  fields: Fields
) =>
  Schema.Struct({ family: Schema.Literal(family), _tag: Schema.Literal(tag), ...fields }).annotate({
    description
  })

/** The place of an event of a task. */
export const scope = {
  sessionId: SessionId,
  /** The task: the id of its run. */
  taskId: RunId,
  /** The turn of the run that the event is about, from 1; 0 before the first response. */
  turn: Schema.Natural,
  /** The names of the agents from the root to the agent that the event is about. */
  agentPath: Schema.Array(Schema.String),
  /** The run that the event is about: the task's own, or that of a sub-agent in it. Two sub-agents may have one name. */
  agentRunId: RunId
}

/** A failure in words that may be shown: the error's code, and its message without secrets. */
export const Problem = Schema.Struct({ code: Schema.String, message: Schema.String })
