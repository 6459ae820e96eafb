import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import type { AnsweredPart } from "../../src/domain/RunEvent.ts"
import { responses } from "../../src/model/internal/openai/responses.ts"
import { providerOf } from "../../src/model/internal/protocol.ts"
import type { Compatibility, ModelProfile } from "../../src/model/ModelProfile.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import { fixture, read } from "./Fixtures.ts"
import { answer, call, requestOf, result, tool, user } from "./Histories.ts"

const profile: ModelProfile = {
  name: "test",
  protocol: "responses",
  baseUrl: "https://api.openai.com/v1",
  model: "gpt-5.5"
}
const provider = providerOf(profile)
const encode = (request: ModelRequest, more: Partial<ModelProfile> = {}): any =>
  responses.encode(request, { ...profile, ...more }, true)
const inputOf = (messages: Parameters<typeof requestOf>[0], more: Partial<ModelProfile> = {}): Array<any> =>
  encode(requestOf(messages), more).input

/** The content of a recording. */
const contentOf = (name: string): ReadonlyArray<AnsweredPart> => {
  const recorded = fixture("responses", name)
  const content = recorded.stream
    ? read(responses.decoder(profile), [recorded.bytes]).response?.content
    : Result.getOrThrow(responses.decode(JSON.parse(recorded.text), profile)).content
  return content ?? assert.fail(`${name} is no answer`)
}

describe("a request to /responses", () => {
  it("equals a recorded one", () => {
    const { request } = fixture("responses", "openai-tool-call")
    const recorded = request as any
    const body = encode(
      requestOf([user(recorded.input[0].content)], {
        tools: [
          {
            name: recorded.tools[0].name,
            description: recorded.tools[0].description,
            parameters: recorded.tools[0].parameters
          }
        ],
        ...(recorded.reasoning === undefined
          ? {}
          : { settings: { reasoningEffort: recorded.reasoning.effort } }),
        instructions: recorded.instructions ?? ""
      }),
      { model: recorded.model }
    )
    for (const [field, value] of Object.entries<any>(recorded)) {
      if (field === "tools") {
        assert.deepStrictEqual(body.tools, [{ ...value[0], strict: value[0].strict ?? false }])
      } else assert.deepStrictEqual(body[field], value, field)
    }
  })

  it.each<{ readonly says: string; readonly more: Partial<ModelRequest>; readonly fields: object }>([
    { says: "instructions", more: { instructions: "Be kind." }, fields: { instructions: "Be kind." } },
    { says: "no empty instructions", more: {}, fields: { instructions: undefined, tools: undefined } },
    { says: "store: false", more: {}, fields: { store: false } },
    {
      says: "the request for encrypted reasoning",
      more: {},
      fields: { include: ["reasoning.encrypted_content"] }
    },
    {
      says: "settings",
      more: { settings: { temperature: 0.5, topP: 0.9, maxOutputTokens: 100, reasoningEffort: "none" } },
      fields: { temperature: 0.5, top_p: 0.9, max_output_tokens: 100, reasoning: { effort: "none" } }
    },
    {
      says: "no unsupported settings",
      more: { settings: { stop: ["x"], seed: 1 } },
      fields: { stop: undefined, seed: undefined }
    },
    {
      says: "flat tools that are not strict",
      more: { tools: [tool] },
      fields: { tools: [{ type: "function", ...tool, strict: false }] }
    },
    {
      says: "the chosen tool",
      more: { tools: [tool], settings: { toolChoice: { tool: "read" }, parallelToolCalls: false } },
      fields: { tool_choice: { type: "function", name: "read" }, parallel_tool_calls: false }
    },
    {
      says: "the obligation to call a tool",
      more: { tools: [tool], settings: { toolChoice: "required" } },
      fields: { tool_choice: "required" }
    },
    {
      says: "no tool settings without tools",
      more: { settings: { toolChoice: "required", parallelToolCalls: false } },
      fields: { tool_choice: undefined, parallel_tool_calls: undefined }
    },
    {
      says: "the output schema",
      more: { output: { name: "the answer", schema: tool.parameters } },
      fields: {
        text: {
          format: { type: "json_schema", name: "the_answer", schema: tool.parameters, strict: false }
        }
      }
    },
    {
      says: "extra settings last",
      more: { settings: { temperature: 1, extra: { temperature: 2, service_tier: "flex" } } },
      fields: { temperature: 2, service_tier: "flex" }
    }
  ])("contains $says", ({ fields, more }) => {
    const body = encode(requestOf([user("hi")], more))
    for (const [field, value] of Object.entries(fields)) assert.deepStrictEqual(body[field], value, field)
  })

  it.each<{
    readonly server: string
    readonly compatibility: Compatibility
    readonly field: string
    readonly value: unknown
  }>([
    {
      server: "takes no bound on output",
      compatibility: { maxOutputTokens: false },
      field: "max_output_tokens",
      value: undefined
    },
    { server: "stores responses", compatibility: { store: true }, field: "include", value: undefined },
    {
      server: "knows no parallel calls",
      compatibility: { parallelToolCalls: false },
      field: "parallel_tool_calls",
      value: undefined
    },
    {
      server: "knows no effort",
      compatibility: { reasoningEffort: false },
      field: "reasoning",
      value: undefined
    },
    {
      server: "knows JSON but no schemas",
      compatibility: { structuredOutput: "jsonObject" },
      field: "text",
      value: { format: { type: "json_object" } }
    },
    {
      server: "knows no structured output",
      compatibility: { structuredOutput: "none" },
      field: "text",
      value: undefined
    }
  ])("suits a server that $server", ({ compatibility, field, value }) => {
    const body = encode(
      requestOf([user("hi")], {
        tools: [tool],
        output: { name: "o", schema: tool.parameters },
        settings: { maxOutputTokens: 9, parallelToolCalls: true, reasoningEffort: "low" }
      }),
      { compatibility }
    )
    assert.deepStrictEqual(body[field], value)
    const inWords = compatibility.structuredOutput !== undefined
    assert.strictEqual(JSON.stringify(body.instructions ?? "").includes("JSON Schema"), inWords)
  })

  it("marks as strict only schemas that strict mode accepts", () => {
    const closed = { ...tool.parameters, additionalProperties: false }
    const body = encode(
      requestOf([user("hi")], {
        tools: [tool, { ...tool, name: "closed", parameters: closed }],
        output: { name: "o", schema: closed }
      }),
      { compatibility: { strict: true } }
    )
    assert.deepStrictEqual(
      body.tools.map(({ strict }: any) => strict),
      [false, true]
    )
    assert.isTrue(body.text.format.strict)
  })

  it("bounds max_output_tokens by the model's maxOutputTokens", () => {
    const settings = { maxOutputTokens: 5000 }
    assert.strictEqual(encode(requestOf([], { settings }), { maxOutputTokens: 4000 }).max_output_tokens, 4000)
  })

  it.each([
    { model: "gpt-4o", asks: false },
    { model: "openai/gpt-4.1-mini", asks: false },
    { model: "gpt-5-chat-latest", asks: false },
    { model: "gpt-5.1-codex-max", asks: true },
    { model: "o3", asks: true },
    { model: "deepseek-v4-flash", asks: true },
    { model: "openai.gpt-oss-120b", asks: true }
  ])("requests encrypted reasoning of $model: $asks", ({ asks, model }) => {
    assert.strictEqual(encode(requestOf([]), { model }).include !== undefined, asks)
  })

  it("contains images and files", () => {
    const bytes = { _tag: "bytes", base64: "aGk=" } as const
    const [{ content }] = inputOf([
      user([
        { _tag: "text", text: "Look:" },
        { _tag: "file", mediaType: "image/png", source: bytes },
        { _tag: "file", mediaType: "image/png", source: { _tag: "url", url: "https://x.example/a.png" } },
        { _tag: "file", mediaType: "application/pdf", name: "a.pdf", source: bytes },
        { _tag: "file", mediaType: "application/pdf", source: { _tag: "url", url: "https://x.example/a" } },
        { _tag: "file", mediaType: "text/plain", name: "a.txt", source: bytes },
        { _tag: "file", mediaType: "image/png", source: { _tag: "reference", id: "file_1", provider } },
        {
          _tag: "file",
          mediaType: "image/png",
          source: { _tag: "reference", id: "file_1", provider: "another" }
        },
        { _tag: "file", mediaType: "application/octet-stream", name: "a.bin", source: bytes }
      ])
    ])
    assert.deepStrictEqual(content, [
      { type: "input_text", text: "Look:" },
      { type: "input_image", image_url: "data:image/png;base64,aGk=", detail: "auto" },
      { type: "input_image", image_url: "https://x.example/a.png", detail: "auto" },
      { type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,aGk=" },
      { type: "input_file", file_url: "https://x.example/a" },
      { type: "input_text", text: "a.txt:\nhi" },
      { type: "input_image", file_id: "file_1", detail: "auto" },
      { type: "input_text", text: "[image/png: not available to this model]" },
      { type: "input_text", text: "[a.bin: not available to this model]" }
    ])
  })

  it("says in words which files have no place in the protocol", () => {
    const bytes = { _tag: "bytes", base64: "aGk=" } as const
    const url = { _tag: "url", url: "https://x.example/a" } as const
    const office = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    const contentOf = (mediaType: string, source: typeof bytes | typeof url) =>
      inputOf([user([{ _tag: "file", mediaType, name: "a", source }])])[0].content
    for (const mediaType of ["application/zip", "audio/wav", "video/mp4"]) {
      assert.strictEqual(contentOf(mediaType, bytes), "[a: not available to this model]")
      assert.strictEqual(contentOf(mediaType, url), "[a: https://x.example/a]")
    }
    for (const mediaType of ["application/pdf", office, "text/csv"]) {
      assert.deepStrictEqual(contentOf(mediaType, url), [{ type: "input_file", file_url: url.url }])
    }
  })

  it("contains a tool's images in its result", () => {
    const image = { _tag: "file", mediaType: "image/png", source: { _tag: "bytes", base64: "aGk=" } } as const
    const items = inputOf([user("hi"), answer(1, [call("a")]), result(1, 1, [image])])
    assert.deepStrictEqual(items.at(-1), {
      type: "function_call_output",
      call_id: "a",
      output: [{ type: "input_image", image_url: "data:image/png;base64,aGk=", detail: "auto" }]
    })
  })
})

describe("a history sent to /responses", () => {
  it("links each result to its call for any provider ids", () => {
    const long = "x".repeat(65)
    const items = inputOf([
      user("hi"),
      answer(1, [call("a"), call("a"), call(""), call("with blank"), call(long)]),
      ...[1, 2, 3, 4, 5].map((ordinal) => result(1, ordinal, `${ordinal}`)),
      answer(2, [call("a")]),
      result(2, 1, "6")
    ])
    const calls = items.filter(({ type }) => type === "function_call").map(({ call_id }) => call_id)
    const outputs = items.filter(({ type }) => type === "function_call_output").map(({ call_id }) => call_id)
    assert.deepStrictEqual(outputs, calls)
    assert.strictEqual(new Set(calls).size, 6)
    assert.strictEqual(calls[0], "a")
    for (const id of calls) assert.match(id, /^[a-zA-Z0-9_-]{1,64}$/)
  })

  it("has a stable beginning when it grows", () => {
    const before = [user("hi"), answer(1, [call("a"), call("a")]), result(1, 1, "1"), result(1, 2, "2")]
    const items = inputOf(before)
    assert.deepStrictEqual(
      inputOf([...before, answer(2, [call("a")]), result(2, 1, "3")]).slice(0, items.length),
      items
    )
  })

  it("has valid names and object arguments for malformed calls", () => {
    const [, item] = inputOf([
      user("hi"),
      answer(1, [call("a", "no such tool!", '{"half": ')]),
      result(1, 1, "There is no such tool.", "failed")
    ])
    assert.deepStrictEqual(item, {
      type: "function_call",
      call_id: "a",
      name: "no_such_tool_",
      arguments: '{"malformed":"{\\"half\\": "}'
    })
  })

  it("has past answers as plain text, or with every field of an output message", () => {
    const said = answer(1, contentOf("openai-phase"))
    const { id, phase } = (said as any).content.find((part: any) => part._tag === "text").payload
    assert.match(id, /^msg_/)
    const past = (compatibility: Compatibility) =>
      encode(requestOf([user("hi"), said, user("go on")]), { compatibility }).input[1]
    const plain = past({})
    assert.strictEqual(typeof plain.content, "string")
    assert.deepStrictEqual(plain, { type: "message", role: "assistant", phase, content: plain.content })
    for (const compatibility of [{ itemIds: true }, { store: true }]) {
      assert.deepStrictEqual(past(compatibility), {
        ...plain,
        id,
        status: "completed",
        content: [{ type: "output_text", text: plain.content, annotations: [] }]
      })
    }
    assert.deepStrictEqual(past({ store: true, itemIds: false }), plain)
  })

  it("has encrypted reasoning before its call, without ids", () => {
    const items = inputOf([
      user("hi"),
      answer(1, contentOf("openai-encrypted-summary-1")),
      result(1, 1, "19"),
      answer(2, contentOf("openai-encrypted-summary-2")),
      result(2, 1, "57")
    ])
    assert.deepStrictEqual(
      items.map(({ type }) => type),
      [
        undefined,
        "reasoning",
        "function_call",
        "function_call_output",
        "function_call",
        "function_call_output"
      ]
    )
    const [, reasoning, first] = items
    const [recorded] = fixture("responses", "openai-encrypted-summary-1")
      .text.split("\n")
      .filter((line) => line.startsWith("data: {"))
      .map((line) => JSON.parse(line.slice(6)))
      .filter(({ item, type }) => type === "response.output_item.done" && item.type === "reasoning")
    assert.isAbove(reasoning.encrypted_content.length, 100)
    assert.strictEqual(reasoning.encrypted_content, recorded.item.encrypted_content)
    assert.deepStrictEqual(reasoning.summary, recorded.item.summary)
    for (const item of items) assert.notProperty(item, "id")
    assert.strictEqual(first.call_id, "call_AB6AaRZ1FYZB2RwS6A5vbdqn")
  })

  it("equals the history that a recorded client sent", () => {
    const { request } = fixture("responses", "json-interleaved-reasoning-3")
    const recorded = (request as any).input as ReadonlyArray<any>
    const outputs = recorded.filter(({ type }) => type === "function_call_output")
    const items = inputOf([
      user(recorded[0].content),
      answer(1, contentOf("json-interleaved-reasoning-1")),
      result(1, 1, outputs[0].output),
      answer(2, contentOf("json-interleaved-reasoning-2")),
      result(2, 1, outputs[1].output)
    ])
    assert.strictEqual(items.length, recorded.length)
    for (const [index, { id: _, arguments: text, ...item }] of recorded.entries()) {
      const { arguments: sent, ...rest } = items[index]
      assert.deepStrictEqual(rest, item)
      if (text !== undefined) assert.deepStrictEqual(JSON.parse(sent), JSON.parse(text))
    }
  })

  it("has raw reasoning unchanged", () => {
    const [, reasoning] = inputOf([
      user("hi"),
      answer(1, contentOf("deepseek-raw-reasoning-tool")),
      result(1, 1, "20")
    ])
    assert.deepStrictEqual(reasoning, {
      type: "reasoning",
      summary: [],
      content: [
        {
          type: "reasoning_text",
          text: "The user asks about temperature in Tokyo. I'll call the tool."
        }
      ]
    })
  })

  it("always has a summary in reasoning", () => {
    const payload = { type: "reasoning", encrypted_content: "secret" }
    const [, reasoning] = inputOf([
      user("hi"),
      answer(1, [
        { _tag: "reasoning", text: "", provider, payload },
        { _tag: "text", text: "yes", provider, payload: { type: "message" } }
      ])
    ])
    assert.deepStrictEqual(reasoning, { ...payload, summary: [] })
  })

  it("has the phase of a text, and searches in their place", () => {
    const items = inputOf([user("hi"), answer(1, contentOf("openai-phase"))])
    const said = items.filter(({ type }) => type === "message")
    assert.deepStrictEqual(
      said.map(({ phase }) => phase),
      ["commentary", "final_answer"]
    )
    const searched = inputOf([user("hi"), answer(1, contentOf("openai-annotations"))])
    assert.deepStrictEqual(
      searched.map(({ type }) => type),
      [undefined, "web_search_call", "web_search_call", "message"]
    )
  })

  it("has ids when the provider stores responses", () => {
    const stored = { compatibility: { store: true } }
    const items = inputOf(
      [user("hi"), answer(1, contentOf("openai-encrypted-summary-1")), result(1, 1, "19")],
      stored
    )
    assert.match(items[1].id, /^rs_/)
    assert.match(items[2].id, /^fc_/)
    const [, message] = inputOf([user("hi"), answer(1, contentOf("openai-text"))], stored)
    assert.match(message.id, /^msg_/)
  })

  it("has no provider payloads for another provider, model or server", () => {
    for (const another of [
      { model: "gpt-5.4" },
      { baseUrl: "https://proxy.example/v1" },
      { protocol: "chat" as const }
    ]) {
      const items = inputOf(
        [
          user("hi"),
          answer(1, contentOf("openai-encrypted-summary-1")),
          result(1, 1, "19"),
          answer(2, contentOf("openai-annotations"))
        ],
        another
      )
      assert.deepStrictEqual(
        items.map(({ type }) => type),
        [undefined, "function_call", "function_call_output", "message"]
      )
      assert.deepStrictEqual(Object.keys(items[1]).sort(), ["arguments", "call_id", "name", "type"])
      assert.notInclude(JSON.stringify(items), "gAAAA")
    }
  })

  it("has no reasoning in a turn with an edited call", () => {
    const content = contentOf("openai-encrypted-summary-1").map((part): AnsweredPart =>
      part._tag === "toolCall" ? call(part.providerCallId, part.name, '{"a":1}') : part
    )
    const items = inputOf([user("hi"), answer(1, content), result(1, 1, "19")])
    assert.deepStrictEqual(
      items.map(({ type }) => type),
      [undefined, "function_call", "function_call_output"]
    )
    assert.strictEqual(items[1].arguments, '{"a":1}')
  })

  it("has no trailing reasoning", () => {
    const reasoning = contentOf("openai-encrypted-summary-1").slice(0, 1)
    assert.strictEqual(reasoning[0]?._tag, "reasoning")
    assert.strictEqual(inputOf([user("hi"), answer(1, reasoning)]).length, 1)
  })

  it("has no item that a run cannot answer, nor the reasoning before it", () => {
    for (const name of ["openai-custom-tool", "openai-mcp-approval"]) {
      assert.strictEqual(inputOf([user("hi"), answer(1, contentOf(name))]).length, 1, name)
    }
  })

  it("has no text between calls and their results", () => {
    const items = inputOf([
      user("hi"),
      answer(1, [{ _tag: "text", text: "one" }, call("a"), { _tag: "text", text: "two" }, call("b")]),
      result(1, 1, "1"),
      result(1, 2, "2")
    ])
    assert.deepStrictEqual(
      items.slice(1).map(({ type }) => type),
      ["message", "message", "function_call", "function_call", "function_call_output", "function_call_output"]
    )
  })
})
