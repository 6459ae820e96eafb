/** Dialects of `/chat/completions`, each as the smallest stream that shows it. */
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { chat } from "../../src/model/internal/openai/chat.ts"
import type { ModelProfile } from "../../src/model/ModelProfile.ts"
import { bytesOf, fixture, read, summaryOf } from "./Fixtures.ts"

const profile: ModelProfile = {
  name: "test",
  protocol: "chat",
  baseUrl: "https://models.example/v1",
  model: "test"
}
type Json = Record<string, unknown>

/** Reads chunks as a stream; the last is `[DONE]` unless `open`. */
const readChunks = (chunks: ReadonlyArray<unknown>, open = false) =>
  read(chat.decoder(profile), [
    bytesOf(
      chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("") + (open ? "" : "data: [DONE]\n\n")
    )
  ])
const delta = (delta: Json, finish?: string | null): Json => ({
  choices: [{ index: 0, delta, finish_reason: finish ?? null }]
})
const finish = (reason: string | null) => delta({}, reason)
const entries = (...entries: ReadonlyArray<Json>) => delta({ tool_calls: entries })
const fn = (name: unknown, args: unknown) => ({ function: { name, arguments: args } })

const answerOf = (...chunks: ReadonlyArray<unknown>) => {
  const { error, response } = readChunks(chunks)
  if (response === undefined) return assert.fail(error?.message)
  return response
}
const callsOf = (...chunks: ReadonlyArray<unknown>) =>
  summaryOf(answerOf(...chunks, finish("tool_calls"))).toolCalls.map(
    (call) => `${call.id}:${call.name}(${call.arguments})`
  )
const reasonFor = (...chunks: ReadonlyArray<unknown>) => readChunks(chunks).error?.reason
const contentOf = (...chunks: ReadonlyArray<unknown>) => answerOf(...chunks, finish("stop")).content

describe("tool calls in chat completions", () => {
  it.each<{
    readonly server: string
    readonly chunks: ReadonlyArray<Json>
    readonly calls: ReadonlyArray<string>
  }>([
    {
      server: "that numbers interleaved calls",
      chunks: [
        entries({ index: 0, id: "a", ...fn("f", "") }, { index: 1, id: "b", ...fn("g", "") }),
        entries({ index: 1, ...fn(undefined, '{"y":') }, { index: 0, ...fn(undefined, '{"x"') }),
        entries({ index: 0, ...fn(undefined, ":1}") }, { index: 1, ...fn(undefined, "2}") })
      ],
      calls: ['a:f({"x":1})', 'b:g({"y":2})']
    },
    {
      server: "that gives every call the number 0",
      chunks: [
        entries({ index: 0, id: "a", ...fn("f", '{"x":1}') }),
        entries({ index: 0, id: "b", ...fn("f", '{"x":2}') })
      ],
      calls: ['a:f({"x":1})', 'b:f({"x":2})']
    },
    {
      server: "that gives every call the number 0 and no arguments",
      chunks: [
        entries({ index: 0, id: "a", ...fn("f", "") }),
        entries({ index: 0, id: "b", ...fn("f", "") })
      ],
      calls: ["a:f()", "b:f()"]
    },
    {
      server: "that gives every call the number 0 and the id 0",
      chunks: [
        entries({ index: 0, id: "0", ...fn("f", "{}") }),
        entries({ index: 0, id: "0", ...fn("g", "{}") })
      ],
      calls: ["0:f({})", "0:g({})"]
    },
    {
      server: "that gives every call the number 0 and no id",
      chunks: [
        entries({ index: 0, id: "", ...fn("f", '{"x":1}') }),
        entries({ index: 0, id: "", ...fn("f", '{"x":2}') })
      ],
      calls: [':f({"x":1})', ':f({"x":2})']
    },
    {
      server: "that repeats a whole call at its end",
      chunks: [
        entries({ index: 0, id: "a", ...fn("f", '{"x"') }),
        entries({ index: 0, ...fn(undefined, ":1}") }),
        entries({ index: 0, id: "a", ...fn("f", '{"x":1}') })
      ],
      calls: ['a:f({"x":1})']
    },
    {
      server: "that repeats all calls, numbered or not",
      chunks: [0, undefined].flatMap((index) =>
        ["a", "b", "a", "b"].map((id) => entries({ index, id: `${id}${index ?? ""}`, ...fn("f", "{}") }))
      ),
      calls: ["a0:f({})", "b0:f({})", "a:f({})", "b:f({})"]
    },
    {
      server: "that gives every call the number 0, the id 0 and the same name",
      chunks: [
        entries({ index: 0, id: "0", ...fn("f", '{"x":1}') }),
        entries({ index: 0, id: "0", ...fn("f", '{"x":2}') })
      ],
      calls: ['0:f({"x":1})', '0:f({"x":2})']
    },
    {
      server: "that repeats id and name with every piece, with braces in strings",
      chunks: ['{"x":"{}', "}", '\\"}', '"', "}"].map((text) =>
        entries({ index: 0, id: "a", ...fn("f", text) })
      ),
      calls: ['a:f({"x":"{}}\\"}"})']
    },
    {
      server: "that counts from 1",
      chunks: [
        entries({ index: 1, id: "a", ...fn("f", "{}") }),
        entries({ index: 2, id: "b", ...fn("g", "{}") })
      ],
      calls: ["a:f({})", "b:g({})"]
    },
    {
      server: "that does not count",
      chunks: [
        entries({ id: "a", ...fn("f", "{}") }, { id: "b", ...fn("g", "{}") }),
        entries({ ...fn("h", "{}") })
      ],
      calls: ["a:f({})", "b:g({})", ":h({})"]
    },
    {
      server: "that does not count and sends pieces",
      chunks: [
        entries({ id: "a", ...fn("f", '{"x":') }),
        entries(fn(undefined, "1")),
        entries({ id: "a", ...fn("f", "}") }),
        entries({ id: "b", ...fn("g", "") })
      ],
      calls: ['a:f({"x":1})', "b:g()"]
    },
    {
      server: "that repeats id and name with every piece",
      chunks: [
        entries({ index: 0, id: "a", ...fn("f", "") }),
        entries({ index: 0, id: "a", ...fn("f", '{"x":{}') }),
        entries({ index: 0, id: "a", ...fn("f", "}") }),
        entries({ index: 0, id: "a", ...fn("f", "") })
      ],
      calls: ['a:f({"x":{}})']
    },
    {
      server: "that continues with an empty name or none",
      chunks: [
        entries({ index: 0, id: "a", ...fn("f", "{") }),
        entries({ index: 0, id: "", ...fn("", '"x"') }),
        entries({ index: 0, id: null, ...fn(null, ":1}") })
      ],
      calls: ['a:f({"x":1})']
    },
    {
      server: "that sends the id after the name",
      chunks: [entries({ index: 0, ...fn("f", "") }), entries({ index: 0, id: "a", ...fn(undefined, "{}") })],
      calls: ["a:f({})"]
    },
    {
      server: "that sends a name in pieces",
      chunks: [entries({ index: 0, id: "a", ...fn("get_", "") }), entries({ index: 0, ...fn("name", "{}") })],
      calls: ["a:get_name({})"]
    },
    {
      server: "that sends arguments as an object",
      chunks: [entries({ index: 0, id: "a", ...fn("f", { x: 1 }) })],
      calls: ['a:f({"x":1})']
    },
    {
      server: "that omits arguments",
      chunks: [
        entries({ index: 0, id: "a", function: { name: "f" } }, { index: 1, id: "b", ...fn("g", null) }),
        entries({ index: 2, id: "c", ...fn("h", " ") }, { index: 3, id: "d", ...fn("i", "null") })
      ],
      calls: ["a:f()", "b:g()", "c:h()", "d:i()"]
    },
    {
      server: "that opens calls and never names them",
      chunks: [
        entries({ index: 0 }, { index: 1, id: "b", ...fn("g", "{}") }, { index: 2, id: "", ...fn("", "") })
      ],
      calls: ["b:g({})"]
    },
    {
      server: "that sends function_call",
      chunks: [
        delta({ function_call: { name: "f", arguments: '{"x"' } }),
        delta({ function_call: { arguments: ":1}" } })
      ],
      calls: [':f({"x":1})']
    }
  ])("are read from a server $server", ({ calls, chunks }) => {
    assert.deepStrictEqual(callsOf(...chunks), calls)
  })

  it("stay two when a finish reason follows each of them", () => {
    const piece = (args: string) => entries({ index: 0, ...fn(undefined, args) })
    for (const id of ["0", "", undefined]) {
      const said = `${id ?? ""}:f`
      const named = (args: string) => entries({ index: 0, id, ...fn("f", args) })
      const end = finish("tool_calls")
      const split = [named(""), piece('{"x":1}')]
      assert.deepStrictEqual(callsOf(...split, end, named(""), piece('{"x":2}')), [
        `${said}({"x":1})`,
        `${said}({"x":2})`
      ])
      assert.deepStrictEqual(callsOf(...split, named(""), piece('{"x":1}')), [
        `${said}({"x":1})`,
        `${said}({"x":1})`
      ])
      assert.deepStrictEqual(callsOf(named('{"x":1}'), end, named('{"x":2}')), [
        `${said}({"x":1})`,
        `${said}({"x":2})`
      ])
    }
    const empty = entries({ index: 0, ...fn("f", "") })
    assert.deepStrictEqual(callsOf(empty, finish("tool_calls"), empty), [":f()", ":f()"])
  })

  it("stay one when the finish reason, or their name, is repeated", () => {
    const first = entries({ index: 0, id: "a", ...fn("f", "") })
    const piece = (args: string, name?: string) => entries({ index: 0, id: "a", ...fn(name, args) })
    const end = finish("tool_calls")
    assert.deepStrictEqual(callsOf(first, piece('{"x":1}'), end, end), ['a:f({"x":1})'])
    assert.deepStrictEqual(callsOf(first, piece('{"x":1}'), end, piece('{"x":1}', "f")), ['a:f({"x":1})'])
    assert.deepStrictEqual(callsOf(first, piece('{"x"'), end, piece(":1}")), ['a:f({"x":1})'])
    assert.deepStrictEqual(callsOf(first, piece('{"x":1}'), piece("", "f"), piece(" ")), ['a:f({"x":1} )'])
  })

  it("are parsed once when many pieces repeat id and name", () => {
    let reads = 0
    const parse = JSON.parse
    const decoder = chat.decoder(profile)
    const piece = (text: string) => JSON.stringify(entries({ index: 0, id: "a", ...fn("f", text) }))
    JSON.parse = (text: string) => {
      reads += text.length
      return parse(text)
    }
    let written = 0
    try {
      for (const text of ['{"x":[', ...Array.from({ length: 2000 }, () => "{},{}"), "]}"]) {
        written += piece(text).length
        decoder.event("message", piece(text), () => {})
      }
    } finally {
      JSON.parse = parse
    }
    assert.isAtMost(reads, 2 * written)
  })

  it("are emitted piece by piece, and as a whole at the end", () => {
    const { parts } = readChunks([
      entries({ index: 3, id: "a", ...fn("f", "") }),
      entries({ index: 3, ...fn(undefined, "{}") }),
      finish("tool_calls")
    ])
    assert.deepStrictEqual(parts, [
      { _tag: "tool-call-delta", index: 0, name: "f", delta: "" },
      { _tag: "tool-call-delta", index: 0, name: "f", delta: "{}" },
      { _tag: "tool-call", providerCallId: "a", name: "f", arguments: "{}" },
      { _tag: "finish", finishReason: "toolCalls", usage: { inputTokens: 0, outputTokens: 0 } }
    ])
  })

  it.each(['{"x":', "[1]", '"{}"', "7", '{"x":1}{"x":1}', "{x:1}"])(
    "keep their text when the arguments are not an object: %s",
    (text) => {
      const { error, parts } = readChunks([
        entries({ index: 0, id: "a", ...fn("f", text) }),
        finish("tool_calls")
      ])
      assert.isUndefined(error)
      assert.deepStrictEqual(
        parts.flatMap((part) => (part._tag === "tool-call" ? [part.arguments] : [])),
        [text]
      )
    }
  )

  it("get the arguments `[]` when theirs nest too deeply", () => {
    const deep = JSON.parse(`${'{"x":'.repeat(50_000)}1${"}".repeat(50_000)}`)
    const body = (message: Json) => ({ choices: [{ index: 0, message, finish_reason: "tool_calls" }] })
    const result = chat.decode(body({ tool_calls: [{ id: "a", ...fn("f", deep) }] }), profile)
    const [call] = Result.isSuccess(result) ? result.success.content : []
    assert.strictEqual(call?._tag === "toolCall" && call.arguments, "[]")
    const kept = chat.decode(body({ content: "hi", extra_content: deep, reasoning_details: [deep] }), profile)
    assert.deepStrictEqual(Result.isSuccess(kept) && kept.success.content, [{ _tag: "text", text: "hi" }])
  })

  it("fail with InvalidResponse without a name", () => {
    const reason = reasonFor(entries({ index: 0, id: "a", ...fn("", "{}") }), finish("tool_calls"))
    assert.strictEqual(reason?._tag, "InvalidResponse")
  })

  it("fail without a retry when the answer reached its limit", () => {
    const { error, parts } = readChunks([
      entries({ index: 0, id: "a", ...fn("f", '{"x":1}') }),
      finish("length")
    ])
    assert.strictEqual(error?.reason._tag, "InvalidResponse")
    assert.isFalse(error?.isRetryable)
    assert.isFalse(parts.some((part) => part._tag === "tool-call"))
  })

  it("are dropped when a filter ended the answer", () => {
    const { content, finishReason } = answerOf(
      entries({ index: 0, id: "a", ...fn("f", "{}") }),
      finish("content_filter")
    )
    assert.deepStrictEqual({ content, finishReason }, { content: [], finishReason: "contentFilter" })
  })
})

describe("the end of a chat completion", () => {
  const text = delta({ content: "hi" })
  const call = entries({ index: 0, id: "a", ...fn("f", "{}") })

  it.each([
    ["stop", "stop"],
    ["STOP", "stop"],
    ["eos", "stop"],
    ["length", "length"],
    ["MAX_TOKENS", "length"],
    ["model_context_window_exceeded", "length"],
    ["content_filter", "contentFilter"],
    ["tool_calls", "stop"],
    ["", "stop"],
    [null, "stop"],
    ["tired", "other"]
  ])("without calls maps %s to %s", (said, meant) => {
    assert.strictEqual(answerOf(text, finish(said)).finishReason, meant)
  })

  it.each(["stop", "tool_calls", "function_call", "", null, "tired"])(
    "with calls maps %s to toolCalls",
    (said) => {
      assert.strictEqual(answerOf(text, call, finish(said)).finishReason, "toolCalls")
    }
  )

  it.each(["error", "network_error", "insufficient_system_resource"])(
    "fails with ProviderFault on %s",
    (said) => {
      assert.strictEqual(reasonFor(text, finish(said))?._tag, "ProviderFault")
    }
  )

  it("is reached by a finish reason without [DONE]", () => {
    assert.strictEqual(readChunks([text, finish("stop")], true).response?.finishReason, "stop")
  })

  it("is not reached by a clean end of the connection", () => {
    assert.strictEqual(readChunks([text, call], true).error?.reason._tag, "ConnectionLost")
    assert.strictEqual(readChunks([], true).error?.reason._tag, "ConnectionLost")
  })

  it("fails with InvalidResponse when the answer is empty", () => {
    assert.strictEqual(reasonFor()?._tag, "InvalidResponse")
    assert.strictEqual(reasonFor({ choices: [], usage: { prompt_tokens: 1 } })?._tag, "InvalidResponse")
  })

  it("fails with InvalidResponse after an event that is not JSON", () => {
    const broken = (tail: string) =>
      read(chat.decoder(profile), [bytesOf(`data: {"choices":[\n\n${tail}`)]).error?.reason._tag
    assert.strictEqual(broken(`data: ${JSON.stringify(finish("stop"))}\n\n`), "InvalidResponse")
    assert.strictEqual(broken("data: [DONE]\n\n"), "InvalidResponse")
    const lastUnread = `data: ${JSON.stringify(finish("stop"))}\n\ndata: {"choices":[\n\ndata: [DONE]\n\n`
    assert.strictEqual(
      read(chat.decoder(profile), [bytesOf(lastUnread)]).error?.reason._tag,
      "InvalidResponse"
    )
    assert.strictEqual(broken(""), "ConnectionLost")
  })
})

describe("an error in the middle of a chat completion", () => {
  const begun = 'data: {"choices":[{"delta":{"content":"hi"}}]}\n\n'
  const after = `data: {"choices":[{"delta":{"content":"!"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n`

  it.each<{ readonly shape: string; readonly event: string; readonly tag: string; readonly says: string }>([
    {
      shape: "an event of that name",
      event: 'event: error\ndata: {"error":{"message":"no"}}',
      tag: "ProviderFault",
      says: "no"
    },
    {
      shape: "an event of that name with text",
      event: "event: error\ndata: no more",
      tag: "ProviderFault",
      says: "no more"
    },
    {
      shape: "a field beside the choices",
      event: 'data: {"error":{"code":502,"message":"no"},"choices":[]}',
      tag: "ProviderFault",
      says: "no"
    },
    { shape: "a text", event: 'data: {"error":"no"}', tag: "ProviderFault", says: "no" },
    {
      shape: "a field of the choice",
      event: 'data: {"choices":[{"delta":{},"error":{"code":429,"message":"no"}}]}',
      tag: "RateLimited",
      says: "no"
    },
    {
      shape: "a typed event",
      event: 'data: {"type":"error","error":{"type":"overloaded_error","message":"no"}}',
      tag: "ProviderFault",
      says: "no"
    },
    {
      shape: "an object of that name",
      event: 'data: {"object":"error","message":"no","code":400}',
      tag: "InvalidRequest",
      says: "no"
    },
    {
      shape: "a list",
      event: 'data: [{"error":{"code":429,"message":"no"}}]',
      tag: "RateLimited",
      says: "no"
    },
    {
      shape: "an overflow",
      event: 'data: {"error":{"code":"context_length_exceeded","message":"no"}}',
      tag: "ContextOverflow",
      says: "no"
    }
  ])("is recognized as $shape, and ends the answer", ({ event, says, tag }) => {
    const { error, parts } = read(chat.decoder(profile), [bytesOf(`${begun}${event}\n\n${after}`)])
    assert.strictEqual(error?.reason._tag, tag)
    assert.include(error?.reason.description, says)
    assert.deepStrictEqual(parts, [{ _tag: "text-delta", delta: "hi" }])
  })

  it("is recognized in a whole body", () => {
    const result = chat.decode({ error: { code: 429, message: "no" }, choices: [] }, profile)
    assert.strictEqual(Result.isFailure(result) && result.failure.reason._tag, "RateLimited")
  })

  it("is not an empty error field", () => {
    assert.strictEqual(answerOf({ error: null, ...delta({ content: "hi" }, "stop") }).finishReason, "stop")
  })
})

describe("text and reasoning in chat completions", () => {
  const own = { provider: "chat@models.example/test" }

  it("may be lists of parts, of which unknown ones are dropped", () => {
    assert.deepStrictEqual(
      contentOf(
        delta({ content: [{ type: "thinking", thinking: [{ type: "text", text: "so" }] }] }),
        delta({
          content: [{ type: "thinking", thinking: "!" }, { type: "text", text: "hi" }, { type: "reference" }]
        }),
        delta({ content: " there", annotations: [{}], images: [{}] })
      ),
      [
        { _tag: "reasoning", text: "so!", ...own, payload: { field: "thinking" } },
        { _tag: "text", text: "hi there" }
      ]
    )
  })

  it("take reasoning from the first known field only", () => {
    assert.deepStrictEqual(
      contentOf(
        delta({ reasoning: "b", reasoning_content: "a", reasoning_details: [] }),
        delta({ reasoning_content: "a", reasoning_text: "c" })
      ),
      [{ _tag: "reasoning", text: "aa", ...own, payload: { field: "reasoning_content" } }]
    )
    assert.deepStrictEqual(contentOf(delta({ reasoning_text: "c" })), [
      { _tag: "reasoning", text: "c", ...own, payload: { field: "reasoning_text" } }
    ])
  })

  it("join the pieces of reasoning details, and keep encrypted ones unchanged", () => {
    const encrypted = { type: "reasoning.encrypted", data: "xyz", id: "r1", index: 1 }
    assert.deepStrictEqual(
      contentOf(
        delta({
          reasoning: "so",
          reasoning_details: [{ type: "reasoning.text", text: "so", index: 0, signature: null }]
        }),
        delta({ reasoning: " it", reasoning_details: [{ type: "reasoning.text", text: " it", index: 0 }] }),
        delta({ reasoning_details: [{ type: "reasoning.text", signature: "sig", index: 0 }] }),
        delta({ content: "hi" }),
        delta({ reasoning_details: [encrypted] })
      ),
      [
        {
          _tag: "reasoning",
          text: "so it",
          ...own,
          payload: {
            reasoning_details: [{ type: "reasoning.text", text: "so it", index: 0, signature: "sig" }]
          }
        },
        { _tag: "text", text: "hi" },
        { _tag: "reasoning", text: "", ...own, payload: { reasoning_details: [encrypted] } }
      ]
    )
  })

  it("keep reasoning details with different indexes apart", () => {
    const details = [0, 1].map((index) => ({ type: "reasoning.text", text: "so", index }))
    assert.deepStrictEqual(contentOf(...details.map((detail) => delta({ reasoning_details: [detail] }))), [
      { _tag: "reasoning", text: "soso", ...own, payload: { reasoning_details: details } }
    ])
  })

  it("show the text of reasoning details without other reasoning text", () => {
    const detail = { type: "reasoning.summary", summary: "short", index: 0 }
    assert.deepStrictEqual(contentOf(delta({ reasoning_details: [detail] })), [
      { _tag: "reasoning", text: "short", ...own, payload: { reasoning_details: [detail] } }
    ])
  })

  it("show a refusal as text, and finish as contentFilter", () => {
    const { content, finishReason } = answerOf(
      delta({ refusal: "I can" }),
      delta({ refusal: "not." }, "stop")
    )
    assert.deepStrictEqual(content, [{ _tag: "text", text: "I cannot." }])
    assert.strictEqual(finishReason, "contentFilter")
  })

  it("come from the first choice only", () => {
    const choice = (index: number, content: string) => ({ choices: [{ index, delta: { content } }] })
    assert.deepStrictEqual(contentOf(choice(0, "a"), choice(1, "b"), choice(0, "c")), [
      { _tag: "text", text: "ac" }
    ])
  })

  it("are not repeated when a server sends the message beside its deltas", () => {
    const both = (text: string, soFar: string) => ({
      choices: [{ index: 0, delta: { content: text }, message: { content: soFar } }]
    })
    assert.deepStrictEqual(
      contentOf(both("a", "a"), both("b", "ab"), { choices: [{ index: 0, message: { content: "ab" } }] }),
      [{ _tag: "text", text: "ab" }]
    )
  })

  it("keep Gemini's signatures with the call or the message", () => {
    const body = JSON.parse(fixture("chat", "json-gemini-compat-tool-call-without-id").text)
    const message = body.choices[0].message
    const result = chat.decode(body, profile)
    assert.deepStrictEqual(Result.isSuccess(result) && result.success.content, [
      { _tag: "reasoning", text: "", ...own, payload: { extra_content: message.extra_content } },
      { _tag: "toolCall", providerCallId: "", name: "get_current_time", arguments: "{}" }
    ])
    const extra = { google: { thought_signature: "abc" } }
    assert.deepStrictEqual(
      contentOf(entries({ index: 0, id: "a", ...fn("f", "{}"), extra_content: extra })),
      [
        {
          _tag: "toolCall",
          providerCallId: "a",
          name: "f",
          arguments: "{}",
          ...own,
          payload: { extra_content: extra }
        }
      ]
    )
  })
})

describe("the usage of a chat completion", () => {
  const usageOf = (...chunks: ReadonlyArray<unknown>) => answerOf(delta({ content: "hi" }), ...chunks).usage
  const tokens = (prompt: number, completion: number) => ({
    prompt_tokens: prompt,
    completion_tokens: completion
  })

  it("is the last reported one, in any place", () => {
    assert.deepStrictEqual(
      usageOf(
        { ...delta({}), usage: tokens(1, 1) },
        { ...finish("stop"), usage: tokens(1, 2) },
        { choices: [], usage: null }
      ),
      { inputTokens: 1, outputTokens: 2 }
    )
    assert.deepStrictEqual(usageOf({ choices: [{ index: 0, delta: {}, usage: tokens(3, 4) }] }), {
      inputTokens: 3,
      outputTokens: 4
    })
    assert.deepStrictEqual(usageOf({ choices: [], x_groq: { usage: tokens(5, 6) } }), {
      inputTokens: 5,
      outputTokens: 6
    })
  })

  it("counts tokens that only the total has as output", () => {
    assert.deepStrictEqual(usageOf({ usage: { ...tokens(12, 1), total_tokens: 303 } }), {
      inputTokens: 12,
      outputTokens: 291
    })
  })

  it.each<{ readonly how: string; readonly usage: Json; readonly is: Json }>([
    {
      how: "by OpenAI",
      usage: { prompt_tokens_details: { cached_tokens: 3 } },
      is: { cachedInputTokens: 3 }
    },
    { how: "by DeepSeek", usage: { prompt_cache_hit_tokens: 3 }, is: { cachedInputTokens: 3 } },
    { how: "by Moonshot", usage: { cached_tokens: 3 }, is: { cachedInputTokens: 3 } },
    {
      how: "as cache writes",
      usage: { prompt_tokens_details: { cache_write_tokens: 3 } },
      is: { cacheWriteTokens: 3 }
    },
    {
      how: "as reasoning",
      usage: { completion_tokens_details: { reasoning_tokens: 2 } },
      is: { reasoningTokens: 2 }
    },
    { how: "in dollars", usage: { cost: 0.25 }, is: { costUsd: 0.25 } },
    { how: "as 0", usage: { cost: 0 }, is: { costUsd: 0 } },
    { how: "in parts", usage: { cost: { total_cost: 0.5 } }, is: { costUsd: 0.5 } },
    { how: "in ticks", usage: { cost_in_usd_ticks: 1e10 }, is: { costUsd: 1 } },
    { how: "as invalid values", usage: { cost: -1, cached_tokens: -3, completion_tokens_details: 7 }, is: {} }
  ])("reads usage reported $how", ({ is, usage }) => {
    assert.deepStrictEqual(usageOf({ usage: { ...tokens(9, 4), ...usage } }), {
      inputTokens: 9,
      outputTokens: 4,
      ...is
    })
  })
})
