import { inspect } from "node:util"
/**
 * What servers, proxies and people do to a model client that mean it harm, or that do not mean it: over real sockets, in all three
 * protocols.
 */
import { assert, describe, it } from "@effect/vitest"
import { ModelClient, type ModelError, type OpenAiChat } from "@fermata/sdk/model"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { timeSpent } from "../../../sdk/test/helpers/timeSpent.ts"
import { ask, event, eventStream, hello, json, refusal, streamed } from "./asking.ts"
import { both, ends, protocols, say, secret, served, textIn } from "./serving.ts"

describe("A stream that is no good", () => {
  const bytes = (...values: ReadonlyArray<string | number>): Uint8Array =>
    new Uint8Array(values.flatMap((value) => (typeof value === "number" ? [value] : [...Buffer.from(value)])))

  for (const protocol of protocols) {
    it.live(`is read all the same where only its lines are odd (${protocol})`, () =>
      Effect.gen(function* () {
        const whole = say(protocol, "Hel", "lo 🎼 é.") + ends[protocol]
        const odd: ReadonlyArray<string | Uint8Array> = [
          `data\n\nevent\n\nid\n\nretry\n\nretry: soon\n\n:\n\n${whole}`,
          `no colon here\nfoo: bar\n${whole}`,
          `id: \u0000\n\n${whole}`,
          `event: ${"e".repeat(100_000)}\ndata: x\n\n${whole}`,
          whole.replaceAll("\n", "\r\n"),
          whole.replaceAll("\n", "\r"),
          bytes(0xef, 0xbb, 0xbf, whole),
          bytes(": ", 0xff, 0xfe, 0xc0, "\n\n", whole),
          `\u0000\n\n${whole}`,
          `${"\n".repeat(10_000)}${whole}`
        ]
        for (const body of odd) {
          for (const chunking of ["whole", 1, { seed: 7, longest: 9 }] as const) {
            if (chunking === 1 && body.length > 2000) continue
            const { client } = yield* served(protocol, [streamed("", { body, chunking })])
            const answer = yield* ModelClient.collect(client.stream(ask()))
            assert.strictEqual(textIn(answer), "Hello 🎼 é.")
          }
        }
      })
    )

    it.live(`is an error where an event in its middle cannot be read (${protocol})`, () =>
      Effect.gen(function* () {
        for (const broken of [
          'data: {"choices":\n\n',
          'data: {"type":"response.output_text.delta","del\n\n'
        ]) {
          const { client } = yield* served(protocol, [
            streamed(say(protocol, "Hel") + broken + say(protocol, "lo.") + ends[protocol])
          ])
          const error = yield* Effect.flip(ModelClient.collect(client.stream(ask())))
          assert.strictEqual(error.reason._tag, "InvalidResponse")
        }
      })
    )

    it.live(`is read in the time that its size takes, however it is cut (${protocol})`, () =>
      Effect.gen(function* () {
        // 4 MB in one event, 1000 bytes at a time.
        const { client } = yield* served(protocol, [
          streamed(say(protocol, "x".repeat(4 * 1024 * 1024)) + ends[protocol], { chunking: 1000 })
        ])
        const before = process.cpuUsage()
        const answer = yield* ModelClient.collect(client.stream(ask()))
        const { user } = process.cpuUsage(before)
        assert.lengthOf(textIn(answer), 4 * 1024 * 1024)
        assert.isBelow(user / 1e6, 10)
      })
    )
  }
})

describe("A response with status 200 that is an error", () => {
  const body = JSON.stringify({ error: { message: "You are out of money.", code: "insufficient_quota" } })
  for (const protocol of protocols) {
    it.live(`is told as that error, whatever it calls itself (${protocol})`, () =>
      Effect.gen(function* () {
        for (const headers of [json, eventStream, { "content-type": "text/plain" }, {}] as ReadonlyArray<
          Record<string, string>
        >) {
          const { client, server } = yield* served(protocol, () => ({ headers, body }), {
            retry: { base: "1 millis" }
          })
          for (const call of both(client)) {
            const { reason } = yield* Effect.flip(call)
            assert.strictEqual(reason._tag, "QuotaExhausted", JSON.stringify(headers))
            assert.strictEqual(reason.description, "You are out of money.")
          }
          assert.strictEqual(server.requests.length, 2)
        }
      })
    )

    it.live(`is a web page that says so, whatever it calls itself (${protocol})`, () =>
      Effect.gen(function* () {
        for (const headers of [json, eventStream, { "content-type": "text/html" }] as ReadonlyArray<
          Record<string, string>
        >) {
          const page = "\n<!DOCTYPE html><html><body>Log in</body></html>"
          const { client } = yield* served(protocol, () => ({ headers, body: page }))
          for (const call of both(client)) {
            const { message } = yield* Effect.flip(call)
            assert.include(message, "answered with a web page")
          }
        }
      })
    )
  }

  it.live("is a stream where the server calls it JSON", () =>
    Effect.gen(function* () {
      for (const protocol of protocols) {
        const { client } = yield* served(protocol, () => ({
          headers: json,
          body: say(protocol, "Hello.") + ends[protocol]
        }))
        for (const call of both(client)) assert.strictEqual(textIn(yield* call), "Hello.")
      }
    })
  )
})

describe("A page of errors", () => {
  it.live("is not shown, and its status counts", () =>
    Effect.gen(function* () {
      const page = (status: number) => ({
        status,
        headers: { "content-type": "text/html" },
        body: `<html><head><title>${status}</title></head><body>${"nginx ".repeat(20_000)}</body></html>`
      })
      const expected: ReadonlyArray<readonly [number, ModelError.Reason["_tag"]]> = [
        [502, "ProviderFault"],
        [503, "ProviderFault"],
        [429, "RateLimited"],
        [403, "NotAuthorized"],
        [413, "ContextOverflow"],
        [404, "InvalidRequest"]
      ]
      for (const [status, tag] of expected) {
        const { client } = yield* served("chat", () => page(status))
        for (const call of both(client)) {
          const { reason } = yield* Effect.flip(call)
          assert.strictEqual(reason._tag, tag)
          assert.notInclude(reason.description, "<")
          assert.notInclude(reason.description, "nginx")
        }
      }
    })
  )
})

describe("An absurd wait", () => {
  it.live("is never waited for longer than the cap, and never makes the waits shorter than they are", () =>
    Effect.gen(function* () {
      const headers: ReadonlyArray<readonly [Record<string, string>, "fails" | "waits"]> = [
        [{ "retry-after": "999999999999" }, "fails"],
        [{ "retry-after-ms": "1e99" }, "waits"],
        [{ "retry-after": "Infinity" }, "waits"],
        [{ "retry-after": "-100" }, "waits"],
        [{ "retry-after": "Fri, 31 Dec 9999 23:59:59 GMT" }, "fails"],
        [{ "retry-after": "Thu, 01 Jan 1970 00:00:00 GMT" }, "waits"],
        [{ "retry-after": "soon" }, "waits"],
        [{ "retry-after": "0" }, "waits"],
        [{ "retry-after": "" }, "waits"]
      ]
      for (const [said, outcome] of headers) {
        const { client, server } = yield* served("chat", [refusal(429, "slow down", said), hello], {
          retry: { base: "1 millis", cap: "50 millis" }
        })
        const result = yield* Effect.exit(ModelClient.collect(client.stream(ask())))
        assert.strictEqual(result._tag, outcome === "fails" ? "Failure" : "Success", JSON.stringify(said))
        assert.strictEqual(server.requests.length, outcome === "fails" ? 1 : 2)
      }
    })
  )

  it.live("in the words of the error counts as in a header", () =>
    Effect.gen(function* () {
      const { client, server } = yield* served("chat", [
        refusal(429, `Rate limit reached. Please try again in ${"9".repeat(300)}h.`)
      ])
      const error = yield* Effect.flip(ModelClient.collect(client.stream(ask())))
      assert.strictEqual(error.reason._tag, "RateLimited")
      assert.strictEqual(server.requests.length, 1)
    })
  )
})

describe("An absurd count", () => {
  it.live("is nothing, in an answer as in an error", () =>
    Effect.gen(function* () {
      const most = Number.MAX_SAFE_INTEGER
      const usage = {
        prompt_tokens: most,
        completion_tokens: most,
        total_tokens: 1e308,
        input_tokens: most,
        cache_read_input_tokens: most,
        output_tokens: most,
        cost: -1
      }
      const begun = {
        chat: event({ choices: [], usage }),
        responses: event({ type: "response.failed", response: { status: "failed", usage } }),
        messages: event({ type: "message_start", message: { usage } })
      }
      for (const protocol of protocols) {
        const { client } = yield* served(protocol, () => streamed(begun[protocol] + say(protocol, "Hel")), {
          retry: { times: 2, base: "1 millis" },
          prices: { input: 1, output: 1 }
        })
        const error = yield* Effect.flip(ModelClient.collect(client.stream(ask())))
        assert.deepInclude(error.usage, { inputTokens: 0, outputTokens: 0 })
      }
      const { client } = yield* served("chat", [
        streamed(begun.chat + say("chat", "Hi.") + "data: [DONE]\n\n")
      ])
      const answer = yield* client.complete(ask())
      assert.deepInclude(answer.usage, { inputTokens: 0, outputTokens: 0 })
    })
  )
})

describe("A header that would be two", () => {
  const injected = "x\r\nx-injected: yes"
  it.live("is refused before anything is sent, and does not show what it holds", () =>
    Effect.gen(function* () {
      const cases: ReadonlyArray<Partial<OpenAiChat.Options>> = [
        { apiKey: `${secret}\r\nx-injected: yes` },
        { headers: { "x-tenant": `${secret}${injected}` } },
        { headers: { [injected]: secret } },
        { headers: { "x tenant": secret } },
        { headers: { "": secret } },
        { headers: { "x-tenant\u0000": secret } },
        { headers: { "x-tenant": "täglich\u2028" } }
      ]
      for (const options of cases) {
        for (const protocol of protocols) {
          const { client, server } = yield* served(protocol, [hello], {
            ...options,
            retry: { base: "1 millis" }
          })
          const error = yield* Effect.flip(ModelClient.collect(client.stream(ask())))
          assert.isFalse(error.isRetryable, inspect(options))
          assert.notInclude(inspect(error, { depth: 9 }), secret)
          assert.strictEqual(server.requests.length, 0)
        }
      }
    })
  )
})

describe("A key", () => {
  it.live("is in no error, in whatever spelling the server says it again", () =>
    Effect.gen(function* () {
      const spellings = [
        secret,
        encodeURIComponent(secret),
        JSON.stringify(secret).slice(1, -1).replaceAll("/", "\\/"),
        secret.toUpperCase(),
        Buffer.from(secret).toString("base64"),
        secret.replaceAll("+", "&#43;").replaceAll("=", "&#61;")
      ]
      for (const spelling of spellings) {
        for (const respond of [
          () => refusal(400, `Wrong key: ${spelling}!`),
          () => ({ status: 400, body: `Wrong key: ${spelling}!` }),
          () => streamed(event({ error: { message: `Wrong key: ${spelling}!`, type: "api_error" } }))
        ]) {
          const { client } = yield* served("chat", respond)
          const error = yield* Effect.flip(ModelClient.collect(client.stream(ask())))
          assert.include(error.message, "[redacted]")
          assert.notInclude(inspect(error, { depth: 9 }), spelling)
        }
      }
    })
  )
})

describe("A stream that nobody wants any more", () => {
  for (const protocol of protocols) {
    it.live(`lets go of its socket long before the server has sent all (${protocol})`, () =>
      Effect.gen(function* () {
        const { client, server } = yield* served(protocol, [
          streamed(say(protocol, ...Array.from({ length: 2000 }, (_, index) => `word${index} `)), {
            delay: { chunk: 1 }
          })
        ])
        const begun = yield* Deferred.make<void>()
        let count = 0
        const fiber = yield* client.stream(ask()).pipe(
          Stream.runForEach(() =>
            Effect.suspend(() => (++count === 20 ? Deferred.succeed(begun, undefined) : Effect.void))
          ),
          Effect.forkChild
        )
        yield* Deferred.await(begun)
        const spent = timeSpent()
        yield* Fiber.interrupt(fiber)
        const closed = yield* Effect.promise(() => server.requests[0]!.closed)
        assert.isTrue(closed.early)
        // The server takes two seconds more, most of which it waits.
        assert.isBelow(spent().waitedMs, 1000)
      })
    )
  }
})

describe("An error that takes its time", () => {
  it.live("is not read to its end when nobody wants it any more", () =>
    Effect.gen(function* () {
      const asked = yield* Deferred.make<void>()
      const { client, server } = yield* served("chat", () => {
        Deferred.doneUnsafe(asked, Effect.void)
        const body = '{"error":{"message":"'
        return { status: 500, headers: json, body, fault: { after: body.length, kind: "stall" } }
      })
      const fiber = yield* Effect.forkChild(Effect.exit(client.complete(ask())))
      yield* Deferred.await(asked)
      const spent = timeSpent()
      yield* Fiber.interrupt(fiber)
      const closed = yield* Effect.promise(() => server.requests[0]!.closed)
      assert.isTrue(closed.early)
      assert.isBelow(spent().waitedMs, 1000)
    })
  )
})
