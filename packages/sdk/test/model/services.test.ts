import { assert, describe, it } from "@effect/vitest"
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as AnthropicMessages from "../../src/model/AnthropicMessages.ts"
import * as Auth from "../../src/model/Auth.ts"
import type { ModelProfile } from "../../src/model/ModelProfile.ts"
import * as OpenAiChat from "../../src/model/OpenAiChat.ts"
import * as OpenAiResponses from "../../src/model/OpenAiResponses.ts"

const environment = (values: Record<string, string>) =>
  ConfigProvider.layer(ConfigProvider.fromEnvRecord(values))

/** The authentication headers. */
const headersOf = ({ auth }: Pick<ModelProfile, "auth">) =>
  Effect.map(auth!.headers({ forced: false }), (headers) =>
    Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, Redacted.value(value)]))
  )

const services = [
  { service: OpenAiChat, protocol: "chat", url: "https://api.openai.com/v1", variable: "OPENAI_API_KEY" },
  {
    service: OpenAiResponses,
    protocol: "responses",
    url: "https://api.openai.com/v1",
    variable: "OPENAI_API_KEY"
  },
  {
    service: AnthropicMessages,
    protocol: "messages",
    url: "https://api.anthropic.com/v1",
    variable: "ANTHROPIC_API_KEY"
  }
] as const

describe("a provider's service", () => {
  for (const { protocol, service, url, variable } of services) {
    it.effect(`of ${protocol} needs a model name, and a key in ${variable}`, () =>
      Effect.gen(function* () {
        const profile = service.profile({ model: "m" })
        assert.deepInclude(profile, { name: "m", model: "m", protocol, baseUrl: url })
        const headers = yield* headersOf(profile).pipe(Effect.provide(environment({ [variable]: "k1\n" })))
        const expected = protocol === "messages" ? { "x-api-key": "k1" } : { authorization: "Bearer k1" }
        assert.deepStrictEqual(headers, expected)
        for (const none of [{}, { [variable]: "" }, { [variable]: " " }]) {
          const { reason } = yield* Effect.flip(headersOf(profile)).pipe(Effect.provide(environment(none)))
          assert.strictEqual(reason._tag, "NotAuthorized")
          assert.include(reason.description, `set ${variable}`)
        }
      })
    )

    it.effect(`of ${protocol} accepts another name, address, key or authentication`, () =>
      Effect.gen(function* () {
        const options = { model: "m", name: "local", baseUrl: "http://127.0.0.1:11434/v1" }
        assert.deepInclude(service.profile(options), { name: "local", baseUrl: options.baseUrl })
        for (const apiKey of [
          "k2",
          Redacted.make("k2"),
          Config.Redacted("OTHER"),
          Effect.succeed(Redacted.make("k2"))
        ]) {
          const headers = yield* headersOf(service.profile({ ...options, apiKey })).pipe(
            Effect.provide(environment({ OTHER: "k2" }))
          )
          assert.include(Object.values(headers)[0], "k2")
        }
        assert.deepStrictEqual(yield* headersOf(service.profile({ ...options, auth: Auth.none })), {})
        const azure = Auth.apiKey("k3", { header: "api-key" })
        assert.deepStrictEqual(yield* headersOf(service.profile({ ...options, auth: azure })), {
          "api-key": "k3"
        })
      })
    )
  }
})
