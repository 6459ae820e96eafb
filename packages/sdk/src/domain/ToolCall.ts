/**
 * A tool call of the turn that is open, and how far it has come.
 *
 * ```text
 * requested ─▶ ready ◀───────────▶ started ─▶ completed | failed | cancelled
 *     │          ▲                    │
 *     ├─▶ waiting┤ approve            └─▶ inDoubt ─▶ ready (retry) | supplied | failed
 *     │          └─▶ denied | supplied | completed (an answer)
 *     └─▶ failed | denied
 * ```
 *
 * A settled call keeps its result until all calls of the turn are settled; then the results move into the history together,
 * in call order, and the list is empty again.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { GrantId, RequestId, Timestamp, ToolCallId } from "./Id.ts"
import { Safety } from "./Interruption.ts"
import { ToolOutcome, UserPart } from "./Message.ts"

/**
 * What answers the call: a tool; the user; a sub-agent that the call waits for (`agent`) or that goes on by itself
 * (`background`); what is known about those that do (`agents`); another agent that takes the conversation over (`handoff`).
 */
export const Target = Schema.Literals(["tool", "question", "agent", "background", "agents", "handoff"])
export type Target = typeof Target.Type

/** Where a call stands. */
export const Status = Schema.Literals(["requested", "waiting", "ready", "started", "inDoubt", "settled"])
export type Status = typeof Status.Type

/** The one result of a call. */
export const ToolResult = Schema.Struct({
  outcome: ToolOutcome,
  content: Schema.Array(UserPart),
  /** When it settled. */
  at: Timestamp
})
export type ToolResult = typeof ToolResult.Type

/** The fields of a call, without the run of a sub-agent that answers it. */
export const fields = {
  id: ToolCallId,
  providerCallId: Schema.String,
  /** Place in the answer, from 1. */
  ordinal: Schema.Natural,
  /** The tool's name as the model wrote it. */
  name: Schema.String,
  /** The arguments as the model wrote them. */
  argumentsText: Schema.String,
  status: Status,
  target: Target,
  safety: Safety,
  /** Whether running it again with the same key does no harm. */
  idempotent: Schema.Boolean,
  /** The arguments in the form that the tool's schema reads; set when the call was classified, replaced by an edited approval. */
  arguments: Schema.optionalKey(Schema.Json),
  /** The decoded arguments, which were shown and which the body gets, where they differ from `arguments`. */
  value: Schema.optionalKey(Schema.Json),
  /**
   * Set when the decoded arguments are no JSON, such as a date: what they look like. The body gets `arguments` decoded again, if that
   * still looks the same.
   */
  rendering: Schema.optionalKey(Schema.Json),
  /** The definition's own name, where `name` is an alias of it. */
  tool: Schema.optionalKey(Schema.String),
  /** Fingerprint of the argument schema that decoded the arguments. Absent in calls of earlier versions, whose value was not kept. */
  schema: Schema.optionalKey(Schema.String),
  /** The arguments that were proposed, where an approval edited them. */
  proposed: Schema.optionalKey(Schema.Json),
  /** The request that it waits for, or was released by. */
  requestId: Schema.optionalKey(RequestId),
  /** The grant that let it through. */
  grantId: Schema.optionalKey(GrantId),
  /** How often its body was started. */
  attempt: Schema.Natural,
  startedAt: Schema.optionalKey(Timestamp),
  result: Schema.optionalKey(ToolResult)
}

/** What a cancelled or failed run says about each call of its last turn. */
export const CallReport = Schema.Struct({
  callId: ToolCallId,
  tool: Schema.String,
  /**
   * `notStarted`: its body never ran. `finished`: it ran and its result is kept. `aborted`: it was stopped and nothing
   * happened that matters (a read, or a call that may be repeated). `inDoubt`: it was stopped half-way, and its outcome is unknown.
   */
  state: Schema.Literals(["notStarted", "finished", "aborted", "inDoubt"]),
  /** The decision that had released the call, which was not run: the run ended before it. */
  decided: Schema.optionalKey(
    Schema.Struct({ requestId: RequestId, decision: Schema.Literals(["approve", "retry"]) })
  )
})
export type CallReport = typeof CallReport.Type
