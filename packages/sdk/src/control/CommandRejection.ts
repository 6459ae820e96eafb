/**
 * Rejections of commands. A rejected command has changed nothing, unless its description says otherwise. The domain's own rejections of
 * decisions, such as `AlreadyDecided`, are passed on as they are.
 *
 * @since 0.2.0
 */
import * as Schema from "effect/Schema"
import { lines, sentence } from "../domain/Display.ts"
import { RunId, SessionId } from "../domain/Id.ts"
import type { Rejection } from "../domain/Rejection.ts"
import { TaggedError } from "../domain/TaggedError.ts"

/** The value is not a command of this version. `issues` say what to correct. */
export class CommandInvalid extends TaggedError<CommandInvalid>()("CommandInvalid", {
  issues: Schema.String
}) {
  override get message() {
    return sentence`This command cannot be used: ${lines(this.issues)}.`
  }
}

/** Another command was taken for this id. Choose another id. */
export class CommandIdTaken extends TaggedError<CommandIdTaken>()("CommandIdTaken", {
  commandId: Schema.String
}) {
  override get message() {
    return sentence`Another command was taken for the id ${this.commandId}: choose another id for this one.`
  }
}

/** The command is not possible while this task is active. Wait for the task's end, cancel it, or let the prompt be queued. */
export class TaskActive extends TaggedError<TaskActive>()("TaskActive", {
  command: Schema.String,
  sessionId: SessionId,
  taskId: RunId
}) {
  override get message() {
    const way = this.command === "SubmitPrompt" ? ', or submit it with whenActive: "queue"' : ""
    return sentence`${this.command} is not possible while the task ${this.taskId} of the session ${this.sessionId} is active: wait for its end, or cancel it${way}.`
  }
}

/** No active task has this id. `active` lists the active tasks. */
export class TaskNotActive extends TaggedError<TaskNotActive>()("TaskNotActive", {
  taskId: Schema.String,
  active: Schema.Array(RunId)
}) {
  override get message() {
    const active = this.active.length === 0 ? "no task is active" : `active: ${this.active.join(", ")}`
    return sentence`The task ${this.taskId} is not active (${active}).`
  }
}

/** The session's queue is full. Submit the prompt again when a task has ended. */
export class QueueFull extends TaggedError<QueueFull>()("QueueFull", {
  sessionId: SessionId,
  limit: Schema.Natural
}) {
  override get message() {
    return sentence`The session ${this.sessionId} has ${this.limit} queued prompts already: submit this one when a task has ended.`
  }
}

/** There is no session with this id; without an id, no session is active. List the sessions, or create one. */
export class SessionNotFound extends TaggedError<SessionNotFound>()("SessionNotFound", {
  sessionId: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    return this.sessionId === undefined
      ? "There is no session yet: create one with SessionNew, or submit a prompt."
      : sentence`There is no session ${this.sessionId}: list the sessions, or create one with SessionNew.`
  }
}

/** The runtime has no agent of this name, or the session belongs to another agent. `known` lists the agents that can be named. */
export class AgentUnknown extends TaggedError<AgentUnknown>()("AgentUnknown", {
  agent: Schema.String,
  known: Schema.Array(Schema.String)
}) {
  override get message() {
    return sentence`This runtime cannot use the agent ${this.agent} here; it has ${this.known.join(", ")}.`
  }
}

/** The session has no stored history that could be compacted: the runtime has no store, or the session has no task yet; see `reason`. */
export class CompactionUnavailable extends TaggedError<CompactionUnavailable>()("CompactionUnavailable", {
  sessionId: SessionId,
  reason: Schema.String
}) {
  override get message() {
    return sentence`The session ${this.sessionId} cannot be compacted: ${this.reason}.`
  }
}

/** The command is not possible while the session is being compacted. Wait for its event `session.compacted`, or for a warning. */
export class CompactionActive extends TaggedError<CompactionActive>()("CompactionActive", {
  command: Schema.String,
  sessionId: SessionId
}) {
  override get message() {
    const way = this.command === "SubmitPrompt" ? ', or submit it with whenActive: "queue"' : ""
    return sentence`${this.command} is not possible while the session ${this.sessionId} is being compacted: wait for its end${way}.`
  }
}

/** The runtime is stopping or has stopped. Start another one. */
export class RuntimeStopped extends TaggedError<RuntimeStopped>()("RuntimeStopped", {}) {
  override get message() {
    return "This runtime has stopped and takes no more commands: start another one."
  }
}

/** An operation on behalf of the command failed. `reason` is the tag of the error. The store may have been changed in part. */
export class CommandFailed extends TaggedError<CommandFailed>()("CommandFailed", {
  command: Schema.String,
  reason: Schema.String,
  problem: Schema.String
}) {
  override get message() {
    return sentence`${this.command} failed (${this.reason}): ${lines(this.problem)}`
  }
}

/** The schema of the rejections that this module defines. */
export const ControlRejection = Schema.Union([
  CommandInvalid,
  CommandIdTaken,
  TaskActive,
  TaskNotActive,
  QueueFull,
  SessionNotFound,
  AgentUnknown,
  CompactionUnavailable,
  CompactionActive,
  RuntimeStopped,
  CommandFailed
])

/** The rejections of commands: those of this module, and those of decisions. */
export type CommandRejection = typeof ControlRejection.Type | Rejection
