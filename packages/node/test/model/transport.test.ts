import { inspect } from "node:util"
import { gzipSync } from "node:zlib"
import { assert, describe, it } from "@effect/vitest"
import { ReplayServer } from "@fermata/node/testing"
import {
  Auth,
  ModelClient,
  type ModelError,
  OpenAiChat,
  type ModelPart,
  type ModelRequest,
  Tokenizer
} from "@fermata/sdk/model"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import * as References from "effect/References"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import { timeSpent } from "../../../sdk/test/helpers/timeSpent.ts"
import { ask, end, eventStream, hello, helloWhole, json, pieces, refusal, streamed } from "./asking.ts"

/** A server with these responses, and a client that asks it. */
const served = (responses: ReplayServer.Responses, options: Partial<OpenAiChat.Options> = {}) =>
  Effect.gen(function* () {
    const server = yield* ReplayServer.make(responses)
    const client = yield* OpenAiChat.make({
      model: "m",
      name: "tested",
      baseUrl: `${server.url}/v1`,
      apiKey: "sk-secret-of-the-test",
      retry: { base: "10 millis" },
      ...options
    })
    return { server, client }
  }).pipe(Effect.provide(FetchHttpClient.layer))

const textIn = (response: ModelPart.ModelResponse) =>
  response.content.map((part) => (part._tag === "text" ? part.text : part._tag)).join("|")

/** The error of a stream that fails. */
const failure = (client: ModelClient.ModelClient["Service"], request = ask()) =>
  Effect.flip(ModelClient.collect(client.stream(request)))

const untilClosed = (request: ReplayServer.Request | undefined) => Effect.promise(() => request!.closed)

const never = new Promise<never>(() => {})

describe("A model client over HTTP", () => {
  it.live("streams one array of parts for each network chunk, and a finish that names the profile", () =>
    Effect.gen(function* () {
      const { client, server } = yield* served([hello], { prices: { input: 1, output: 2 } })
      const arrays: Array<ReadonlyArray<ModelPart.ModelPart>> = []
      yield* Stream.runForEachArray(client.stream(ask()), (parts) => Effect.sync(() => arrays.push(parts)))
      const parts = arrays.flat()
      assert.deepStrictEqual(
        parts.map((part) => part._tag),
        ["text-delta", "text-delta", "finish"]
      )
      const finish = parts[2]!
      assert.deepInclude(finish, { profile: "tested", finishReason: "stop" })
      // 3 tokens in for 1 dollar a million, 2 out for 2 dollars a million.
      assert.closeTo(finish._tag === "finish" ? finish.usage.costUsd! : 0, 7e-6, 1e-12)
      const [request] = server.requests
      assert.strictEqual(request!.path, "/v1/chat/completions")
      assert.strictEqual(request!.headers.authorization, "Bearer sk-secret-of-the-test")
      assert.strictEqual(JSON.parse(request!.body).stream, true)
      assert.isUndefined(request!.headers.traceparent)
    })
  )

  it.live("emits a part when it arrives, not when the answer ends", () =>
    Effect.gen(function* () {
      const { client } = yield* served([
        streamed(pieces("Hel", "lo.") + end, { fault: { after: pieces("Hel").length, kind: "stall" } })
      ])
      const [part] = yield* Stream.runCollect(Stream.take(client.stream(ask()), 1))
      assert.deepStrictEqual(part, { _tag: "text-delta", delta: "Hel" })
    })
  )

  it.live("requests a whole answer, or collects a stream when the server only streams", () =>
    Effect.gen(function* () {
      const whole = yield* served([helloWhole])
      const answer = yield* whole.client.complete(ask())
      assert.strictEqual(textIn(answer), "Hello.")
      assert.strictEqual(answer.profile, "tested")
      assert.strictEqual(JSON.parse(whole.server.requests[0]!.body).stream, false)
      const only = yield* served([hello], { compatibility: { streamOnly: true } })
      assert.strictEqual(textIn(yield* only.client.complete(ask())), "Hello.")
      assert.strictEqual(JSON.parse(only.server.requests[0]!.body).stream, true)
    })
  )

  it.live("reads a stream or JSON for any request and any content type", () =>
    Effect.gen(function* () {
      const plain = { "content-type": "text/plain" }
      const { client } = yield* served([
        helloWhole,
        hello,
        { ...hello, headers: plain },
        { ...hello, headers: {}, body: `\uFEFF: hi\r\n\r\n${hello.body}` },
        { ...helloWhole, headers: plain },
        streamed(`${pieces("Hello.")}data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
      ])
      const answers = [
        yield* ModelClient.collect(client.stream(ask())),
        yield* client.complete(ask()),
        yield* ModelClient.collect(client.stream(ask())),
        yield* ModelClient.collect(client.stream(ask())),
        yield* client.complete(ask()),
        yield* ModelClient.collect(client.stream(ask()))
      ]
      assert.deepStrictEqual([...new Set(answers.map(textIn))], ["Hello."])
    })
  )

  it.live("ends with the answer, though the server keeps the connection open", () =>
    Effect.gen(function* () {
      const { client, server } = yield* served([
        streamed(`${pieces("Hello.")}${end}: bye\n\n`, {
          fault: { after: pieces("Hello.").length + end.length, kind: "stall" }
        })
      ])
      assert.strictEqual(textIn(yield* ModelClient.collect(client.stream(ask()))), "Hello.")
      yield* untilClosed(server.requests[0])
    })
  )

  it.live(
    "limits the output tokens to the room in its model's context, counted by the tokenizer in force",
    () =>
      Effect.gen(function* () {
        const { client, server } = yield* served([hello, helloWhole], { contextTokens: 16_000 })
        const request = ask({ settings: { maxOutputTokens: 12_000 } })
        const counting = (tokens: number) =>
          Effect.provideService(Tokenizer.Tokenizer, { count: (text) => (text === "Be brief." ? tokens : 0) })
        yield* counting(9000)(Effect.scoped(ModelClient.collect(client.stream(request))))
        yield* counting(1)(client.complete(request))
        // Beside the 9000, four tokens stand around the message.
        assert.deepStrictEqual(
          server.requests.map(({ body }) => JSON.parse(body).max_completion_tokens),
          [6996, 12_000]
        )
        assert.strictEqual(client.contextTokens?.(), 16_000)
      })
  )

  it.live("reuses connections", () =>
    Effect.gen(function* () {
      const ports = new Set<unknown>()
      const { client, server } = yield* served(() => hello)
      for (let call = 0; call < 20; call++) {
        yield* ModelClient.collect(client.stream(ask()))
        ports.add(server.connections())
      }
      assert.isAtMost(Math.max(...([...ports] as Array<number>)), 2)
    })
  )
})

describe("A model client with timeouts", () => {
  it.live("fails with TimedOut when no head arrives, and closes the connection", () =>
    Effect.gen(function* () {
      const { client, server } = yield* served(() => never, {
        // Long enough for a busy machine to deliver each request.
        timeouts: { response: "500 millis" },
        retry: { times: 1, base: "1 millis" }
      })
      const { reason } = yield* failure(client)
      assert.deepInclude(reason, { _tag: "TimedOut", timeoutMs: 500 })
      assert.strictEqual(server.requests.length, 2)
      for (const request of server.requests) assert.isTrue((yield* untilClosed(request)).early)
    })
  )

  it.live("fails when the answer does not begin, or does not go on, in time", () =>
    Effect.gen(function* () {
      const stall = (after: number) => streamed(hello.body as string, { fault: { after, kind: "stall" } })
      const first = yield* served([stall(0)], { timeouts: { firstByte: "50 millis" }, retry: { times: 0 } })
      const begun = yield* failure(first.client)
      assert.include(begun.message, "No part of the answer arrived within 50 ms")
      const idle = yield* served([stall(80)], { timeouts: { idle: "50 millis" } })
      const cut = yield* failure(idle.client)
      assert.include(cut.message, "No further part of the answer arrived within 50 ms")
      assert.strictEqual(idle.server.requests.length, 1)
      for (const { server } of [first, idle]) assert.isTrue((yield* untilClosed(server.requests[0])).early)
    })
  )

  it.live("waits for the head of a whole answer longer than for that of a stream", () =>
    Effect.gen(function* () {
      const { client } = yield* served([{ ...helloWhole, delay: { head: 100 } }], {
        timeouts: { response: "20 millis", firstByte: "5 seconds" },
        retry: { times: 0 }
      })
      assert.strictEqual(textIn(yield* client.complete(ask())), "Hello.")
    })
  )

  it.live("accepts comments and pings as signs of life", () =>
    Effect.gen(function* () {
      const pings = ": ping\n\n".repeat(50)
      const { client } = yield* served([streamed(pings + hello.body, { delay: { chunk: 40 } })], {
        timeouts: { idle: "1500 millis" },
        retry: { times: 0 }
      })
      assert.strictEqual(textIn(yield* ModelClient.collect(client.stream(ask()))), "Hello.")
    })
  )
})

describe("A model client on a faulty connection", () => {
  for (const kind of ["cut", "reset", "end"] as const) {
    it.live(`retries when the connection ends (${kind}) before a part is emitted`, () =>
      Effect.gen(function* () {
        const { client, server } = yield* served([
          streamed(": hi\n\n", { fault: { after: 100, kind } }),
          hello
        ])
        const retries: Array<ModelRequest.ModelRetry> = []
        const answer = yield* ModelClient.collect(
          client.stream(ask({ onRetry: (retry) => retries.push(retry) }))
        )
        assert.strictEqual(textIn(answer), "Hello.")
        assert.strictEqual(server.requests.length, 2)
        assert.deepInclude(retries[0], { attempt: 1, reason: "ConnectionLost" })
      })
    )

    it.live(`does not retry when the connection ends (${kind}) within the answer`, () =>
      Effect.gen(function* () {
        const begun = pieces("Hel")
        const { client, server } = yield* served([
          streamed(begun, { fault: { after: begun.length, kind } }),
          hello
        ])
        const error = yield* failure(client)
        assert.strictEqual(error.reason._tag, "ConnectionLost")
        assert.strictEqual(server.requests.length, 1)
      })
    )
  }

  it.live("names the host of a refused connection", () =>
    Effect.gen(function* () {
      // The port of a server that has just stopped.
      const { url } = yield* Effect.scoped(ReplayServer.make([]))
      const { client } = yield* served([], { baseUrl: `${url}/v1`, retry: { times: 0 } })
      const { message } = yield* failure(client)
      assert.include(message, `The connection to ${new URL(url).host} failed: nothing listens there`)
    })
  )

  const unreadable: ReadonlyArray<readonly [string, ReplayServer.Response, string]> = [
    ["a web page", { headers: { "content-type": "text/html" }, body: "<html>Log in</html>" }, "web page"],
    ["a page without a type", { body: "  <!doctype html>" }, "web page"],
    ["an empty body", { headers: eventStream, body: "" }, "empty"],
    ["JSON that is cut off", { headers: json, body: '{"choices": [' }, "not JSON"],
    ["a line of 10 MB", streamed(`data: ${"x".repeat(10 * 1024 * 1024)}\n\n`, { chunking: 65536 }), "8 MB"],
    [
      "a small response that unpacks to more than an answer can be",
      {
        headers: { ...eventStream, "content-encoding": "gzip" },
        body: gzipSync(`: ${"x".repeat(1022)}\n`.repeat(70 * 1024)),
        chunking: "whole"
      },
      "64 MB"
    ],
    [
      "JSON that unpacks to more than an answer can be",
      { headers: { ...json, "content-encoding": "gzip" }, body: gzipSync(" ".repeat(70 * 1024 * 1024)) },
      "64 MB"
    ]
  ]
  for (const [name, response, words] of unreadable) {
    it.live(`fails with InvalidResponse on ${name}`, () =>
      Effect.gen(function* () {
        const { client } = yield* served([response], { retry: { times: 0 } })
        const { reason } = yield* failure(client)
        assert.strictEqual(reason._tag, "InvalidResponse")
        assert.include(reason.description, words)
      })
    )
  }

  it.live("retries faults of the provider, also inside a stream, and obeys x-should-retry", () =>
    Effect.gen(function* () {
      const { client, server } = yield* served([
        refusal(503, "busy"),
        refusal(529, "overloaded"),
        streamed('event: error\ndata: {"error":{"message":"upstream","type":"server_error"}}\n\n'),
        hello,
        refusal(500, "no", { "x-should-retry": "false" }),
        refusal(400, "yes", { "x-should-retry": "true" }),
        hello
      ])
      const reasons: Array<string> = []
      const request = ask({ onRetry: ({ reason }) => reasons.push(reason) })
      assert.strictEqual(textIn(yield* ModelClient.collect(client.stream(request))), "Hello.")
      assert.deepStrictEqual(reasons, ["ProviderFault", "ProviderFault", "ProviderFault"])
      yield* failure(client)
      assert.strictEqual(server.requests.length, 5)
      assert.strictEqual(textIn(yield* ModelClient.collect(client.stream(ask()))), "Hello.")
    })
  )

  it.live("waits as long as the provider asks, and fails when that is too long", () =>
    Effect.gen(function* () {
      const { client, server } = yield* served([
        refusal(429, "slow down", { "retry-after-ms": "80", "x-request-id": "req_7" }),
        hello,
        refusal(429, "slow down", { "retry-after": "3600", "x-request-id": "req_7" })
      ])
      const started = performance.now()
      yield* client.complete(ask())
      assert.isAtLeast(performance.now() - started, 79)
      const error = yield* failure(client)
      assert.deepInclude(error.reason, { _tag: "RateLimited", retryAfterMs: 3_600_000 })
      assert.strictEqual(error.requestId, "req_7")
      assert.strictEqual(server.requests.length, 3)
    })
  )
})

describe("A model client with a retry-after of 400 digits", () => {
  it.live("fails at once with a model error", () =>
    Effect.gen(function* () {
      const many = { "retry-after": "9".repeat(400) }
      const { client, server } = yield* served([refusal(429, "slow", many), refusal(503, "down", many)])
      assert.strictEqual((yield* failure(client)).reason._tag, "RateLimited")
      const { message, reason } = yield* Effect.flip(client.complete(ask()))
      assert.strictEqual(reason._tag, "ProviderFault")
      assert.include(message, "too long for one call")
      assert.strictEqual(server.requests.length, 2)
    })
  )
})

describe("A model client that is interrupted", () => {
  /** Interrupts a call when `when` returns true; returns how long the process then waited for the end of the connection. */
  const interrupted = (
    response: ReplayServer.Responses,
    when: (server: ReplayServer.ReplayServer, parts: () => number) => boolean,
    how: "stream" | "complete" = "stream"
  ) =>
    Effect.gen(function* () {
      const { client, server } = yield* served(response)
      let parts = 0
      const reached = yield* Deferred.make<void>()
      const call =
        how === "complete"
          ? Effect.asVoid(client.complete(ask()))
          : Stream.runForEach(client.stream(ask()), () => Effect.sync(() => void parts++))
      const fiber = yield* Effect.forkChild(call)
      yield* Effect.forkChild(
        Effect.suspend(() =>
          when(server, () => parts) ? Deferred.succeed(reached, undefined) : Effect.void
        ).pipe(
          Effect.andThen(Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))),
          Effect.forever
        )
      )
      yield* Deferred.await(reached)
      const spent = timeSpent()
      yield* Fiber.interrupt(fiber)
      const closed = yield* untilClosed(server.requests[0])
      assert.isTrue(closed.early)
      return spent().waitedMs
    })

  it.live("closes its connection within a second at every stage of a call", () =>
    Effect.gen(function* () {
      const stalled = (after: number): ReadonlyArray<ReplayServer.Response> => [
        streamed(hello.body as string, { fault: { after, kind: "stall" } })
      ]
      const asked = (server: ReplayServer.ReplayServer) => server.requests.length === 1
      assert.isBelow(yield* interrupted(() => never, asked), 1000)
      assert.isBelow(yield* interrupted(() => never, asked, "complete"), 1000)
      assert.isBelow(yield* interrupted(stalled(0), asked), 1000)
      assert.isBelow(yield* interrupted(stalled(0), asked, "complete"), 1000)
      assert.isBelow(yield* interrupted(stalled(80), (_, parts) => parts() > 0), 1000)
    })
  )

  it.live("closes its connection when its stream's consumer stops", () =>
    Effect.gen(function* () {
      const { client, server } = yield* served([
        streamed(hello.body as string, { fault: { after: 80, kind: "stall" } })
      ])
      yield* Stream.runDrain(Stream.take(client.stream(ask()), 1))
      const spent = timeSpent()
      yield* untilClosed(server.requests[0])
      assert.isBelow(spent().waitedMs, 1000)
    })
  )

  it.live("stops waiting for its next attempt", () =>
    Effect.gen(function* () {
      const { client, server } = yield* served([refusal(429, "slow down", { "retry-after": "30" }), hello])
      const waiting = yield* Deferred.make<void>()
      const request = ask({ onRetry: () => Deferred.doneUnsafe(waiting, Effect.void) })
      const fiber = yield* Effect.forkChild(ModelClient.collect(client.stream(request)))
      yield* Deferred.await(waiting)
      const spent = timeSpent()
      yield* Fiber.interrupt(fiber)
      // The server has asked for 30 seconds.
      assert.isBelow(spent().waitedMs, 1000)
      assert.strictEqual(server.requests.length, 1)
    })
  )
})

describe("A model client with secrets", () => {
  it.live("names the variable to set when there is no key, and sends nothing", () =>
    Effect.gen(function* () {
      const { client, server } = yield* served([hello], { apiKey: "  " })
      const { reason } = yield* failure(client)
      assert.strictEqual(reason._tag, "NotAuthorized")
      assert.include(reason.description, "set OPENAI_API_KEY")
      assert.strictEqual(server.requests.length, 0)
    })
  )

  it.live("shows no key in errors, logs and spans, though the server echoes it", () =>
    Effect.gen(function* () {
      const secret = "sk-secret-of-the-test"
      const seen: Array<unknown> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          seen.push(span)
          return span
        }
      })
      const logger = Logger.make((options) => {
        seen.push(options)
      })
      const echo = (request: ReplayServer.Request) => {
        const said = `Bad: ${request.headers.authorization} ${request.headers["x-tenant"]}`
        return said
      }
      const { client } = yield* served(
        (request, index) =>
          index === 0
            ? refusal(400, echo(request))
            : index === 1
              ? streamed(`data: {"error":{"message":${JSON.stringify(echo(request))},"code":400}}\n\n`)
              : { ...refusal(418, ""), headers: {}, body: echo(request) },
        { headers: { "x-tenant": "tenant-password" } }
      )
      const errors = yield* Effect.forEach([0, 1, 2], () =>
        Effect.tap(failure(client), (error) => Effect.logError("failed", error))
      ).pipe(
        Effect.withTracer(tracer),
        Effect.provide(Logger.layer([logger])),
        Effect.provideService(References.MinimumLogLevel, "Trace")
      )
      assert.include(errors[0]!.message, "Bad: [REDACTED:secret] [REDACTED:secret]")
      seen.push(errors, errors.map(String), JSON.stringify(errors))
      const shown = inspect(seen, { depth: 12, showHidden: true, maxStringLength: null })
      assert.include(shown, "ModelClient.send")
      for (const value of [secret, "tenant-password"]) {
        const at = shown.indexOf(value)
        assert.strictEqual(at, -1, shown.slice(Math.max(0, at - 300), at + 20))
      }
    })
  )

  it.live("shows no key as the id of a request, though the server echoes it there", () =>
    Effect.gen(function* () {
      const { client } = yield* served((request) =>
        refusal(400, "bad", { "x-request-id": request.headers.authorization! })
      )
      const error = yield* failure(client)
      assert.isUndefined(error.requestId)
      assert.notInclude(inspect(error, { depth: 9 }), "sk-secret-of-the-test")
    })
  )

  it.live("shows no value of the base URL's query, though the server echoes it", () =>
    Effect.gen(function* () {
      const server = yield* ReplayServer.make(({ path }) =>
        refusal(400, `Bad: ${path} ${decodeURIComponent(path)}`)
      )
      const { client } = yield* served([], { baseUrl: `${server.url}/v1?key=query%2Fsecret` })
      const { message } = yield* failure(client)
      assert.include(message, "?key=[REDACTED:secret]")
      assert.notMatch(message, /query.*secret/)
    })
  )

  it.live("does not follow a redirect, so that no other host gets the key", () =>
    Effect.gen(function* () {
      const other = yield* ReplayServer.make([hello])
      for (const status of [301, 302, 307, 308]) {
        const { client } = yield* served(
          [{ status, headers: { location: `${other.url}/v1/chat/completions` }, body: "" }],
          { auth: Auth.apiKey("sk-secret-of-the-test") }
        )
        const error = yield* failure(client)
        assert.include(error.message, other.url)
        assert.isFalse(error.isRetryable)
      }
      assert.strictEqual(other.requests.length, 0)
    })
  )

  it.live("refuses a key with line breaks and an invalid base URL", () =>
    Effect.gen(function* () {
      const cases: ReadonlyArray<readonly [Partial<OpenAiChat.Options>, ModelError.Reason["_tag"], string]> =
        [
          [{ apiKey: "sk-two\nlines" }, "NotAuthorized", "line breaks"],
          [{ baseUrl: "models.example.com/v1" }, "InvalidRequest", "not an http or https address"],
          [
            { baseUrl: "http://user:password@127.0.0.1/v1" },
            "InvalidRequest",
            "contains a user name or password"
          ]
        ]
      for (const [options, tag, words] of cases) {
        const { client } = yield* served([], options)
        const error = yield* failure(client)
        assert.strictEqual(error.reason._tag, tag)
        assert.include(error.message, words)
        assert.notMatch(inspect(error, { depth: 9 }), /two|password@/)
      }
    })
  )

  it.live("renews the login once after a 401, and then fails with LoginRequired", () =>
    Effect.gen(function* () {
      const tokens = ["old-token", "new-token"]
      const auth = (canRefresh: boolean) => ({
        canRefresh,
        guidance: "Run `work login`.",
        headers: ({ forced }: { readonly forced: boolean }) =>
          Effect.succeed({ authorization: Redacted.make(`Bearer ${tokens[forced ? 1 : 0]}`) })
      })
      const refreshed = yield* served([refusal(401, "expired"), hello], { auth: auth(true) })
      assert.strictEqual(textIn(yield* ModelClient.collect(refreshed.client.stream(ask()))), "Hello.")
      assert.deepStrictEqual(
        refreshed.server.requests.map(({ headers }) => headers.authorization),
        ["Bearer old-token", "Bearer new-token"]
      )
      const again = yield* served([refusal(401, "expired"), refusal(401, "expired"), hello], {
        auth: auth(true)
      })
      const error = yield* failure(again.client)
      assert.deepInclude(error.reason, { _tag: "LoginRequired", profile: "tested" })
      assert.include(error.message, "just renewed. Run `work login`. It said: expired")
      assert.strictEqual(again.server.requests.length, 2)
      const fixed = yield* served([refusal(401, "wrong key"), hello], { auth: auth(false) })
      assert.strictEqual((yield* failure(fixed.client)).reason._tag, "NotAuthorized")
      assert.strictEqual(fixed.server.requests.length, 1)
    })
  )
})
