import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import type { AnsweredPart } from "../../src/domain/RunEvent.ts"
import { messages } from "../../src/model/internal/anthropic/messages.ts"
import { providerOf } from "../../src/model/internal/protocol.ts"
import type { Compatibility, ModelProfile } from "../../src/model/ModelProfile.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import { fixture, read } from "./Fixtures.ts"
import { answer, call, requestOf, result, tool, user } from "./Histories.ts"

const profile: ModelProfile = {
  name: "test",
  protocol: "messages",
  baseUrl: "https://api.anthropic.com/v1",
  model: "claude-sonnet-4-5",
  // The marks for the provider's cache have tests of their own.
  compatibility: { cacheControl: false }
}
const provider = providerOf(profile)
const encode = (request: ModelRequest, more: Partial<ModelProfile> = {}): any =>
  messages.encode(
    request,
    { ...profile, ...more, compatibility: { ...profile.compatibility, ...more.compatibility } },
    true
  )
const historyOf = (history: Parameters<typeof requestOf>[0], more: Partial<ModelProfile> = {}): Array<any> =>
  encode(requestOf(history), more).messages
const said = (text: string) => ({ type: "text", text })

/** The content of a recording. */
const contentOf = (name: string): ReadonlyArray<AnsweredPart> => {
  const recorded = fixture("messages", name)
  const content = recorded.stream
    ? read(messages.decoder(profile), [recorded.bytes]).response?.content
    : Result.getOrThrow(messages.decode(JSON.parse(recorded.text), profile)).content
  return content ?? assert.fail(`${name} is no answer`)
}

describe("a request to /v1/messages", () => {
  it("equals a recorded one", () => {
    const { request } = fixture("messages", "json-parallel-tools")
    const { system, tools, ...recorded } = request as any
    const body = messages.encode(
      requestOf([user(recorded.messages[0].content[0].text)], {
        instructions: system,
        tools: tools.map(({ description, input_schema: parameters, name }: any) => ({
          name,
          description,
          parameters
        })),
        settings: { toolChoice: "auto" }
      }),
      { ...profile, model: recorded.model, maxOutputTokens: recorded.max_tokens },
      false
    )
    assert.deepStrictEqual(body, { ...recorded, system, tools })
    assert.strictEqual(messages.headers["anthropic-version"], "2023-06-01")
  })

  it.each<{ readonly says: string; readonly more: Partial<ModelRequest>; readonly fields: object }>([
    { says: "instructions", more: { instructions: "Be kind." }, fields: { system: "Be kind." } },
    {
      says: "neither empty instructions nor absent tools",
      more: { settings: { toolChoice: "required", parallelToolCalls: false } },
      fields: { system: undefined, tools: undefined, tool_choice: undefined }
    },
    { says: "always max_tokens", more: {}, fields: { max_tokens: 8192 } },
    {
      says: "settings",
      more: { settings: { temperature: 0.5, topP: 0.9, maxOutputTokens: 100, stop: ["x"], seed: 1 } },
      fields: { temperature: 0.5, top_p: undefined, max_tokens: 100, stop_sequences: ["x"], seed: undefined }
    },
    {
      says: "the chosen tool",
      more: { tools: [tool], settings: { toolChoice: { tool: "read" }, parallelToolCalls: false } },
      fields: { tool_choice: { type: "tool", name: "read", disable_parallel_tool_use: true } }
    },
    {
      says: "the obligation to call a tool",
      more: { tools: [tool], settings: { toolChoice: "required" } },
      fields: { tool_choice: { type: "any" } }
    },
    {
      says: "the prohibition of calls",
      more: { tools: [tool], settings: { toolChoice: "none", parallelToolCalls: false } },
      fields: { tool_choice: { type: "none" } }
    },
    {
      says: "the restriction to one call at a time",
      more: { tools: [tool], settings: { parallelToolCalls: false } },
      fields: { tool_choice: { type: "auto", disable_parallel_tool_use: true } }
    },
    {
      says: "no tool choice by default",
      more: { tools: [tool], settings: { parallelToolCalls: true } },
      fields: { tool_choice: undefined }
    },
    {
      says: "extra settings last",
      more: { settings: { temperature: 1, extra: { temperature: 2, service_tier: "auto" } } },
      fields: { temperature: 2, service_tier: "auto" }
    }
  ])("contains $says", ({ fields, more }) => {
    const body = encode(requestOf([user("hi")], more))
    for (const [field, value] of Object.entries(fields)) assert.deepStrictEqual(body[field], value, field)
  })

  it("bounds max_tokens by the model's maxOutputTokens", () => {
    const settings = { maxOutputTokens: 5000 }
    assert.strictEqual(encode(requestOf([], { settings }), { maxOutputTokens: 4000 }).max_tokens, 4000)
    assert.strictEqual(encode(requestOf([]), { maxOutputTokens: 64_000 }).max_tokens, 64_000)
    assert.strictEqual(encode(requestOf([], { settings: { maxOutputTokens: 50_000 } })).max_tokens, 50_000)
  })

  it("declares removed tools of the history, and forbids calling them", () => {
    const body = encode(requestOf([user("hi"), answer(1, [call("a")]), result(1, 1, "1")]))
    assert.deepStrictEqual(body.tools, [
      { name: "read", description: "Not available any more.", input_schema: { type: "object" } }
    ])
    assert.deepStrictEqual(body.tool_choice, { type: "none" })
  })
})

describe("thinking with /v1/messages", () => {
  const thinkingOf = (
    model: string,
    settings: NonNullable<ModelRequest["settings"]>,
    history: Parameters<typeof requestOf>[0] = [user("hi")],
    compatibility: Compatibility = {}
  ) => {
    const { output_config, temperature, thinking } = encode(requestOf(history, { settings, tools: [tool] }), {
      model,
      compatibility
    })
    return { thinking, effort: output_config?.effort, temperature }
  }
  const enabled = (budget_tokens: number) => ({ type: "enabled", budget_tokens })

  it.each<{
    readonly model: string
    readonly effort: NonNullable<NonNullable<ModelRequest["settings"]>["reasoningEffort"]>
    readonly thinking: unknown
    readonly told?: string
  }>([
    { model: "claude-sonnet-4-5", effort: "medium", thinking: enabled(4096) },
    { model: "claude-sonnet-4-20250514", effort: "high", thinking: enabled(6553) },
    { model: "claude-sonnet-4-0", effort: "minimal", thinking: enabled(1024) },
    { model: "claude-opus-4-5-20251101", effort: "max", thinking: enabled(7782) },
    { model: "claude-3-7-sonnet-20250219", effort: "low", thinking: enabled(1638) },
    { model: "anthropic.claude-haiku-4-5-20251001-v1:0", effort: "none", thinking: undefined },
    { model: "claude-opus-4-6", effort: "medium", thinking: { type: "adaptive" }, told: "medium" },
    { model: "claude-opus-4-6", effort: "xhigh", thinking: { type: "adaptive" }, told: "high" },
    { model: "claude-opus-4-7", effort: "xhigh", thinking: { type: "adaptive" }, told: "xhigh" },
    { model: "claude-sonnet-4-6", effort: "minimal", thinking: { type: "adaptive" }, told: "low" },
    { model: "claude-fable-5", effort: "max", thinking: { type: "adaptive" }, told: "max" },
    { model: "claude-opus-4-6@20260101", effort: "none", thinking: { type: "disabled" } },
    { model: "MiniMax-M2", effort: "medium", thinking: enabled(4096) }
  ])("is configured for $model with effort $effort", ({ effort, model, thinking, told }) => {
    const asked = thinkingOf(model, { reasoningEffort: effort, temperature: 0.5 })
    assert.deepStrictEqual(asked.thinking, thinking)
    assert.strictEqual(asked.effort, told)
    const thinks = thinking !== undefined && (thinking as { type: string }).type !== "disabled"
    assert.strictEqual(asked.temperature, thinks ? undefined : 0.5)
  })

  it("has the lowest effort for a model that cannot do without", () => {
    for (const model of ["claude-opus-5-5", "anthropic/claude-sonnet-5.5", "claude-fable-5-1"]) {
      const { effort, thinking } = thinkingOf(model, { reasoningEffort: "none" })
      assert.deepStrictEqual([effort, thinking], ["low", undefined])
    }
    for (const model of ["claude-opus-5", "claude-haiku-5-5", "claude-sonnet-5"]) {
      assert.deepStrictEqual(thinkingOf(model, { reasoningEffort: "none" }).thinking, { type: "disabled" })
    }
  })

  it("is not requested without an effort, or for a server without effort", () => {
    assert.isUndefined(thinkingOf("claude-opus-4-6", {}).thinking)
    const { effort, temperature, thinking } = thinkingOf(
      "claude-opus-4-6",
      { reasoningEffort: "high", temperature: 1 },
      [user("hi")],
      { reasoningEffort: false }
    )
    assert.deepStrictEqual([effort, temperature, thinking], [undefined, 1, undefined])
  })

  it("is not requested where the provider would refuse it", () => {
    const high = { reasoningEffort: "high" } as const
    assert.isUndefined(thinkingOf("claude-sonnet-4-5", { ...high, toolChoice: "required" }).thinking)
    assert.isUndefined(thinkingOf("claude-opus-4-6", { ...high, toolChoice: { tool: "read" } }).thinking)
    assert.isUndefined(thinkingOf("claude-sonnet-4-5", { ...high, maxOutputTokens: 1024 }).thinking)
    const begun = [user("hi"), answer(1, [call("a")]), result(1, 1, "1")]
    assert.isUndefined(thinkingOf("claude-sonnet-4-5", high, begun).thinking)
    const ended = [...begun, answer(2, [{ _tag: "text", text: "One." }]), user("And?")]
    assert.isDefined(thinkingOf("claude-sonnet-4-5", high, ended).thinking)
    assert.isDefined(thinkingOf("claude-opus-4-6", high, begun).thinking)
    const payload = { type: "thinking", signature: "sig" }
    const thought: AnsweredPart = { _tag: "reasoning", text: "Hm.", provider, payload }
    const own = [user("hi"), answer(1, [thought, call("a")]), result(1, 1, "1")]
    assert.isDefined(thinkingOf("claude-sonnet-4-5", high, own).thinking)
  })
})

describe("structured output with /v1/messages", () => {
  const ask = (schema: any, compatibility: Compatibility = {}) =>
    encode(requestOf([user("hi")], { instructions: "Be kind.", output: { name: "o", schema } }), {
      compatibility
    })

  it("is requested with a schema whose objects are closed", () => {
    const body = ask({
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      properties: {
        name: { type: "string", minLength: 1, description: "A name." },
        at: { type: "string", format: "date-time" },
        size: { oneOf: [{ type: "integer", minimum: 0 }, { type: "null" }] },
        tags: { type: "array", items: { $ref: "#/$defs/Tag" }, minItems: 2 }
      },
      required: ["name"],
      $defs: { Tag: { type: "object", properties: { id: { enum: ["a", "b"] } } } }
    })
    assert.strictEqual(body.system, "Be kind.")
    assert.deepStrictEqual(body.output_config, {
      format: {
        type: "json_schema",
        schema: {
          type: "object",
          properties: {
            name: { type: "string", description: "A name.\nminLength: 1" },
            at: { type: "string", format: "date-time" },
            size: { anyOf: [{ type: "integer", description: "minimum: 0" }, { type: "null" }] },
            tags: { type: "array", items: { $ref: "#/$defs/Tag" }, description: "minItems: 2" }
          },
          required: ["name"],
          $defs: {
            Tag: { type: "object", properties: { id: { enum: ["a", "b"] } }, additionalProperties: false }
          },
          additionalProperties: false
        }
      }
    })
  })

  it.each([
    { kind: "any keys", schema: { type: "object", additionalProperties: { type: "string" } } },
    { kind: "an empty property", schema: { type: "object", properties: { any: {} } } },
    {
      kind: "a reference to itself",
      schema: {
        $ref: "#/$defs/Tree",
        $defs: {
          Tree: {
            type: "object",
            properties: { kids: { type: "array", items: { $ref: "#/$defs/Tree" } } },
            additionalProperties: false
          }
        }
      }
    },
    { kind: "a reference to somewhere else", schema: { $ref: "https://x.example/schema" } }
  ])("is requested in words when the schema has $kind", ({ schema }) => {
    const body = ask(schema)
    assert.isUndefined(body.output_config)
    assert.isTrue(body.system.startsWith("Be kind.\n\nGive the final answer as a JSON object"))
    assert.include(body.system, JSON.stringify(schema))
  })

  it("is requested in words for a server without schemas", () => {
    for (const structuredOutput of ["jsonObject", "none"] as const) {
      const body = ask(tool.parameters, { structuredOutput })
      assert.isUndefined(body.output_config)
      assert.include(body.system, JSON.stringify(tool.parameters))
    }
  })
})

describe("a history sent to /v1/messages", () => {
  it("has a turn's results first in the message with the user's next text", () => {
    assert.deepStrictEqual(
      historyOf([
        user("hi"),
        answer(1, [{ _tag: "text", text: "Reading." }, call("a", "read", '{"path":"x"}'), call("b")]),
        result(1, 1, "one"),
        result(1, 2, "No such file.", "failed"),
        user("And?"),
        user("Well?")
      ]),
      [
        { role: "user", content: [said("hi")] },
        {
          role: "assistant",
          content: [
            said("Reading."),
            { type: "tool_use", id: "a", name: "read", input: { path: "x" } },
            { type: "tool_use", id: "b", name: "read", input: {} }
          ]
        },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "a", content: [said("one")] },
            { type: "tool_result", tool_use_id: "b", content: [said("No such file.")], is_error: true },
            said("And?"),
            said("Well?")
          ]
        }
      ]
    )
  })

  it.each([
    { outcome: "completed", isError: undefined },
    { outcome: "supplied", isError: undefined },
    { outcome: "failed", isError: true },
    { outcome: "denied", isError: true },
    { outcome: "cancelled", isError: true }
  ] as const)("marks the result of a $outcome call: $isError", ({ isError, outcome }) => {
    const [, , { content }] = historyOf([user("hi"), answer(1, [call("a")]), result(1, 1, "", outcome)])
    assert.deepStrictEqual(content, [
      { type: "tool_result", tool_use_id: "a", ...(isError === undefined ? {} : { is_error: true }) }
    ])
  })

  it("links each result to its call for any provider ids", () => {
    const history = historyOf([
      user("hi"),
      answer(1, [call("a"), call("a"), call(""), call("with.dot"), call("x".repeat(65))]),
      ...[1, 2, 3, 4, 5].map((ordinal) => result(1, ordinal, `${ordinal}`))
    ])
    const ids = history[1].content.map(({ id }: any) => id)
    assert.deepStrictEqual(
      history[2].content.map(({ tool_use_id }: any) => tool_use_id),
      ids
    )
    assert.strictEqual(new Set(ids).size, 5)
    for (const id of ids) assert.match(id, /^[a-zA-Z0-9_-]{1,64}$/)
  })

  it("has no empty text or message, and starts with a user message", () => {
    assert.deepStrictEqual(
      historyOf([
        answer(1, [{ _tag: "text", text: "so" }]),
        user(" \n"),
        answer(2, [{ _tag: "text", text: "" }]),
        user("hi")
      ]),
      [
        { role: "user", content: [said("[Earlier messages are left out.]")] },
        { role: "assistant", content: [said("so")] },
        { role: "user", content: [said("hi")] }
      ]
    )
  })

  it("has valid names and object arguments for malformed calls", () => {
    const [, { content }] = historyOf([
      user("hi"),
      answer(1, [call("a", "no such tool!", '{"half": ')]),
      result(1, 1, "There is no such tool.", "failed")
    ])
    assert.deepStrictEqual(content, [
      { type: "tool_use", id: "a", name: "no_such_tool_", input: { malformed: '{"half": ' } }
    ])
  })

  it("has thinking first, unchanged and signed", () => {
    const recorded = contentOf("thinking")
    const [, { content }] = historyOf([user("hi"), answer(1, [...recorded, call("a")]), result(1, 1, "1")])
    assert.deepStrictEqual(
      content.map(({ type }: any) => type),
      ["thinking", "text", "tool_use"]
    )
    const text = fixture("messages", "thinking").text
    const signature = /"signature":"([^"]+)"\}/.exec(text)?.[1]
    assert.deepStrictEqual(content[0], {
      type: "thinking",
      thinking: fixture("messages", "thinking").expected.reasoning,
      signature
    })
  })

  it("has encrypted thinking unchanged", () => {
    const [, { content }] = historyOf([user("hi"), answer(1, contentOf("redacted-thinking"))])
    const data = [...fixture("messages", "redacted-thinking").text.matchAll(/"data":"([^"]+)"/g)]
    assert.deepStrictEqual(
      content.slice(0, -1),
      data.map(([, data]) => ({ type: "redacted_thinking", data }))
    )
  })

  it("has server tool calls in their place, with their input", () => {
    const [, { content }] = historyOf([user("hi"), answer(1, contentOf("code-execution"))])
    assert.deepStrictEqual(
      content.map(({ type }: any) => type),
      ["thinking", "text", "server_tool_use", "bash_code_execution_tool_result", "text"]
    )
    assert.deepStrictEqual(content[2].input, { command: 'echo "65465-6544 * 65464-6+1.02255" | bc -l' })
    assert.strictEqual(content[3].tool_use_id, content[2].id)
  })

  it("has no unfinished server tool call, unless the answer continues", () => {
    const ran: AnsweredPart = {
      _tag: "reasoning",
      text: "",
      provider,
      payload: { type: "server_tool_use", id: "srv_1", name: "web_search", input: {} }
    }
    const paused = [user("hi"), answer(1, [{ _tag: "text", text: "Searching." }, ran])]
    const typesOf = (history: Array<any>) => history[1].content.map(({ type }: any) => type)
    assert.deepStrictEqual(typesOf(historyOf(paused)), ["text", "server_tool_use"])
    assert.deepStrictEqual(typesOf(historyOf([...paused, user("And?")])), ["text"])
    const searched: AnsweredPart = {
      ...ran,
      payload: { type: "web_search_tool_result", tool_use_id: "srv_1", content: [] }
    }
    assert.deepStrictEqual(
      typesOf(historyOf([...paused, answer(2, [searched, { _tag: "text", text: "Found." }]), user("And?")])),
      ["text", "server_tool_use", "web_search_tool_result", "text"]
    )
  })

  it("has no provider payloads for another provider, model or server", () => {
    for (const another of [
      { model: "claude-opus-4-6" },
      { baseUrl: "https://proxy.example/v1" },
      { protocol: "chat" as const }
    ]) {
      const [, { content }] = historyOf([user("hi"), answer(1, contentOf("code-execution"))], another)
      assert.deepStrictEqual(
        content.map(({ type }: any) => type),
        ["text", "text"]
      )
    }
  })

  it("keeps the thinking of a turn with an edited call", () => {
    const [thought] = contentOf("thinking")
    const [, { content }] = historyOf([
      user("hi"),
      answer(1, [thought!, call("a", "read", '{"path":"edited"}')]),
      result(1, 1, "1")
    ])
    assert.strictEqual(content[0].type, "thinking")
    assert.deepStrictEqual(content[1].input, { path: "edited" })
  })

  it("contains images and files", () => {
    const bytes = { _tag: "bytes", base64: "aGk=" } as const
    const url = { _tag: "url", url: "https://x.example/a" } as const
    const [{ content }] = historyOf([
      user([
        { _tag: "file", mediaType: "image/png", source: bytes },
        { _tag: "file", mediaType: "image/png", source: url },
        { _tag: "file", mediaType: "application/pdf", name: "a.pdf", source: bytes },
        { _tag: "file", mediaType: "application/pdf", source: url },
        { _tag: "file", mediaType: "text/plain", name: "a.txt", source: bytes },
        { _tag: "file", mediaType: "audio/wav", name: "a.wav", source: bytes },
        { _tag: "file", mediaType: "audio/wav", name: "a.wav", source: url },
        { _tag: "file", mediaType: "image/png", source: { _tag: "reference", id: "file_1", provider } },
        {
          _tag: "file",
          mediaType: "image/png",
          source: { _tag: "reference", id: "file_1", provider: "other" }
        }
      ])
    ])
    assert.deepStrictEqual(content, [
      { type: "image", source: { type: "base64", media_type: "image/png", data: "aGk=" } },
      { type: "image", source: { type: "url", url: "https://x.example/a" } },
      {
        type: "document",
        source: { type: "base64", media_type: "application/pdf", data: "aGk=" },
        title: "a.pdf"
      },
      { type: "document", source: { type: "url", url: "https://x.example/a" } },
      said("a.txt:\nhi"),
      said("[a.wav: not available to this model]"),
      said("[a.wav: https://x.example/a]"),
      { type: "image", source: { type: "file", file_id: "file_1" } },
      said("[image/png: not available to this model]")
    ])
  })
})
