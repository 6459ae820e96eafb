import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import type { LanguageModelV2, LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider"
import { assert, describe, it } from "@effect/vitest"
import { AiSdkModel } from "@fermata/ai-sdk"
import { ReplayServer } from "@fermata/node/testing"
import { ModelClient, type ModelRequest } from "@fermata/sdk/model"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import { ask, end, pieces, streamed } from "../../node/test/model/asking.ts"

const look: ModelRequest.ToolDefinition = {
  name: "look",
  description: "Looks",
  parameters: { type: "object", properties: {} }
}

const all: ModelRequest.ModelSettings = {
  temperature: 0.5,
  topP: 0.25,
  maxOutputTokens: 4000,
  stop: ["."],
  seed: 1,
  reasoningEffort: "low",
  toolChoice: "required",
  parallelToolCalls: false,
  extra: { own: { user: "u1" } }
}

/** The value of an effect, and the lines that it logs. */
const logged = <A, E>(effect: Effect.Effect<A, E>) => {
  const lines: Array<string> = []
  const logger = Logger.make(({ message }) => {
    lines.push(String(message))
  })
  return Effect.map(Effect.provide(effect, Logger.layer([logger])), (value) => ({ value, lines }))
}

/** A model that answers with no content and records its call options. */
const keeping = (provider: string) => {
  const asked: Array<LanguageModelV4CallOptions> = []
  const model: LanguageModelV4 = {
    specificationVersion: "v4",
    provider,
    modelId: "m",
    supportedUrls: {},
    doGenerate: () => Promise.reject(new Error("only streams")),
    doStream: (options) => {
      asked.push(options)
      return Promise.resolve({
        stream: ReadableStream.from([
          {
            type: "stream-start",
            warnings: [
              { type: "unsupported", feature: "seed", details: "no seeds here" },
              { type: "other", message: "be careful" }
            ]
          },
          {
            type: "finish",
            finishReason: { unified: "stop", raw: "stop" },
            usage: {
              inputTokens: { total: 1, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
              outputTokens: { total: 1, text: undefined, reasoning: undefined }
            }
          }
        ])
      })
    }
  }
  return { asked, client: AiSdkModel.make(model, { retry: { times: 0 } }) }
}

const stream = (client: ModelClient.ModelClient["Service"], settings = all) =>
  ModelClient.collect(client.stream(ask({ settings, tools: [look] })))

describe("the key of a model of the AI SDK", () => {
  it.effect("is among the secrets of the client, and so are the credentials in its headers", () =>
    Effect.gen(function* () {
      const apiKey = "Ai-7h2-sdk-key"
      const models = [
        createAnthropic({ apiKey })("m"),
        createOpenAICompatible({ name: "p", baseURL: "http://127.0.0.1:9", apiKey })("m")
      ]
      for (const model of models) {
        const headers = { "x-session-token": "Ai-7h2-header" }
        const { secrets } = AiSdkModel.make(model as never, { headers })
        const values = (yield* secrets!).map((secret) => Redacted.value(secret))
        assert.sameMembers(
          values.map((value) => value.replace("Bearer ", "")),
          [apiKey, "Ai-7h2-header"]
        )
      }
      const { secrets } = keeping("p").client
      assert.deepStrictEqual(yield* secrets!, [])
    })
  )
})

describe("the settings of an AI SDK model", () => {
  it.effect("are passed on as call options, or as options of a known provider", () =>
    Effect.gen(function* () {
      const { asked, client } = keeping("openai.responses")
      yield* logged(stream(client))
      const { prompt: _, tools: __, abortSignal: ___, ...options } = asked[0]!
      assert.deepStrictEqual(options, {
        temperature: 0.5,
        topP: 0.25,
        maxOutputTokens: 4000,
        stopSequences: ["."],
        seed: 1,
        reasoning: "low",
        toolChoice: { type: "required" },
        providerOptions: { own: { user: "u1" }, openai: { parallelToolCalls: false } }
      })
    })
  )

  it.effect("are overridden by the provider options in `extra`", () =>
    Effect.gen(function* () {
      const { asked, client } = keeping("openai.chat")
      yield* logged(stream(client, { ...all, extra: { openai: { parallelToolCalls: true, user: "u" } } }))
      assert.deepStrictEqual(asked[0]!.providerOptions, { openai: { parallelToolCalls: true, user: "u" } })
    })
  )

  it.effect("that cannot be passed on cause one warning, as do the model's own warnings", () =>
    Effect.gen(function* () {
      const { client } = keeping("another.chat")
      const { lines } = yield* logged(Effect.andThen(stream(client), stream(client)))
      assert.deepStrictEqual(lines, [
        "Model m: the setting parallelToolCalls is left out: the AI SDK does not have it; give the provider's own option in extra.",
        "Model m: unsupported: seed (no seeds here)",
        "Model m: other: be careful"
      ])
    })
  )

  it.effect("omit reasoningEffort, with a warning, before specification 4", () =>
    Effect.gen(function* () {
      const asked: Array<object> = []
      const model: LanguageModelV2 = {
        specificationVersion: "v2",
        provider: "old",
        modelId: "m2",
        supportedUrls: {},
        doStream: () => Promise.reject(new Error("does not stream")),
        doGenerate: (options) => {
          asked.push(options)
          return Promise.resolve({
            content: [],
            finishReason: "stop",
            usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 },
            warnings: [{ type: "unsupported-setting", setting: "topP" }]
          })
        }
      }
      const request = ask({ settings: { reasoningEffort: "low", topP: 0.25 } })
      const { lines } = yield* logged(AiSdkModel.make(model).complete(request))
      assert.notProperty(asked[0], "reasoning")
      assert.deepInclude(asked[0], { topP: 0.25 })
      assert.lengthOf(lines, 2)
      assert.include(lines[0], "the setting reasoningEffort is left out: the specification 2 of the AI SDK")
      assert.strictEqual(lines[1], "Model m2: unsupported-setting: topP")
    })
  )

  it.live("turn off Anthropic's parallel calls by its own option", () =>
    Effect.gen(function* () {
      const server = yield* ReplayServer.make(() => ({ status: 400, body: "no" }))
      const model = createAnthropic({ baseURL: `${server.url}/v1`, apiKey: "k" })("claude-sonnet-4-5")
      const { toolChoice: _, reasoningEffort: __, ...settings } = all
      const { lines } = yield* logged(Effect.flip(stream(AiSdkModel.make(model), settings)))
      const { tool_choice } = JSON.parse(server.requests[0]!.body)
      assert.deepStrictEqual(tool_choice, { type: "auto", disable_parallel_tool_use: true })
      assert.notInclude(lines.join(), "parallelToolCalls")
    })
  )

  it.live("give the ids of calls the length that Mistral takes", () =>
    Effect.gen(function* () {
      const server = yield* ReplayServer.make([streamed(pieces("Hi") + end)])
      const make = createOpenAICompatible({ name: "mistral", baseURL: `${server.url}/v1`, apiKey: "k" })
      const client = AiSdkModel.make(make("m"), { callIdLength: 9 })
      const call = { callId: "run.t1.1" as never, providerCallId: "toolu_01ABCDEF", name: "look" }
      yield* ModelClient.collect(
        client.stream(
          ask({
            messages: [
              { role: "user", sequence: 0, at: 0, content: [{ _tag: "text", text: "Look." }] },
              {
                role: "assistant",
                sequence: 1,
                at: 0,
                content: [{ _tag: "toolCall", ...call, arguments: "{}" }]
              },
              { role: "tool", sequence: 2, at: 0, ...call, outcome: "completed", content: [] }
            ]
          })
        )
      )
      const { messages } = JSON.parse(server.requests[0]!.body)
      assert.match(messages[2].tool_calls[0].id, /^[a-zA-Z0-9]{9}$/)
      assert.strictEqual(messages[3].tool_call_id, messages[2].tool_calls[0].id)
    })
  )
})

describe("the usage of a failed answer of an AI SDK model", () => {
  const usage = {
    inputTokens: { total: 100, noCache: 100, cacheRead: 0, cacheWrite: undefined },
    outputTokens: { total: 20, text: 20, reasoning: undefined }
  }
  const failing = (parts: ReadonlyArray<object>, stalls = false): LanguageModelV4 => ({
    specificationVersion: "v4",
    provider: "x.chat",
    modelId: "m",
    supportedUrls: {},
    doGenerate: () => Promise.reject(new Error("only streams")),
    doStream: () =>
      Promise.resolve({
        stream: new ReadableStream({
          start: (controller) => {
            for (const part of parts) controller.enqueue(part as never)
            if (!stalls) controller.close()
          }
        })
      })
  })
  const error = { type: "error", error: new Error("upstream broke") }
  const finish = { type: "finish", finishReason: { unified: "error", raw: undefined }, usage }

  it.live("is in the error, when the model reports it after the error or with it", () =>
    Effect.gen(function* () {
      for (const parts of [[error, { type: "text-delta", id: "t", delta: "more" }, finish], [finish]]) {
        const client = AiSdkModel.make(failing(parts), {
          prices: { input: 1, output: 10 },
          retry: { times: 0 }
        })
        const failed = yield* Effect.flip(ModelClient.collect(client.stream(ask())))
        assert.deepInclude(failed.usage, { inputTokens: 100, outputTokens: 20, costUsd: 300 / 1e6 })
      }
    })
  )

  it.live("is undefined when the stream stalls after the error, which is not waited for", () =>
    Effect.gen(function* () {
      const client = AiSdkModel.make(failing([{ type: "text-delta", id: "t", delta: "Hel" }, error], true))
      const failed = yield* Effect.flip(ModelClient.collect(client.stream(ask())))
      assert.include(failed.message, "upstream broke")
      assert.isUndefined(failed.usage)
    })
  )

  it.live("counts invalid numbers as 0, and rounds fractions", () =>
    Effect.gen(function* () {
      const odd = { inputTokens: { total: Number.NaN }, outputTokens: { total: -3, reasoning: 1.6 } }
      const client = AiSdkModel.make(failing([{ ...finish, usage: odd }]), { retry: { times: 0 } })
      const failed = yield* Effect.flip(ModelClient.collect(client.stream(ask())))
      assert.deepStrictEqual(failed.usage, { inputTokens: 0, outputTokens: 0, reasoningTokens: 2 })
    })
  )
})
