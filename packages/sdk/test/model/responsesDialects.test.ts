import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { responses } from "../../src/model/internal/openai/responses.ts"
import type { ModelPart } from "../../src/model/ModelPart.ts"
import type { ModelProfile } from "../../src/model/ModelProfile.ts"
import { eventsOf } from "./DecoderSuite.ts"
import { assertExpected, bytesOf, fixture, read, summaryOf } from "./Fixtures.ts"

const profile: ModelProfile = {
  name: "test",
  protocol: "responses",
  baseUrl: "https://models.example/v1",
  model: "test"
}
const readEvents = (events: ReadonlyArray<unknown>) =>
  read(responses.decoder(profile), [
    bytesOf(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""))
  ])

const text = (delta: string, place: object = { output_index: 0, content_index: 0 }) => ({
  type: "response.output_text.delta",
  delta,
  ...place
})
const completed = (response: object = {}) => ({
  type: "response.completed",
  response: { status: "completed", output: [], ...response }
})
const message = (said: string, more: object = {}) => ({
  type: "message",
  role: "assistant",
  content: [{ type: "output_text", text: said }],
  ...more
})
const called = (id: string, more: object = {}) => ({
  type: "function_call",
  call_id: id,
  name: "read",
  arguments: "{}",
  ...more
})
const done = (output_index: number, item: object) => ({
  type: "response.output_item.done",
  output_index,
  item
})
const added = (output_index: number, item: object) => ({
  ...done(output_index, item),
  type: "response.output_item.added"
})

const textsOf = (parts: ReadonlyArray<ModelPart>) =>
  parts.flatMap((part) => (part._tag === "text-delta" || part._tag === "reasoning-delta" ? [part.delta] : []))

describe("a server with its own dialect of /responses", () => {
  it("may end with an empty response, as Codex does", () => {
    for (const name of ["openai-encrypted-summary-1", "openai-phase", "lmstudio-tool-call"]) {
      const recorded = fixture("responses", name)
      const events = eventsOf(recorded.text)
      const { output: _, ...last } = events.at(-1).response
      for (const type of ["response.completed", "response.done"]) {
        const response = readEvents([
          ...events.slice(0, -1),
          { type, response: { ...last, output: [] } }
        ]).response
        assertExpected(recorded, response)
      }
    }
  })

  it.each([
    { leaves: "sequence numbers", without: (event: any) => ({ ...event, sequence_number: undefined }) },
    { leaves: "the numbers of items", without: (event: any) => ({ ...event, output_index: undefined }) },
    {
      leaves: "the numbers and ids of items",
      without: (event: any) => ({ ...event, item_id: undefined, output_index: undefined })
    },
    {
      leaves: "the ends of items",
      without: (event: any) => (event.type.endsWith("item.done") ? undefined : event)
    },
    {
      leaves: "the beginnings of items",
      without: (event: any) => (event.type.endsWith("item.added") ? undefined : event)
    },
    { leaves: "all deltas", without: (event: any) => (event.type.endsWith("delta") ? undefined : event) },
    {
      leaves: "everything but the deltas and the final response",
      without: (event: any) => (/delta$|completed$/.test(event.type) ? event : undefined)
    },
    {
      leaves: "everything but the final response",
      without: (event: any) => (event.type.endsWith("completed") ? event : undefined)
    }
  ])("may omit $leaves", ({ without }) => {
    for (const name of [
      "lmstudio-tool-call",
      "deepseek-raw-reasoning-tool",
      "openai-encrypted-summary-1",
      "copilot-id-rotation"
    ]) {
      const recorded = fixture("responses", name)
      const events = eventsOf(recorded.text)
        .map(without)
        .filter((event) => event !== undefined)
      assertExpected(recorded, readEvents(events).response)
    }
  })

  it("may give all items the same index", () => {
    for (const name of ["lmstudio-tool-call", "openai-encrypted-summary-1", "openai-phase"]) {
      const recorded = fixture("responses", name)
      const events = eventsOf(recorded.text).map((event) =>
        event.output_index === undefined ? event : { ...event, output_index: 0 }
      )
      assertExpected(recorded, readEvents(events).response)
    }
  })

  it("may send only deltas and an end", () => {
    const { response } = readEvents([text("Hel", {}), text("lo", {}), { type: "response.completed" }])
    assert.strictEqual(response && summaryOf(response).text, "Hello")
  })

  it("may interleave two items, which are emitted in sequence", () => {
    const { parts } = readEvents([
      text("a1", { output_index: 0 }),
      text("b1", { output_index: 1 }),
      text("a2", { output_index: 0 }),
      done(1, message("b1b2")),
      done(0, message("a1a2")),
      completed()
    ])
    assert.deepStrictEqual(textsOf(parts), ["a1", "a2", "b1b2"])
  })

  const call = (id: string, number: number, more: object = {}) => ({
    ...called(`call_${number}`, { arguments: `{"n":${number}}` }),
    id,
    ...more
  })
  const begun = (id: string, number: number) => call(id, number, { arguments: "" })
  const args = (type: "delta" | "done", output_index: number | undefined, item_id: string, text: string) => ({
    type: `response.function_call_arguments.${type}`,
    output_index,
    item_id,
    [type === "delta" ? "delta" : "arguments"]: text
  })
  /** The events of a call. */
  const told = (index: any, id: string, number: number, endId = id) => [
    added(index, begun(id, number)),
    args("delta", index, id, `{"n":${number}}`),
    args("done", index, id, `{"n":${number}}`),
    done(index, call(endId, number))
  ]
  const none = undefined as unknown as number

  it.each<{ readonly how: string; readonly events: ReadonlyArray<object> }>([
    { how: "its end twice", events: [done(0, call("fc_1", 1)), done(0, call("fc_1", 1))] },
    {
      how: "its end twice, the next call being open",
      events: [
        added(0, begun("fc_1", 1)),
        added(1, begun("fc_2", 2)),
        done(0, call("fc_1", 1)),
        done(0, call("fc_1", 1)),
        done(1, call("fc_2", 2))
      ]
    },
    {
      how: "its end at another place",
      events: [added(0, begun("fc_1", 1)), args("done", 0, "fc_1", '{"n":1}'), done(1, call("fc_1", 1))]
    },
    {
      how: "its end at another place, and no beginning",
      events: [args("done", 0, "fc_1", '{"n":1}'), done(1, call("fc_1", 1))]
    },
    { how: "all of it twice", events: [...told(0, "fc_1", 1), ...told(0, "fc_1", 1)] },
    { how: "all of it twice without a number", events: [...told(none, "fc_1", 1), ...told(none, "fc_1", 1)] },
    {
      how: "all of it twice without a number or an id",
      events: [...told(none, "", 1), ...told(none, "", 1)]
    },
    { how: "all of it twice with other ids", events: [...told(0, "a", 1, "b"), ...told(0, "c", 1, "d")] },
    {
      how: "all calls twice",
      events: [1, 2, 1, 2].flatMap((number) => told(number, `fc_${number}`, number))
    }
  ])("produces a call once when it sends $how", ({ events }) => {
    const numbers = events.some((event) => JSON.stringify(event).includes("call_2")) ? [1, 2] : [1]
    for (const output of [[], numbers.map((number) => call(`fc_${number}`, number))]) {
      const { response } = readEvents([...events, completed({ output })])
      assert.deepStrictEqual(
        response && summaryOf(response).toolCalls.map(({ id, arguments: text }) => `${id}${text}`),
        numbers.map((number) => `call_${number}{"n":${number}}`)
      )
    }
  })

  it("may send different calls with one item id, and equal calls with different call ids", () => {
    const { response } = readEvents([
      ...told(0, "fc", 1),
      ...told(1, "fc", 2),
      done(2, call("x", 3, { arguments: "{}" })),
      done(3, call("y", 4, { arguments: "{}" })),
      completed()
    ])
    assert.deepStrictEqual(
      response && summaryOf(response).toolCalls.map(({ id, arguments: text }) => `${id}${text}`),
      ['call_1{"n":1}', 'call_2{"n":2}', "call_3{}", "call_4{}"]
    )
  })

  it("may complete a text with lost deltas", () => {
    const { response } = readEvents([text("a"), text("c"), done(0, message("abc")), completed()])
    assert.strictEqual(response && summaryOf(response).text, "abc")
    const shorter = readEvents([
      text("a"),
      { type: "response.output_text.done", output_index: 0, content_index: 0, text: "abc" },
      completed()
    ])
    assert.strictEqual(shorter.response && summaryOf(shorter.response).text, "abc")
  })

  it("may send reasoning raw and as a summary: the raw text counts", () => {
    const item = {
      type: "reasoning",
      summary: [{ type: "summary_text", text: "In short." }],
      content: [{ type: "reasoning_text", text: "At length." }]
    }
    const { response } = readEvents([
      added(0, { type: "reasoning" }),
      {
        type: "response.reasoning_summary_text.delta",
        output_index: 0,
        summary_index: 0,
        delta: "In short."
      },
      { type: "response.reasoning_text.delta", output_index: 0, content_index: 0, delta: "At length." },
      done(0, item),
      completed()
    ])
    assert.deepStrictEqual(response?.content, [
      {
        _tag: "reasoning",
        text: "At length.",
        provider: "responses@models.example/test",
        payload: item
      }
    ])
  })

  it("may refuse, which finishes as contentFilter", () => {
    const { response } = readEvents([
      { type: "response.refusal.delta", output_index: 0, content_index: 0, delta: "I will " },
      { type: "response.refusal.delta", output_index: 0, content_index: 0, delta: "not." },
      done(0, { type: "message", content: [{ type: "refusal", refusal: "I will not." }] }),
      completed()
    ])
    assert.strictEqual(response?.finishReason, "contentFilter")
    assert.strictEqual(response && summaryOf(response).text, "I will not.")
  })

  it("may return an image", () => {
    const { response } = readEvents([
      done(0, { type: "image_generation_call", result: "aGk=", output_format: "webp" }),
      completed()
    ])
    assert.deepStrictEqual(response?.content, [
      { _tag: "file", mediaType: "image/webp", source: { _tag: "bytes", base64: "aGk=" } }
    ])
  })

  it("may report the cost", () => {
    assert.strictEqual(readEvents([completed({ usage: { cost: 0.25 } })]).response?.usage.costUsd, 0.25)
    assert.strictEqual(
      readEvents([completed({ usage: { cost_in_usd_ticks: 5e9 } })]).response?.usage.costUsd,
      0.5
    )
  })
})

describe("an incomplete answer of /responses", () => {
  it.each([
    { details: { reason: "max_output_tokens" }, finishReason: "length" },
    { details: { reason: "content_filter" }, finishReason: "contentFilter" },
    { details: { reason: "something new" }, finishReason: "other" },
    { details: null, finishReason: "other" }
  ])("finishes as $finishReason when it is incomplete because of $details", ({ details, finishReason }) => {
    for (const type of ["response.incomplete", "response.done"]) {
      const response = { status: "incomplete", incomplete_details: details, output: [message("so far")] }
      const answer = readEvents([text("so "), { type, response }]).response
      assert.strictEqual(answer?.finishReason, finishReason)
      assert.strictEqual(answer && summaryOf(answer).text, "so far")
    }
  })

  it("fails without a retry when it reached its limit in a call", () => {
    const incomplete = (output: ReadonlyArray<object>) => ({
      type: "response.incomplete",
      response: { status: "incomplete", incomplete_details: { reason: "max_output_tokens" }, output }
    })
    for (const item of [
      called("a", { status: "incomplete", arguments: '{"x":' }),
      called("a", { arguments: "" })
    ]) {
      const { error, parts } = readEvents([added(0, item), incomplete([item])])
      assert.strictEqual(error?.reason._tag, "InvalidResponse")
      assert.isFalse(error?.isRetryable)
      assert.include(error?.message, "read: raise maxOutputTokens")
      assert.isEmpty(parts.filter(({ _tag }) => _tag === "tool-call"))
    }
  })

  it("drops its calls when a filter ended it", () => {
    const { parts, response } = readEvents([
      done(0, called("a")),
      {
        type: "response.incomplete",
        response: { status: "incomplete", incomplete_details: { reason: "content_filter" }, output: [] }
      }
    ])
    assert.strictEqual(response?.finishReason, "contentFilter")
    assert.isEmpty(parts.filter(({ _tag }) => _tag === "tool-call"))
  })

  it.each(['{"half', "[1]", '"text"'])(
    "keeps the text of a call's arguments that are not an object: %s",
    (text) => {
      const { error, parts } = readEvents([done(0, called("a", { arguments: text })), completed()])
      assert.isUndefined(error)
      assert.deepStrictEqual(
        parts.flatMap((part) => (part._tag === "tool-call" ? [part.arguments] : [])),
        [text]
      )
    }
  )

  it.each([{ item: called("a", { name: "" }) }, { item: called("a", { status: "incomplete" }) }])(
    "fails with an unusable call: $item",
    ({ item }) => {
      const { error, parts } = readEvents([done(0, item), completed()])
      assert.strictEqual(error?.reason._tag, "InvalidResponse")
      assert.isEmpty(parts.filter(({ _tag }) => _tag === "tool-call"))
    }
  )

  it.each([
    { status: "queued", reason: "InvalidRequest" },
    { status: "in_progress", reason: "InvalidRequest" },
    { status: "cancelled", reason: "ProviderFault" },
    { status: "something new", reason: "ProviderFault" }
  ])("fails with $reason when it is $status", ({ reason, status }) => {
    const body = { id: "resp_1", object: "response", status, output: [] }
    const result = responses.decode(body, profile)
    assert.strictEqual<unknown>(Result.isFailure(result) && result.failure.reason._tag, reason)
    assert.strictEqual(readEvents([{ type: "response.done", response: body }]).error?.reason._tag, reason)
    if (reason === "InvalidRequest") {
      assert.include(Result.isFailure(result) && result.failure.message, `(resp_1, ${status})`)
    }
  })

  it.each([
    { error: { code: "insufficient_quota", message: "No quota." }, reason: "QuotaExhausted" },
    { error: { code: "usage_limit_reached", message: "Later." }, reason: "QuotaExhausted" },
    { error: { code: "context_length_exceeded", message: "Too long." }, reason: "ContextOverflow" },
    { error: { code: "rate_limit_exceeded", message: "Please try again in 1.3s." }, reason: "RateLimited" },
    { error: { code: "server_error", message: "Oops." }, reason: "ProviderFault" },
    { error: { code: "invalid_prompt", message: "No." }, reason: "InvalidRequest" },
    { error: null, reason: "ProviderFault" }
  ])("fails with $reason for $error, in each shape", ({ error, reason }) => {
    const failed = { status: "failed", error, output: [] }
    const shapes = [
      { type: "response.failed", response: failed },
      ...(error === null ? [] : [{ type: "error", error }, { ...error, type: "error" }, { error }])
    ]
    for (const shape of shapes) {
      assert.strictEqual(
        readEvents([text("so far"), shape]).error?.reason._tag,
        reason,
        JSON.stringify(shape)
      )
    }
    const result = responses.decode(failed, profile)
    assert.strictEqual<unknown>(Result.isFailure(result) && result.failure.reason._tag, reason)
  })
})
