import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { requestIdOf, responseError, redactError } from "../../src/model/internal/http/responseError.ts"
import { reasonOf } from "../../src/model/internal/providerErrors.ts"
import { InvalidRequest, ModelError } from "../../src/model/ModelError.ts"
import type { ModelProfile } from "../../src/model/ModelProfile.ts"
import { fixtures } from "./Fixtures.ts"

const profile: ModelProfile = {
  name: "tested",
  protocol: "chat",
  baseUrl: "https://models.example.com/v1",
  model: "m"
}

const failed = (status: number, body: unknown, headers: Record<string, string> = {}, changed = {}) =>
  responseError(
    { status, headers, body: typeof body === "string" ? body : JSON.stringify(body) },
    { ...profile, ...changed }
  )

describe("the reason of a provider's error", () => {
  const table: ReadonlyArray<readonly [name: string, status: number, body: unknown, reason: string]> = [
    [
      "a wrong key",
      401,
      { error: { message: "Incorrect API key", code: "invalid_api_key" } },
      "NotAuthorized"
    ],
    [
      "Anthropic's wrong key",
      401,
      { type: "error", error: { type: "authentication_error", message: "x" } },
      "NotAuthorized"
    ],
    ["a forbidden model", 403, { error: { message: "no access" } }, "NotAuthorized"],
    ["no money", 402, { error: { message: "Insufficient Balance" } }, "QuotaExhausted"],
    [
      "OpenAI's used-up quota",
      429,
      {
        error: {
          type: "insufficient_quota",
          code: "insufficient_quota",
          message: "You exceeded your current quota"
        }
      },
      "QuotaExhausted"
    ],
    [
      "Anthropic's used-up credit",
      400,
      {
        type: "error",
        error: { type: "invalid_request_error", message: "Your credit balance is too low to access the API" }
      },
      "QuotaExhausted"
    ],
    [
      "the plan's limit, with 404",
      404,
      {
        error: {
          type: "usage_limit_reached",
          message: "The usage limit has been reached",
          plan_type: "plus",
          resets_at: 1_800_000_000
        }
      },
      "QuotaExhausted"
    ],
    [
      "Google's limit of a minute",
      429,
      [
        {
          error: {
            code: 429,
            status: "RESOURCE_EXHAUSTED",
            message: "You exceeded your current quota, please check your plan",
            details: [{ retryDelay: "34s" }]
          }
        }
      ],
      "RateLimited"
    ],
    [
      "a rate limit",
      429,
      { error: { message: "Rate limit reached", type: "tokens", code: "rate_limit_exceeded" } },
      "RateLimited"
    ],
    [
      "a rate limit that speaks of length",
      429,
      {
        error: { message: "Rate limit reached for this model: wait, or reduce the length of the messages." }
      },
      "RateLimited"
    ],
    [
      "a rate limit that speaks of tokens",
      400,
      { message: "Too many tokens, please wait before trying again." },
      "InvalidRequest"
    ],
    [
      "OpenAI's overflow",
      400,
      {
        error: {
          message: "This model's maximum context length is 8192 tokens.",
          code: "context_length_exceeded"
        }
      },
      "ContextOverflow"
    ],
    [
      "Anthropic's overflow",
      400,
      {
        type: "error",
        error: {
          type: "invalid_request_error",
          message: "prompt is too long: 212345 tokens > 200000 maximum"
        }
      },
      "ContextOverflow"
    ],
    [
      "llama.cpp's overflow",
      400,
      {
        error: {
          code: 400,
          type: "exceed_context_size_error",
          message: "the request exceeds the available context size",
          n_prompt_tokens: 9000,
          n_ctx: 4096
        }
      },
      "ContextOverflow"
    ],
    [
      "llama.cpp's overflow as a fault",
      500,
      { error: { code: 500, message: "Context size has been exceeded." } },
      "ContextOverflow"
    ],
    ["Cerebras's overflow without a body", 413, "", "ContextOverflow"],
    [
      "a model that may not be streamed",
      400,
      {
        error: {
          message: "Your organization must be verified to stream this model.",
          param: "stream",
          code: "unsupported_value"
        }
      },
      "StreamUnsupported"
    ],
    [
      "a refused request",
      400,
      { error: { message: "Invalid 'temperature'", type: "invalid_request_error" } },
      "InvalidRequest"
    ],
    [
      "a refused request in FastAPI's words",
      422,
      { detail: [{ loc: ["body"], msg: "field required" }] },
      "InvalidRequest"
    ],
    ["a conflict", 409, { error: { message: "try again" } }, "ProviderFault"],
    [
      "a fault",
      500,
      { error: { message: "The server had an error", type: "server_error" } },
      "ProviderFault"
    ],
    [
      "an overloaded provider",
      529,
      { type: "error", error: { type: "overloaded_error", message: "Overloaded" } },
      "ProviderFault"
    ],
    ["a gateway's page", 502, "<html><body>Bad gateway</body></html>", "ProviderFault"],
    [
      "a missing model with the type of a fault",
      404,
      { type: "error", error: { type: "api_error", message: "There is no such model" } },
      "InvalidRequest"
    ],
    [
      "a refused request with the type of a fault",
      400,
      { error: { type: "server_error", code: "internal_error", message: "Unknown field" } },
      "InvalidRequest"
    ],
    [
      "an overload, with 429, with the type of a fault",
      429,
      { error: { type: "server_error", message: "Overloaded" } },
      "RateLimited"
    ],
    [
      "a method that the server does not implement",
      501,
      { error: { message: "Unsupported" } },
      "InvalidRequest"
    ]
  ]
  for (const [name, status, body, reason] of table) {
    it.effect(`is ${reason} for ${name}`, () =>
      Effect.gen(function* () {
        const error = yield* failed(status, body)
        assert.strictEqual(error.reason._tag, reason)
        assert.notInclude(error.reason.description, "<")
        assert.isAbove(error.reason.description.length, 0)
      })
    )
  }

  it("is read from an error event of a stream", () => {
    const cases: ReadonlyArray<readonly [unknown, string]> = [
      [{ type: "error", error: { type: "overloaded_error", message: "Overloaded" } }, "ProviderFault"],
      [{ type: "error", error: { type: "rate_limit_error", message: "slow" } }, "RateLimited"],
      [{ error: { code: 502, message: "Upstream" }, choices: [] }, "ProviderFault"],
      [
        { error: { code: 429, message: "Provider returned error", metadata: { raw: "busy" } } },
        "RateLimited"
      ],
      [
        { type: "response.failed", response: { error: { code: "insufficient_quota", message: "x" } } },
        "QuotaExhausted"
      ],
      [
        { type: "response.failed", response: { error: { code: "context_length_exceeded", message: "x" } } },
        "ContextOverflow"
      ],
      [{ error: { type: "invalid_request_error", code: "tool_use_failed", message: "x" } }, "InvalidRequest"],
      [{ error: "something broke" }, "ProviderFault"],
      [undefined, "ProviderFault"],
      [[], "ProviderFault"],
      [{ error: { resets_at: 1e308, code: "quota_exceeded" } }, "QuotaExhausted"]
    ]
    for (const [body, reason] of cases) assert.strictEqual(reasonOf(body)._tag, reason, JSON.stringify(body))
  })

  it("includes the wait from the message or the details", () => {
    const wait = (body: unknown) => {
      const reason = reasonOf(body, { status: 429 })
      return reason._tag === "RateLimited" ? reason.retryAfterMs : undefined
    }
    assert.strictEqual(wait({ error: { message: "Please try again in 1.3s. Visit" } }), 1300)
    assert.strictEqual(wait({ error: { message: "Please try again in 120ms." } }), 120)
    assert.strictEqual(wait({ error: { message: "Please try again in 6m0s." } }), 360_000)
    assert.strictEqual(wait([{ error: { message: "quota", details: [{ retryDelay: "34s" }] } }]), 34_000)
    assert.strictEqual(wait({ error: { message: "Try again in a while" } }), undefined)
  })

  it.effect("includes the time at which a quota resets", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.parse("2026-01-01T00:00:00Z"))
      const error = yield* failed(429, {
        error: { type: "usage_limit_reached", message: "Limit.", resets_in_seconds: 3600 }
      })
      assert.deepInclude(error.reason, { resetsAt: Date.parse("2026-01-01T01:00:00Z") })
      assert.include(error.message, "2026-01-01T01:00:00.000Z")
    })
  )

  it.effect("includes the wait from headers in milliseconds, seconds or as a date", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.parse("2026-01-01T00:00:00Z"))
      const wait = (headers: Record<string, string>) =>
        Effect.map(failed(503, "", headers), ({ reason }) =>
          reason._tag === "ProviderFault" ? reason.retryAfterMs : undefined
        )
      assert.strictEqual(yield* wait({ "retry-after-ms": "250", "retry-after": "9" }), 250)
      assert.strictEqual(yield* wait({ "retry-after": "2" }), 2000)
      assert.strictEqual(yield* wait({ "retry-after": "Thu, 01 Jan 2026 00:00:30 GMT" }), 30_000)
      assert.strictEqual(yield* wait({ "retry-after": "Wed, 31 Dec 2025 00:00:00 GMT" }), 0)
      assert.strictEqual(yield* wait({ "retry-after": "soon" }), undefined)
    })
  )

  it.effect("includes at most a year of wait", () =>
    Effect.gen(function* () {
      const year = 365 * 86_400_000
      const many = "9".repeat(400)
      for (const headers of [{ "retry-after": many }, { "retry-after-ms": many }]) {
        const limited = yield* failed(429, "", headers)
        assert.deepInclude(limited.reason, { _tag: "RateLimited", retryAfterMs: year })
        const down = yield* failed(503, "", headers)
        assert.deepInclude(down.reason, { _tag: "ProviderFault", retryAfterMs: year })
      }
      const said = yield* failed(429, { error: { message: `Please try again in ${"9".repeat(300)}s.` } })
      assert.deepInclude(said.reason, { _tag: "RateLimited", retryAfterMs: year })
    })
  )

  it.effect("is ProviderFault for an unreadable error", () =>
    Effect.gen(function* () {
      const broken = {
        get error() {
          throw new Error("broken")
        }
      }
      assert.strictEqual(reasonOf(broken, { status: 400 })._tag, "ProviderFault")
      const headers = {
        get "retry-after-ms"(): string {
          throw new Error("broken")
        }
      }
      const { reason } = yield* responseError({ status: 429, headers, body: "" }, profile)
      assert.strictEqual(reason._tag, "ProviderFault")
      assert.include(reason.description, "status 429")
    })
  )

  it.effect("is retryable as `x-should-retry` says", () =>
    Effect.gen(function* () {
      assert.isFalse((yield* failed(500, "", { "x-should-retry": "false" })).isRetryable)
      assert.isTrue((yield* failed(400, "", { "x-should-retry": "true" })).isRetryable)
    })
  )

  it.effect("has a hint at the address only when the address is probably wrong", () =>
    Effect.gen(function* () {
      const hint = "perhaps it speaks"
      for (const body of ["404 page not found", '{"detail":"Not Found"}', "", "<html>nginx</html>"]) {
        assert.include((yield* failed(404, body)).message, hint)
      }
      assert.include((yield* failed(405, "")).message, hint)
      const model = { error: { message: "The model `gpt-9` does not exist", code: "model_not_found" } }
      assert.notInclude((yield* failed(404, model)).message, hint)
      const twice = yield* failed(404, "", {}, { baseUrl: "https://models.example.com/v1/v1" })
      assert.include(twice.message, "contains the version twice")
      const none = yield* failed(404, "", {}, { baseUrl: "https://models.example.com" })
      assert.include(none.message, "most end in /v1")
      const whole = yield* failed(404, "", {}, { baseUrl: "https://models.example.com/v1/chat/completions" })
      assert.include(whole.message, "remove that")
    })
  )

  it.effect("has no hint at the address when the provider names another missing object", () =>
    Effect.gen(function* () {
      const hint = "perhaps it speaks"
      const type = "invalid_request_error"
      const others = [
        { error: { message: "Item with id 'rs_1' not found.", type, param: "input", code: null } },
        { error: { message: "Previous response not found.", type, code: "previous_response_not_found" } },
        { error: { message: "No such File object: file-1", type, param: "id", code: null } },
        { error: { message: "No endpoints found that support tool use", code: 404 } },
        { type: "error", error: { type: "not_found_error", message: "File not found: file_1" } },
        { type: "error", error: { type: "not_found_error", message: "File not found" } }
      ]
      for (const body of others) assert.notInclude((yield* failed(404, body)).message, hint)
      const addresses = [
        { error: { message: "Unknown request URL: POST /v1/x", type, code: "unknown_url" } },
        { error: { message: "Invalid URL (POST /v1/x)", type, param: null, code: null } },
        { error: { message: "This is no address.", type: "invalid_url" } },
        { error: { message: "Not Found", code: 404 } },
        { error: { message: "Resource not found", code: "404" } },
        { error: { message: "File Not Found", type: "not_found_error", code: 404 } },
        { error: "Not Found" }
      ]
      for (const body of addresses) assert.include((yield* failed(404, body)).message, hint)
    })
  )

  for (const protocol of ["chat", "responses", "messages"] as const) {
    for (const { expected, name, status, text } of fixtures(protocol).filter(
      ({ status }) => status !== 200
    )) {
      it.effect(`is read from the recorded error ${protocol}/${name}`, () =>
        Effect.gen(function* () {
          const error = yield* responseError({ status, headers: {}, body: text }, { ...profile, protocol })
          assert.strictEqual(error.isRetryable, status === 429)
          assert.include(error.reason.description, expected.error?.message ?? "no message is expected")
          assert.notInclude(error.reason.description, "perhaps it speaks")
        })
      )
    }
  }

  it("is redacted, on one line and bounded, with the provider's request id", () => {
    const description = `Bad key sk-verysecret\n${"x".repeat(1000)}`
    const error = redactError(
      new ModelError({ reason: new InvalidRequest({ description }) }),
      ["sk-verysecret"],
      "req_1"
    )
    assert.strictEqual(error.reason._tag, "InvalidRequest")
    assert.isTrue(error.reason.description.startsWith("Bad key [REDACTED:secret] xxx"))
    assert.strictEqual(error.reason.description.length, 500)
    assert.strictEqual(error.requestId, "req_1")
    assert.strictEqual(requestIdOf({ "request-id": "a" }), "a")
    assert.strictEqual(requestIdOf({ "x-request-id": "b" }), "b")
  })

  it("has no request id that is invalid or contains a secret", () => {
    const idOf = (inBody: string | undefined, inHeader?: string) => {
      const reason = new InvalidRequest({ description: "no" })
      const error = new ModelError({ reason, ...(inBody === undefined ? {} : { requestId: inBody }) })
      return redactError(error, ["Bearer sk-verysecret", "sk-verysecret"], inHeader).requestId
    }
    for (const id of [
      "Bearer sk-verysecret",
      "id:sk-verysecret",
      "two words",
      "x\u001b[2J",
      "x".repeat(201)
    ]) {
      assert.isUndefined(idOf(undefined, id))
      assert.isUndefined(idOf(id))
      assert.strictEqual(idOf(id, "req_1"), "req_1")
    }
    assert.strictEqual(idOf("req_0:a.b-c", "req_1"), "req_0:a.b-c")
  })

  it("is shown without control and bidi characters", () => {
    const reason = new InvalidRequest({ description: "a\u001b[31mb\u0000\u009bc\u202ed\u2066e\u200ff" })
    assert.strictEqual(redactError(new ModelError({ reason }), []).reason.description, "a [31mb c d e f")
  })
})
