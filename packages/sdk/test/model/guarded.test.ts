/** The rate limit and the circuit breaker of a profile, over the clients of a process. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as TestClock from "effect/testing/TestClock"
import { Guards } from "../../src/model/internal/http/guarded.ts"
import { collect } from "../../src/model/ModelClient.ts"
import * as ModelRouter from "../../src/model/ModelRouter.ts"
import * as OpenAiChat from "../../src/model/OpenAiChat.ts"
import { Tokenizer } from "../../src/model/Tokenizer.ts"
import { requestOf, user } from "./Histories.ts"

const answered = (tokens = 2) =>
  new Response(
    JSON.stringify({
      choices: [{ index: 0, message: { content: "Hi." }, finish_reason: "stop" }],
      usage: { prompt_tokens: 1, completion_tokens: tokens - 1, total_tokens: tokens }
    })
  )
const failed = (status: number) => new Response('{"error":{"message":"down"}}', { status })

/** A provider with these answers, and a function that makes clients of it. */
const provider = (answer: (index: number) => Response | undefined = () => answered(), takesMs = 0) => {
  const at: Array<number> = []
  const http = HttpClient.make((request) =>
    Effect.flatMap(
      Effect.clockWith((clock) => clock.currentTimeMillis),
      (now) => {
        const response = answer(at.push(now) - 1)
        return response === undefined
          ? Effect.never
          : Effect.delay(Effect.succeed(HttpClientResponse.fromWeb(request, response)), takesMs)
      }
    )
  )
  const client = (options: Partial<OpenAiChat.Options>) =>
    OpenAiChat.make({
      model: "m",
      baseUrl: "https://models.example/v1",
      apiKey: "key-of-the-test",
      retry: { times: 0 },
      ...options
    }).pipe(Effect.provideService(HttpClient.HttpClient, http))
  return { at, client }
}

const ask = requestOf([user("hi")])

/** Runs an effect while the clock of the machine is set back by an hour. */
const setBack = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Clock.Clock, (clock) => {
    const behind: Clock.Clock = {
      currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() - 3_600_000,
      currentTimeMillis: Effect.map(clock.currentTimeMillis, (now) => now - 3_600_000),
      currentTimeNanosUnsafe: () => clock.currentTimeNanosUnsafe() - 3_600_000_000_000n,
      currentTimeNanos: Effect.map(clock.currentTimeNanos, (now) => now - 3_600_000_000_000n),
      monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
      monotonicTimeNanos: clock.monotonicTimeNanos,
      sleep: (duration) => clock.sleep(duration)
    }
    return Effect.provideService(effect, Clock.Clock, behind)
  })

/** Runs a test with limits of its own, and counts each text as one token. */
const alone = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(
    Effect.provideService(Guards, { windows: new Map(), breakers: new Map() }),
    Effect.provideService(Tokenizer, { count: () => 0 })
  )

const minutes = (at: ReadonlyArray<number>) => at.map((time) => time / 60_000)

describe("a rate limit", () => {
  it.effect("admits so many requests in any minute, over all clients of the server, in order", () =>
    alone(
      Effect.gen(function* () {
        const { at, client } = provider()
        const rateLimit = { requestsPerMinute: 2 }
        const one = yield* client({ rateLimit })
        const other = yield* client({ model: "other", rateLimit })
        const done: Array<number> = []
        const calls = Array.from({ length: 5 }, (_, index) =>
          Effect.tap(
            index % 2 === 0 ? one.complete(ask) : collect(other.stream(ask)),
            Effect.sync(() => void done.push(index))
          )
        )
        const fiber = yield* Effect.forkChild(Effect.all(calls, { concurrency: "unbounded" }))
        yield* TestClock.adjust("59999 millis")
        assert.strictEqual(at.length, 2)
        yield* TestClock.adjust("2 minutes")
        yield* Fiber.join(fiber)
        assert.deepStrictEqual(minutes(at), [0, 0, 1, 1, 2])
        assert.deepStrictEqual(done, [0, 1, 2, 3, 4])
      })
    )
  )

  it.effect("counts the tokens that a response reports, and sends a request above the limit alone", () =>
    alone(
      Effect.gen(function* () {
        const { at, client } = provider(() => answered(600))
        const model = yield* client({ rateLimit: { tokensPerMinute: 1000 } })
        const fiber = yield* Effect.forkChild(Effect.forEach([1, 2, 3], () => model.complete(ask)))
        yield* TestClock.adjust("5 minutes")
        yield* Fiber.join(fiber)
        assert.deepStrictEqual(minutes(at), [0, 0, 1])
        const large = yield* client({ rateLimit: { tokensPerMinute: 5, key: "small" } })
        yield* Effect.provideService(large.complete(ask), Tokenizer, { count: () => 100 })
      })
    )
  )

  it.effect("counts the tokens that the end of a stream reports", () =>
    alone(
      Effect.gen(function* () {
        const chunk = (delta: object, rest: object = {}) =>
          `data: ${JSON.stringify({ choices: [{ index: 0, delta, ...rest }] })}\n\n`
        const usage = { prompt_tokens: 1, completion_tokens: 1199, total_tokens: 1200 }
        const stream =
          chunk({ content: "Hi." }) +
          chunk({}, { finish_reason: "stop" }) +
          `data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`
        const headers = { "content-type": "text/event-stream" }
        const { at, client } = provider(() => new Response(stream, { headers }))
        const model = yield* client({ rateLimit: { tokensPerMinute: 1000 } })
        const fiber = yield* Effect.forkChild(Effect.forEach([1, 2], () => collect(model.stream(ask))))
        yield* TestClock.adjust("5 minutes")
        yield* Fiber.join(fiber)
        assert.deepStrictEqual(minutes(at), [0, 1])
      })
    )
  )

  it.effect("does not let a small request overtake a large one that waits", () =>
    alone(
      Effect.gen(function* () {
        const { client } = provider(() => answered(600))
        const model = yield* client({ rateLimit: { tokensPerMinute: 1000 } })
        const sizes: Readonly<Record<string, number>> = { large: 800, small: 100 }
        const order: Array<string> = []
        const call = (size: string) =>
          model.complete(requestOf([user(size)])).pipe(
            Effect.tap(() => Effect.sync(() => order.push(size))),
            Effect.provideService(Tokenizer, { count: (text) => sizes[text] ?? 0 })
          )
        yield* call("first")
        const large = yield* Effect.forkChild(call("large"), { startImmediately: true })
        const small = yield* Effect.forkChild(call("small"), { startImmediately: true })
        yield* TestClock.adjust("5 minutes")
        yield* Effect.all([Fiber.join(large), Fiber.join(small)])
        assert.deepStrictEqual(order, ["first", "large", "small"])
      })
    )
  )

  it.effect("is not used up by a request that is interrupted while it waits, and holds none up", () =>
    alone(
      Effect.gen(function* () {
        const { at, client } = provider()
        const model = yield* client({ rateLimit: { requestsPerMinute: 1 } })
        yield* model.complete(ask)
        const waiting = yield* Effect.forkChild(model.complete(ask), { startImmediately: true })
        const next = yield* Effect.forkChild(model.complete(ask), { startImmediately: true })
        yield* TestClock.adjust("30 seconds")
        yield* Fiber.interrupt(waiting)
        yield* TestClock.adjust("30 seconds")
        yield* Fiber.join(next)
        assert.deepStrictEqual(minutes(at), [0, 1])
      })
    )
  )

  it.effect("admits the next request after a minute, also if the clock of the machine is set back", () =>
    alone(
      Effect.gen(function* () {
        const { at, client } = provider()
        const model = yield* client({ rateLimit: { requestsPerMinute: 1 } })
        yield* model.complete(ask)
        const next = yield* Effect.forkChild(setBack(model.complete(ask)), { startImmediately: true })
        yield* TestClock.adjust("1 minute")
        yield* Fiber.join(next)
        assert.strictEqual(at.length, 2)
      })
    )
  )

  it.effect("is shared by key, not by server, if the profile states one", () =>
    alone(
      Effect.gen(function* () {
        const { at, client } = provider()
        for (const key of ["a", "b"]) {
          const model = yield* client({ rateLimit: { requestsPerMinute: 1, key } })
          yield* model.complete(ask)
        }
        assert.strictEqual(at.length, 2)
      })
    )
  )
})

describe("a circuit breaker", () => {
  const circuitBreaker = { failures: 3, cooldown: "10 seconds" } as const

  it.effect("stops the requests of all clients after failures in a row, until one succeeds again", () =>
    alone(
      Effect.gen(function* () {
        let up = false
        const { at, client } = provider(() => (up ? answered() : failed(503)))
        const one = yield* client({ circuitBreaker })
        const other = yield* client({ circuitBreaker })
        for (const model of [one, other, one]) yield* Effect.flip(model.complete(ask))
        const error = yield* Effect.flip(collect(other.stream(ask)))
        assert.strictEqual(at.length, 3)
        assert.deepInclude(error.reason, { _tag: "ProviderFault", retryAfterMs: 10_000 })
        assert.include(error.message, "models.example is not asked at the moment")
        assert.isTrue(error.isRetryable)
        // One request tries, and opens the breaker again.
        yield* TestClock.adjust("10 seconds")
        yield* Effect.flip(one.complete(ask))
        yield* Effect.flip(one.complete(ask))
        assert.strictEqual(at.length, 4)
        up = true
        yield* TestClock.adjust("10 seconds")
        yield* one.complete(ask)
        yield* other.complete(ask)
        assert.strictEqual(at.length, 6)
      })
    )
  )

  it.effect("lets one request try after the cooldown, also after that was interrupted", () =>
    alone(
      Effect.gen(function* () {
        const { at, client } = provider((index) => (index < 3 ? failed(500) : undefined))
        const model = yield* client({ circuitBreaker })
        for (let call = 0; call < 3; call++) yield* Effect.flip(model.complete(ask))
        yield* TestClock.adjust("10 seconds")
        const trial = yield* Effect.forkChild(model.complete(ask), { startImmediately: true })
        yield* Effect.flip(model.complete(ask))
        assert.strictEqual(at.length, 4)
        yield* Fiber.interrupt(trial)
        const again = yield* Effect.forkChild(model.complete(ask), { startImmediately: true })
        yield* Effect.yieldNow
        assert.strictEqual(at.length, 5)
        yield* Fiber.interrupt(again)
      })
    )
  )

  it.effect("asks again after its cooldown, also if the clock of the machine is set back", () =>
    alone(
      Effect.gen(function* () {
        const { at, client } = provider((index) => (index < 3 ? failed(503) : answered()))
        const model = yield* client({ circuitBreaker })
        for (let call = 0; call < 3; call++) yield* Effect.flip(model.complete(ask))
        yield* TestClock.adjust("10 seconds")
        yield* setBack(model.complete(ask))
        assert.strictEqual(at.length, 4)
      })
    )
  )

  it.effect("stays open after the late success of a request that was sent before", () =>
    alone(
      Effect.gen(function* () {
        const slow = provider(() => answered(), 5000)
        const down = provider(() => failed(503))
        const before = yield* slow.client({ circuitBreaker })
        const model = yield* down.client({ circuitBreaker })
        const late = yield* Effect.forkChild(before.complete(ask), { startImmediately: true })
        for (let call = 0; call < 3; call++) yield* Effect.flip(model.complete(ask))
        yield* TestClock.adjust("5 seconds")
        yield* Fiber.join(late)
        assert.strictEqual((yield* Effect.flip(model.complete(ask))).attempts, 0)
        yield* TestClock.adjust("5 seconds")
        yield* Effect.flip(model.complete(ask))
        assert.strictEqual(down.at.length, 4)
      })
    )
  )

  it.effect("begins its cooldown anew when the request after it has failed", () =>
    alone(
      Effect.gen(function* () {
        const { at, client } = provider(() => failed(500), 4000)
        const model = yield* client({ circuitBreaker: { failures: 1, cooldown: "10 seconds" } })
        const call = Effect.gen(function* () {
          const fiber = yield* Effect.forkChild(Effect.flip(model.complete(ask)), { startImmediately: true })
          yield* TestClock.adjust("4 seconds")
          yield* Fiber.join(fiber)
        })
        yield* call
        yield* TestClock.adjust("10 seconds")
        yield* call
        yield* TestClock.adjust("9999 millis")
        yield* Effect.flip(model.complete(ask))
        assert.strictEqual(at.length, 2)
        yield* TestClock.adjust("1 millis")
        yield* call
        assert.strictEqual(at.length, 3)
      })
    )
  )

  it.effect("stops a request that waits for the rate limit while the server fails", () =>
    alone(
      Effect.gen(function* () {
        const { at, client } = provider(() => failed(500))
        const model = yield* client({
          circuitBreaker: { failures: 2, cooldown: "2 minutes" },
          rateLimit: { requestsPerMinute: 1 }
        })
        yield* Effect.flip(model.complete(ask))
        const waiting = yield* Effect.forEach([1, 2], () =>
          Effect.forkChild(Effect.flip(model.complete(ask)), { startImmediately: true })
        )
        yield* TestClock.adjust("2 minutes")
        const errors = yield* Effect.forEach(waiting, Fiber.join)
        assert.strictEqual(at.length, 2)
        assert.deepStrictEqual(
          errors.map(({ attempts }) => attempts),
          [1, 0]
        )
      })
    )
  )

  it.effect("ends the retries of a call at once, and a router takes the next profile", () =>
    alone(
      Effect.gen(function* () {
        const down = provider(() => failed(503))
        const well = provider()
        const retry = { times: 9, base: "1 millis" } as const
        const first = yield* down.client({ circuitBreaker, retry })
        const second = yield* well.client({ baseUrl: "https://other.example/v1" })
        const router = ModelRouter.make({ clients: { first, second }, fallbacks: { first: ["second"] } })
        const fiber = yield* Effect.forkChild(router.complete(ask))
        yield* TestClock.adjust("1 second")
        assert.strictEqual((yield* Fiber.join(fiber)).profile, "m")
        assert.strictEqual(down.at.length, 3)
        assert.strictEqual(well.at.length, 1)
        const error = yield* Effect.flip(first.complete(ask))
        assert.strictEqual(error.attempts, 0)
      })
    )
  )

  it.effect("lets one request try after the cooldown, also if several wait for the rate limit", () =>
    alone(
      Effect.gen(function* () {
        const { at, client } = provider((index) => (index < 2 ? failed(503) : undefined))
        const model = yield* client({
          circuitBreaker: { failures: 2, cooldown: "30 seconds" },
          rateLimit: { requestsPerMinute: 2 }
        })
        for (let call = 0; call < 2; call++) yield* Effect.flip(model.complete(ask))
        yield* TestClock.adjust("30 seconds")
        const waiting = yield* Effect.forEach([1, 2], () =>
          Effect.forkChild(Effect.exit(model.complete(ask)), { startImmediately: true })
        )
        yield* TestClock.adjust("30 seconds")
        assert.strictEqual(at.length, 3)
        const [trial, other] = waiting
        assert.isTrue(Exit.isFailure(yield* Fiber.join(other!)))
        assert.isUndefined(trial!.pollUnsafe())
        yield* Fiber.interrupt(trial!)
      })
    )
  )

  it.effect(
    "of a router's first profile also stops a fallback with the same key, and not one with another",
    () =>
      alone(
        Effect.gen(function* () {
          const down = provider(() => failed(503))
          const well = provider()
          const retry = { times: 2, base: "1 millis" } as const
          const first = yield* down.client({ circuitBreaker, retry })
          const same = yield* well.client({ circuitBreaker, retry })
          const other = yield* well.client({ circuitBreaker: { ...circuitBreaker, key: "other" }, retry })
          const clients = { first, same, other }
          const route = (...fallbacks: ReadonlyArray<"same" | "other">) =>
            ModelRouter.make({ clients, fallbacks: { first: fallbacks } }).complete(ask)
          const failing = yield* Effect.forkChild(Effect.flip(route("same")))
          yield* TestClock.adjust("1 second")
          yield* Fiber.join(failing)
          assert.deepStrictEqual([down.at.length, well.at.length], [3, 0])
          yield* route("same", "other")
          assert.deepStrictEqual([down.at.length, well.at.length], [3, 1])
        })
      )
  )

  it.effect(
    "and a rate limit count each retry, and an interrupted wait is no failure for which a router falls back",
    () =>
      alone(
        Effect.gen(function* () {
          const down = provider(() => failed(503))
          const well = provider()
          const first = yield* down.client({
            circuitBreaker,
            rateLimit: { requestsPerMinute: 1 },
            retry: { times: 9, base: "1 millis" }
          })
          const second = yield* well.client({ baseUrl: "https://other.example/v1" })
          const router = ModelRouter.make({ clients: { first, second }, fallbacks: { first: ["second"] } })
          const stopped = yield* Effect.forkChild(router.complete(ask), { startImmediately: true })
          yield* TestClock.adjust("90 seconds")
          yield* Fiber.interrupt(stopped)
          assert.deepStrictEqual([minutes(down.at), well.at.length], [[0, 1], 0])
          const going = yield* Effect.forkChild(router.complete(ask), { startImmediately: true })
          yield* TestClock.adjust("2 minutes")
          yield* Fiber.join(going)
          assert.deepStrictEqual([minutes(down.at), well.at.length], [[0, 1, 2], 1])
        })
      )
  )

  it.effect("does not count refused requests and rate limits", () =>
    alone(
      Effect.gen(function* () {
        const statuses = [503, 503, 400, 503, 503, 429, 503, 503, 401]
        const { at, client } = provider((index) => failed(statuses[index]!))
        const model = yield* client({ circuitBreaker })
        for (const _ of statuses) assert.isTrue(Exit.isFailure(yield* Effect.exit(model.complete(ask))))
        assert.strictEqual(at.length, statuses.length)
      })
    )
  )
})
