/**
 * The error of a model call. Its reason is the same for every provider, so that a caller can act on it.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { lines, sentence } from "../domain/Display.ts"
import { TaggedError } from "../domain/TaggedError.ts"
import { ModelUsage } from "../domain/Usage.ts"

const described = { description: Schema.String }

/** The provider limits the rate of requests. `retryAfterMs` is the wait that it asks for, if it does. */
export class RateLimited extends TaggedError<RateLimited>()("RateLimited", {
  ...described,
  retryAfterMs: Schema.optionalKey(Schema.Finite)
}) {
  readonly isRetryable = true
}

/** The provider has a fault or is overloaded. `retryAfterMs` is the wait that it asks for, if it does. */
export class ProviderFault extends TaggedError<ProviderFault>()("ProviderFault", {
  ...described,
  retryAfterMs: Schema.optionalKey(Schema.Finite)
}) {
  readonly isRetryable = true
}

/** The connection could not be made or was lost, or a stream ended before the response was complete. */
export class ConnectionLost extends TaggedError<ConnectionLost>()("ConnectionLost", described) {
  readonly isRetryable = true
}

/** The provider did not send the response, or its next part, within a time limit of the client or of the run. */
export class TimedOut extends TaggedError<TimedOut>()("TimedOut", {
  ...described,
  timeoutMs: Schema.Finite
}) {
  readonly isRetryable = true
}

/** The model cannot stream. Request a complete response instead. */
export class StreamUnsupported extends TaggedError<StreamUnsupported>()("StreamUnsupported", described) {
  readonly isRetryable = false
}

/** The provider returned something that is not a valid response. */
export class InvalidResponse extends TaggedError<InvalidResponse>()("InvalidResponse", described) {
  readonly isRetryable = true
}

/** The provider refuses the request, or the request cannot be sent, for example because a router has no such profile. */
export class InvalidRequest extends TaggedError<InvalidRequest>()("InvalidRequest", described) {
  readonly isRetryable = false
}

/** The request does not fit the model's context. */
export class ContextOverflow extends TaggedError<ContextOverflow>()("ContextOverflow", described) {
  readonly isRetryable = false
}

/**
 * There are no usable credentials and nothing was sent, because a key is missing or the file of a login cannot be used; or the provider
 * refuses the credentials or denies them access (401, 403).
 */
export class NotAuthorized extends TaggedError<NotAuthorized>()("NotAuthorized", described) {
  readonly isRetryable = false
}

/**
 * A person has to log in to `profile`: there is no login, or it has ended. A stored, interactive run opens a login request for this error;
 * any other run fails.
 */
export class LoginRequired extends TaggedError<LoginRequired>()("LoginRequired", {
  ...described,
  profile: Schema.String
}) {
  readonly isRetryable = false
}

/** The account's quota or credit is used up. `resetsAt` is when it resets, in milliseconds since 1970, if known. */
export class QuotaExhausted extends TaggedError<QuotaExhausted>()("QuotaExhausted", {
  ...described,
  resetsAt: Schema.optionalKey(Schema.Finite)
}) {
  readonly isRetryable = false
}

/**
 * The cause of a {@link ModelError}. The `isRetryable` of a reason is only a default, which `ModelError.retryable` may override: read the
 * `isRetryable` of the `ModelError`.
 */
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

/**
 * The error of a failed model call.
 *
 * **Details**
 *
 * `isRetryable` states if a retry can help. The clients of this SDK have retried before they fail with a retryable error, except in three
 * cases: they had emitted a part of the response, the provider asks for a longer wait than `RetryOptions.cap`, or a circuit breaker is
 * open.
 */
export class ModelError extends TaggedError<ModelError>()("ModelError", {
  reason: Reason,
  /** The provider's id of the request, for the provider's support. Absent if the provider gave none. */
  requestId: Schema.optionalKey(Schema.String),
  /** Overrides the reason's `isRetryable`, for example when the provider states that a retry cannot help. */
  retryable: Schema.optionalKey(Schema.Boolean),
  /**
   * The usage that the provider had reported when the call failed, over all attempts. It is a lower bound of what the provider bills.
   */
  usage: Schema.optionalKey(ModelUsage),
  /**
   * The number of attempts that the client made, if it retries by itself; left out if it had emitted a part. After a stream with such an
   * error, a run makes no complete call, unless the reason is `StreamUnsupported`.
   */
  attempts: Schema.optionalKey(Schema.Natural)
}) {
  get isRetryable(): boolean {
    return this.retryable ?? this.reason.isRetryable
  }
  override get message() {
    return sentence`The model did not answer (${this.reason._tag}): ${lines(this.reason.description)}`
  }
}
