/**
 * Interruptions: the requests that a held run waits for. Each has an id, and takes at most one decision.
 *
 * All kinds of request share one list, so an inbox handles a single type. Two kinds ask no one: the expiry of a `timer` decides it, and the
 * system that works on an `external` call completes it. A decision can end both earlier. A request never changes. If the call or budget
 * that it asks about changes, the request is closed; if there is still something to ask, a new request with a new id replaces it.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { RequestId, RunId, Timestamp, ToolCallId } from "./Id.ts"
import { Budget } from "./Limits.ts"
import { UntrustedResult } from "./Untrusted.ts"

/**
 * The declared effect of a tool: `readOnly` changes nothing; `sideEffecting`, the default, changes something; `privileged` changes
 * something important. Grants for a privileged tool are refused, so each request about it is decided on its own.
 */
export const Safety = Schema.Literals(["readOnly", "sideEffecting", "privileged"])
export type Safety = typeof Safety.Type

const fields = {
  requestId: RequestId,
  /** The run that opened the request: the root run, or a sub-agent's run. */
  runId: RunId,
  /** Names of the agents from the root to the agent that asks. */
  agentPath: Schema.Array(Schema.String),
  /** When the request was opened. */
  at: Timestamp,
  /** When the request expires. A timer has it; an approval and an external call have it if their tool sets an expiry; others do not. */
  expiresAt: Schema.optionalKey(Timestamp),
  /** When to announce that the request will expire soon. Absent: see {@link warnAt}. */
  warnAt: Schema.optionalKey(Timestamp),
  /**
   * At `expiresAt`, `deny` (the default) decides the request by `expiry`: `deny`, `fail` for a call in doubt and an external call, or
   * `supply` for a timer. `stay` leaves it open.
   */
  onExpiry: Schema.optionalKey(Schema.Literals(["deny", "stay"]))
}

const callFields = {
  callId: ToolCallId,
  tool: Schema.String,
  /** The decoded arguments that the body would receive. Values that are not JSON, such as dates, are shown in a JSON form. */
  arguments: Schema.Json
}

/** Asks whether a call may run. Decisions: approve, deny, supply. */
export const ToolApprovalItem = Schema.TaggedStruct("approval", {
  ...fields,
  ...callFields,
  /**
   * SHA-256 (hex) of the tool's identity, the arguments and the facts; a decision that carries another digest is refused. For a request
   * without `schema`, which an earlier version opened: of the tool's name and the arguments.
   */
  digest: Schema.String,
  /** Fingerprint of the argument schema under which the arguments were decoded. Absent in requests of earlier versions. */
  schema: Schema.optionalKey(Schema.String),
  safety: Safety,
  /** What the tool stated when the request opened, such as a price. The digest covers it, and it is compared again right before the body. */
  facts: Schema.optionalKey(Schema.Json),
  /** The tool's text about what could go wrong. Absent if the tool gave none. */
  risk: Schema.optionalKey(Schema.String),
  /** The tool's text about what would happen, such as a diff. Absent if the tool gave none. */
  preview: Schema.optionalKey(Schema.String),
  /**
   * Why each such call needs a decision of its own, in the words of the tool: no policy and no grant permits it, and an approval with a
   * grant is refused. Absent if a policy or a grant may permit the call.
   */
  always: Schema.optionalKey(Schema.String),
  /**
   * The untrusted results that the run has read, if the call has effects outside of the workspace. No policy or earlier grant permits the
   * call because of them. A grant of this request covers calls while there are no others. Absent if there are none.
   */
  untrusted: Schema.optionalKey(Schema.Array(UntrustedResult)),
  /**
   * Why the request was opened, in unusual cases: a rule failed, or an earlier decision, grant or permission could not be used. Absent
   * otherwise.
   */
  reason: Schema.optionalKey(Schema.String)
})
export type ToolApprovalItem = typeof ToolApprovalItem.Type

/** A question that the model asks the user. Decisions: answer, deny. */
export const QuestionRequest = Schema.TaggedStruct("question", {
  ...fields,
  callId: ToolCallId,
  question: Schema.String,
  /** Suggested answers; any other answer is accepted, too. */
  options: Schema.optionalKey(Schema.Array(Schema.String))
})
export type QuestionRequest = typeof QuestionRequest.Type

/** Asks for the outcome of a call that may have run. Decisions: retry, supply, fail. */
export const InDoubtRequest = Schema.TaggedStruct("inDoubt", {
  ...fields,
  ...callFields,
  /** The key that every attempt of the call passes to the external service. */
  idempotencyKey: Schema.String,
  /** The idempotency key, if the work of the tool ends elsewhere (`external`): the token by which its result decides the request. */
  token: Schema.optionalKey(Schema.String),
  /** Fingerprint of the tool's argument schema when the request was opened. A retry of a tool that has changed opens a new request. */
  schema: Schema.optionalKey(Schema.String),
  /** The tool's safety when the request was opened. */
  safety: Schema.optionalKey(Safety),
  startedAt: Timestamp,
  attempt: Schema.Natural,
  /** The facts that the tool states now, if the call is in doubt because they have changed. A retry is about these. */
  facts: Schema.optionalKey(Schema.Json),
  /** Why the call is in doubt, unless its process died: such as a lost journal, a tool that has changed, or a policy that denies it now. */
  reason: Schema.optionalKey(Schema.String)
})
export type InDoubtRequest = typeof InDoubtRequest.Type

/**
 * Asks for more of a budget that is exhausted or whose rest is reserved for sub-agents, or for a larger context. Decisions: topUp; deny,
 * after which the run that asked fails with `BudgetExceeded`, see `Deny`.
 */
export const LimitRequest = Schema.TaggedStruct("limit", {
  ...fields,
  budget: Budget,
  limit: Schema.Finite,
  /** The amount spent, reservations included; for `context`, the tokens that the call needs. */
  spent: Schema.Finite,
  /**
   * Why the last answer was rejected, if the run needs the budget to answer again; for `context`, why nothing more can be left out. Absent in
   * requests of earlier versions.
   */
  reason: Schema.optionalKey(Schema.String)
})
export type LimitRequest = typeof LimitRequest.Type

/**
 * Asks for a login at a model provider, because there is none or it has ended. Decisions: retry, after the login; deny, which ends the run
 * as cancelled.
 */
export const LoginRequest = Schema.TaggedStruct("login", {
  ...fields,
  profile: Schema.String,
  message: Schema.String
})
export type LoginRequest = typeof LoginRequest.Type

/**
 * A call whose body has ended and that waits for a time: at `expiresAt`, it is decided by `expiry` and the run continues. Decisions:
 * supply and fail, which end the wait early.
 */
export const TimerRequest = Schema.TaggedStruct("timer", {
  ...fields,
  ...callFields,
  expiresAt: Timestamp,
  /** What the call waits for, in the words of the tool or the model, if they gave any. */
  reason: Schema.optionalKey(Schema.String)
})
export type TimerRequest = typeof TimerRequest.Type

/**
 * A call whose body has ended after it started work elsewhere; how that work ends becomes the call's result. Decisions: supply and fail. A
 * program finds the request by its token; see `completeStored`.
 */
export const ExternalRequest = Schema.TaggedStruct("external", {
  ...fields,
  ...callFields,
  /** The name by which the system that does the work names this call. Unique in a store. It is no secret. */
  token: Schema.String,
  /** What the call waits for, in the words of the tool, if it gave any. */
  reason: Schema.optionalKey(Schema.String)
})
export type ExternalRequest = typeof ExternalRequest.Type

/** A request that a held run waits for. */
export const Interruption = Schema.Union([
  ToolApprovalItem,
  QuestionRequest,
  InDoubtRequest,
  LimitRequest,
  LoginRequest,
  TimerRequest,
  ExternalRequest
])
export type Interruption = typeof Interruption.Type

/** The kinds of request. */
export const Kind = Schema.Literals([
  "approval",
  "question",
  "inDoubt",
  "limit",
  "login",
  "timer",
  "external"
])
export type Kind = typeof Kind.Type

/** The id of the tool call that a request is about; `undefined` for limit and login requests. */
export const callIdOf = (request: Interruption): ToolCallId | undefined =>
  "callId" in request ? request.callId : undefined

/** The name of the tool that a request is about; `undefined` for questions, limit and login requests. */
export const toolOf = (request: Interruption): string | undefined =>
  "tool" in request ? request.tool : undefined

/** Whether the body of the request's call has ended and left its result to an event outside the run: no person is asked. */
export const isHold = ({ _tag }: Interruption): boolean => _tag === "timer" || _tag === "external"

/**
 * The token by which a result from outside finds the request: that of an external call, or that of a call in doubt whose tool declares that
 * its work ends elsewhere. Any other call in doubt may be one that never waits for such a result. `undefined` for the other kinds of request.
 */
export const tokenOf = (request: Interruption): string | undefined =>
  request._tag === "external" || request._tag === "inDoubt" ? request.token : undefined

const hour = 60 * 60 * 1000

/**
 * When to announce that a request will expire: at the time that it states, else an hour before `expiresAt`, or after three quarters of a
 * lifetime below four hours. `undefined` for a timer, and for a request that does not expire or that `onExpiry: "stay"` leaves open.
 */
export const warnAt = (request: Interruption): Timestamp | undefined => {
  const { at, expiresAt, onExpiry } = request
  if (expiresAt === undefined || onExpiry === "stay" || request._tag === "timer") return undefined
  return request.warnAt ?? expiresAt - Math.min(hour, Math.floor(Math.max(0, expiresAt - at) / 4))
}

/** Whether the request has expired by `now`. A request with `onExpiry: "stay"` never expires. */
export const isExpired = (request: Interruption, now: Timestamp): boolean =>
  request.expiresAt !== undefined && now >= request.expiresAt && request.onExpiry !== "stay"
