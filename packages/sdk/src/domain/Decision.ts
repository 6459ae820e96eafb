/**
 * Decisions: the answers to requests.
 *
 * A decision approves a call (as asked or with other arguments, once or with a grant), denies it, answers a question, supplies a
 * result, retries or fails a call in doubt, or tops up a budget. It names its request by id, carries the id of the party that
 * decided, and may carry the digest of the arguments that the request showed. No other value counts as consent.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { GrantRequest } from "./Grant.ts"
import { RequestId, RunId, Timestamp } from "./Id.ts"
import { Principal } from "./Principal.ts"

const fields = {
  requestId: RequestId,
  /** Id of the party that decided. */
  by: Schema.String,
  /** The same party with its kind. Absent if the program gave a plain string, which means an unverified person. */
  principal: Schema.optionalKey(Principal),
  at: Timestamp,
  /** The digest that the request showed. A decision with another digest is refused. */
  digest: Schema.optionalKey(Schema.String),
  note: Schema.optionalKey(Schema.String),
  /** Makes resending safe: the same decision with the same key is accepted again instead of refused as `AlreadyDecided`. */
  idempotencyKey: Schema.optionalKey(Schema.String)
}

const superseding = {
  /**
   * The run whose open turn this decision supersedes. Set by `send` with `whenHeld: "supersede"`. No further call of the turn starts, and
   * the sub-agents that the turn waits for are stopped. Every turn from that run down to the request is superseded.
   */
  supersedes: Schema.optionalKey(RunId)
}

/** Runs the call; with `arguments`, runs it with these instead of the requested ones. */
export const Approve = Schema.TaggedStruct("approve", {
  ...fields,
  arguments: Schema.optionalKey(Schema.Json),
  /** Fingerprint of the schema that accepted the edited `arguments`. Set by the runtime; a caller's value is dropped. */
  schema: Schema.optionalKey(Schema.String),
  grant: Schema.optionalKey(GrantRequest)
})
export type Approve = typeof Approve.Type

/**
 * Denies the request: the call does not run, the model receives `message`, and the run continues.
 *
 * With `then: "stop"` the run that asked ends instead. It starts no further call (approved ones included), sub-agent or model call.
 * Bodies that were started finish and are recorded.
 */
export const Deny = Schema.TaggedStruct("deny", {
  ...fields,
  ...superseding,
  message: Schema.optionalKey(Schema.String),
  then: Schema.optionalKey(Schema.Literals(["continue", "stop"]))
})
export type Deny = typeof Deny.Type

/** Answers a question. */
export const Answer = Schema.TaggedStruct("answer", { ...fields, answer: Schema.String })
export type Answer = typeof Answer.Type

/** Supplies the call's result; the tool does not run. */
export const Supply = Schema.TaggedStruct("supply", { ...fields, result: Schema.Json })
export type Supply = typeof Supply.Type

/** Runs a call in doubt again, with the same idempotency key; for a login request, repeats the model call after the login. */
export const Retry = Schema.TaggedStruct("retry", fields)
export type Retry = typeof Retry.Type

/** Records a call in doubt as failed: its effect did not happen, or went wrong. */
export const Fail = Schema.TaggedStruct("fail", {
  ...fields,
  ...superseding,
  message: Schema.optionalKey(Schema.String)
})
export type Fail = typeof Fail.Type

/** Sets the new total of an exhausted budget: `limit` replaces the old limit and must be above what was spent. */
export const TopUp = Schema.TaggedStruct("topUp", { ...fields, limit: Schema.Finite })
export type TopUp = typeof TopUp.Type

/** A decision as the journal records it. */
export const Decision = Schema.Union([Approve, Deny, Answer, Supply, Retry, Fail, TopUp])
export type Decision = typeof Decision.Type

type Without<A, K extends PropertyKey> = A extends unknown ? Omit<A, K> : never

/** A decision as a caller writes it. `at` is set when the decision is recorded, unless given; `by` may be a whole principal. */
export type DecisionInput = Without<Decision, "at" | "by" | "schema"> & {
  readonly by: string | Principal
  readonly at?: Timestamp
}

/** A decision without its request, author and time, as `approve()` and the other helpers return it. */
export type DecisionBody = Without<Decision, "requestId" | "by" | "at" | "digest" | "note">
