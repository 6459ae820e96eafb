/** Time limits, errors in words and failed results with files, through the AI SDK. */
import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider"
import { assert, describe, it } from "@effect/vitest"
import { AiSdkModel } from "@fermata/ai-sdk"
import { ReplayServer } from "@fermata/node/testing"
import type { Id, Message } from "@fermata/sdk/domain"
import { ModelClient } from "@fermata/sdk/model"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { ask, event, eventStream, json } from "../../node/test/model/asking.ts"

const models = {
  chat: (url: string) => createOpenAICompatible({ name: "c", baseURL: `${url}/v1`, apiKey: "k" })("m"),
  messages: (url: string) => createAnthropic({ baseURL: `${url}/v1`, apiKey: "k" })("claude-sonnet-4-5")
}

const never = new Promise<never>(() => {})

/** A model that never answers, or whose streams stop after these parts. It records the signals of its calls. */
const silent = (...parts: ReadonlyArray<object>) => {
  const signals: Array<AbortSignal> = []
  const called = ({ abortSignal }: LanguageModelV4CallOptions) => void signals.push(abortSignal!)
  const model = {
    specificationVersion: "v4",
    provider: "p",
    modelId: "m",
    supportedUrls: {},
    doGenerate: (options: LanguageModelV4CallOptions) => {
      called(options)
      return never
    },
    doStream: (options: LanguageModelV4CallOptions) => {
      called(options)
      if (parts.length === 0) return never
      const stream = new ReadableStream({
        start: (controller) => parts.forEach((part) => controller.enqueue(part))
      })
      return Promise.resolve({ stream })
    }
  } as unknown as LanguageModelV4
  return { model, signals }
}

describe("a model of the AI SDK that stops answering", () => {
  const begun = [
    { type: "text-start", id: "1" },
    { type: "text-delta", id: "1", delta: "Hel" }
  ]
  it.effect.each<{
    readonly what: string
    readonly parts: ReadonlyArray<object>
    readonly limit: "response" | "firstByte" | "idle"
    readonly whole?: boolean
  }>([
    { what: "before its stream", parts: [], limit: "response" },
    { what: "within its stream", parts: begun, limit: "idle" },
    { what: "before its whole answer", parts: [], limit: "firstByte", whole: true }
  ])("fails with TimedOut $what, and the call is aborted", ({ limit, parts, whole }) =>
    Effect.gen(function* () {
      const { model, signals } = silent(...parts)
      const client = AiSdkModel.make(model, {
        retry: { times: 0 },
        timeouts: { response: "1 second", firstByte: "1 second", idle: "1 second", [limit]: "10 seconds" }
      })
      const call = whole === true ? client.complete(ask()) : ModelClient.collect(client.stream(ask()))
      const fiber = yield* Effect.forkChild(Effect.flip(call), { startImmediately: true })
      // The parts of the stream arrive by promises, outside of the test's clock.
      while (signals.length === 0) yield* Effect.promise(() => Promise.resolve())
      for (let turn = 0; turn < 20; turn++) yield* Effect.promise(() => Promise.resolve())
      yield* TestClock.adjust("9 seconds")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 second")
      const { reason } = yield* Fiber.join(fiber)
      assert.deepInclude(reason, { _tag: "TimedOut", timeoutMs: 10_000 })
      assert.isTrue(signals[0]!.aborted)
    })
  )

  it.effect("fails by default, after a minute without the head of a stream", () =>
    Effect.gen(function* () {
      const client = AiSdkModel.make(silent().model, { retry: { times: 0 } })
      const fiber = yield* Effect.forkChild(Effect.flip(ModelClient.collect(client.stream(ask()))), {
        startImmediately: true
      })
      yield* TestClock.adjust("1 minute")
      assert.deepInclude((yield* Fiber.join(fiber)).reason, { _tag: "TimedOut", timeoutMs: 60_000 })
    })
  )
})

describe("an error in words within a successful response, through the AI SDK", () => {
  for (const [name, make] of Object.entries(models)) {
    it.live(`is shown and not repeated (${name})`, () =>
      Effect.gen(function* () {
        const text = "The model 'x' does not exist"
        const body = { error: text }
        const streamed = { headers: eventStream, body: event(body) }
        for (const response of [
          { headers: json, body: JSON.stringify(body) },
          { headers: json, body: JSON.stringify({ detail: text }) },
          // The AI SDK's package for Anthropic throws an error of its own, without the text.
          ...(name === "messages" ? [] : [streamed])
        ]) {
          const server = yield* ReplayServer.make(() => response)
          const client = AiSdkModel.make(make(server.url), { retry: { base: "1 millis" } })
          const call =
            response.headers === json ? client.complete(ask()) : ModelClient.collect(client.stream(ask()))
          assert.include((yield* Effect.flip(call)).message, text)
          assert.strictEqual(server.requests.length, 1)
        }
      })
    )
  }
})

describe("a limit of a provider of the AI SDK", () => {
  it.live("is shared by its models, and refuses unknown keys", () =>
    Effect.gen(function* () {
      const server = yield* ReplayServer.make(() => ({ status: 503, headers: json, body: "{}" }))
      const circuitBreaker = { failures: 2, key: "limit-of-the-test" }
      const clients = [models.chat, models.messages].map((make) =>
        AiSdkModel.make(make(server.url), { retry: { times: 0 }, circuitBreaker })
      )
      for (const client of [...clients, ...clients]) yield* Effect.flip(client.complete(ask()))
      assert.strictEqual(server.requests.length, 2)
      const wrong = { rateLimit: { perMinute: 1 } } as never
      assert.throws(() => AiSdkModel.make(models.chat(server.url), wrong), '"perMinute"')
    })
  )
})

describe("a failed result, through the AI SDK", () => {
  const shot = {
    _tag: "file",
    mediaType: "image/png",
    source: { _tag: "bytes", base64: "aGk=" }
  } as const
  const callId = "run.t1.1" as Id.ToolCallId
  const messages: ReadonlyArray<Message.Message> = [
    { role: "user", sequence: 0, at: 0, content: [{ _tag: "text", text: "Look." }] },
    {
      role: "assistant",
      sequence: 1,
      at: 0,
      content: [{ _tag: "toolCall", callId, providerCallId: "", name: "look", arguments: "{}" }]
    },
    {
      role: "tool",
      sequence: 2,
      at: 0,
      callId,
      providerCallId: "",
      name: "look",
      outcome: "failed",
      content: [{ _tag: "text", text: "The page did not load." }, shot]
    }
  ]

  it.live("keeps its files, and is marked as failed", () =>
    Effect.gen(function* () {
      const server = yield* ReplayServer.make([])
      const client = AiSdkModel.make(models.messages(server.url), { retry: { times: 0 } })
      yield* Effect.exit(client.complete(ask({ messages })))
      const [, , { content }] = JSON.parse(server.requests[0]!.body).messages
      assert.deepStrictEqual(content[0].content, [
        { type: "text", text: "The call failed:" },
        { type: "text", text: "The page did not load." },
        { type: "image", source: { type: "base64", media_type: "image/png", data: "aGk=" } }
      ])
    })
  )
})
