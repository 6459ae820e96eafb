import { assert, describe, it } from "@effect/vitest"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Logger from "effect/Logger"
import * as Stream from "effect/Stream"
import * as AnthropicMessages from "../../src/model/AnthropicMessages.ts"
import * as EffectAiModel from "../../src/model/EffectAiModel.ts"
import { messages } from "../../src/model/internal/anthropic/messages.ts"
import { chat } from "../../src/model/internal/openai/chat.ts"
import { responses } from "../../src/model/internal/openai/responses.ts"
import type { Protocol } from "../../src/model/internal/protocol.ts"
import { omittedSettings } from "../../src/model/internal/warnings.ts"
import type { ModelClient } from "../../src/model/ModelClient.ts"
import type { ModelProfile } from "../../src/model/ModelProfile.ts"
import type { ModelSettings } from "../../src/model/ModelRequest.ts"
import * as OpenAiChat from "../../src/model/OpenAiChat.ts"
import * as OpenAiResponses from "../../src/model/OpenAiResponses.ts"
import { requestOf, tool, user } from "./Histories.ts"

const all: ModelSettings = {
  temperature: 0.5,
  topP: 0.5,
  maxOutputTokens: 4000,
  stop: ["."],
  seed: 1,
  toolChoice: "auto",
  parallelToolCalls: false
}

/** The settings that a request of this protocol omits. */
const missing = (
  protocol: Protocol,
  settings: ModelSettings,
  profile: Partial<ModelProfile> = {},
  tools = [tool]
) => {
  const request = requestOf([user("hi")], { settings, tools })
  const entire: ModelProfile = {
    name: "m",
    protocol: "chat",
    baseUrl: "https://models.example/v1",
    model: "claude-sonnet-4-0",
    ...profile
  }
  return omittedSettings(request, protocol.encode(request, entire, true), protocol.settingFields).map(
    (sentence) => /^the setting (\w+) is left out/.exec(sentence)?.[1]
  )
}

describe("an omitted setting", () => {
  it("is known for each protocol that lacks it", () => {
    assert.deepStrictEqual(missing(chat, { ...all, reasoningEffort: "low" }), [])
    assert.deepStrictEqual(missing(responses, { ...all, reasoningEffort: "low" }), ["stop", "seed"])
    assert.deepStrictEqual(missing(messages, all), ["seed"])
    assert.deepStrictEqual(missing(messages, { ...all, reasoningEffort: "high" }), [
      "temperature",
      "topP",
      "seed"
    ])
  })

  it("is known for a server that does not support it", () => {
    const compatibility = { reasoningEffort: false, parallelToolCalls: false, maxOutputTokens: false }
    const settings = { ...all, reasoningEffort: "low" } as const
    assert.deepStrictEqual(missing(chat, settings, { compatibility }), [
      "parallelToolCalls",
      "reasoningEffort"
    ])
    assert.deepStrictEqual(missing(responses, settings, { compatibility }), [
      "maxOutputTokens",
      "stop",
      "seed",
      "parallelToolCalls",
      "reasoningEffort"
    ])
    assert.deepStrictEqual(missing(messages, settings, { compatibility }), [
      "seed",
      "parallelToolCalls",
      "reasoningEffort"
    ])
  })

  it("is not reported for a default, or when `extra` has it", () => {
    for (const protocol of [chat, responses, messages]) {
      const nothing: ModelSettings = { reasoningEffort: "none", parallelToolCalls: true }
      assert.deepStrictEqual(missing(protocol, nothing), [])
      assert.deepStrictEqual(missing(protocol, { toolChoice: "auto", parallelToolCalls: false }, {}, []), [])
    }
    assert.deepStrictEqual(missing(responses, { stop: ["."], extra: { stop: ["."] } }), [])
  })

  /** The log of three requests of a client. */
  const logged = (client: ModelClient["Service"], settings: ModelSettings) =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      const logger = Logger.make(({ logLevel, message }) => {
        lines.push(`${logLevel} ${String(message)}`)
      })
      const request = requestOf([user("hi")], { settings, tools: [tool] })
      yield* Effect.forEach([1, 2], () => Effect.exit(Stream.runDrain(client.stream(request)))).pipe(
        Effect.andThen(Effect.exit(client.complete(request))),
        Effect.provide(Logger.layer([logger]))
      )
      return lines
    })

  it.effect("is warned of once per client", () =>
    Effect.gen(function* () {
      const http = HttpClient.make((request) =>
        Effect.succeed(HttpClientResponse.fromWeb(request, new Response("no", { status: 400 })))
      )
      for (const [make, settings] of [
        [OpenAiChat.make, []],
        [OpenAiResponses.make, ["stop", "seed"]],
        [AnthropicMessages.make, ["seed"]]
      ] as const) {
        const client = yield* make({ model: "m", name: "tested", apiKey: "key" }).pipe(
          Effect.provideService(HttpClient.HttpClient, http)
        )
        const why = "this protocol, this profile or the rest of the request does not allow it"
        assert.deepStrictEqual(
          yield* logged(client, all),
          settings.map((setting) => `Warn Model tested: the setting ${setting} is left out: ${why}.`)
        )
      }
    })
  )

  it.effect("of a language model is every one except the tool choice, unless a context is given", () =>
    Effect.gen(function* () {
      const model = yield* LanguageModel.make({
        generateText: () => Effect.succeed([]),
        streamText: () => Stream.empty
      })
      const why = "a language model accepts no settings per call; pass them in `context`"
      assert.deepStrictEqual(
        yield* logged(EffectAiModel.make(model, { name: "m", retry: { times: 0 } }), { ...all, extra: {} }),
        ["temperature", "topP", "maxOutputTokens", "stop", "seed", "parallelToolCalls", "extra"].map(
          (setting) => `Warn Model m: the setting ${setting} is left out: ${why}.`
        )
      )
      const context = () => Context.empty()
      const told = EffectAiModel.make(model, { name: "m", retry: { times: 0 }, context })
      assert.deepStrictEqual(yield* logged(told, all), [])
    })
  )
})
