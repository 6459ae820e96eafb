/**
 * Retries a client's requests after retryable errors, as long as no part of the response was emitted. The usage of failed attempts is
 * added to the response, or to the error, that the caller gets in the end.
 *
 * Each wait is random below a bound, which doubles up to a cap. If the provider asks for a wait up to the cap, the wait is that long, plus
 * up to 10 %; if it asks for a longer one, the call fails at once. Within an attempt, `send` repeats a request once, with a renewed login.
 *
 * If the caller allows it (`onFallback`), the last attempt of a stream is a complete call: servers and proxies that break streams may
 * answer one. A run does the same after a failed stream, but not if the error states the attempts of its client, so that the number of
 * requests stays the one of `RetryOptions`.
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import type { ModelClient } from "../../ModelClient.ts"
import type { ModelError } from "../../ModelError.ts"
import { type ModelPart, type ModelResponse, partsOf } from "../../ModelPart.ts"
import type { RetryOptions } from "../../ModelProfile.ts"
import type { ModelRequest, ModelRetry } from "../../ModelRequest.ts"
import { withSpent, failedAfterSpending, type Spent, addSpent } from "../cost.ts"
import { changed, described, mayCallComplete } from "../modelError.ts"

type Client = ModelClient["Service"]

/** Returns the client with retries. */
export const retrying = (client: Client, options?: RetryOptions): Client => {
  const attempt = <Answer>(
    request: ModelRequest,
    ask: (failed?: ModelError) => Answer,
    number = 1,
    failed?: ModelError
  ): Next<Answer> => ({
    ask: ask(number > (options?.times ?? defaultTimes) ? failed : undefined),
    after: (error) =>
      awaitRetry(error, number, options, request.onRetry).pipe(
        Effect.map(() => attempt(request, ask, number + 1, error)),
        Effect.mapError((last) => changed(last, { attempts: last.attempts === 0 ? number - 1 : number }))
      )
  })
  return {
    ...client,
    stream: (request) =>
      streamFirst(
        attempt(request, (failed) => {
          if (failed === undefined || request.onFallback === undefined || !mayCallComplete(failed)) {
            return client.stream(request)
          }
          request.onFallback(failed.reason._tag)
          return Stream.unwrap(
            Effect.map(client.complete(request), (response) => Stream.fromIterable(partsOf(response)))
          )
        })
      ),
    complete: (request) => completeFirst(attempt(request, () => client.complete(request)))
  }
}

const defaultTimes = 4

/** One attempt, and the next one after an error. `after` fails if there is no further attempt. */
export interface Next<Answer> {
  readonly ask: Answer
  readonly after: (error: ModelError) => Effect.Effect<Next<Answer>, ModelError>
}

/** Runs the attempts until one emits a part or there is no further one. */
export const streamFirst = (
  { after, ask }: Next<Stream.Stream<ModelPart, ModelError>>,
  spent?: Spent
): Stream.Stream<ModelPart, ModelError> =>
  Stream.suspend(() => {
    let seen = false
    return ask.pipe(
      Stream.mapArray((parts) => {
        seen = true
        return spent === undefined
          ? parts
          : Arr.map(parts, (part) => (part._tag === "finish" ? withSpent(spent, part) : part))
      }),
      Stream.catch((error) =>
        seen
          ? Stream.fail(failedAfterSpending(spent, error))
          : Stream.unwrap(
              Effect.map(
                Effect.mapError(after(error), (last) => failedAfterSpending(spent, last)),
                (next) => streamFirst(next, addSpent(spent, error.usage))
              )
            )
      )
    )
  })

/** Runs the attempts until one succeeds or there is no further one. */
export const completeFirst = (
  { after, ask }: Next<Effect.Effect<ModelResponse, ModelError>>,
  spent?: Spent
): Effect.Effect<ModelResponse, ModelError> =>
  Effect.matchEffect(ask, {
    onSuccess: (response) => Effect.succeed(withSpent(spent, response)),
    onFailure: (error) =>
      Effect.flatMap(
        Effect.mapError(after(error), (last) => failedAfterSpending(spent, last)),
        (next) => completeFirst(next, addSpent(spent, error.usage))
      )
  })

/** Waits until the next attempt; fails with the error if there is none. `attempt` is the number of the failed one, from 1. */
export const awaitRetry = (
  error: ModelError,
  attempt: number,
  options: RetryOptions = {},
  onRetry?: (retry: ModelRetry) => void
): Effect.Effect<void, ModelError> =>
  Effect.suspend(() => {
    const { base = "1 second", cap = "60 seconds", times = defaultTimes } = options
    // The circuit breaker did not send the request: waiting would defeat its purpose.
    if (!error.isRetryable || attempt > times || error.attempts === 0) return Effect.fail(error)
    const capMs = Duration.toMillis(cap)
    const asked = adviceOf(error)
    if (asked !== undefined && asked > capMs) return Effect.fail(tooLong(error, asked))
    return Effect.flatMap(Random.next, (random) => {
      const backoff = random * Math.min(capMs, Duration.toMillis(base) * 2 ** (attempt - 1))
      // Jitter: callers that were given the same wait should not retry at the same moment.
      const waitMs = Math.ceil(asked === undefined ? backoff : asked * (1 + random / 10))
      onRetry?.({ attempt, waitMs, reason: error.reason._tag })
      return Effect.sleep(waitMs)
    })
  })

/** The wait that the provider asks for, if any. */
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
