/**
 * Why a decision was not taken. Each is a typed refusal that changed nothing; none of them repeats argument values.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Decision } from "./Decision.ts"
import { instant, lines, sentence } from "./Display.ts"
import { RequestId, Timestamp } from "./Id.ts"
import { Kind } from "./Interruption.ts"
import { Misfit } from "./Misfit.ts"

/** No run has asked for this. Check the id; list what is pending. */
export class RequestNotFound extends Schema.TaggedError<RequestNotFound>()("RequestNotFound", {
  requestId: Schema.String
}) {
  override get message() {
    return sentence`Nobody asked for ${this.requestId}: list the pending requests and decide one of those.`
  }
}

/** Somebody decided first. `decision` is the one that counts. */
export class AlreadyDecided extends Schema.TaggedError<AlreadyDecided>()("AlreadyDecided", {
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

/** The request no longer waits for anybody: its run ended, or it asks again under `by`. */
export class RequestSuperseded extends Schema.TaggedError<RequestSuperseded>()("RequestSuperseded", {
  requestId: RequestId,
  by: Schema.optionalKey(RequestId),
  reason: Schema.String
}) {
  override get message() {
    return sentence`${this.requestId} is no longer open: ${this.reason}.${this.by === undefined ? "" : sentence` Decide ${this.by} instead.`}`
  }
}

/** The decision was made about other arguments than the ones that would run. */
export class ArgumentsChanged extends Schema.TaggedError<ArgumentsChanged>()("ArgumentsChanged", {
  requestId: RequestId,
  expected: Schema.String,
  actual: Schema.String
}) {
  override get message() {
    return sentence`${this.requestId} asks about other arguments than the ones decided on: show it again and decide anew.`
  }
}

/** This kind of decision does not answer this kind of request. */
export class DecisionNotApplicable extends Schema.TaggedError<DecisionNotApplicable>()(
  "DecisionNotApplicable",
  {
    requestId: RequestId,
    kind: Kind,
    decision: Schema.String,
    allowed: Schema.Array(Schema.String)
  }
) {
  override get message() {
    return sentence`"${this.decision}" does not answer the ${this.kind} request ${this.requestId}: use ${this.allowed.join(", ")}.`
  }
}

/** The approval asks for more than this request's tool, or its run, can be granted. The request stays open. */
export class GrantRefused extends Schema.TaggedError<GrantRefused>()("GrantRefused", {
  requestId: RequestId,
  tool: Schema.String,
  /** `subAgent`: its run ends with its call, and no later run of the session goes on with it. Absent: the tool is privileged. */
  reason: Schema.optionalKey(Schema.Literal("subAgent"))
}) {
  override get message() {
    if (this.reason === "subAgent") {
      return sentence`${this.requestId} is a sub-agent's request for ${this.tool}, and a grant for the session would not reach the sub-agents of later runs: grant it for the run, or approve it alone.`
    }
    return sentence`${this.tool} is privileged and cannot be granted for more than one call: approve ${this.requestId} alone.`
  }
}

/** The edited arguments are not what the tool takes. The request stays open. */
export class EditedArgumentsInvalid extends Schema.TaggedError<EditedArgumentsInvalid>()(
  "EditedArgumentsInvalid",
  {
    requestId: RequestId,
    tool: Schema.String,
    /** What the tool's schema says about them. */
    issues: Schema.String
  }
) {
  override get message() {
    return sentence`${this.tool} does not take the edited arguments of ${this.requestId}: ${lines(this.issues)}`
  }
}

/** Something that is not a decision was passed as one. */
export class DecisionMalformed extends Schema.TaggedError<DecisionMalformed>()("DecisionMalformed", {
  issues: Schema.String,
  /** The keys in it that there are not. */
  misfits: Schema.optionalKey(Schema.Array(Misfit))
}) {
  override get message() {
    return sentence`This is not a decision: ${lines(this.issues)}. Pass one of approve, deny, answer, supply, retry, fail, topUp with a requestId and by.`
  }
}

/** A typed refusal of one decision. */
export type Rejection =
  | RequestNotFound
  | AlreadyDecided
  | RequestSuperseded
  | ArgumentsChanged
  | DecisionNotApplicable
  | GrantRefused
  | EditedArgumentsInvalid
  | DecisionMalformed
