/**
 * Snapshots: the state of a runtime at one event, for front ends that begin in the middle. Read the events after `seq` to follow it.
 *
 * @since 0.2.0
 */
import * as Schema from "effect/Schema"
import { RunId, SessionId } from "../domain/Id.ts"
import { Interruption } from "../domain/Interruption.ts"
import { AgentConfiguration, PolicySetting } from "./RuntimeEvent.ts"

/** The status of an active task. `queued` waits for the active task of its session. */
export const TaskStatus = Schema.Literals(["queued", "running", "waitingApproval", "cancelling"])
export type TaskStatus = typeof TaskStatus.Type

/** A task that has not ended. */
export const TaskSnapshot = Schema.Struct({
  taskId: RunId,
  status: TaskStatus,
  turn: Schema.Natural,
  /** The requests that wait for decisions. */
  requests: Schema.Array(Interruption)
})

/** An open session. */
export const SessionSnapshot = Schema.Struct({
  sessionId: SessionId,
  agent: Schema.String,
  title: Schema.optionalKey(Schema.String),
  policy: Schema.optionalKey(PolicySetting),
  task: Schema.optionalKey(TaskSnapshot),
  queued: Schema.Array(TaskSnapshot)
})

/**
 * The state of a runtime.
 *
 * @category models
 * @since 0.2.0
 */
export const RuntimeSnapshot = Schema.Struct({
  epoch: Schema.String,
  /** The number of the last event that the snapshot includes. */
  seq: Schema.Natural,
  status: Schema.Literals(["running", "stopping", "stopped"]),
  /** Whether tasks are stored. */
  stored: Schema.Boolean,
  agents: Schema.Record(Schema.String, AgentConfiguration),
  policy: Schema.optionalKey(PolicySetting),
  activeSessionId: Schema.optionalKey(SessionId),
  sessions: Schema.Array(SessionSnapshot)
})
export type RuntimeSnapshot = typeof RuntimeSnapshot.Type
