/**
 * What a held run waits for: requests, each with one id, each answered by one decision.
 *
 * All kinds share one list, so that an inbox needs to know one thing only. A request never changes: when what it asks about
 * changes, it is superseded by a new one with a new id.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { RequestId, RunId, Timestamp, ToolCallId } from "./Id.ts"
import { Budget } from "./Limits.ts"

/**
 * What a tool may do: `readOnly` changes nothing; `sideEffecting` changes something (the default for a tool that does not
 * say); `privileged` changes something that matters and can never be granted for more than one call.
 */
export const Safety = Schema.Literals(["readOnly", "sideEffecting", "privileged"])
export type Safety = typeof Safety.Type

const fields = {
  requestId: RequestId,
  /** The run that asks: the root's, or a sub-agent's. */
  runId: RunId,
  /** Names of the agents from the root to the one that asks. */
  agentPath: Schema.Array(Schema.String),
  /** When it was asked. */
  at: Timestamp,
  expiresAt: Schema.optionalKey(Timestamp),
  /** What happens at `expiresAt`: a denial by `expiry`, or nothing. */
  onExpiry: Schema.optionalKey(Schema.Literals(["deny", "stay"]))
}

const callFields = {
  callId: ToolCallId,
  tool: Schema.String,
  /** The decoded arguments, as JSON: what the body gets. */
  arguments: Schema.Json
}

/** May this call run? */
export const ToolApprovalItem = Schema.TaggedStruct("approval", {
  ...fields,
  ...callFields,
  /**
   * SHA-256 (hex) over the tool's identity and the arguments; a decision that carries another one is refused. Of a request without
   * `schema`, over the tool's name and the arguments.
   */
  digest: Schema.String,
  /** Fingerprint of the argument schema under which the arguments were decoded. */
  schema: Schema.optionalKey(Schema.String),
  safety: Safety,
  /** The tool's own words about the risk. */
  risk: Schema.optionalKey(Schema.String),
  /** The tool's own rendering of what would happen, such as a diff. */
  preview: Schema.optionalKey(Schema.String),
  /** Why it is asked, when that is not plain: an earlier decision could not be used, a rule failed. */
  reason: Schema.optionalKey(Schema.String)
})
export type ToolApprovalItem = typeof ToolApprovalItem.Type

/** The model asks the user. */
export const QuestionRequest = Schema.TaggedStruct("question", {
  ...fields,
  callId: ToolCallId,
  question: Schema.String,
  /** Answers to choose from; any other answer is allowed too. */
  options: Schema.optionalKey(Schema.Array(Schema.String))
})
export type QuestionRequest = typeof QuestionRequest.Type

/** A call was started, and its outcome is unknown. Did it happen? */
export const InDoubtRequest = Schema.TaggedStruct("inDoubt", {
  ...fields,
  ...callFields,
  /** Handed to the tool when it started; the same for every attempt. */
  idempotencyKey: Schema.String,
  /** Fingerprint of the tool's argument schema when this was asked; a retry under another one is asked about again. */
  schema: Schema.optionalKey(Schema.String),
  /** The tool's safety when this was asked. */
  safety: Schema.optionalKey(Safety),
  startedAt: Timestamp,
  attempt: Schema.Natural,
  /** Why it is asked, when no process died: the journal of the start is lost, or the tool has changed since. */
  reason: Schema.optionalKey(Schema.String)
})
export type InDoubtRequest = typeof InDoubtRequest.Type

/** A budget is used up. May the run go on with more? */
export const LimitRequest = Schema.TaggedStruct("limit", {
  ...fields,
  budget: Budget,
  limit: Schema.Finite,
  spent: Schema.Finite
})
export type LimitRequest = typeof LimitRequest.Type

/** A provider wants a new login. */
export const LoginRequest = Schema.TaggedStruct("login", {
  ...fields,
  profile: Schema.String,
  message: Schema.String
})
export type LoginRequest = typeof LoginRequest.Type

/** One request of a held run. */
export const Interruption = Schema.Union([
  ToolApprovalItem,
  QuestionRequest,
  InDoubtRequest,
  LimitRequest,
  LoginRequest
])
export type Interruption = typeof Interruption.Type

/** The kinds of request. */
export const Kind = Schema.Literals(["approval", "question", "inDoubt", "limit", "login"])
export type Kind = typeof Kind.Type

/** The tool call that a request is about, if it is about one. */
export const callIdOf = (request: Interruption): ToolCallId | undefined =>
  "callId" in request ? request.callId : undefined

/** The tool that a request is about, if it is about one. */
export const toolOf = (request: Interruption): string | undefined =>
  "tool" in request ? request.tool : undefined

const hour = 60 * 60 * 1000

/**
 * When to warn that a request is about to expire: an hour before, or for the last quarter of a shorter life. Only for one
 * that is denied when its time is up.
 */
export const warnAt = (request: Interruption): Timestamp | undefined =>
  request.expiresAt === undefined || request.onExpiry === "stay"
    ? undefined
    : request.expiresAt - Math.min(hour, Math.floor(Math.max(0, request.expiresAt - request.at) / 4))

/** Whether the request's time is up and its policy is to deny. */
export const isExpired = (request: Interruption, now: Timestamp): boolean =>
  request.expiresAt !== undefined && now >= request.expiresAt && request.onExpiry !== "stay"
