import { assert, describe, it } from "@effect/vitest"
import * as AnthropicMessages from "../../src/model/AnthropicMessages.ts"
import * as LoginTokens from "../../src/model/LoginTokens.ts"
import * as OpenAiChat from "../../src/model/OpenAiChat.ts"
import * as OpenAiResponses from "../../src/model/OpenAiResponses.ts"

const thrown = (make: () => unknown): any => {
  try {
    make()
  } catch (error) {
    return error
  }
  return assert.fail("It was not refused.")
}

describe("the options of a model", () => {
  it("are refused with an unknown key when the client or profile is made", () => {
    for (const [of, module] of Object.entries({ AnthropicMessages, OpenAiChat, OpenAiResponses })) {
      for (const make of [module.profile, module.make, module.layer]) {
        const error = thrown(() => make({ model: "m", baseURL: "https://example.com" } as never))
        assert.deepInclude({ ...error }, { _tag: "OptionsInvalid", of })
        assert.include(error.message, 'did you mean "baseUrl"?')
      }
      for (const wrong of [{ model: 5 }, {}])
        assert.include(thrown(() => module.profile(wrong as never)).message, '"model" of the options')
      assert.include(thrown(() => module.profile(undefined as never)).message, "a plain object")
    }
  })

  it("are refused with an unknown or invalid limit", () => {
    for (const [wrong, words] of [
      [{ rateLimit: { requestPerMinute: 1 } }, 'did you mean "requestsPerMinute"?'],
      [{ rateLimit: { tokensPerMinute: 0 } }, "a whole number of 1 or more"],
      [{ rateLimit: 60 }, "rateLimit"],
      [{ circuitBreaker: { failure: 1 } }, 'did you mean "failures"?'],
      [{ circuitBreaker: { cooldown: "soon" } }, "takes a duration"],
      [{ circuitBreaker: true }, "circuitBreaker"],
      [{ rateLimit: {} }, "has neither requestsPerMinute nor tokensPerMinute"],
      [{ rateLimit: { key: "shared" } }, "has neither requestsPerMinute nor tokensPerMinute"],
      [{ rateLimit: { requestsPerMinute: Infinity } }, "a whole number of 1 or more"],
      [{ rateLimit: { requestsPerMinute: 1, key: "" } }, "a string that is not empty"],
      [{ circuitBreaker: { cooldown: 0 } }, "takes a duration above 0 that ends"],
      [{ circuitBreaker: { cooldown: Infinity } }, "takes a duration above 0 that ends"],
      [{ circuitBreaker: { failures: 0 } }, "a whole number of 1 or more"]
    ] as const) {
      const error = thrown(() => OpenAiChat.make({ model: "m", ...wrong } as never))
      assert.deepInclude({ ...error }, { _tag: "OptionsInvalid", of: "OpenAiChat" })
      assert.include(error.message, words)
    }
    OpenAiChat.profile({ model: "m", rateLimit: { requestsPerMinute: 1 }, circuitBreaker: {} })
  })
})

describe("the options of a login", () => {
  it("are refused with an unknown key or an invalid value", () => {
    const options = { profile: "p", store: {}, tokenUrl: "https://example.com", clientId: "c" }
    for (const [wrong, words] of [
      [{ clientID: "c" }, 'did you mean "clientId"?'],
      [{ ahead: Number.NaN }, "takes a duration"],
      [{ encoding: "xml" }, '"form" or "json"']
    ] as const) {
      const error = thrown(() => LoginTokens.make({ ...options, ...wrong } as never))
      assert.deepInclude({ ...error }, { _tag: "OptionsInvalid", of: "LoginTokens.make" })
      assert.include(error.message, words)
    }
  })
})
