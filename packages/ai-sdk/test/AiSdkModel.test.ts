import { join } from "node:path"
import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import type { LanguageModelV2, LanguageModelV2StreamPart } from "@ai-sdk/provider"
import { assert, describe, it } from "@effect/vitest"
import { AiSdkModel } from "@fermata/ai-sdk"
import { ReplayServer } from "@fermata/node/testing"
import { Agent, runPrompt, Runtime, Tool } from "@fermata/sdk"
import type { Id, Message } from "@fermata/sdk/domain"
import { ModelClient, type ModelPart, type ModelRequest } from "@fermata/sdk/model"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { ask, end, hello, pieces, refusal, streamed } from "../../node/test/model/asking.ts"
import { type Fixture, fixtures, summaryOf } from "../../sdk/test/model/Fixtures.ts"

const recordings = join(import.meta.dirname, "../../sdk/test/fixtures/models")

const models = {
  chat: (url: string, id = "m") =>
    createOpenAICompatible({ name: "compatible", baseURL: `${url}/v1`, apiKey: "k", includeUsage: true })(id),
  messages: (url: string, id = "claude-sonnet-4-5") =>
    createAnthropic({ baseURL: `${url}/v1`, apiKey: "k" })(id)
}

const once = { retry: { times: 0 } }
const soon = { retry: { base: "1 millis" as const } }

const complete = (client: ModelClient.ModelClient["Service"], request: ModelRequest.ModelRequest) =>
  ModelClient.collect(client.stream(request))

/** The bodies of the requests that a server received. */
const bodies = (server: ReplayServer.ReplayServer): ReadonlyArray<any> =>
  server.requests.map(({ body }) => JSON.parse(body))

/** Counts without zeros, which the AI SDK gives where a provider gives no count. */
const counted = (usage: object) =>
  Object.fromEntries(Object.entries(usage).filter(([, count]) => count !== 0))

const replay = (protocol: "chat" | "messages", fixture: Fixture) =>
  Effect.gen(function* () {
    const response = yield* Effect.promise(() =>
      ReplayServer.recorded(join(recordings, protocol, fixture.name))
    )
    const server = yield* ReplayServer.make([response])
    const client = AiSdkModel.make(models[protocol](server.url), once)
    return yield* fixture.stream ? complete(client, ask()) : client.complete(ask())
  })

/** Recordings that the AI SDK's own provider package cannot read; Fermata's clients read them. */
const unreadable = new Set(["custom-endpoint-tools-a", "snowflake-text"])

describe("AiSdkModel over recorded answers", () => {
  for (const protocol of ["chat", "messages"] as const) {
    const readable = fixtures(protocol).filter(
      ({ expected, name, status }) => status === 200 && expected.finish !== "error" && !unreadable.has(name)
    )
    assert.isAtLeast(readable.length, 9)
    it.live.each(readable)(`reads ${protocol}/$name as the recording says`, (fixture) =>
      Effect.gen(function* () {
        const { expected } = fixture
        const { finishReason, usage, ...said } = summaryOf(yield* replay(protocol, fixture))
        assert.deepStrictEqual(said, {
          text: expected.text ?? "",
          reasoning: expected.reasoning ?? "",
          toolCalls: (expected.toolCalls ?? []).map(({ arguments: text, id, name }) => ({
            // The AI SDK makes up an id where a provider gives none.
            id: id === "" ? said.toolCalls[0]!.id : id,
            name,
            arguments: text
          }))
        })
        const finish = { "tool-calls": "toolCalls", "content-filter": "contentFilter" }[expected.finish!]
        assert.strictEqual(finishReason, finish ?? expected.finish)
        const { cost, ...counts } = expected.usage!
        assert.deepStrictEqual(
          counted(usage),
          counted({
            inputTokens: counts.inputTokens ?? 0,
            outputTokens: counts.outputTokens ?? 0,
            cachedInputTokens: counts.cachedInputTokens ?? 0,
            cacheWriteTokens: counts.cacheWriteTokens ?? 0,
            reasoningTokens: counts.reasoningTokens ?? 0,
            costUsd: cost ?? xaiCost(fixture)
          })
        )
      })
    )
  }

  it.live("fails with InvalidResponse on an answer that its provider package cannot read", () =>
    Effect.gen(function* () {
      for (const fixture of fixtures("chat").filter(({ name }) => unreadable.has(name))) {
        const error = yield* Effect.flip(replay("chat", fixture))
        assert.strictEqual(error.reason._tag, "InvalidResponse")
        assert.notInclude(error.message, "{")
      }
    })
  )

  it.live("counts the provider's other models, and reports the context size of the last pass", () =>
    Effect.gen(function* () {
      const pass = { cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
      const body = JSON.stringify({
        type: "message",
        id: "msg_1",
        role: "assistant",
        model: "claude-sonnet-4-5",
        content: [{ type: "text", text: "Hello." }],
        stop_reason: "end_turn",
        usage: {
          input_tokens: 181,
          output_tokens: 8,
          iterations: [
            { type: "compaction", input_tokens: 150_000, output_tokens: 83, ...pass },
            { type: "advisor_message", model: "wise", input_tokens: 1000, output_tokens: 500, ...pass },
            { type: "message", input_tokens: 181, output_tokens: 8, ...pass }
          ]
        }
      })
      const server = yield* ReplayServer.make([{ headers: { "content-type": "application/json" }, body }])
      const prices = { input: 1, output: 1, models: { wise: { input: 10, output: 10 } } }
      const client = AiSdkModel.make(models.messages(server.url), { ...once, prices })
      const { lastInputTokens, usage } = yield* client.complete(ask())
      assert.strictEqual(lastInputTokens, 181)
      assert.deepInclude(usage, { inputTokens: 151_181, outputTokens: 591 })
      assert.closeTo(usage.costUsd! * 1e6, 150_181 + 91 + 15_000, 1e-6)
    })
  )

  it.live("gives errors of the provider their reasons, inside a stream as well", () =>
    Effect.gen(function* () {
      const reasons: Record<string, string> = {}
      for (const protocol of ["chat", "messages"] as const) {
        for (const fixture of fixtures(protocol)) {
          if (fixture.status === 200 && fixture.expected.finish !== "error") continue
          const error = yield* Effect.flip(replay(protocol, fixture))
          reasons[`${protocol}/${fixture.name}`] = error.reason._tag
        }
      }
      assert.deepStrictEqual(reasons, {
        "chat/error-groq-tool-use-failed-400": "InvalidRequest",
        "chat/error-openai-400-system-role": "InvalidRequest",
        "chat/error-openai-model-404": "InvalidRequest",
        "chat/error-openrouter-429": "RateLimited",
        "chat/groq-midstream-error": "InvalidRequest",
        "chat/json-invalid-body": "InvalidResponse",
        "chat/json-not-json": "InvalidResponse",
        "chat/openrouter-midstream-error": "InvalidRequest",
        "messages/error-404-model": "InvalidRequest"
      })
    })
  )
})

const xaiCost = ({ usageOnWire }: Fixture) => {
  const ticks = usageOnWire?.cost_in_usd_ticks
  return typeof ticks === "number" ? ticks / 1e10 : 0
}

const user = (sequence: number, text: string): Message.UserMessage => ({
  role: "user",
  sequence,
  at: 0,
  content: [{ _tag: "text", text }]
})

/** A history with a call and its result. */
const history = (provider: string): ReadonlyArray<Message.Message> => [
  user(0, "Look at it."),
  {
    role: "assistant",
    sequence: 1,
    at: 0,
    content: [
      { _tag: "reasoning", text: "Hm.", provider, payload: { anthropic: { signature: "sig" } } },
      {
        _tag: "toolCall",
        callId: "run.t1.1" as Id.ToolCallId,
        providerCallId: "",
        name: "look",
        arguments: '{"at":"it"}'
      }
    ]
  },
  {
    role: "tool",
    sequence: 2,
    at: 0,
    callId: "run.t1.1" as Id.ToolCallId,
    providerCallId: "",
    name: "look",
    outcome: "denied",
    content: [{ _tag: "text", text: "Denied: not today." }]
  }
]

const look: ModelRequest.ToolDefinition = {
  name: "look",
  description: "Looks",
  parameters: { type: "object", properties: { at: { type: "string" } }, required: ["at"] }
}

describe("AiSdkModel", () => {
  it.live("sends instructions, settings, tools and a history with one id for a call and its result", () =>
    Effect.gen(function* () {
      const server = yield* ReplayServer.make([hello])
      const client = AiSdkModel.make(models.chat(server.url), { headers: { "x-team": "ops" } })
      const settings = { temperature: 0, maxOutputTokens: 9, stop: ["."], toolChoice: { tool: "look" } }
      const answer = yield* complete(
        client,
        ask({
          messages: history("another provider"),
          tools: [look],
          settings: { ...settings, extra: { compatible: { user: "u1" } } },
          output: { name: "out", schema: { type: "object", properties: {} } }
        })
      )
      assert.deepStrictEqual(answer.content, [{ _tag: "text", text: "Hello." }])
      assert.strictEqual(answer.profile, "m")
      assert.strictEqual(server.requests[0]!.headers["x-team"], "ops")
      const [{ messages, tools, ...body }] = bodies(server)
      assert.deepInclude(body, { temperature: 0, max_tokens: 9, stop: ["."], user: "u1", stream: true })
      assert.deepStrictEqual(body.tool_choice, { type: "function", function: { name: "look" } })
      assert.strictEqual(body.response_format.type, "json_object")
      assert.deepStrictEqual(tools[0].function.parameters, look.parameters)
      assert.deepStrictEqual(
        messages.map(({ role }: { role: string }) => role),
        ["system", "user", "assistant", "tool"]
      )
      assert.strictEqual(messages[2].reasoning_content, undefined)
      assert.strictEqual(messages[2].tool_calls[0].id, messages[3].tool_call_id)
      assert.notStrictEqual(messages[3].tool_call_id, "")
      assert.include(messages[3].content, "Denied: not today.")
    })
  )

  it.live("returns signed reasoning to the model that it came from, and to no other", () =>
    Effect.gen(function* () {
      const folder = join(recordings, "messages/thinking")
      const thinking = yield* Effect.promise(() => ReplayServer.recorded(folder))
      const server = yield* ReplayServer.make([thinking, thinking, thinking])
      const client = AiSdkModel.make(models.messages(server.url))
      const first = yield* complete(client, ask())
      const reasoning = first.content.find((part) => part._tag === "reasoning")
      const said: Message.AssistantMessage = {
        role: "assistant",
        sequence: 1,
        at: 0,
        // As it comes back from a store.
        content: JSON.parse(JSON.stringify(first.content))
      }
      const again = ask({ messages: [user(0, "How?"), said, user(2, "Again?")] })
      yield* complete(client, again)
      yield* complete(AiSdkModel.make(models.messages(server.url, "claude-opus-4-5")), again)
      const [, same, other] = bodies(server).map(({ messages }) => messages[1]?.content)
      assert.strictEqual(same[0].type, "thinking")
      assert.strictEqual(same[0].thinking, reasoning!.text)
      assert.isAbove(same[0].signature.length, 100)
      assert.deepStrictEqual(
        other.map(({ type }: { type: string }) => type),
        ["text"]
      )
    })
  )

  it.live("closes the connection when it is interrupted", () =>
    Effect.gen(function* () {
      const begins = pieces("Hel")
      const server = yield* ReplayServer.make([
        streamed(begins, { fault: { after: begins.length, kind: "stall" } })
      ])
      const client = AiSdkModel.make(models.chat(server.url))
      const begun = yield* Deferred.make<void>()
      const fiber = yield* client.stream(ask()).pipe(
        Stream.runForEach(() => Deferred.succeed(begun, undefined)),
        Effect.forkChild
      )
      yield* Deferred.await(begun)
      yield* Fiber.interrupt(fiber)
      const { early } = yield* Effect.promise(() => server.requests[0]!.closed)
      assert.isTrue(early)
    })
  )

  it.live("retries before a part is out, reports each retry, and waits as long as the provider asks", () =>
    Effect.gen(function* () {
      const server = yield* ReplayServer.make([
        refusal(503, "overloaded"),
        refusal(429, "slow down", { "retry-after-ms": "5" }),
        hello
      ])
      const retries: Array<ModelRequest.ModelRetry> = []
      const client = AiSdkModel.make(models.chat(server.url), soon)
      yield* complete(client, ask({ onRetry: (retry) => retries.push(retry) }))
      assert.deepStrictEqual(
        retries.map(({ attempt, reason }) => [attempt, reason]),
        [
          [1, "ProviderFault"],
          [2, "RateLimited"]
        ]
      )
      assert.isAtLeast(retries[1]!.waitMs, 5)
    })
  )

  it.live("shows no key of a request in an error, also when the provider echoes it", () =>
    Effect.gen(function* () {
      const server = yield* ReplayServer.make(({ headers }) => ({
        status: 400,
        headers: { "content-type": "application/json" },
        body: JSON.stringify({
          error: { message: `bad key ${headers["authorization"]} and ${headers["x-own"]}`, type: "invalid" }
        })
      }))
      const client = AiSdkModel.make(models.chat(server.url), {
        ...once,
        headers: { "x-own": "hush-hush-1" }
      })
      const { reason } = yield* Effect.flip(client.complete(ask()))
      assert.isString(server.requests[0]?.headers["authorization"])
      assert.notInclude(reason.description, server.requests[0]!.headers["authorization"]!)
      assert.notInclude(reason.description, "hush-hush-1")
      assert.include(reason.description, "[REDACTED:secret]")
    })
  )

  it.live("does not retry after a part is out, and fails when the answer is cut", () =>
    Effect.gen(function* () {
      const server = yield* ReplayServer.make([
        streamed(pieces("Hel"), { fault: { after: pieces("Hel").length, kind: "reset" } }),
        hello
      ])
      const seen: Array<ModelPart.ModelPart> = []
      const client = AiSdkModel.make(models.chat(server.url), soon)
      const error = yield* client.stream(ask()).pipe(
        Stream.runForEach((part) => Effect.sync(() => seen.push(part))),
        Effect.flip
      )
      assert.deepStrictEqual(seen, [{ _tag: "text-delta", delta: "Hel" }])
      assert.strictEqual(error.reason._tag, "ConnectionLost")
      assert.lengthOf(server.requests, 1)
    })
  )

  it.live("retries when no server listens, and fails with ConnectionLost", () =>
    Effect.gen(function* () {
      const retries: Array<string> = []
      const { url } = yield* Effect.scoped(ReplayServer.make([]))
      const client = AiSdkModel.make(models.chat(url), { retry: { base: 1, times: 1 } })
      const error = yield* Effect.flip(
        client.complete(ask({ onRetry: ({ reason }) => retries.push(reason) }))
      )
      assert.strictEqual(error.reason._tag, "ConnectionLost")
      assert.deepStrictEqual(retries, ["ConnectionLost"])
    })
  )

  it.live("fails with NotAuthorized and the variable's name when a key is missing", () =>
    Effect.gen(function* () {
      const before = process.env.ANTHROPIC_API_KEY
      delete process.env.ANTHROPIC_API_KEY
      const client = AiSdkModel.make(createAnthropic({ baseURL: "http://127.0.0.1:9" })("claude-sonnet-4-5"))
      const error = yield* Effect.flip(client.complete(ask()))
      if (before !== undefined) process.env.ANTHROPIC_API_KEY = before
      assert.strictEqual(error.reason._tag, "NotAuthorized")
      assert.include(error.message, "ANTHROPIC_API_KEY")
    })
  )

  it.live("computes the cost of a call from the given prices", () =>
    Effect.gen(function* () {
      const server = yield* ReplayServer.make([streamed(pieces("Hi") + end)])
      const client = AiSdkModel.make(models.chat(server.url), { prices: { input: 2, output: 10 } })
      const { usage } = yield* complete(client, ask())
      assert.closeTo(usage.costUsd!, (3 * 2 + 2 * 10) / 1e6, 1e-12)
    })
  )

  it.live("reads models of specification 2, whose blocks may overlap", () =>
    Effect.gen(function* () {
      const parts: ReadonlyArray<LanguageModelV2StreamPart> = [
        { type: "stream-start", warnings: [] },
        { type: "reasoning-start", id: "r" },
        { type: "text-start", id: "t" },
        { type: "reasoning-delta", id: "r", delta: "Why " },
        { type: "text-delta", id: "t", delta: "Be" },
        { type: "reasoning-delta", id: "r", delta: "not." },
        { type: "reasoning-end", id: "r", providerMetadata: { old: { signature: "s" } } },
        { type: "text-delta", id: "t", delta: "cause." },
        { type: "text-end", id: "t" },
        { type: "tool-input-start", id: "c", toolName: "look" },
        { type: "tool-input-delta", id: "c", delta: '{"at":' },
        { type: "tool-call", toolCallId: "c", toolName: "look", input: '{"at":"it"}' },
        { type: "tool-call", toolCallId: "s", toolName: "search", input: "{}", providerExecuted: true },
        {
          type: "finish",
          finishReason: "stop",
          usage: { inputTokens: 7, outputTokens: 5, totalTokens: 12, reasoningTokens: 2 }
        }
      ]
      const { content, finishReason, usage } = yield* complete(
        AiSdkModel.make(older(parts)),
        ask({ tools: [look] })
      )
      assert.deepStrictEqual(content, [
        {
          _tag: "reasoning",
          text: "Why not.",
          provider: "ai-sdk@old/m2",
          payload: { old: { signature: "s" } }
        },
        { _tag: "text", text: "Because." },
        { _tag: "toolCall", providerCallId: "c", name: "look", arguments: '{"at":"it"}' }
      ])
      assert.strictEqual(finishReason, "toolCalls")
      assert.deepStrictEqual(usage, { inputTokens: 7, outputTokens: 5, reasoningTokens: 2 })
    })
  )

  it.live("fails instead of emitting the calls of an answer that was cut at its limit", () =>
    Effect.gen(function* () {
      const parts: ReadonlyArray<LanguageModelV2StreamPart> = [
        { type: "tool-call", toolCallId: "c", toolName: "look", input: "{}" },
        {
          type: "finish",
          finishReason: "length",
          usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 }
        }
      ]
      const error = yield* Effect.flip(complete(AiSdkModel.make(older(parts)), ask({ tools: [look] })))
      assert.strictEqual(error.reason._tag, "InvalidResponse")
      assert.isFalse(error.isRetryable)
      assert.include(error.message, "maxOutputTokens")
    })
  )

  it.live("fails with ConnectionLost on a stream without a finish", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        complete(AiSdkModel.make(older([{ type: "text-delta", id: "t", delta: "Hel" }]), once), ask())
      )
      assert.strictEqual(error.reason._tag, "ConnectionLost")
    })
  )
})

describe("an agent on an AI SDK model", () => {
  it.live("is held at a call, and completes with the model's next answer after a decision", () =>
    Effect.gen(function* () {
      const responses = yield* Effect.promise(() =>
        Promise.all(
          ["openai-tool-call", "openai-text"].map((name) =>
            ReplayServer.recorded(join(recordings, "chat", name))
          )
        )
      )
      const server = yield* ReplayServer.make(responses)
      const capital = Tool.make("get_capital", {
        parameters: Schema.Struct({ country: Schema.String }),
        handler: ({ country }) => `London is the capital of the ${country}.`
      })
      const runtime = yield* Effect.provide(
        Runtime.make({ agent: Agent.make("geographer", { tools: [capital] }) }),
        AiSdkModel.layer(models.chat(server.url))
      )
      const held = yield* runPrompt(runtime, { prompt: "What is the capital of the UK?" })
      if (held.status !== "interrupted") return assert.fail(held.status)
      const decisions = held.interruptions.map(({ requestId }) => ({
        _tag: "approve" as const,
        requestId,
        by: "tester"
      }))
      const done = yield* runPrompt(runtime, { state: held.state, decisions })
      if (done.status !== "completed") return assert.fail(done.status)
      assert.strictEqual(done.text, "The capital of the UK is London.")
      assert.deepInclude(done.usage, { requests: 2, inputTokens: 53 + 78, outputTokens: 15 + 9 })
      const [, second] = bodies(server)
      assert.include(second.messages.at(-1).content, "London is the capital of the UK.")
    })
  )
})

/** A model of specification 2 that answers with these parts. */
const older = (parts: ReadonlyArray<LanguageModelV2StreamPart>): LanguageModelV2 => ({
  specificationVersion: "v2",
  provider: "old",
  modelId: "m2",
  supportedUrls: {},
  doGenerate: () => Promise.reject(new Error("Only streams.")),
  doStream: () => Promise.resolve({ stream: ReadableStream.from(parts) })
})
