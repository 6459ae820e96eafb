/** Requests to `/chat/completions`: settings, tools and histories. */
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import type { RunId, SessionId, ToolCallId } from "../../src/domain/Id.ts"
import { toolCallId } from "../../src/domain/Id.ts"
import type { AssistantPart, FilePart, Message, UserPart } from "../../src/domain/Message.ts"
import { text } from "../../src/domain/Message.ts"
import { chat } from "../../src/model/internal/openai/chat.ts"
import type { ModelResponse } from "../../src/model/ModelPart.ts"
import type { Compatibility, ModelProfile } from "../../src/model/ModelProfile.ts"
import type { ModelRequest, ModelSettings, ToolDefinition } from "../../src/model/ModelRequest.ts"
import { fixture, fixtures, read } from "./Fixtures.ts"

const profile: ModelProfile = {
  name: "test",
  protocol: "chat",
  baseUrl: "https://models.example/v1",
  model: "test"
}
const other: ModelProfile = { ...profile, baseUrl: "https://elsewhere.example/v1" }
const provider = "chat@models.example/test"
const runId = "run" as RunId

const request = (parts: Partial<ModelRequest> = {}): ModelRequest => ({
  runId,
  sessionId: "session" as SessionId,
  agentPath: ["agent"],
  turn: 1,
  instructions: "",
  messages: [user("hello")],
  tools: [],
  ...parts
})
type Body = Record<string, any>
const bodyOf = (parts: Partial<ModelRequest>, compatibility: Compatibility = {}, on = profile): Body =>
  chat.encode(request(parts), { ...on, compatibility }, true)

const at = 0 as Message["at"]
const user = (...content: ReadonlyArray<string | UserPart>): Message => ({
  role: "user",
  sequence: 0,
  at,
  content: content.map((part) => (typeof part === "string" ? text(part) : part))
})
const assistant = (...content: ReadonlyArray<AssistantPart>): Message => ({
  role: "assistant",
  sequence: 0,
  at,
  content
})
const callId = (ordinal: number): ToolCallId => toolCallId(runId, 1, ordinal)
const call = (ordinal: number, providerCallId: string, name = "f", args = "{}"): AssistantPart => ({
  _tag: "toolCall",
  callId: callId(ordinal),
  providerCallId,
  name,
  arguments: args
})
const result = (ordinal: number, providerCallId: string, ...content: ReadonlyArray<UserPart>): Message => ({
  role: "tool",
  sequence: 0,
  at,
  callId: callId(ordinal),
  providerCallId,
  name: "f",
  outcome: "completed",
  content
})
const messagesOf = (messages: ReadonlyArray<Message>, compatibility: Compatibility = {}, on = profile) =>
  bodyOf({ messages }, compatibility, on).messages

const weather: ToolDefinition = {
  name: "weather",
  description: "Says how it is.",
  parameters: {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false
  }
}
const loose: ToolDefinition = {
  name: "loose",
  description: "",
  parameters: { type: "object", properties: { city: { type: "string" } } }
}
const output = { name: "the answer", schema: weather.parameters }

describe("the body of a chat completion request", () => {
  it("has the model, the messages and the stream options by default", () => {
    assert.deepStrictEqual(bodyOf({}), {
      model: "test",
      messages: [{ role: "user", content: "hello" }],
      stream: true,
      stream_options: { include_usage: true }
    })
    assert.deepStrictEqual(chat.encode(request(), profile, false), {
      model: "test",
      messages: [{ role: "user", content: "hello" }],
      stream: false
    })
  })

  it.each<{ readonly settings: ModelSettings; readonly compatibility?: Compatibility; readonly body: Body }>([
    { settings: { temperature: 0, topP: 0.5, seed: 0 }, body: { temperature: 0, top_p: 0.5, seed: 0 } },
    { settings: { stop: ["END"] }, body: { stop: ["END"] } },
    { settings: { maxOutputTokens: 10 }, body: { max_completion_tokens: 10 } },
    {
      settings: { maxOutputTokens: 10 },
      compatibility: { maxTokensField: "max_tokens" },
      body: { max_tokens: 10 }
    },
    { settings: { reasoningEffort: "high" }, body: { reasoning_effort: "high" } },
    { settings: { reasoningEffort: "high" }, compatibility: { reasoningEffort: false }, body: {} },
    { settings: { toolChoice: "none" }, body: { tool_choice: "none" } },
    {
      settings: { toolChoice: { tool: "weather" } },
      body: { tool_choice: { type: "function", function: { name: "weather" } } }
    },
    { settings: { parallelToolCalls: false }, body: { parallel_tool_calls: false } },
    { settings: { parallelToolCalls: false }, compatibility: { parallelToolCalls: false }, body: {} },
    {
      settings: { extra: { reasoning: { enabled: true }, stop: null } },
      body: { reasoning: { enabled: true }, stop: null }
    },
    { settings: { temperature: 1, extra: { temperature: 0.5 } }, body: { temperature: 0.5 } }
  ])("encodes $settings as $body", ({ body, compatibility, settings }) => {
    const {
      messages: _,
      model: __,
      stream: ___,
      stream_options: ____,
      tools: _____,
      ...rest
    } = bodyOf({ settings, tools: [weather] }, compatibility)
    assert.deepStrictEqual(rest, body)
  })

  it("prefers the request's settings to the profile's, within the model's maxOutputTokens", () => {
    const withSettings: ModelProfile = {
      ...profile,
      maxOutputTokens: 100,
      settings: { temperature: 1, maxOutputTokens: 500, extra: { a: 1, b: 1 } }
    }
    const body: Body = chat.encode(
      request({ settings: { temperature: 0, extra: { b: 2 } } }),
      withSettings,
      true
    )
    assert.deepInclude(body, { temperature: 0, max_completion_tokens: 100, a: 1, b: 2 })
  })

  it("omits stream_options where the server does not know it", () => {
    assert.notProperty(bodyOf({}, { streamUsage: false }), "stream_options")
  })

  it("omits tool settings without tools", () => {
    const body = bodyOf({ settings: { toolChoice: "required", parallelToolCalls: true } })
    for (const field of ["tools", "tool_choice", "parallel_tool_calls"]) assert.notProperty(body, field)
  })

  it("marks as strict only schemas that strict mode accepts", () => {
    const strictOf = (compatibility: Compatibility) =>
      bodyOf({ tools: [weather, loose], output }, compatibility).tools.map(
        (tool: Body) => tool.function.strict
      )
    assert.deepStrictEqual(strictOf({ strict: true }), [true, undefined])
    assert.deepStrictEqual(strictOf({}), [undefined, undefined])
    assert.deepStrictEqual(bodyOf({ tools: [loose] }).tools, [
      { type: "function", function: { name: "loose", description: "", parameters: loose.parameters } }
    ])
  })

  it("requests structured output by schema, by JSON mode with words, or by words", () => {
    assert.deepStrictEqual(bodyOf({ output }, { strict: true }).response_format, {
      type: "json_schema",
      json_schema: { name: "the_answer", schema: output.schema, strict: true }
    })
    assert.notProperty(bodyOf({ output }).response_format.json_schema, "strict")
    for (const structuredOutput of ["jsonObject", "none"] as const) {
      const body = bodyOf({ output, instructions: "Be kind." }, { structuredOutput })
      assert.deepStrictEqual(
        body.response_format,
        structuredOutput === "none" ? undefined : { type: "json_object" }
      )
      assert.match(body.messages[0].content, /^Be kind\.\n\n.*JSON/)
      assert.include(body.messages[0].content, JSON.stringify(output.schema))
    }
    assert.deepStrictEqual(bodyOf({ output, instructions: "Be kind." }).messages[0].content, "Be kind.")
  })
})

describe("a JSON schema in strict mode", () => {
  const strictOf = (city: Body) =>
    bodyOf(
      {
        tools: [
          {
            ...weather,
            parameters: { ...weather.parameters, properties: { city } } as ToolDefinition["parameters"]
          }
        ]
      },
      { strict: true }
    ).tools[0].function.strict === true

  it.each<{ readonly city: Body; readonly allowed: boolean }>([
    { city: { type: ["string", "null"] }, allowed: true },
    { city: { anyOf: [{ type: "string" }, { type: "null" }] }, allowed: true },
    { city: { enum: ["a", "b"] }, allowed: true },
    { city: { type: "array", items: { type: "string" } }, allowed: true },
    { city: { type: "array" }, allowed: false },
    { city: {}, allowed: false },
    { city: { type: "object" }, allowed: false },
    { city: { type: "array", items: loose.parameters }, allowed: false },
    { city: { type: "array", items: weather.parameters }, allowed: true },
    { city: { anyOf: [weather.parameters, loose.parameters] }, allowed: false },
    { city: { oneOf: [{ type: "string" }] }, allowed: false },
    {
      city: { type: ["object", "null"], properties: {}, required: [], additionalProperties: false },
      allowed: true
    },
    {
      city: { type: ["object", "null"], properties: {}, required: [], additionalProperties: true },
      allowed: false
    }
  ])("with $city is allowed: $allowed", ({ allowed, city }) => {
    assert.strictEqual(strictOf(city), allowed)
  })
})

describe("the messages of a chat completion request", () => {
  it.each<{ readonly systemRole: Compatibility["systemRole"]; readonly messages: ReadonlyArray<Body> }>([
    {
      systemRole: undefined,
      messages: [
        { role: "system", content: "Be kind." },
        { role: "user", content: "hello" }
      ]
    },
    {
      systemRole: "developer",
      messages: [
        { role: "developer", content: "Be kind." },
        { role: "user", content: "hello" }
      ]
    },
    { systemRole: "user", messages: [{ role: "user", content: "Be kind.\n\nhello" }] }
  ])("begin with the instructions in the role $systemRole", ({ messages, systemRole }) => {
    const compatibility = systemRole === undefined ? {} : { systemRole }
    assert.deepStrictEqual(bodyOf({ instructions: "Be kind." }, compatibility).messages, messages)
  })

  it("begin with the instructions when the assistant spoke first", () => {
    const body = bodyOf(
      { instructions: "Be kind.", messages: [assistant(text("hi")), user("hello")] },
      { systemRole: "user" }
    )
    assert.deepStrictEqual(body.messages[0], { role: "user", content: "Be kind." })
  })

  it("link each result to its call by the provider's id", () => {
    assert.deepStrictEqual(
      messagesOf([
        user("go"),
        assistant(text("ok"), call(1, "call_a"), call(2, "functions.f:1", "g", "")),
        result(1, "call_a", text("one")),
        result(2, "functions.f:1")
      ]),
      [
        { role: "user", content: "go" },
        {
          role: "assistant",
          content: "ok",
          tool_calls: [
            { id: "call_a", type: "function", function: { name: "f", arguments: "{}" } },
            { id: "functions.f:1", type: "function", function: { name: "g", arguments: "{}" } }
          ]
        },
        { role: "tool", tool_call_id: "call_a", content: "one" },
        { role: "tool", tool_call_id: "functions.f:1", content: "" }
      ]
    )
  })

  it.each([
    ["empty", "", ""],
    ["said twice", "0", "0"],
    ["too long", "x".repeat(41), "y".repeat(41)],
    ["of letters that a provider refuses", "a b", "ö"]
  ])("link each result to its call when the provider's ids are %s", (_, first, second) => {
    const history = [
      user("go"),
      assistant(call(1, first)),
      result(1, first, text("one")),
      assistant(call(2, second)),
      result(2, second, text("two"))
    ]
    const messages = messagesOf(history)
    const ids = [messages[1].tool_calls[0].id, messages[3].tool_calls[0].id]
    assert.deepStrictEqual(ids, [messages[2].tool_call_id, messages[4].tool_call_id])
    assert.strictEqual(new Set(ids).size, 2)
    for (const id of ids) assert.match(id, /^[a-zA-Z0-9_-]{1,40}$/)
    assert.deepStrictEqual(
      messagesOf(history.slice(0, 3)),
      messages.slice(0, 3),
      "the beginning stays the same"
    )
  })

  it("have null as content for calls without text, and drop an empty answer", () => {
    const messages = messagesOf([
      user("go"),
      assistant({ _tag: "reasoning", text: "hm", provider: "another", payload: { field: "reasoning" } }),
      assistant(call(1, "a")),
      result(1, "a")
    ])
    assert.deepStrictEqual(
      messages.map(({ role, content }: Body) => [role, content]),
      [
        ["user", "go"],
        ["assistant", null],
        ["tool", ""]
      ]
    )
  })

  it("contain only names and arguments that every server accepts", () => {
    const [{ tool_calls: calls }] = messagesOf([
      assistant(
        call(1, "a", "functions.read file", '{"x":'),
        call(2, "b", "é".repeat(70), "null"),
        call(3, "c", "")
      )
    ])
    assert.deepStrictEqual(
      calls.map((call: Body) => call.function),
      [
        { name: "functions_read_file", arguments: '{"malformed":"{\\"x\\":"}' },
        { name: "_".repeat(64), arguments: "{}" },
        { name: "unnamed", arguments: "{}" }
      ]
    )
  })

  const file = (mediaType: string, source: FilePart["source"], name?: string): FilePart => ({
    _tag: "file",
    mediaType,
    source,
    ...(name === undefined ? {} : { name })
  })
  const bytes = { _tag: "bytes", base64: "aGk=" } as const
  const url = { _tag: "url", url: "https://files.example/a" } as const

  it.each<{ readonly part: FilePart; readonly encoded: Body }>([
    {
      part: file("image/png", bytes),
      encoded: { type: "image_url", image_url: { url: "data:image/png;base64,aGk=" } }
    },
    { part: file("image/png", url), encoded: { type: "image_url", image_url: { url: url.url } } },
    {
      part: file("audio/mpeg", bytes),
      encoded: { type: "input_audio", input_audio: { data: "aGk=", format: "mp3" } }
    },
    {
      part: file("audio/wav", bytes),
      encoded: { type: "input_audio", input_audio: { data: "aGk=", format: "wav" } }
    },
    {
      part: file("application/pdf", bytes, "a.pdf"),
      encoded: { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,aGk=" } }
    },
    {
      part: file("application/pdf", { _tag: "reference", id: "file-1", provider }),
      encoded: { type: "file", file: { file_id: "file-1" } }
    }
  ])("encode a file as $encoded", ({ encoded, part }) => {
    assert.deepStrictEqual(messagesOf([user("look", part)])[0].content, [
      { type: "text", text: "look" },
      encoded
    ])
  })

  it("encode a file as text when it is text, of an unknown type or unavailable to the model", () => {
    const secret = { _tag: "reference", id: "file-1", provider: "another" } as const
    const unknown = file("application/octet-stream", bytes, "a.bin")
    const [{ content }] = messagesOf([
      user("look", file("text/plain", bytes, "a.txt"), file("image/png", secret), unknown)
    ])
    assert.strictEqual(
      content,
      "look\n\na.txt:\nhi\n\n[image/png: not available to this model]\n\n[a.bin: not available to this model]"
    )
  })

  it("say in words which files have no place in the protocol", () => {
    const contentOf = (part: FilePart) => messagesOf([user("look", part)])[0].content
    assert.strictEqual(contentOf(file("application/pdf", url, "a.pdf")), `look\n\n[a.pdf: ${url.url}]`)
    assert.strictEqual(
      contentOf(file("application/zip", bytes, "a.zip")),
      "look\n\n[a.zip: not available to this model]"
    )
    assert.strictEqual(contentOf(file("video/mp4", url)), `look\n\n[video/mp4: ${url.url}]`)
  })

  it("contain the files of results after all results of the turn", () => {
    const image = file("image/png", bytes, "shot.png")
    const messages = messagesOf([
      assistant(call(1, "a"), call(2, "b")),
      result(1, "a", text("done"), image),
      result(2, "b", text("two")),
      assistant(text("I see."))
    ])
    assert.deepStrictEqual(messages.slice(1), [
      { role: "tool", tool_call_id: "a", content: "done\n\n[shot.png: see below]" },
      { role: "tool", tool_call_id: "b", content: "two" },
      {
        role: "user",
        content: [
          { type: "text", text: "Returned by f:" },
          { type: "image_url", image_url: { url: "data:image/png;base64,aGk=" } }
        ]
      },
      { role: "assistant", content: "I see." }
    ])
  })
})

describe("a recorded request", () => {
  const essential = ({ messages, model, response_format, tool_choice, tools }: Body) =>
    JSON.parse(JSON.stringify({ messages, model, response_format, tool_choice, tools }))
  const toolsOf = (recorded: Body): ReadonlyArray<ToolDefinition> =>
    recorded.tools.map(({ function: { description, name, parameters } }: Body) => ({
      name,
      description,
      parameters
    }))

  it.each<{
    readonly name: string
    readonly parts: Partial<ModelRequest>
    readonly compatibility?: Compatibility
  }>([
    {
      name: "openai-text",
      parts: {
        messages: [
          user("What is the capital of the UK? Use the tool, then answer."),
          assistant(call(1, "call_ZR5UUuTt3pf61kjwAJIYdVMj", "get_capital", '{"country":"UK"}')),
          result(1, "call_ZR5UUuTt3pf61kjwAJIYdVMj", text("London"))
        ],
        settings: { toolChoice: "auto" }
      },
      compatibility: { strict: true }
    },
    {
      name: "openai-parallel-tools",
      parts: {
        messages: [user("Tell me: the capital of the country; the weather there; the product name")],
        settings: { toolChoice: "required" }
      },
      compatibility: { strict: true }
    },
    {
      name: "json-openai-parallel-tools",
      parts: {
        instructions: "Just call tools without asking for confirmation.",
        messages: [user("Delete the file `.env` and create `test.txt`")],
        settings: { toolChoice: "auto" }
      },
      compatibility: { strict: true }
    },
    {
      name: "json-ollama-local",
      parts: {
        messages: [user("What is the capital of France?")],
        output: {
          name: "CityLocation",
          schema: {
            properties: { city: { type: "string" }, country: { type: "string" } },
            required: ["city", "country"],
            title: "CityLocation",
            type: "object"
          }
        }
      }
    },
    {
      name: "json-gemini-compat-tool-call-without-id",
      parts: { messages: [user("What is the current time?")], settings: { toolChoice: "auto" } }
    }
  ])("equals our request: $name", ({ compatibility, name, parts }) => {
    const recorded: Body = fixture("chat", name).request!
    const tools = recorded.tools === undefined ? [] : toolsOf(recorded)
    assert.deepStrictEqual(
      essential(bodyOf({ ...parts, tools }, compatibility, { ...profile, model: recorded.model })),
      essential(recorded)
    )
  })

  it("has reasoning_content on each DeepSeek message with calls, with its own reasoning only", () => {
    const { messages: recorded } = fixture("chat", "json-deepseek-reasoning-parallel-tools").request as Body
    const [, , asked, loaded, , searched] = recorded
    const on = { ...profile, compatibility: { reasoningReplay: "reasoning_content" } as const }
    const callOf = (ordinal: number, { id, function: { arguments: args, name } }: Body) =>
      call(ordinal, id, name, args)
    const messages = messagesOf(
      [
        user(asked.content),
        assistant(
          {
            _tag: "reasoning",
            text: loaded.reasoning_content,
            provider,
            payload: { field: "reasoning_content" }
          },
          text(loaded.content),
          callOf(1, loaded.tool_calls[0])
        ),
        result(1, loaded.tool_calls[0].id, text("{}")),
        assistant({ _tag: "reasoning", text: "another's" }, callOf(2, searched.tool_calls[0])),
        result(2, searched.tool_calls[0].id, text(recorded[6].content)),
        assistant(text("no calls"))
      ],
      on.compatibility
    )
    assert.deepStrictEqual(messages, [...recorded.slice(2), { role: "assistant", content: "no calls" }])
  })
})

describe("an answer sent back to its provider", () => {
  /** The history with this answer and a result for each of its calls. */
  const historyOf = ({ content }: ModelResponse): ReadonlyArray<Message> => {
    let ordinal = 0
    const parts = content.map((part): AssistantPart =>
      part._tag === "toolCall" ? { ...part, callId: callId(++ordinal) } : part
    )
    const results = parts.flatMap((part) =>
      part._tag === "toolCall"
        ? [{ ...result(1, part.providerCallId, text("done")), callId: part.callId } as Message]
        : []
    )
    return [user("go"), assistant(...parts), ...results]
  }
  const answerOf = (name: string): ModelResponse => {
    const recording = fixture("chat", name)
    if (recording.stream) return read(chat.decoder(profile), [recording.bytes]).response!
    return Result.getOrThrow(chat.decode(JSON.parse(recording.text), profile))
  }
  const sentBack = (name: string, compatibility: Compatibility = {}, on = profile): Body =>
    messagesOf(historyOf(answerOf(name)), compatibility, on)[1]

  it.each([
    ["deepseek-reasoning-tool-call", "reasoning_content"],
    ["moonshot-reasoning", "reasoning_content"],
    ["xai-text", "reasoning_content"],
    ["groq-reasoning-tool-call", "reasoning"],
    ["json-ollama-local", "reasoning"]
  ])("has its reasoning in its original field: %s", (name, field) => {
    assert.strictEqual(sentBack(name)[field], fixture("chat", name).expected.reasoning)
    assert.notProperty(sentBack(name, { reasoningReplay: "none" }), field)
    assert.strictEqual(
      sentBack(name, { reasoningReplay: "reasoning" }).reasoning,
      fixture("chat", name).expected.reasoning
    )
  })

  it("has OpenRouter's signed reasoning details, without repeating their text", () => {
    const message = sentBack("openrouter-reasoning-details")
    const chunks = fixture("chat", "openrouter-reasoning-details").text.matchAll(/"signature":"([^"]+)"/g)
    const signatures = [...chunks].map(([, signature]) => signature)
    assert.lengthOf(signatures, 1)
    assert.deepStrictEqual(message.reasoning_details, [
      {
        type: "reasoning.text",
        text: "This is a simple arithmetic question. 2+2 equals 4.",
        signature: signatures[0],
        format: "anthropic-claude-v1",
        index: 0
      }
    ])
    assert.notProperty(message, "reasoning")
    assert.notProperty(
      sentBack("openrouter-reasoning-details", { reasoningReplay: "none" }),
      "reasoning_details"
    )
  })

  it("has only its reasoning details when they came after the text", () => {
    const details = [{ type: "reasoning.encrypted", data: "xyz", index: 0 }]
    assert.deepStrictEqual(
      messagesOf([
        assistant({ _tag: "reasoning", text: "so", provider, payload: { field: "reasoning" } }, text("hi"), {
          _tag: "reasoning",
          text: "",
          provider,
          payload: { reasoning_details: details }
        })
      ]),
      [{ role: "assistant", content: "hi", reasoning_details: details }]
    )
  })

  it("has Mistral's thinking before its text", () => {
    assert.deepStrictEqual(sentBack("mistral-reasoning-parts").content, [
      {
        type: "thinking",
        thinking: [{ type: "text", text: "The user is asking for 2+2. This is basic arithmetic. 2+2=4." }]
      },
      { type: "text", text: "2 + 2 = 4" }
    ])
  })

  it("has Gemini's signature unchanged, and an id for a call without one", () => {
    const recorded = JSON.parse(fixture("chat", "json-gemini-compat-tool-call-without-id").text)
    const message = sentBack("json-gemini-compat-tool-call-without-id")
    assert.deepStrictEqual(message.extra_content, recorded.choices[0].message.extra_content)
    assert.match(message.tool_calls[0].id, /^[a-zA-Z0-9_-]+$/)
    const extra = { google: { thought_signature: "abc" } }
    const signed: AssistantPart = {
      _tag: "toolCall",
      callId: callId(1),
      providerCallId: "a",
      name: "f",
      arguments: "{}",
      provider,
      payload: { extra_content: extra }
    }
    assert.deepStrictEqual(messagesOf([assistant(signed)])[0].tool_calls[0].extra_content, extra)
    assert.notProperty(messagesOf([assistant(signed)], {}, other)[0].tool_calls[0], "extra_content")
  })

  it("has only text and calls for another provider", () => {
    for (const { expected, name, status } of fixtures("chat")) {
      if (status !== 200 || expected.finish === "error") continue
      const message = sentBack(name, {}, other)
      const calls = (expected.toolCalls ?? []).map(({ name, arguments: args }) => ({ name, arguments: args }))
      assert.hasAllKeys(
        message,
        calls.length === 0 ? ["role", "content"] : ["role", "content", "tool_calls"],
        name
      )
      assert.strictEqual(message.content ?? "", expected.text ?? "", name)
      assert.deepStrictEqual(
        (message.tool_calls ?? []).map((call: Body) => call.function),
        calls,
        name
      )
    }
  })
})
