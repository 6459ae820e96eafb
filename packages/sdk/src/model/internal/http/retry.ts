/**
 * When a model is asked again, and how long to wait before: bounded, doubling, at random below each bound, and never less than
 * the provider asks for. This is the only place that repeats a model call.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import type { ModelError } from "../../ModelError.ts"
import type { RetryOptions } from "../../ModelProfile.ts"
import type { ModelRetry } from "../../ModelRequest.ts"
import { changed, described } from "../modelError.ts"

/** Waits until the call may be made again; fails with the error when it may not. `attempt` is the one that failed, from 1. */
export const beforeRetry = (
  error: ModelError,
  attempt: number,
  options: RetryOptions = {},
  onRetry?: (retry: ModelRetry) => void
): Effect.Effect<void, ModelError> =>
  Effect.suspend(() => {
    const { base = "1 second", cap = "60 seconds", times = 4 } = options
    if (!error.isRetryable || attempt > times) return Effect.fail(error)
    const capMs = Duration.toMillis(cap)
    const asked = adviceOf(error)
    if (asked !== undefined && asked > capMs) return Effect.fail(tooLong(error, asked))
    return Effect.flatMap(Random.next, (random) => {
      const backoff = random * Math.min(capMs, Duration.toMillis(base) * 2 ** (attempt - 1))
      // Whoever was told the same time does not come back at the same moment.
      const waitMs = Math.ceil(asked === undefined ? backoff : asked * (1 + random / 10))
      onRetry?.({ attempt, waitMs, reason: error.reason._tag })
      return Effect.sleep(waitMs)
    })
  })

/** How long the provider asks to wait, where it does. */
const adviceOf = ({ reason }: ModelError): number | undefined => {
  const asked = "retryAfterMs" in reason ? reason.retryAfterMs : undefined
  return asked === undefined || asked <= 0 ? undefined : asked
}

const tooLong = (error: ModelError, asked: number): ModelError => {
  const wait = Duration.format(Duration.seconds(Math.ceil(asked / 1000)))
  const words = `${error.reason.description} The provider asks to wait ${wait}, which is too long for one call.`
  return changed(error, { reason: described(error.reason, words) })
}

/**
 * The wait that the headers of a failed response ask for: `retry-after-ms`, else `retry-after` in seconds or as an HTTP date
 * (RFC 9110, section 10.2.3).
 */
export const retryAfter = (
  headers: Readonly<Record<string, string | undefined>>
): Effect.Effect<number | undefined> =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    const millis = headers["retry-after-ms"]?.trim()
    if (millis !== undefined && isNumber(millis)) return Number(millis)
    const after = headers["retry-after"]?.trim()
    if (after === undefined || after === "") return undefined
    if (isNumber(after)) return Number(after) * 1000
    const at = Date.parse(after)
    return Number.isNaN(at) ? undefined : Math.max(0, at - now)
  })

const isNumber = (text: string): boolean => /^\d+(\.\d+)?$/.test(text)
