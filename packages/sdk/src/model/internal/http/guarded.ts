/**
 * Limits a client's requests by the rate limit and the circuit breaker of its profile, each shared by all clients of the process with the
 * same key.
 *
 * The rate limit is a sliding window: unlike a token bucket, it never admits more than the limit within a minute. A waiting request
 * reserves nothing, so that its interruption costs nothing. Both measure with the monotonic clock, which is never set back.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type { ModelUsage } from "../../../domain/Usage.ts"
import type { ModelClient } from "../../ModelClient.ts"
import { type ModelError, ProviderFault } from "../../ModelError.ts"
import type { CircuitBreaker, RateLimit } from "../../ModelProfile.ts"
import type { ModelRequest } from "../../ModelRequest.ts"
import { countRequest, Tokenizer } from "../../Tokenizer.ts"
import { modelError } from "../modelError.ts"

type Client = ModelClient["Service"]

/** The windows and the breakers by key. The default is one of the process. */
export class Guards extends Context.Reference<{
  readonly windows: Map<string, Window>
  readonly breakers: Map<string, Breaker>
}>("@fermata/sdk/model/internal/http/guarded", {
  defaultValue: () => ({ windows: new Map(), breakers: new Map() })
}) {}

/** The limits of a client. */
export interface Limits {
  /** The server's name in errors, and the default key. */
  readonly server: string
  readonly rateLimit?: RateLimit | undefined
  readonly circuitBreaker?: CircuitBreaker | undefined
}

/** What a request was admitted with. */
interface Admission {
  /** Replaces the estimated tokens by those of the response. */
  readonly use: (usage: ModelUsage) => void
  readonly end: (exit: Exit.Exit<unknown, ModelError>) => Effect.Effect<void>
}

/** Returns the client, limited as its profile states. */
export const guarded = (client: Client, { circuitBreaker, rateLimit, server }: Limits): Client => {
  if (circuitBreaker === undefined && rateLimit === undefined) return client
  const cooldownMs = Duration.toMillis(circuitBreaker?.cooldown ?? "30 seconds")
  const mostFailures = circuitBreaker?.failures ?? 5

  const admit = (request: ModelRequest): Effect.Effect<Admission, ModelError> =>
    Effect.gen(function* () {
      const { breakers, windows } = yield* Guards
      const key = circuitBreaker?.key ?? server
      const breaker =
        circuitBreaker === undefined
          ? undefined
          : found(breakers, key, (): Breaker => ({ failures: 0, until: undefined, trial: undefined }))
      // A request to a server that is down does not wait for its turn. While another one waits, the server may fail.
      if (breaker !== undefined) yield* checkOpen(breaker, server)
      let entry: Entry | undefined
      if (rateLimit !== undefined) {
        const window = found(windows, rateLimit.key ?? server, makeWindow)
        const tokens = rateLimit.tokensPerMinute === undefined ? 0 : countRequest(yield* Tokenizer, request)
        entry = yield* whileGoing(request, take(window, rateLimit, tokens))
        if (breaker !== undefined) yield* checkOpen(breaker, server)
      }
      const sent = {}
      if (breaker?.until !== undefined) {
        // The others fail until the trial has ended, or, if it never ends, for another cooldown.
        breaker.until = (yield* nowMs) + cooldownMs
        breaker.trial = sent
      }
      return {
        use: ({ inputTokens, outputTokens }) => {
          if (entry !== undefined) entry.tokens = inputTokens + outputTokens
        },
        end: (exit) =>
          Effect.map(nowMs, (now) => {
            if (breaker !== undefined) record(breaker, exit, sent, now)
          })
      }
    })

  /** Records how a request ended. Once no request is sent, only the outcome of the trial counts: the others were sent before. */
  const record = (
    breaker: Breaker,
    exit: Exit.Exit<unknown, ModelError>,
    sent: object,
    now: number
  ): void => {
    const isTrial = breaker.trial === sent
    if (breaker.until !== undefined && !isTrial) return
    breaker.trial = undefined
    const error = Exit.findErrorOption(exit)
    if (Exit.isFailure(exit) && error._tag === "None") {
      // An interrupted request shows nothing, so that the next one tries.
      if (isTrial) breaker.until = now
      return
    }
    if (error._tag === "None" || !isOutage(error.value)) {
      breaker.failures = 0
      breaker.until = undefined
      return
    }
    breaker.failures++
    if (isTrial || breaker.failures >= mostFailures) breaker.until = now + cooldownMs
  }

  return {
    ...client,
    stream: (request) =>
      Stream.unwrap(
        Effect.map(admit(request), ({ end, use }) =>
          client.stream(request).pipe(
            Stream.mapArray((parts) => {
              for (const part of parts) if (part._tag === "finish") use(part.usage)
              return parts
            }),
            Stream.onExit(end)
          )
        )
      ),
    complete: (request) =>
      Effect.flatMap(admit(request), ({ end, use }) =>
        client.complete(request).pipe(
          Effect.tap(({ usage }) => Effect.sync(() => use(usage))),
          Effect.onExit((exit) => end(exit))
        )
      )
  }
}

const found = <A>(map: Map<string, A>, key: string, make: () => A): A => {
  let value = map.get(key)
  if (value === undefined) map.set(key, (value = make()))
  return value
}

/** A request of the last minute. */
interface Entry {
  readonly at: number
  tokens: number
}

interface Window {
  readonly entries: Array<Entry>
  /** Held while a request waits, so that those after it wait behind it. */
  readonly turn: Semaphore.Semaphore
}

const minute = 60_000

const makeWindow = (): Window => ({ entries: [], turn: Semaphore.makeUnsafe(1) })

/** Waits until the request fits into the last minute, and adds it. */
const take = (
  { entries, turn }: Window,
  { requestsPerMinute = Infinity, tokensPerMinute = Infinity }: RateLimit,
  tokens: number
): Effect.Effect<Entry> => {
  const attempt: Effect.Effect<Entry> = Effect.suspend(() =>
    Effect.flatMap(nowMs, (now) => {
      while (entries.length > 0 && entries[0]!.at + minute <= now) entries.shift()
      const used = entries.reduce((sum, entry) => sum + entry.tokens, 0)
      const fits = entries.length < requestsPerMinute && used + tokens <= tokensPerMinute
      if (fits || entries.length === 0) {
        const entry = { at: now, tokens }
        entries.push(entry)
        return Effect.succeed(entry)
      }
      return Effect.andThen(Effect.sleep(entries[0]!.at + minute - now), attempt)
    })
  )
  return turn.withPermit(attempt)
}

interface Breaker {
  /** Failed attempts in a row. */
  failures: number
  /** Until when no request is sent; the first one after that tries. `undefined` while requests are sent. */
  until: number | undefined
  /** The request that tries; see `sent`. */
  trial: object | undefined
}

const nowMs: Effect.Effect<number> = Effect.map(
  Clock.monotonicTimeNanos,
  (nanos) => Number(nanos) / 1_000_000
)

/** Waits for the turn of a request. If its run is suspended meanwhile, the wait is interrupted, since nothing was sent. */
const whileGoing = <A>({ "~waits": waits }: ModelRequest, turn: Effect.Effect<A>): Effect.Effect<A> => {
  if (waits === undefined) return turn
  return Effect.suspend(() => {
    let isOver = false
    const suspended = Effect.callback<never>((resume) => {
      const over = waits(() => resume(Effect.interrupt))
      return Effect.sync(() => over(isOver))
    })
    return Effect.raceFirst(
      Effect.map(turn, (entry) => {
        isOver = true
        return entry
      }),
      suspended
    )
  })
}

/** Fails while no request is sent. */
const checkOpen = ({ failures, until }: Breaker, server: string): Effect.Effect<void, ModelError> =>
  Effect.flatMap(nowMs, (now) => {
    if (until === undefined || until <= now) return Effect.void
    const description = `${server} is not asked at the moment, since ${failures} attempts in a row have failed.`
    return Effect.fail(
      modelError(new ProviderFault({ description, retryAfterMs: Math.ceil(until - now) }), { attempts: 0 })
    )
  })

/** Whether an error shows that the server is down or overloaded, rather than that it refuses this request. */
const isOutage = ({ reason: { _tag } }: ModelError): boolean =>
  _tag === "ProviderFault" || _tag === "ConnectionLost" || _tag === "TimedOut"
