/**
 * Tool calls of the open turn, and their states.
 *
 * ```text
 * requested ─▶ ready        its tool, a rule, a policy or a grant permits it
 *           ─▶ waiting      a request is opened
 *           ─▶ settled      failed | denied
 * waiting   ─▶ ready        approve
 *           ─▶ requested    its request is superseded, and no other replaces it
 *           ─▶ started      the same, of a call on hold
 *           ─▶ settled      denied | supplied | completed (an answer, the end of a hold) | failed
 * ready     ─▶ started      its body starts, or its sub-agent
 *           ─▶ waiting      it is judged again, and needs a decision
 *           ─▶ inDoubt      it is judged again, and may have run before
 *           ─▶ settled      failed | denied | completed (`background`, `agents`, `handoff`)
 * started   ─▶ ready        its start is taken back, or it is judged again after a crash
 *           ─▶ waiting      it is judged again after a crash, and needs a decision; or its body ended with a hold
 *           ─▶ inDoubt      its outcome is unknown
 *           ─▶ settled      completed | failed | denied | cancelled (its sub-agent)
 * inDoubt   ─▶ ready        retry
 *           ─▶ started      its request is superseded, and no other replaces it
 *           ─▶ settled      supplied | failed
 * ```
 *
 * A call on hold stays `waiting` after its result was supplied, until the run has recorded the result.
 *
 * If the turn is superseded, its requested and ready calls settle as `cancelled`. If the run is cancelled or wraps up, or the session
 * continues after a failed run, all unsettled calls do. A failed run keeps its calls as they are.
 *
 * A settled call keeps its result until all calls of the turn are settled. Then all results move into the history, in call order, and
 * the list of calls is empty.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { GrantId, RequestId, Timestamp, ToolCallId } from "./Id.ts"
import { Safety } from "./Interruption.ts"
import { ToolOutcome, UserPart } from "./Message.ts"

/**
 * What the call addresses:
 *
 * - `tool`: a tool.
 * - `question`: the user.
 * - `agent`: a sub-agent, whose end the call waits for.
 * - `background`: a sub-agent that works in the background, while the call settles at once.
 * - `agents`: the runtime, about the sub-agents in the background: to list them, to wait for them, to stop one, or to send one a message.
 * - `handoff`: another agent, which takes over the conversation.
 */
export const Target = Schema.Literals(["tool", "question", "agent", "background", "agents", "handoff"])
export type Target = typeof Target.Type

/** The state of a call. The description of the module has the transitions. */
export const Status = Schema.Literals(["requested", "waiting", "ready", "started", "inDoubt", "settled"])
export type Status = typeof Status.Type

/** The one result of a call. */
export const ToolResult = Schema.Struct({
  outcome: ToolOutcome,
  content: Schema.Array(UserPart),
  /** When the call settled. */
  at: Timestamp,
  /** Set if the result contains text that neither the user nor the program wrote; see `Untrusted`. */
  untrusted: Schema.optionalKey(Schema.Literal(true))
})
export type ToolResult = typeof ToolResult.Type

/** The fields of a call, without the sub-agent's run. */
export const fields = {
  id: ToolCallId,
  providerCallId: Schema.String,
  /** Position in the response, from 1. */
  ordinal: Schema.Natural,
  /** The tool's name as the model wrote it. */
  name: Schema.String,
  /** The arguments as the model wrote them. */
  argumentsText: Schema.String,
  status: Status,
  target: Target,
  safety: Safety,
  /** Whether repeating the call with the same idempotency key has no further effect. */
  idempotent: Schema.Boolean,
  /** The arguments in the form that the tool's schema decodes. Set by the classification, replaced by an approval with other arguments. */
  arguments: Schema.optionalKey(Schema.Json),
  /** The decoded arguments, which the request showed and the body receives, if they differ from `arguments`. */
  value: Schema.optionalKey(Schema.Json),
  /**
   * How the decoded arguments look, if they are not JSON (such as a date). The body then receives `arguments` decoded again, provided
   * that the result still looks the same.
   */
  rendering: Schema.optionalKey(Schema.Json),
  /** The tool's own name, if `name` is an alias. */
  tool: Schema.optionalKey(Schema.String),
  /** Fingerprint of the argument schema that decoded the arguments. Absent in calls of earlier versions, which did not keep `value`. */
  schema: Schema.optionalKey(Schema.String),
  /** The arguments that the request showed, if an approval replaced them. */
  proposed: Schema.optionalKey(Schema.Json),
  /** Who edited the arguments, and the note, if the call's result informs the model of the edit. */
  edited: Schema.optionalKey(Schema.Struct({ by: Schema.String, note: Schema.optionalKey(Schema.String) })),
  /** The request that the call waits for, or whose decision released it. Absent if the call has none. */
  requestId: Schema.optionalKey(RequestId),
  /** The grant that permitted the call. Absent if something else did. */
  grantId: Schema.optionalKey(GrantId),
  /** The number of attempts: recorded starts of the body, also one that is presumed because a store was lost. */
  attempt: Schema.Natural,
  startedAt: Schema.optionalKey(Timestamp),
  result: Schema.optionalKey(ToolResult)
}

/** A cancelled run's statement about one call of its last turn, or of the turn of a sub-agent that the turn waited for. */
export const CallReport = Schema.Struct({
  callId: ToolCallId,
  tool: Schema.String,
  /**
   * - `notStarted`: the body did not start. The call may have been denied, or have got its result by `supply`.
   * - `finished`: the call has any other result, such as that of its body, of a failure before it, or of its superseded turn, or one that
   *   was supplied while the call was in doubt.
   * - `aborted`: the call was started and has no result. It is read-only or idempotent, a sub-agent's without a call in doubt, or one whose
   *   body had ended with a wait for a time.
   * - `inDoubt`: the call was started, and its outcome is unknown.
   */
  state: Schema.Literals(["notStarted", "finished", "aborted", "inDoubt"]),
  /** The decision that released the call, if the run ended before the call could run. */
  decided: Schema.optionalKey(
    Schema.Struct({ requestId: RequestId, decision: Schema.Literals(["approve", "retry"]) })
  )
})
export type CallReport = typeof CallReport.Type
