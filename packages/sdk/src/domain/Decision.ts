/**
 * Decisions: the answers to requests.
 *
 * A decision approves a call (as asked or with other arguments, once or with a grant), denies a request, answers a question, supplies a
 * call's result, retries a call in doubt, fails a call that was started (in doubt, on a timer, or elsewhere), tops up a budget, or confirms
 * a login. It names its request by id, carries the id of the party that decided, and may carry the digest that an approval request showed.
 * No other value counts as consent.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { BlobRef } from "./Blob.ts"
import { GrantRequest } from "./Grant.ts"
import { RequestId, RunId, Timestamp } from "./Id.ts"
import { Principal } from "./Principal.ts"

const fields = {
  requestId: RequestId,
  /** Id of the party that decided; `expiry` if the request expired. */
  by: Schema.String,
  /** The same party with its kind. Absent in decisions by `expiry`, and if the program gave a plain string, which means an unverified person. */
  principal: Schema.optionalKey(Principal),
  at: Timestamp,
  /** The digest that the approval request showed. A decision with another digest is refused; other requests have none, and ignore it. */
  digest: Schema.optionalKey(Schema.String),
  /** The reason, for the record. The model reads that of an edit and that of a denial, in the result of the call. */
  note: Schema.optionalKey(Schema.String),
  /**
   * Makes resending safe: a decision that repeats the recorded one, with this key, is accepted instead of refused as `AlreadyDecided`. Only
   * `at` and `digest` may differ.
   */
  idempotencyKey: Schema.optionalKey(Schema.String)
}

const superseding = {
  /**
   * The run whose open turn this decision supersedes. Set by `send` with `whenHeld: "supersede"`. No further call of the turn starts, and
   * the sub-agents that the turn waits for are stopped. Every turn from that run down to the request is superseded.
   */
  supersedes: Schema.optionalKey(RunId)
}

/**
 * Permits the call of an approval request; with `arguments`, permits it with these instead of the shown ones. The tool's schema must accept
 * them unchanged. The call is checked again before it starts: if its tool, its arguments, its facts or a policy has changed, it is asked
 * about again or denied. With `grant`, also permits later calls that the grant covers.
 */
export const Approve = Schema.TaggedStruct("approve", {
  ...fields,
  arguments: Schema.optionalKey(Schema.Json),
  /** Fingerprint of the schema that accepted the edited `arguments`. Set by the runtime; a caller's value is refused. */
  schema: Schema.optionalKey(Schema.String),
  grant: Schema.optionalKey(GrantRequest)
})
export type Approve = typeof Approve.Type

/**
 * Denies an approval, a question, a limit or a login request. A call that was started (in doubt, on a timer, or elsewhere) cannot be
 * denied, see {@link Fail}. The call of an approval or a question settles as `denied`: it does not run, the model receives `message` or a
 * default text, and the run continues. The denial of an approval by a party also stands for later equal calls of the run, until a person
 * reopens the request. After the denial of a limit request, the run that asked fails with `BudgetExceeded` before its next model call, or
 * at once if the calls of its response exceed the budget; a changed limit prevents this. A sub-agent that waits for the budget fails, too.
 *
 * With `then: "stop"`, and for a login request in any case, the run that asked ends as cancelled. It starts no further call (approved ones
 * included), sub-agent or model call. Bodies that were started finish and are recorded.
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

/**
 * Supplies the call's result. For an approval, the tool does not run; for a call in doubt, not again. For a timer or an external call, the
 * wait ends. Questions, limit and login requests take no supply.
 */
export const Supply = Schema.TaggedStruct("supply", {
  ...fields,
  result: Schema.Json,
  /** The whole text, if `result` is its shortened form. Set by the runtime; a caller's value is refused. */
  whole: Schema.optionalKey(BlobRef)
})
export type Supply = typeof Supply.Type

/**
 * Runs a call in doubt again, with the same idempotency key; if its tool, its arguments or its facts have changed since, it is asked about
 * again. For a login request, repeats the model call after the login.
 */
export const Retry = Schema.TaggedStruct("retry", fields)
export type Retry = typeof Retry.Type

/**
 * Records a call in doubt, a timer or an external call as failed: its effect did not happen, or went wrong. The model receives `message` or
 * a default text, and the run continues.
 */
export const Fail = Schema.TaggedStruct("fail", {
  ...fields,
  ...superseding,
  message: Schema.optionalKey(Schema.String)
})
export type Fail = typeof Fail.Type

/**
 * Answers a limit request: `limit` replaces the budget's old limit, as its new total. It must be above the request's `spent` and, except
 * for `cost`, a safe integer.
 */
export const TopUp = Schema.TaggedStruct("topUp", { ...fields, limit: Schema.Finite })
export type TopUp = typeof TopUp.Type

/** A decision as the journal records it. */
export const Decision = Schema.Union([Approve, Deny, Answer, Supply, Retry, Fail, TopUp])
export type Decision = typeof Decision.Type

type Without<A, K extends PropertyKey> = A extends unknown ? Omit<A, K> : never

/** A decision as a caller writes it; `by` may be a whole principal. Its time is added when it is recorded. */
export type DecisionInput = Without<Decision, "at" | "by" | "schema" | "whole" | "requestId"> & {
  readonly requestId: string
  readonly by: string | Principal
}

/** A decision as `RunStore.decide` and `decideAll` take it. `at` defaults to the current time. */
export type DecisionToRecord = DecisionInput & { readonly at?: Timestamp }

/** A decision without its request, digest, author and time, as `approve()` and the other helpers return it. */
export type DecisionBody = Without<Decision, "requestId" | "by" | "at" | "digest">
