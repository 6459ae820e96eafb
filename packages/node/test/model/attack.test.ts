/**
 * Hostile and faulty servers, proxies and options against the model clients, over real sockets and in all three protocols.
 */
import { inspect } from "node:util"
import { assert, describe, it } from "@effect/vitest"
import { ModelClient, type ModelError, type OpenAiChat } from "@fermata/sdk/model"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { timeSpent } from "../../../sdk/test/helpers/timeSpent.ts"
import { ask, event, eventStream, hello, json, refusal, streamed } from "./asking.ts"
import { both, ends, protocols, say, secret, served, textIn } from "./serving.ts"

describe("An unusual stream", () => {
  const bytes = (...values: ReadonlyArray<string | number>): Uint8Array =>
    new Uint8Array(values.flatMap((value) => (typeof value === "number" ? [value] : [...Buffer.from(value)])))

  for (const protocol of protocols) {
    it.live(`is read when only its lines are unusual (${protocol})`, () =>
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

    it.live(`fails with InvalidResponse when an event in its middle cannot be parsed (${protocol})`, () =>
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

    it.live(`of one event of 4 MB is read within 10 seconds of CPU time (${protocol})`, () =>
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

describe("A response with status 200", () => {
  const body = JSON.stringify({ error: { message: "You are out of money.", code: "insufficient_quota" } })
  for (const protocol of protocols) {
    it.live(`fails with the error in its body for every content type (${protocol})`, () =>
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

    it.live(`fails as a web page for every content type (${protocol})`, () =>
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

  it.live("is read as a stream when its content type says JSON", () =>
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

describe("An error page", () => {
  it.live("gives an error by its status, without its text", () =>
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

describe("An absurd retry-after", () => {
  it.live("fails the call when it is above the cap, and is ignored when it is invalid", () =>
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

  it.live("in the text of an error fails the call as in a header", () =>
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

describe("An absurd token count", () => {
  it.live("counts as 0, in answers and in errors", () =>
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

describe("A header with a line break or another invalid character", () => {
  const injected = "x\r\nx-injected: yes"
  it.live("fails the call before anything is sent, and is not shown in the error", () =>
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
  it.live("is redacted from errors in every spelling in which a server echoes it", () =>
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
          assert.include(error.message, "[REDACTED:secret]")
          assert.notInclude(inspect(error, { depth: 9 }), spelling)
        }
      }
    })
  )
})

describe("An interrupted stream", () => {
  for (const protocol of protocols) {
    it.live(`closes its socket long before the server has sent everything (${protocol})`, () =>
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

describe("An error body that stalls", () => {
  it.live("is not read to its end after an interruption", () =>
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
