/**
 * Rejections: typed refusals of decisions. A rejected decision is not recorded; a store may record the expiry that preceded it. Rejections
 * do not contain argument values, except for the earlier decision in {@link AlreadyDecided}, and for what the tool's schema says in
 * {@link EditedArgumentsInvalid} and {@link SuppliedResultInvalid}.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Decision } from "./Decision.ts"
import { instant, lines, sentence } from "./Display.ts"
import { RequestId, Timestamp } from "./Id.ts"
import { Kind } from "./Interruption.ts"
import { Misfit } from "./Misfit.ts"
import { TaggedError } from "./TaggedError.ts"

/**
 * A function that decides or reopens a request found no request with this id in the store, or in the run or state in which it looked. List
 * the pending requests and decide one of those.
 */
export class RequestNotFound extends TaggedError<RequestNotFound>()("RequestNotFound", {
  requestId: Schema.String
}) {
  override get message() {
    return sentence`There is no request ${this.requestId}: list the pending requests and decide one of those.`
  }
}

/**
 * `completeStored` or `Fermata.complete` found no call that waits for the result of this token, or none yet: a result can arrive before the
 * call that waits for it is recorded. Let the sender deliver it again later. Nothing was recorded.
 */
export class TokenNotFound extends TaggedError<TokenNotFound>()("TokenNotFound", {
  token: Schema.String
}) {
  override get message() {
    return sentence`No call waits for the token "${this.token}": check it, and deliver the result again later if its call has just been started.`
  }
}

/**
 * The request already has a decision, which stands: `decision`, made `by` and `at`. If the request expired undecided, that decision is by
 * `expiry`. A decision that repeats the recorded one, with its `idempotencyKey`, is accepted instead.
 */
export class AlreadyDecided extends TaggedError<AlreadyDecided>()("AlreadyDecided", {
  requestId: RequestId,
  by: Schema.String,
  at: Timestamp,
  decision: Decision
}) {
  override get message() {
    const when = instant(this.at)
    return sentence`${this.requestId} was decided (${this.decision._tag}) by ${this.by} at ${when}; that decision stands.`
  }
}

/**
 * The request was closed without a decision. `reason` says why, for example because its run ended; `by` is the request that replaced it, if
 * there is one.
 */
export class RequestSuperseded extends TaggedError<RequestSuperseded>()("RequestSuperseded", {
  requestId: RequestId,
  by: Schema.optionalKey(RequestId),
  reason: Schema.String
}) {
  override get message() {
    return sentence`${this.requestId} is no longer open: ${this.reason}.${this.by === undefined ? "" : sentence` Decide ${this.by} instead.`}`
  }
}

/**
 * The decision was made about another tool, other arguments or other facts than those of the request: it carries another digest, or the
 * request that the caller passed beside it was changed. Or the arguments in the store or in the given state are not those that the request
 * showed. Show the request again.
 */
export class ArgumentsChanged extends TaggedError<ArgumentsChanged>()("ArgumentsChanged", {
  requestId: RequestId,
  expected: Schema.String,
  actual: Schema.String
}) {
  override get message() {
    return sentence`${this.requestId} asks about other arguments than the ones decided on: show it again and decide anew. To approve other arguments, give them in the decision, as "arguments".`
  }
}

/**
 * This kind of decision does not answer this kind of request, or the limit of a top-up is not valid. `allowed` lists the kinds of decision
 * that answer the request.
 */
export class DecisionNotApplicable extends TaggedError<DecisionNotApplicable>()("DecisionNotApplicable", {
  requestId: RequestId,
  kind: Kind,
  decision: Schema.String,
  allowed: Schema.Array(Schema.String),
  /** The amount that the limit of a top-up has to exceed, if its limit is the problem. */
  spent: Schema.optionalKey(Schema.Finite)
}) {
  override get message() {
    if (this.spent !== undefined)
      return sentence`A top-up of ${this.requestId} takes a "limit" above ${this.spent}, which has been used already: a whole number, except for money.`
    return sentence`"${this.decision}" does not answer the ${this.kind} request ${this.requestId}: use ${this.allowed.join(", ")}.`
  }
}

/**
 * The approval carries a grant that this request does not permit, or that would cover no call. The request stays open: approve it without
 * the grant, or with a grant for the run if the `reason` is `subAgent`, or with a later expiry if it is `expired`.
 */
export class GrantRefused extends TaggedError<GrantRefused>()("GrantRefused", {
  requestId: RequestId,
  tool: Schema.String,
  /**
   * `subAgent`: the grant is for the session, and a sub-agent's run ends with its call, so that no later run could use the grant.
   * `expired`: the grant expires before the decision is made. `always`: the tool requires a decision about each such call. Absent: the tool
   * is privileged.
   */
  reason: Schema.optionalKey(Schema.Literals(["subAgent", "expired", "always"]))
}) {
  override get message() {
    if (this.reason === "subAgent") {
      return sentence`${this.requestId} is a sub-agent's request for ${this.tool}, and a grant for the session would not reach the sub-agents of later runs: grant it for the run, or approve it alone.`
    }
    if (this.reason === "expired") {
      return sentence`The grant for ${this.tool} would have expired already, and would cover no call: give ${this.requestId} a grant with a later "expiresAt", or approve it alone.`
    }
    if (this.reason === "always") {
      return sentence`Each such call of ${this.tool} is asked about, so that no grant covers it: approve ${this.requestId} alone.`
    }
    return sentence`${this.tool} is privileged and cannot be granted for more than one call: approve ${this.requestId} alone.`
  }
}

/**
 * The edited arguments of an approval cannot be used: the tool's schema refuses or would change them, the program has no such agent or
 * tool, or the call is one by which a model calls another agent. The request stays open.
 */
export class EditedArgumentsInvalid extends TaggedError<EditedArgumentsInvalid>()("EditedArgumentsInvalid", {
  requestId: RequestId,
  tool: Schema.String,
  /** The problem in words, such as the issues that the tool's schema reports. */
  issues: Schema.String
}) {
  override get message() {
    return sentence`${this.tool} does not accept the edited arguments of ${this.requestId}: ${lines(this.issues)}`
  }
}

/**
 * The tool's `success` schema does not accept the result that was supplied for a call which ended elsewhere. The request stays open, and so
 * does its token: deliver a result that fits, or a failure.
 */
export class SuppliedResultInvalid extends TaggedError<SuppliedResultInvalid>()("SuppliedResultInvalid", {
  requestId: RequestId,
  tool: Schema.String,
  /** The problem in words: the issues that the tool's schema reports. */
  issues: Schema.String
}) {
  override get message() {
    return sentence`The result for ${this.requestId} does not fit the success schema of ${this.tool}, and was not recorded: ${lines(this.issues)}`
  }
}

/**
 * The value that a caller gave as a decision is not one, or the request that the caller passed beside it is not a whole request. Nothing
 * was recorded.
 */
export class DecisionMalformed extends TaggedError<DecisionMalformed>()("DecisionMalformed", {
  issues: Schema.String,
  /** Its unknown and missing keys, and values of the wrong kind. */
  misfits: Schema.optionalKey(Schema.Array(Misfit))
}) {
  override get message() {
    return sentence`The decision cannot be used: ${lines(this.issues)}.`
  }
}

/**
 * `reopenRequest`, `reopenInState` or a method `reopen` found no denial of the request that stands: it is open or closed without a
 * decision, is no approval request, or was decided otherwise, by expiry or by a message that superseded its turn. An equal call is asked
 * about without a reopening.
 */
export class RequestNotDenied extends TaggedError<RequestNotDenied>()("RequestNotDenied", {
  requestId: RequestId
}) {
  override get message() {
    return sentence`${this.requestId} has no denial that stands, so there is nothing to reopen: an equal call is asked about.`
  }
}

/** A typed refusal of a decision, which was not recorded. */
export type Rejection =
  | RequestNotFound
  | AlreadyDecided
  | RequestSuperseded
  | ArgumentsChanged
  | DecisionNotApplicable
  | GrantRefused
  | EditedArgumentsInvalid
  | SuppliedResultInvalid
  | DecisionMalformed
