import { assert, describe, it } from "@effect/vitest"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import type { RunId, SessionId, ToolCallId } from "../../src/domain/Id.ts"
import type { Message } from "../../src/domain/Message.ts"
import * as EffectAiModel from "../../src/model/EffectAiModel.ts"
import { messages } from "../../src/model/internal/anthropic/messages.ts"
import { chat } from "../../src/model/internal/openai/chat.ts"
import { responses } from "../../src/model/internal/openai/responses.ts"
import { collect, type ModelClient } from "../../src/model/ModelClient.ts"
import { ModelError, RateLimited } from "../../src/model/ModelError.ts"
import { type ModelPart, partsOf } from "../../src/model/ModelPart.ts"
import type { ModelRequest, ToolDefinition } from "../../src/model/ModelRequest.ts"
import { failsInside, fixtures, read } from "./Fixtures.ts"

type Client = ModelClient["Service"]

const ask = (changes: Partial<ModelRequest> = {}): ModelRequest => ({
  runId: "run" as RunId,
  sessionId: "session" as SessionId,
  agentPath: ["agent"],
  turn: 1,
  instructions: "Be brief.",
  messages: [{ role: "user", sequence: 0, at: 0, content: [{ _tag: "text", text: "Hello?" }] }],
  tools: [],
  ...changes
})

const look: ToolDefinition = {
  name: "look",
  description: "Looks",
  parameters: { type: "object", properties: { at: { type: "string" } }, required: ["at"] }
}

/** A client that streams these answers, repeats the last one, and records its requests. */
const saying = (...answers: ReadonlyArray<ReadonlyArray<ModelPart>>) => {
  const requests: Array<ModelRequest> = []
  const stream = (request: ModelRequest) =>
    Stream.suspend(() => {
      requests.push(request)
      return Stream.fromIterable(answers[Math.min(requests.length, answers.length) - 1]!)
    })
  const client: Client = { stream, complete: (request) => collect(stream(request)) }
  return { client, requests }
}

/** A language model that streams these parts or fails, and records its requests. */
const speaking = (
  parts: ReadonlyArray<Response.StreamPartEncoded>,
  ...errors: ReadonlyArray<AiError.AiError>
) => {
  const asked: Array<LanguageModel.ProviderOptions> = []
  const model = LanguageModel.make({
    generateText: () => Effect.die(new Error("only streams")),
    streamText: (options) => {
      asked.push(options)
      const error = errors[asked.length - 1]
      return error === undefined ? Stream.fromIterable(parts) : Stream.fail(error)
    }
  })
  return { model, asked }
}

const finish = (reason: Response.FinishReason = "stop"): Response.StreamPartEncoded => ({
  type: "finish",
  reason,
  usage: {
    inputTokens: { total: 20, uncached: 12, cacheRead: 5, cacheWrite: 3 },
    outputTokens: { total: 9, text: 5, reasoning: 4 }
  }
})

const names = { name: "m", retry: { base: "1 millis" as const } }

describe("a language model that stops answering", () => {
  it.effect("fails with TimedOut, streamed or whole, after the limits of its client", () =>
    Effect.gen(function* () {
      const begun: ReadonlyArray<Response.StreamPartEncoded> = [
        { type: "text-start", id: "1" },
        { type: "text-delta", id: "1", delta: "Hel" }
      ]
      const model = yield* LanguageModel.make({
        generateText: () => Effect.never,
        streamText: () => Stream.concat(Stream.fromIterable(begun), Stream.never)
      })
      const timeouts = { firstByte: "2 minutes", idle: "10 seconds" } as const
      const client = EffectAiModel.make(model, { ...names, retry: { times: 0 }, timeouts })
      const limits = [collect(client.stream(ask())), client.complete(ask())].map((call) =>
        Effect.gen(function* () {
          const fiber = yield* Effect.forkChild(Effect.flip(call), { startImmediately: true })
          yield* TestClock.adjust("5 minutes")
          const { reason } = yield* Fiber.join(fiber)
          return reason._tag === "TimedOut" ? reason.timeoutMs : reason._tag
        })
      )
      assert.deepStrictEqual(yield* Effect.all(limits), [10_000, 120_000])
    })
  )
})

describe("EffectAiModel in both directions", () => {
  for (const [protocol, { decoder }] of Object.entries({ chat, responses, messages })) {
    const recorded = fixtures(protocol as "chat").filter(
      (fixture) => fixture.stream && fixture.status === 200 && !failsInside(fixture)
    )
    it.effect.each(recorded)(`passes ${protocol}/$name on unchanged, with its payloads`, ({ bytes }) =>
      Effect.gen(function* () {
        const profile = {
          name: "m",
          protocol: protocol as "chat",
          baseUrl: "https://api.test/v1",
          model: "m"
        }
        const { response } = read(decoder(profile), [bytes])
        const { client, requests } = saying(partsOf(response!))
        const around = EffectAiModel.make(yield* EffectAiModel.languageModel(client), names)
        const called = response!.content.flatMap((part) => (part._tag === "toolCall" ? [part.name] : []))
        const tools = [...new Set(called)].map((name) => ({ ...look, name }))
        for (const answer of [
          yield* collect(around.stream(ask({ tools }))),
          yield* around.complete(ask({ tools }))
        ]) {
          const { costUsd: _, ...usage } = response!.usage
          assert.deepStrictEqual(answer.usage, usage)
          assert.strictEqual(answer.finishReason, response!.finishReason)
          assert.strictEqual(answer.profile, "m")
          const said = answer.content.map((part) => ("provider" in part ? unwrapped(part) : part))
          const expected = response!.content.filter(
            (part) =>
              part._tag === "toolCall" || part._tag === "file" || part.text !== "" || "payload" in part
          )
          assert.deepStrictEqual(joined(said), joined(expected))
        }
        // The content goes back to the client that it came from.
        const content = (yield* around.complete(ask({ tools }))).content.map((part, index) =>
          part._tag === "toolCall" ? { ...part, callId: `run.t1.${index}` as ToolCallId } : part
        )
        const again: ReadonlyArray<Message> = [
          ...ask().messages,
          { role: "assistant", sequence: 1, at: 0, content }
        ]
        yield* around.complete(ask({ tools, messages: again }))
        assert.deepStrictEqual(
          payloads(requests.at(-1)!.messages.flatMap((message): ReadonlyArray<object> => message.content)),
          payloads(response!.content)
        )
      })
    )
  }
})

const payloads = (parts: ReadonlyArray<object>) =>
  parts.flatMap((part) => ("payload" in part ? [part.payload] : []))

/** A part without the envelope of its payload. */
const unwrapped = (part: { readonly provider?: string; readonly payload?: Schema.Json }) => {
  const { payload, provider: _, ...bare } = part
  const { fermata } = payload as { fermata: { provider: string | null; payload: Schema.Json } }
  return {
    ...bare,
    ...(fermata.provider === null ? {} : { provider: fermata.provider }),
    ...(fermata.payload === null ? {} : { payload: fermata.payload })
  }
}

/** Merges adjacent plain texts, and parses arguments, whose white space is not kept. */
const joined = (parts: ReadonlyArray<object>) => {
  const out: Array<any> = []
  for (const part of parts as ReadonlyArray<any>) {
    const last = out.at(-1)
    const bare = (part: any) => part?._tag === "text" && part.payload === undefined
    if (bare(last) && bare(part)) out[out.length - 1] = { ...last, text: last.text + part.text }
    else if (part._tag === "toolCall") out.push({ ...part, arguments: JSON.parse(part.arguments || "{}") })
    else out.push(part)
  }
  return out
}

describe("EffectAiModel.make", () => {
  it.effect("declares tools by JSON Schema, and runs none of them", () =>
    Effect.gen(function* () {
      const { asked, model } = speaking([
        { type: "tool-params-start", id: "c1", name: "look" },
        { type: "tool-params-delta", id: "c1", delta: '{"at":' },
        { type: "tool-call", id: "c1", name: "look", params: { at: 7 }, metadata: { p: { sig: "x" } } },
        { type: "tool-call", id: "c2", name: "unheardOf", params: {} },
        { type: "tool-call", id: "s1", name: "search", params: {}, providerExecuted: true },
        finish("stop")
      ])
      const client = EffectAiModel.make(yield* model, names)
      const parts = yield* Stream.runCollect(
        client.stream(ask({ tools: [look], settings: { toolChoice: "required" } }))
      )
      assert.deepStrictEqual(parts, [
        { _tag: "tool-call-delta", index: 0, name: "look", delta: '{"at":' },
        {
          _tag: "tool-call",
          providerCallId: "c1",
          name: "look",
          arguments: '{"at":7}',
          provider: "effect-ai@m",
          payload: { p: { sig: "x" } }
        },
        { _tag: "tool-call", providerCallId: "c2", name: "unheardOf", arguments: "{}" },
        {
          _tag: "finish",
          finishReason: "toolCalls",
          profile: "m",
          usage: {
            inputTokens: 20,
            cachedInputTokens: 5,
            cacheWriteTokens: 3,
            outputTokens: 9,
            reasoningTokens: 4
          }
        }
      ])
      assert.strictEqual(asked[0]!.toolChoice, "required")
      assert.deepStrictEqual(Tool.getJsonSchema(asked[0]!.tools[0]!), look.parameters)
    })
  )

  it.effect("sends reasoning of this model only, and one result per call", () =>
    Effect.gen(function* () {
      const { asked, model } = speaking([finish()])
      const call = { callId: "run.t1.1" as ToolCallId, providerCallId: "0", name: "look" }
      const history: ReadonlyArray<Message> = [
        ...ask().messages,
        {
          role: "assistant",
          sequence: 1,
          at: 0,
          content: [
            { _tag: "reasoning", text: "mine", provider: "effect-ai@m", payload: { p: { sig: "x" } } },
            { _tag: "reasoning", text: "not mine", provider: "else", payload: { sig: "y" } },
            { _tag: "toolCall", ...call, arguments: "" }
          ]
        },
        {
          role: "tool",
          sequence: 2,
          at: 0,
          ...call,
          outcome: "denied",
          content: [
            { _tag: "text", text: "no" },
            { _tag: "file", mediaType: "image/png", source: { _tag: "bytes", base64: "aGk=" } }
          ]
        }
      ]
      const client = EffectAiModel.make(yield* model, names)
      yield* collect(
        client.stream(ask({ messages: history, output: { name: "o", schema: { type: "object" } } }))
      )
      const [system, , assistant, tool] = asked[0]!.prompt.content
      assert.include(String(system!.content), "Be brief.")
      assert.include(String(system!.content), '{"type":"object"}')
      assert.deepStrictEqual(
        (assistant as Prompt.AssistantMessage).content.map((part) => [part.type, part.options]),
        [
          ["reasoning", { p: { sig: "x" } }],
          ["tool-call", {}]
        ]
      )
      const [result] = (tool as Prompt.ToolMessage).content as ReadonlyArray<Prompt.ToolResultPart>
      assert.deepInclude(result, { id: "0", name: "look", isFailure: true, result: "no" })
      assert.lengthOf(result!.modelOutput!, 2)
    })
  )

  it.live("retries after a retryable error, and maps each error to a reason", () =>
    Effect.gen(function* () {
      const failing = (reason: AiError.AiErrorReason) => AiError.make({ module: "P", method: "m", reason })
      const limited = failing(new AiError.RateLimitError({ retryAfter: Duration.millis(3) }))
      const { asked, model } = speaking([finish()], limited)
      const retries: Array<string> = []
      const client = EffectAiModel.make(yield* model, names)
      yield* collect(client.stream(ask({ onRetry: ({ reason }) => retries.push(reason) })))
      assert.deepStrictEqual(retries, ["RateLimited"])
      assert.lengthOf(asked, 2)

      const reasons: Array<string> = []
      for (const reason of [
        new AiError.QuotaExhaustedError({}),
        new AiError.AuthenticationError({ kind: "InvalidKey" }),
        new AiError.InvalidRequestError({ description: "This model's maximum context length is 8 tokens." }),
        new AiError.InvalidRequestError({ description: "No such parameter." }),
        new AiError.ContentPolicyError({ description: "Not this." })
      ]) {
        const { model } = speaking([], failing(reason))
        const error = yield* Effect.flip(collect(EffectAiModel.make(yield* model, names).stream(ask())))
        reasons.push(error.reason._tag)
      }
      assert.deepStrictEqual(reasons, [
        "QuotaExhausted",
        "NotAuthorized",
        "ContextOverflow",
        "InvalidRequest",
        "InvalidRequest"
      ])
    })
  )

  it.effect("reports the usage and cost of a failed call", () =>
    Effect.gen(function* () {
      const usage = { promptTokens: 100, totalTokens: 120 }
      const reason = new AiError.InvalidOutputError({ description: "No such thing.", usage })
      const { model } = speaking([], AiError.make({ module: "P", method: "m", reason }))
      const once = { name: "m", retry: { times: 0 }, prices: { input: 1, output: 10 } }
      const error = yield* Effect.flip(collect(EffectAiModel.make(yield* model, once).stream(ask())))
      assert.deepStrictEqual(error.usage, { inputTokens: 100, outputTokens: 20, costUsd: 300 / 1e6 })
    })
  )

  it.effect("treats an answer without a finish as cut off, and calls cut at the limit as invalid", () =>
    Effect.gen(function* () {
      const once = { ...names, retry: { times: 0 } }
      const reading = (parts: ReadonlyArray<Response.StreamPartEncoded>) =>
        Effect.gen(function* () {
          const client = EffectAiModel.make(yield* speaking(parts).model, once)
          return (yield* Effect.flip(collect(client.stream(ask({ tools: [look] }))))).reason._tag
        })
      assert.strictEqual(yield* reading([{ type: "text-delta", id: "t", delta: "Hel" }]), "ConnectionLost")
      const call = { type: "tool-call", id: "c", name: "look", params: {} } as const
      assert.strictEqual(yield* reading([call, finish("length")]), "InvalidResponse")
      assert.strictEqual(yield* reading([finish("error")]), "ProviderFault")
      assert.strictEqual(
        yield* reading([{ type: "error", error: { type: "overloaded_error", message: "Overloaded" } }]),
        "ProviderFault"
      )
    })
  )

  it.effect("provides the context of a call to the model", () =>
    Effect.gen(function* () {
      const Temperature = Context.Reference<number>("test/Temperature", { defaultValue: () => 1 })
      const seen: Array<number> = []
      const model = yield* LanguageModel.make({
        generateText: () => Effect.die(new Error("only streams")),
        streamText: () =>
          Stream.unwrap(
            Effect.map(Temperature, (temperature) => {
              seen.push(temperature)
              return Stream.make(finish())
            })
          )
      })
      const context = ({ settings }: ModelRequest) => Context.make(Temperature, settings?.temperature ?? 1)
      const client = EffectAiModel.make(model, { ...names, context })
      yield* collect(client.stream(ask({ settings: { temperature: 0.5 } })))
      assert.deepStrictEqual(seen, [0.5])
    })
  )
})

const Weather = Tool.make("weather", {
  description: "The weather",
  parameters: Schema.Struct({ city: Schema.String }),
  success: Schema.String
})

describe("EffectAiModel.languageModel", () => {
  it.effect("resolves tools of effect/ai", () =>
    Effect.gen(function* () {
      const { client, requests } = saying(
        [
          { _tag: "text-delta", delta: "Let me see." },
          { _tag: "tool-call", providerCallId: "c1", name: "weather", arguments: '{"city":"Rome"}' },
          { _tag: "finish", finishReason: "toolCalls", usage: { inputTokens: 3, outputTokens: 2 } }
        ],
        [{ _tag: "finish", finishReason: "stop", usage: { inputTokens: 1, outputTokens: 1 } }]
      )
      const model = yield* EffectAiModel.languageModel(client)
      const toolkit = Toolkit.make(Weather)
      const handlers = yield* toolkit.toHandlers({ weather: ({ city }) => Effect.succeed(`sun in ${city}`) })
      const answer = yield* model
        .generateText({ prompt: "How is Rome?", toolkit, toolChoice: { tool: "weather" } })
        .pipe(Effect.provideContext(handlers))
      assert.strictEqual(answer.text, "Let me see.")
      assert.deepStrictEqual(
        answer.toolResults.map(({ result }) => result),
        ["sun in Rome"]
      )
      assert.strictEqual(answer.usage.inputTokens.total, 3)
      const [request] = requests
      assert.deepStrictEqual(request!.settings, { toolChoice: { tool: "weather" } })
      assert.deepStrictEqual(Object.keys(request!.tools[0]!.parameters.properties as object), ["city"])

      // The next turn contains the call and its result.
      const prompt = Prompt.concat(Prompt.make("How is Rome?"), Prompt.fromResponseParts(answer.content))
      yield* model.generateText({ prompt })
      const [, said, result] = requests[1]!.messages
      assert.strictEqual(said!.role, "assistant")
      assert.deepInclude(result, { role: "tool", outcome: "completed", providerCallId: "c1" })
    })
  )

  it.effect("adds a synthetic result for an unanswered call", () =>
    Effect.gen(function* () {
      const { client, requests } = saying([
        { _tag: "finish", finishReason: "stop", usage: { inputTokens: 1, outputTokens: 1 } }
      ])
      const model = yield* EffectAiModel.languageModel(client)
      const call = Prompt.toolCallPart({ id: "c1", name: "weather", params: {}, providerExecuted: false })
      yield* model.generateText({
        prompt: Prompt.fromMessages([
          Prompt.systemMessage({ content: "Be brief." }),
          Prompt.assistantMessage({ content: [call] }),
          Prompt.userMessage({ content: [Prompt.textPart({ text: "Well?" })] })
        ])
      })
      assert.strictEqual(requests[0]!.instructions, "Be brief.")
      assert.deepStrictEqual(
        requests[0]!.messages.map(({ role, sequence }) => [role, sequence]),
        [
          ["assistant", 0],
          ["tool", 1],
          ["user", 2]
        ]
      )
    })
  )

  it.effect("generates objects by their schema", () =>
    Effect.gen(function* () {
      const { client, requests } = saying([
        { _tag: "text-delta", delta: '{"sum":' },
        { _tag: "text-delta", delta: "7}" },
        { _tag: "finish", finishReason: "stop", usage: { inputTokens: 1, outputTokens: 1 } }
      ])
      const model = yield* EffectAiModel.languageModel(client)
      const schema = Schema.Struct({ sum: Schema.Int })
      const { value } = yield* model.generateObject({ prompt: "3 + 4?", schema, objectName: "total" })
      assert.deepStrictEqual(value, { sum: 7 })
      assert.strictEqual(requests[0]!.output!.name, "total")
      assert.deepStrictEqual(requests[0]!.output!.schema.required, ["sum"])
    })
  )

  it.effect("fails with an effect/ai error, and the provider's retryAfter", () =>
    Effect.gen(function* () {
      const error = new ModelError({
        reason: new RateLimited({ description: "slow down", retryAfterMs: 1500 })
      })
      const failing: Client = { stream: () => Stream.fail(error), complete: () => Effect.fail(error) }
      const model = yield* EffectAiModel.languageModel(failing)
      const failure = yield* Effect.flip(model.generateText({ prompt: "?" }))
      assert.strictEqual(failure.reason._tag, "RateLimitError")
      assert.strictEqual(Duration.toMillis(failure.retryAfter!), 1500)
      const streamed = yield* Effect.flip(Stream.runDrain(model.streamText({ prompt: "?" })))
      assert.isTrue(streamed.isRetryable)
    })
  )
})
