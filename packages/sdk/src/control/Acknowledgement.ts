/**
 * Acknowledgements: the answers to commands that a control plane has taken. A command that it refuses fails with a `CommandRejection`.
 *
 * @since 0.2.0
 */
import * as Schema from "effect/Schema"
import { Decision } from "../domain/Decision.ts"
import { RunId, SessionId, Timestamp } from "../domain/Id.ts"
import { Status } from "../domain/RunState.ts"
import { AgentConfiguration, PolicySetting } from "./RuntimeEvent.ts"

/** A session as `SessionList` lists it. */
export const SessionSummary = Schema.Struct({
  sessionId: SessionId,
  title: Schema.optionalKey(Schema.String),
  agent: Schema.String,
  /** The status of the last task's run. Absent if the session has no task. */
  status: Schema.optionalKey(Status),
  lastTaskId: Schema.optionalKey(RunId),
  createdAt: Timestamp,
  updatedAt: Timestamp,
  /** Whether it is the active session. */
  active: Schema.Boolean
})
export type SessionSummary = typeof SessionSummary.Type

const ackOf = <const Tag extends string, const Fields extends Schema.Struct.Fields>(
  tag: Tag,
  fields: Fields
) =>
  Schema.Struct({
    _tag: Schema.Literal(tag),
    commandId: Schema.String,
    /** The number of the last event when the command was taken. Events of its effects have higher numbers. */
    seq: Schema.Natural,
    /** Set if this command had been taken before: nothing was done again. */
    repeated: Schema.optionalKey(Schema.Literal(true)),
    ...fields
  })

/**
 * The answer to a command that was taken: the command's id, the number of the last event before it, and its outcome.
 *
 * @category models
 * @since 0.2.0
 */
export const Acknowledgement = Schema.Union([
  ackOf("TaskStarted", { sessionId: SessionId, taskId: RunId }),
  ackOf("TaskQueued", { sessionId: SessionId, taskId: RunId, position: Schema.Natural }),
  ackOf("Decided", { decision: Decision }),
  ackOf("TaskCancelling", { taskId: RunId }),
  /** `tasks` are those at work that record the change before their next step. */
  ackOf("PolicySet", { policy: PolicySetting, tasks: Schema.Array(RunId) }),
  ackOf("Reconfigured", { agent: Schema.String, configuration: AgentConfiguration }),
  /** The session that is now the active one, with its unfinished task. */
  ackOf("SessionOpened", { sessionId: SessionId, taskId: Schema.optionalKey(RunId) }),
  ackOf("SessionRenamed", { sessionId: SessionId, title: Schema.String }),
  /** The event `session.compacted` follows, or a warning if nothing was compacted. */
  ackOf("SessionCompacting", { sessionId: SessionId, taskId: RunId }),
  ackOf("SessionDeleted", { sessionId: SessionId }),
  ackOf("SessionsListed", { sessions: Schema.Array(SessionSummary) }),
  ackOf("Stopped", {})
])
export type Acknowledgement = typeof Acknowledgement.Type
