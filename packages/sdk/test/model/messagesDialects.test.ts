import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { messages } from "../../src/model/internal/anthropic/messages.ts"
import { makeAnswerReader } from "../../src/model/internal/http/sse.ts"
import type { ModelProfile } from "../../src/model/ModelProfile.ts"
import { eventsOf } from "./DecoderSuite.ts"
import { assertExpected, bytesOf, fixture, read, summaryOf } from "./Fixtures.ts"

const profile: ModelProfile = {
  name: "test",
  protocol: "messages",
  baseUrl: "https://models.example/v1",
  model: "test"
}
const provider = "messages@models.example/test"
const readEvents = (events: ReadonlyArray<unknown>) =>
  read(messages.decoder(profile), [
    bytesOf(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""))
  ])

const start = { type: "message_start", message: { usage: { input_tokens: 3, output_tokens: 1 } } }
const begin = (index: number, content_block: object) => ({
  type: "content_block_start",
  index,
  content_block
})
const delta = (index: number, type: string, more: object) => ({
  type: "content_block_delta",
  index,
  delta: { type, ...more }
})
const stop = (index: number) => ({ type: "content_block_stop", index })
const end = (stop_reason: string | null, usage: object = { output_tokens: 2 }) => [
  { type: "message_delta", delta: { stop_reason }, usage },
  { type: "message_stop" }
]
const use = { type: "tool_use", id: "toolu_1", name: "read", input: {} }
const input = (index: number, partial_json: string) => delta(index, "input_json_delta", { partial_json })

describe("an answer of /v1/messages", () => {
  it.each([
    { reason: "end_turn", finishReason: "stop" },
    { reason: "stop_sequence", finishReason: "stop" },
    { reason: null, finishReason: "stop" },
    { reason: "max_tokens", finishReason: "length" },
    { reason: "model_context_window_exceeded", finishReason: "length" },
    { reason: "refusal", finishReason: "contentFilter" },
    { reason: "pause_turn", finishReason: "other" },
    { reason: "something new", finishReason: "other" }
  ])("finishes as $finishReason for the stop reason $reason", ({ finishReason, reason }) => {
    assert.strictEqual(readEvents([start, ...end(reason)]).response?.finishReason, finishReason)
    const result = messages.decode({ content: [], stop_reason: reason, usage: {} }, profile)
    assert.strictEqual<unknown>(Result.isSuccess(result) && result.success.finishReason, finishReason)
  })

  it("finishes as toolCalls with calls, for any stop reason", () => {
    for (const reason of ["tool_use", "end_turn", "pause_turn", null]) {
      const { response } = readEvents([
        start,
        begin(0, use),
        input(0, '{"path":"a"}'),
        stop(0),
        ...end(reason)
      ])
      assert.strictEqual(response?.finishReason, "toolCalls")
      assert.deepStrictEqual(response?.content, [
        { _tag: "toolCall", providerCallId: "toolu_1", name: "read", arguments: '{"path":"a"}' }
      ])
    }
  })

  it("fails without a retry when it reached its limit in a call", () => {
    for (const partial of ["", '{"path":', "{}"]) {
      const { error, parts } = readEvents([
        start,
        begin(0, use),
        input(0, partial),
        stop(0),
        ...end("max_tokens")
      ])
      assert.strictEqual(error?.reason._tag, "InvalidResponse")
      assert.isFalse(error?.isRetryable)
      assert.include(error?.message, "read: raise maxOutputTokens")
      assert.isEmpty(parts.filter(({ _tag }) => _tag === "tool-call"))
    }
  })

  it("drops the calls of a refused answer", () => {
    const { parts, response } = readEvents([start, begin(0, use), stop(0), ...end("refusal")])
    assert.strictEqual(response?.finishReason, "contentFilter")
    assert.isEmpty(parts.filter(({ _tag }) => _tag === "tool-call"))
  })

  it.each([{ partial: '{"half' }, { partial: "[1]" }, { partial: '"text"' }, { partial: "{} {}" }])(
    "keeps the text of a call's arguments that are not an object: $partial",
    ({ partial }) => {
      const { error, parts } = readEvents([
        start,
        begin(0, use),
        input(0, partial),
        stop(0),
        ...end("tool_use")
      ])
      assert.isUndefined(error)
      assert.deepStrictEqual(
        parts.flatMap((part) => (part._tag === "tool-call" ? [part.arguments] : [])),
        [partial]
      )
    }
  )

  it("contains a call once when its block is repeated", () => {
    const block = [begin(0, use), input(0, '{"a"'), input(0, ":1}"), stop(0)]
    const other = [begin(1, { ...use, id: "toolu_2" }), input(1, '{"a":1}'), stop(1)]
    for (const events of [
      [...block, ...block, ...other],
      [...block, ...other, ...block, ...block],
      [...block, begin(0, use), stop(0), ...other],
      [begin(0, use), ...block, ...other]
    ]) {
      const { response } = readEvents([start, ...events, ...end("tool_use")])
      assert.deepStrictEqual(
        response && summaryOf(response).toolCalls.map(({ id, arguments: text }) => `${id}${text}`),
        ['toolu_1{"a":1}', 'toolu_2{"a":1}']
      )
    }
  })

  it("emits the pieces of a call as they arrive", () => {
    const { parts } = readEvents([
      start,
      begin(0, use),
      input(0, '{"pa'),
      begin(1, { ...use, id: "toolu_2" }),
      input(1, "{"),
      input(0, 'th":1}'),
      input(1, "}"),
      stop(0),
      stop(1),
      ...end("tool_use")
    ])
    assert.deepStrictEqual(
      parts.flatMap((part) => (part._tag === "tool-call-delta" ? [[part.index, part.delta]] : [])),
      [
        [0, '{"pa'],
        [1, "{"],
        [0, 'th":1}'],
        [1, "}"]
      ]
    )
    assert.deepStrictEqual(
      parts.flatMap((part) => (part._tag === "tool-call" ? [part.providerCallId] : [])),
      ["toolu_1", "toolu_2"]
    )
  })

  it("keeps thinking with its signature, with and without text", () => {
    const { response } = readEvents([
      start,
      begin(0, { type: "thinking", thinking: "", signature: "" }),
      delta(0, "thinking_delta", { thinking: "Hm." }),
      delta(0, "signature_delta", { signature: "sig1" }),
      stop(0),
      begin(1, { type: "thinking", thinking: "", signature: "" }),
      delta(1, "signature_delta", { signature: "sig2" }),
      stop(1),
      begin(2, { type: "redacted_thinking", data: "secret" }),
      stop(2),
      ...end("end_turn")
    ])
    assert.deepStrictEqual(response?.content, [
      { _tag: "reasoning", text: "Hm.", provider, payload: { type: "thinking", signature: "sig1" } },
      { _tag: "reasoning", text: "", provider, payload: { type: "thinking", signature: "sig2" } },
      { _tag: "reasoning", text: "", provider, payload: { type: "redacted_thinking", data: "secret" } }
    ])
  })

  it("keeps server tools and their citations", () => {
    const searched = { type: "web_search_tool_result", tool_use_id: "srv_1", content: [{ url: "u" }] }
    const citation = { type: "web_search_result_location", encrypted_index: "e" }
    const { response } = readEvents([
      start,
      begin(0, { type: "server_tool_use", id: "srv_1", name: "web_search", input: {} }),
      input(0, '{"query":'),
      input(0, '"x"}'),
      stop(0),
      begin(1, searched),
      stop(1),
      begin(2, { type: "text", text: "" }),
      delta(2, "citations_delta", { citation }),
      delta(2, "text_delta", { text: "It is." }),
      stop(2),
      begin(3, { type: "something_new", data: 1 }),
      delta(3, "new_delta", { data: 2 }),
      stop(3),
      ...end("end_turn")
    ])
    const ran = { type: "server_tool_use", id: "srv_1", name: "web_search", input: { query: "x" } }
    assert.deepStrictEqual(response?.content, [
      { _tag: "reasoning", text: "", provider, payload: ran },
      { _tag: "reasoning", text: "", provider, payload: searched },
      { _tag: "text", text: "It is.", provider, payload: { type: "text", citations: [citation] } }
    ])
  })

  it("keeps a compaction block", () => {
    const { response } = readEvents([
      start,
      begin(0, { type: "compaction", content: null }),
      delta(0, "compaction_delta", { content: "In short, …" }),
      stop(0),
      ...end("end_turn")
    ])
    assert.deepStrictEqual(response?.content[0], {
      _tag: "reasoning",
      text: "",
      provider,
      payload: { type: "compaction", content: "In short, …" }
    })
  })

  it("counts cache reads and writes as input", () => {
    const { response } = readEvents([
      { type: "message_start", message: { usage: { input_tokens: 3, cache_read_input_tokens: 10 } } },
      ...end("end_turn", {
        cache_creation_input_tokens: 20,
        output_tokens: 5,
        output_tokens_details: { thinking_tokens: 4 }
      })
    ])
    assert.deepStrictEqual(response?.usage, {
      inputTokens: 33,
      cachedInputTokens: 10,
      cacheWriteTokens: 20,
      outputTokens: 5,
      reasoningTokens: 4
    })
  })

  it("counts all iterations of a compacted request", () => {
    const { response } = readEvents([
      start,
      ...end("end_turn", {
        input_tokens: 181,
        output_tokens: 8,
        iterations: [
          { type: "compaction", input_tokens: 100, cache_read_input_tokens: 50, output_tokens: 83 },
          { type: "message", input_tokens: 181, output_tokens: 8 }
        ]
      })
    ])
    assert.strictEqual(response?.usage.inputTokens, 331)
    assert.strictEqual(response?.usage.cachedInputTokens, 50)
    assert.strictEqual(response?.usage.outputTokens, 91)
  })

  it("reports the context size of its last message pass", () => {
    const pass = (type: string, input_tokens: number, more = {}) => ({
      type,
      input_tokens,
      output_tokens: 1,
      ...more
    })
    const sizeAfter = (...iterations: ReadonlyArray<object>) =>
      readEvents([start, ...end("end_turn", { input_tokens: 9, output_tokens: 9, iterations })]).response
        ?.lastInputTokens
    const compacted = pass("compaction", 150_000)
    assert.strictEqual(sizeAfter(compacted, pass("message", 181, { cache_read_input_tokens: 20 })), 201)
    assert.strictEqual(
      sizeAfter(pass("message", 4000), pass("message", 5000), pass("advisor_message", 7)),
      5000
    )
    assert.strictEqual(sizeAfter(pass("message", 180_000), compacted), 180_000)
    assert.isUndefined(sizeAfter(pass("message", 9)))
    assert.isUndefined(sizeAfter())
  })

  it("counts the tokens of the provider's other models, and prices them by their own rates", () => {
    const usage = {
      input_tokens: 100,
      output_tokens: 10,
      iterations: [
        { type: "message", input_tokens: 40, output_tokens: 4 },
        { type: "advisor_message", model: "wise", input_tokens: 1000, output_tokens: 500 },
        { type: "message", input_tokens: 60, output_tokens: 6 },
        { type: "compaction", model: profile.model, input_tokens: 200, output_tokens: 20 }
      ]
    }
    const cost = (models?: ModelProfile["prices"]) => {
      const priced = { ...profile, prices: { input: 1, output: 2, ...models } }
      const reader = makeAnswerReader(messages, priced, "application/json")
      reader.feed(bytesOf(JSON.stringify({ content: [], stop_reason: "end_turn", usage })))
      reader.end()
      assert.deepInclude(reader.whole()?.usage, { inputTokens: 1300, outputTokens: 530 })
      return reader.whole()?.usage.costUsd
    }
    assert.isUndefined(cost())
    const rates = { wise: { input: 10, output: 20 } }
    const own = { model: profile.model, input: 300, output: 30 }
    const all = { ...rates, [own.model]: { input: 1000, output: 1000 } }
    const expected = own.input + 2 * own.output + 10_000 + 10_000
    assert.closeTo(cost({ input: 1, output: 2, models: all })! * 1e6, expected, 1e-6)
  })

  it("may repeat its start, but not after a block", () => {
    const { error } = readEvents([start, begin(0, { type: "text", text: "" }), start])
    assert.strictEqual(error?.reason._tag, "InvalidResponse")
    assert.isUndefined(readEvents([start, start, ...end("end_turn")]).error)
  })

  it("may omit block ends, indexes and the start", () => {
    for (const name of ["code-execution", "thinking", "tool-no-args", "text"]) {
      const recorded = fixture("messages", name)
      const events = eventsOf(recorded.text)
      const open = events.filter(({ type }) => type !== "content_block_stop")
      assertExpected(recorded, readEvents(open).response)
      assertExpected(recorded, readEvents(open.map((event) => ({ ...event, index: undefined }))).response)
    }
    const { response } = readEvents([begin(0, { type: "text", text: "Hi" }), ...end("end_turn")])
    assert.strictEqual(response && summaryOf(response).text, "Hi")
  })

  it.each([
    { type: "overloaded_error", message: "Overloaded", reason: "ProviderFault", again: true },
    { type: "api_error", message: "Oops", reason: "ProviderFault", again: true },
    { type: "rate_limit_error", message: "Slowly.", reason: "RateLimited", again: true },
    { type: "invalid_request_error", message: "No.", reason: "InvalidRequest", again: false },
    {
      type: "invalid_request_error",
      message: "prompt is too long: 210000 tokens > 200000 maximum",
      reason: "ContextOverflow",
      again: false
    },
    {
      type: "invalid_request_error",
      message: "Your credit balance is too low to access the API.",
      reason: "QuotaExhausted",
      again: false
    },
    { type: "authentication_error", message: "invalid x-api-key", reason: "NotAuthorized", again: false }
  ])("fails with $reason for $type, at any place", ({ again, message, reason, type }) => {
    const error = { type: "error", error: { type, message }, request_id: "req_1" }
    for (const before of [[], [start], [start, begin(0, { type: "text", text: "so far" })]]) {
      const { error: failure } = readEvents([...before, error])
      assert.strictEqual(failure?.reason._tag, reason)
      assert.strictEqual(failure?.isRetryable, again)
      assert.strictEqual(failure?.requestId, "req_1")
      assert.include(failure?.reason.description, message)
    }
    const result = messages.decode(error, profile)
    assert.strictEqual<unknown>(Result.isFailure(result) && result.failure.reason._tag, reason)
  })

  it("fails with an error event that only its name marks", () => {
    const text = 'event: error\ndata: {"error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    const { error } = read(messages.decoder(profile), [bytesOf(text)])
    assert.strictEqual(error?.reason._tag, "ProviderFault")
  })
})
