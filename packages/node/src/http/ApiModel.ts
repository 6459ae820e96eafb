/**
 * What the HTTP interface sends and takes, besides commands, events and decisions, which have their schemas in the SDK.
 *
 * @since 0.2.0
 */
import { DecisionContent } from "@fermata/sdk/control/RuntimeCommand"
import { RequestId, Revision, RunId, SessionId, Timestamp } from "@fermata/sdk/domain/Id"
import { Interruption, Kind } from "@fermata/sdk/domain/Interruption"
import { UserPart } from "@fermata/sdk/domain/Message"
import { Status } from "@fermata/sdk/domain/RunState"
import * as Schema from "effect/Schema"

/** A run without its journal. A `lease` in force names the process that drives it. */
export const RunSummary = Schema.Struct({
  runId: RunId,
  sessionId: SessionId,
  agent: Schema.String,
  answeredBy: Schema.optionalKey(Schema.String),
  status: Status,
  revision: Revision,
  parent: Schema.optionalKey(Schema.Struct({ runId: RunId, revision: Revision })),
  createdAt: Timestamp,
  updatedAt: Timestamp,
  cancelReason: Schema.optionalKey(Schema.String),
  lease: Schema.optionalKey(Schema.Struct({ owner: Schema.String, until: Timestamp }))
})
export type RunSummary = typeof RunSummary.Type

/** A session by its last run. */
export const StoredSession = Schema.Struct({ sessionId: SessionId, last: RunSummary, createdAt: Timestamp })
export type StoredSession = typeof StoredSession.Type

/** An open request, as an element of the inbox. */
export const InboxItem = Schema.Struct({
  request: Interruption,
  /** The root run. `request.runId` may be a sub-agent's. */
  runId: RunId,
  sessionId: SessionId,
  agent: Schema.String
})
export type InboxItem = typeof InboxItem.Type

/** The acknowledgement of a message to a run. */
export const MessageReceipt = Schema.Struct({ messageId: Schema.String, at: Timestamp })
export type MessageReceipt = typeof MessageReceipt.Type

/** A prompt: a text, or parts such as texts and files. */
export const Prompt = Schema.Union([Schema.String, Schema.Array(UserPart)])
export type Prompt = typeof Prompt.Type

/** A decision on one request, without its author and its time, which the server adds. */
export const DecisionPayload = Schema.Struct({
  decision: DecisionContent,
  /** The digest that the approval request showed. A decision about other arguments is refused. */
  digest: Schema.optionalKey(Schema.String),
  /** Makes a repetition safe: the same decision with the same key is answered with the recorded one. */
  idempotencyKey: Schema.optionalKey(Schema.NonEmptyString)
})
export type DecisionPayload = typeof DecisionPayload.Type

/** Several decisions, which are recorded all or not at all. */
export const DecisionsPayload = Schema.Struct({
  decisions: Schema.Array(Schema.Struct({ requestId: RequestId, ...DecisionPayload.fields }))
})
export type DecisionsPayload = typeof DecisionsPayload.Type

/** Why a run is cancelled. */
export const CancelPayload = Schema.Struct({ reason: Schema.optionalKey(Schema.String) })

/** What a fork continues with. */
export const ForkPayload = Schema.Struct({
  prompt: Prompt,
  /** The number of events of the original that the fork builds on. Default: the last revision at which no call was open. */
  revision: Schema.optionalKey(Schema.Natural),
  /** The fork's id, so that a repeated request does not fork twice. Default: a new id. */
  newRunId: Schema.optionalKey(RunId),
  agent: Schema.optionalKey(Schema.String)
})
export type ForkPayload = typeof ForkPayload.Type

/** A message to a run. */
export const SendPayload = Schema.Struct({ prompt: Prompt, messageId: Schema.optionalKey(Schema.String) })
export type SendPayload = typeof SendPayload.Type

const page = { limit: Schema.optionalKey(Schema.Natural) }

/** Selects runs, the newest first. */
export const RunsQuery = Schema.Struct({
  ...page,
  status: Schema.optionalKey(Status),
  agent: Schema.optionalKey(Schema.String),
  sessionId: Schema.optionalKey(SessionId),
  after: Schema.optionalKey(RunId)
})
export type RunsQuery = typeof RunsQuery.Type

/** Selects sessions by their last run, the newest first. */
export const SessionsQuery = Schema.Struct({
  ...page,
  status: Schema.optionalKey(Status),
  agent: Schema.optionalKey(Schema.String),
  /** The last run of the last session of the page before. */
  after: Schema.optionalKey(RunId)
})
export type SessionsQuery = typeof SessionsQuery.Type

/** Selects messages of a session by their sequence numbers. */
export const MessagesQuery = Schema.Struct({
  ...page,
  before: Schema.optionalKey(Schema.Natural),
  after: Schema.optionalKey(Schema.Natural)
})
export type MessagesQuery = typeof MessagesQuery.Type

/** Selects open requests, the oldest first. */
export const InboxQuery = Schema.Struct({
  ...page,
  kind: Schema.optionalKey(Kind),
  tool: Schema.optionalKey(Schema.String),
  agent: Schema.optionalKey(Schema.String),
  runId: Schema.optionalKey(RunId),
  sessionId: Schema.optionalKey(SessionId),
  after: Schema.optionalKey(RequestId)
})
export type InboxQuery = typeof InboxQuery.Type
