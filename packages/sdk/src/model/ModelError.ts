/**
 * Why a model did not answer: one error with a reason, so that a caller can act on the reason without knowing the provider.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { lines, sentence } from "../domain/Display.ts"
import { ModelUsage } from "../domain/Usage.ts"

const described = { description: Schema.String }

/** Too many requests; `retryAfterMs` is the provider's own advice. */
export class RateLimited extends Schema.TaggedError<RateLimited>()("RateLimited", {
  ...described,
  retryAfterMs: Schema.optionalKey(Schema.Finite)
}) {
  readonly isRetryable = true
}

/** The provider has a fault or is overloaded; `retryAfterMs` is its own advice. */
export class ProviderFault extends Schema.TaggedError<ProviderFault>()("ProviderFault", {
  ...described,
  retryAfterMs: Schema.optionalKey(Schema.Finite)
}) {
  readonly isRetryable = true
}

/** No connection, or it was cut; also a stream that ended without its end. */
export class ConnectionLost extends Schema.TaggedError<ConnectionLost>()("ConnectionLost", described) {
  readonly isRetryable = true
}

/** No answer within the time limit. */
export class TimedOut extends Schema.TaggedError<TimedOut>()("TimedOut", {
  ...described,
  timeoutMs: Schema.Finite
}) {
  readonly isRetryable = true
}

/** This model cannot stream; ask it for a complete answer. */
export class StreamUnsupported extends Schema.TaggedError<StreamUnsupported>()(
  "StreamUnsupported",
  described
) {
  readonly isRetryable = false
}

/** What came back is not an answer. */
export class InvalidResponse extends Schema.TaggedError<InvalidResponse>()("InvalidResponse", described) {
  readonly isRetryable = true
}

/** The provider refuses the request as it is. */
export class InvalidRequest extends Schema.TaggedError<InvalidRequest>()("InvalidRequest", described) {
  readonly isRetryable = false
}

/** The request does not fit the model's context. */
export class ContextOverflow extends Schema.TaggedError<ContextOverflow>()("ContextOverflow", described) {
  readonly isRetryable = false
}

/** The key is missing, wrong, or not allowed to do this. */
export class NotAuthorized extends Schema.TaggedError<NotAuthorized>()("NotAuthorized", described) {
  readonly isRetryable = false
}

/** A person has to log in again. */
export class LoginRequired extends Schema.TaggedError<LoginRequired>()("LoginRequired", {
  ...described,
  profile: Schema.String
}) {
  readonly isRetryable = false
}

/** The account has no quota or money left; `resetsAt` is when it has again, in milliseconds since 1970, where that is known. */
export class QuotaExhausted extends Schema.TaggedError<QuotaExhausted>()("QuotaExhausted", {
  ...described,
  resetsAt: Schema.optionalKey(Schema.Finite)
}) {
  readonly isRetryable = false
}

/** Why a model did not answer. */
export const Reason = Schema.Union([
  RateLimited,
  ProviderFault,
  ConnectionLost,
  TimedOut,
  StreamUnsupported,
  InvalidResponse,
  InvalidRequest,
  ContextOverflow,
  NotAuthorized,
  LoginRequired,
  QuotaExhausted
])
export type Reason = typeof Reason.Type

/** A model call failed. Whether trying again can help is the reason's to say; what it cost all the same is in `usage`. */
export class ModelError extends Schema.TaggedError<ModelError>()("ModelError", {
  reason: Reason,
  /** The provider's id of the request, for its support. */
  requestId: Schema.optionalKey(Schema.String),
  /** The provider's own word on whether trying again can help, against what the reason says. */
  retryable: Schema.optionalKey(Schema.Boolean),
  /**
   * What the call used all the same, in all of its attempts, as far as the provider had said so by then: at least this much has to
   * be paid.
   */
  usage: Schema.optionalKey(ModelUsage)
}) {
  get isRetryable(): boolean {
    return this.retryable ?? this.reason.isRetryable
  }
  override get message() {
    return sentence`The model did not answer (${this.reason._tag}): ${lines(this.reason.description)}`
  }
}
