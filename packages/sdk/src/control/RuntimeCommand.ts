/**
 * The commands that front ends submit to a control plane.
 *
 * A command is plain JSON, and its schema is its wire format. Each carries an id: the plane takes a command once for its id, and answers a
 * repetition with the first acknowledgement. A command does not contain its author: the caller of `submit` states it, for example from the
 * token of a request. The same compatibility policy as for events applies: within {@link version}, changes only add commands and optional
 * fields. An unknown command or field is refused with `CommandInvalid`, because a command without it could do something else than its
 * sender wants.
 *
 * @since 0.2.0
 */
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import * as Decision from "../domain/Decision.ts"
import { RequestId, RunId, SessionId } from "../domain/Id.ts"
import { UserPart } from "../domain/Message.ts"
import { PolicySetting } from "./RuntimeEvent.ts"

/** The version of the commands. A command may state it as `v`; a command of another version is refused. */
export const version = 1

/** The id of a command, chosen by the front end: 1 to 128 letters, digits, `_`, `.`, `:` or `-`. */
export const CommandId = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_.:-]{1,128}$/))
export type CommandId = typeof CommandId.Type

const commandOf = <const Tag extends string, const Fields extends Schema.Struct.Fields>(
  tag: Tag,
  description: string,
  fields: Fields
) =>
  Schema.Struct({
    _tag: Schema.Literal(tag),
    v: Schema.optionalKey(Schema.Literal(version)),
    /** Default: a random one, with which a repetition is another command. */
    commandId: Schema.optionalKey(CommandId),
    ...fields
  }).annotate({ description })

/** The fields that the plane adds to a decision. */
const added = ["requestId", "by", "principal", "at", "digest", "idempotencyKey"] as const

/** A decision as a front end writes it: without its request, its author and its time. */
export const DecisionContent = Schema.Union([
  Decision.Approve.mapFields(Struct.omit([...added, "schema"])),
  Decision.Deny.mapFields(Struct.omit([...added, "supersedes"])),
  Decision.Answer.mapFields(Struct.omit(added)),
  Decision.Supply.mapFields(Struct.omit([...added, "whole"])),
  Decision.Retry.mapFields(Struct.omit(added)),
  Decision.Fail.mapFields(Struct.omit([...added, "supersedes"])),
  Decision.TopUp.mapFields(Struct.omit(added))
])

const ofSession = {
  /** Default: the active session. */
  sessionId: Schema.optionalKey(SessionId)
}

/** A title of at most 200 characters. */
const Title = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200))

/** Starts a task with a prompt. */
export const SubmitPrompt = commandOf(
  "SubmitPrompt",
  "Starts a task with a prompt in a session. Rejected with `TaskActive` while the session has an active task, unless it may be queued.",
  {
    ...ofSession,
    /** A text, or parts such as texts and files. */
    prompt: Schema.Union([Schema.String, Schema.Array(UserPart)]),
    /** The name of the agent, for a session without tasks. Default: the session's agent. */
    agent: Schema.optionalKey(Schema.String),
    /** What happens while the session has an active task. Default: `reject`. */
    whenActive: Schema.optionalKey(Schema.Literals(["reject", "queue"])),
    /** The context of the run, such as a tenant and a user. */
    context: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
  }
)

/** The commands. */
export const RuntimeCommand = Schema.Union([
  SubmitPrompt,
  commandOf(
    "Approve",
    "Decides a request of an active task. The decision may be of any kind that fits the request.",
    {
      /** The id of the request. */
      approvalId: RequestId,
      decision: DecisionContent,
      /** The digest that the approval request showed. A decision with another digest is refused. */
      digest: Schema.optionalKey(Schema.String)
    }
  ),
  commandOf("CancelTask", "Cancels the active task with this id.", {
    taskId: RunId,
    reason: Schema.optionalKey(Schema.String)
  }),
  commandOf(
    "SetApprovalPolicy",
    "Sets the approval mode for the tasks of a session, or of all sessions: those to come, and those at work, which record the change. Open requests stay open.",
    { policy: PolicySetting, sessionId: Schema.optionalKey(SessionId) }
  ),
  commandOf(
    "SwitchModel",
    "Gives an agent another model profile. Rejected while a task of the agent is active.",
    {
      profile: Schema.NonEmptyString,
      /** Default: the agent of the active session. */
      agent: Schema.optionalKey(Schema.String)
    }
  ),
  commandOf(
    "SwitchProfile",
    "Gives an agent another capability profile. Rejected while a task of the agent is active.",
    { profile: Schema.NonEmptyString, agent: Schema.optionalKey(Schema.String) }
  ),
  commandOf("SessionNew", "Creates a session and makes it the active one.", {
    agent: Schema.optionalKey(Schema.String),
    title: Schema.optionalKey(Title)
  }),
  commandOf(
    "SessionResume",
    "Opens an earlier session, with its unfinished task if it has one, and makes it the active one.",
    {
      sessionId: SessionId
    }
  ),
  commandOf("SessionResumeLast", "Opens the session whose last task is the newest.", {}),
  commandOf(
    "SessionCompact",
    "Compacts the context of a session, whose next task gets a summary of the oldest messages. Rejected while it has an active task.",
    ofSession
  ),
  commandOf("SessionList", "Lists sessions, the one with the newest task first.", {
    /** Default: 100, at most 1,000. */
    limit: Schema.optionalKey(Schema.Natural)
  }),
  commandOf("SessionRename", "Gives a session a title.", { ...ofSession, title: Title }),
  commandOf("SessionDelete", "Deletes a session and its runs. Rejected while it has an active task.", {
    sessionId: SessionId
  }),
  commandOf(
    "Shutdown",
    "Stops the runtime: denies requests that wait only in memory, parks held stored tasks, and cancels the tasks that run.",
    { reason: Schema.optionalKey(Schema.String) }
  )
])
/**
 * A command as a front end writes it.
 *
 * @category models
 * @since 0.2.0
 */
export type RuntimeCommand = typeof RuntimeCommand.Type
