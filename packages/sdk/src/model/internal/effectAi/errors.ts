/** Converts between the errors of `effect/ai` and `ModelError`. */
import * as AiError from "effect/ai/AiError"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import type { ModelUsage } from "../../../domain/Usage.ts"
import {
  ConnectionLost,
  InvalidRequest,
  InvalidResponse,
  type ModelError,
  NotAuthorized,
  ProviderFault,
  QuotaExhausted,
  RateLimited,
  type Reason
} from "../../ModelError.ts"
import type { Prices } from "../../ModelProfile.ts"
import { priced, validUsage } from "../cost.ts"
import { redactError } from "../http/responseError.ts"
import { modelError } from "../modelError.ts"
import { reasonOf } from "../providerErrors.ts"

/** Converts an error of a language model to a `ModelError`. The prices determine the cost of the usage that it reports. */
export const fromAiError = (
  { isRetryable, reason }: AiError.AiError,
  given: { readonly prices?: Prices } = {}
): ModelError => {
  const ours = reasonFrom(reason)
  const usage = "usage" in reason && reason.usage !== undefined ? usageOf(reason.usage) : undefined
  const error = modelError(ours, {
    retryable: isRetryable === ours.isRetryable ? undefined : isRetryable,
    usage: usage === undefined ? undefined : priced(given, usage)
  })
  return redactError(error, [])
}

const usageOf = ({
  completionTokens,
  promptTokens,
  totalTokens
}: typeof AiError.UsageInfo.Type): ModelUsage => {
  const inputTokens = promptTokens ?? (totalTokens ?? 0) - (completionTokens ?? 0)
  return validUsage({ inputTokens, outputTokens: completionTokens ?? (totalTokens ?? 0) - inputTokens })
}

const reasonFrom = (reason: AiError.AiErrorReason): Reason => {
  const description = ("description" in reason ? reason.description : undefined) ?? reason.message
  switch (reason._tag) {
    case "RateLimitError": {
      const { retryAfter } = reason
      const waitMs = retryAfter === undefined ? Infinity : Duration.toMillis(retryAfter)
      const wait = Number.isFinite(waitMs) ? { retryAfterMs: waitMs } : {}
      return new RateLimited({ description, ...wait })
    }
    case "QuotaExhaustedError": {
      const { resetAt } = reason
      const back = resetAt === undefined ? {} : { resetsAt: DateTime.toEpochMillis(resetAt) }
      return new QuotaExhausted({ description, ...back })
    }
    case "AuthenticationError":
      return new NotAuthorized({ description })
    case "NetworkError":
      return reason.isRetryable ? new ConnectionLost({ description }) : new InvalidRequest({ description })
    case "InvalidRequestError":
      // A request that is too long has this tag, too. Only its text shows that.
      return reasonOf({ message: description }, { status: reason.http?.response?.status ?? 400 })
    case "InternalProviderError":
    case "UnknownError":
      return new ProviderFault({ description })
    case "InvalidResponseError":
    case "InvalidOutputError":
    case "StructuredOutputError":
      return new InvalidResponse({ description })
    default:
      return new InvalidRequest({ description })
  }
}

/** Converts a `ModelError` to the error of a language model. */
export const toAiError = ({ message, reason }: ModelError, method: string): AiError.AiError =>
  AiError.make({ module: "Fermata", method, reason: aiReason(reason, message) })

const aiReason = (reason: Reason, message: string): AiError.AiErrorReason => {
  const { description } = reason
  switch (reason._tag) {
    case "RateLimited": {
      const { retryAfterMs } = reason
      return new AiError.RateLimitError(
        retryAfterMs === undefined ? {} : { retryAfter: Duration.millis(retryAfterMs) }
      )
    }
    case "QuotaExhausted": {
      const resetAt = reason.resetsAt === undefined ? undefined : DateTime.make(reason.resetsAt)
      return new AiError.QuotaExhaustedError(resetAt?._tag === "Some" ? { resetAt: resetAt.value } : {})
    }
    case "NotAuthorized":
    case "LoginRequired":
      return new AiError.AuthenticationError({ kind: "Unknown", description })
    case "ProviderFault":
    case "ConnectionLost":
    case "TimedOut":
      return new AiError.InternalProviderError({ description: message })
    case "InvalidResponse":
      return new AiError.InvalidResponseError({ description })
    case "InvalidRequest":
    case "ContextOverflow":
    case "StreamUnsupported":
      return new AiError.InvalidRequestError({ description })
  }
}
