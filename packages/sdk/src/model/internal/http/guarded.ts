/**
 * Limits a client's requests by the rate limit and the circuit breaker of its profile, each shared by all clients of the process with the
 * same key.
 *
 * The rate limit is a sliding window: unlike a token bucket, it never admits more than the limit within a minute. A waiting request
 * reserves nothing, so that its interruption costs nothing.
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
  const admit = (request: ModelRequest): Effect.Effect<Admission, ModelError> =>
    Effect.gen(function* () {
      const { breakers, windows } = yield* Guards
      const breaker =
        circuitBreaker === undefined
          ? undefined
          : found(breakers, circuitBreaker.key ?? server, () => ({
              failures: 0,
              until: undefined,
              isTrying: false
            }))
      const isTrial = breaker !== undefined && (yield* checkBreaker(breaker, server))
      const release = Effect.sync(() => {
        if (breaker !== undefined && isTrial) breaker.isTrying = false
      })
      let entry: Entry | undefined
      if (rateLimit !== undefined) {
        const window = found(windows, rateLimit.key ?? server, makeWindow)
        const tokens = rateLimit.tokensPerMinute === undefined ? 0 : countRequest(yield* Tokenizer, request)
        entry = yield* Effect.onInterrupt(take(window, rateLimit, tokens), () => release)
      }
      return {
        use: ({ inputTokens, outputTokens }) => {
          if (entry !== undefined) entry.tokens = inputTokens + outputTokens
        },
        end: (exit) =>
          breaker === undefined
            ? Effect.void
            : Effect.flatMap(Clock.currentTimeMillis, (now) => {
                record(breaker, exit, circuitBreaker!, isTrial, now)
                return release
              })
      }
    })

  return {
    ...client,
    stream: (request) =>
      Stream.unwrap(
        Effect.map(admit(request), ({ end, use }) =>
          client.stream(request).pipe(
            Stream.tap((part) => Effect.sync(() => part._tag === "finish" && use(part.usage))),
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
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
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
  /** When the cooldown ends; `undefined` while requests are sent. */
  until: number | undefined
  /** The one request after a cooldown is in progress. */
  isTrying: boolean
}

/** Fails while the breaker is open. Returns `true` for the one request after a cooldown. */
const checkBreaker = (breaker: Breaker, server: string): Effect.Effect<boolean, ModelError> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => {
    if (breaker.until === undefined) return Effect.succeed(false)
    const left = breaker.until - now
    if (left <= 0 && !breaker.isTrying) {
      breaker.isTrying = true
      return Effect.succeed(true)
    }
    const description = `${server} is not asked at the moment, since ${breaker.failures} attempts in a row have failed.`
    const wait = left > 0 ? { retryAfterMs: left } : {}
    return Effect.fail(modelError(new ProviderFault({ description, ...wait }), { attempts: 0 }))
  })

/** Records how a request ended. An interrupted one shows nothing. */
const record = (
  breaker: Breaker,
  exit: Exit.Exit<unknown, ModelError>,
  { cooldown = "30 seconds", failures = 5 }: CircuitBreaker,
  isTrial: boolean,
  now: number
): void => {
  const error = Exit.findErrorOption(exit)
  if (Exit.isFailure(exit) && error._tag === "None") return
  if (error._tag === "None" || !isOutage(error.value)) {
    breaker.failures = 0
    breaker.until = undefined
    return
  }
  breaker.failures++
  // A request that was sent before the others failed does not prolong the cooldown.
  if (isTrial || (breaker.until === undefined && breaker.failures >= failures)) {
    breaker.until = now + Duration.toMillis(cooldown)
  }
}

/** Whether an error shows that the server is down or overloaded, rather than that it refuses this request. */
const isOutage = ({ reason: { _tag } }: ModelError): boolean =>
  _tag === "ProviderFault" || _tag === "ConnectionLost" || _tag === "TimedOut"
