/**
 * The answer to one request.
 *
 * One object carries everything an answer can be: approve (as asked or with other arguments, once or with a grant), deny,
 * answer, supply a result, retry, fail, top up. It names the request by id, may carry the digest of the arguments that were
 * shown, and says who decided. Nothing else is ever taken for consent.
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
  /** The same party with its kind; absent where the program gave a plain string, which means an unverified person. */
  principal: Schema.optionalKey(Principal),
  /** When. */
  at: Timestamp,
  /** The digest that the request showed. A mismatch is refused. */
  digest: Schema.optionalKey(Schema.String),
  note: Schema.optionalKey(Schema.String),
  /** Chosen by the caller: the same decision sent again with the same key is answered as the first one was. */
  idempotencyKey: Schema.optionalKey(Schema.String)
}

const superseding = {
  /**
   * The run whose open turn this supersedes, as `send` with `whenHeld: "supersede"` does: no call of the turn begins any more, and the
   * sub-agents that it waits for are stopped. Every turn from that run down to the request is superseded.
   */
  supersedes: Schema.optionalKey(RunId)
}

/** Run the call; with `arguments`, run it with these instead. */
export const Approve = Schema.TaggedStruct("approve", {
  ...fields,
  arguments: Schema.optionalKey(Schema.Json),
  /** The fingerprint of the schema that took the edited `arguments`. The runtime sets it; a caller's is dropped. */
  schema: Schema.optionalKey(Schema.String),
  grant: Schema.optionalKey(GrantRequest)
})
export type Approve = typeof Approve.Type

/**
 * Do not run the call. The model reads `message` and goes on; with `then: "stop"` the run that asked ends, and nothing begins in it any
 * more: no call, also no approved one, no sub-agent and no model call. What was started finishes and is recorded.
 */
export const Deny = Schema.TaggedStruct("deny", {
  ...fields,
  ...superseding,
  message: Schema.optionalKey(Schema.String),
  then: Schema.optionalKey(Schema.Literals(["continue", "stop"]))
})
export type Deny = typeof Deny.Type

/** The answer to a question. */
export const Answer = Schema.TaggedStruct("answer", { ...fields, answer: Schema.String })
export type Answer = typeof Answer.Type

/** The call's result, from outside; the tool does not run. */
export const Supply = Schema.TaggedStruct("supply", { ...fields, result: Schema.Json })
export type Supply = typeof Supply.Type

/** A call in doubt: run it again (same idempotency key). A login: done, try again. */
export const Retry = Schema.TaggedStruct("retry", fields)
export type Retry = typeof Retry.Type

/** A call in doubt did not happen or went wrong: record it as failed. */
export const Fail = Schema.TaggedStruct("fail", {
  ...fields,
  ...superseding,
  message: Schema.optionalKey(Schema.String)
})
export type Fail = typeof Fail.Type

/** A used-up budget gets a new total. */
export const TopUp = Schema.TaggedStruct("topUp", { ...fields, limit: Schema.Finite })
export type TopUp = typeof TopUp.Type

/** The answer to one request, as the journal records it. */
export const Decision = Schema.Union([Approve, Deny, Answer, Supply, Retry, Fail, TopUp])
export type Decision = typeof Decision.Type

type Without<A, K extends PropertyKey> = A extends unknown ? Omit<A, K> : never

/** A decision as a caller writes it: the time is added when it is recorded, and `by` may be a whole principal. */
export type DecisionInput = Without<Decision, "at" | "by" | "schema"> & {
  readonly by: string | Principal
  readonly at?: Timestamp
}

/** A decision before it is about a request, and before it is known who made it and when: what `approve()` and its like return. */
export type DecisionBody = Without<Decision, "requestId" | "by" | "at" | "digest" | "note">
