import { assert, describe, it } from "@effect/vitest"
import { chat } from "../../src/model/internal/openai/chat.ts"
import type { ModelError } from "../../src/model/ModelError.ts"
import type { ModelProfile } from "../../src/model/ModelProfile.ts"
import { decoderSuite } from "./DecoderSuite.ts"
import type { Fixture, Reading } from "./Fixtures.ts"
import { failsInside } from "./Fixtures.ts"

const profile: ModelProfile = {
  name: "test",
  protocol: "chat",
  baseUrl: "https://models.example/v1",
  model: "test"
}

/** A stream with less reasoning: reading every prefix of a long one takes long. */
const shortened = (text: string): string =>
  text
    .split("\n\n")
    .filter((event, index) => index < 8 || !/"reasoning(_content)?":"/.test(event))
    .join("\n\n")

/** A truncated stream may lack the usage after the finish reason, and an error may be truncated. */
const assertCut = (fixture: Fixture, { error, response }: Reading, entire: Reading, where: string): void => {
  if (response === undefined) {
    const reasons = ["ConnectionLost", "ProviderFault", entire.error?.reason._tag]
    assert.include(reasons, error?.reason._tag, where)
  } else if (failsInside(fixture)) {
    // OpenRouter sends `length` before the error.
    assert.strictEqual(response.finishReason, "length", where)
  } else {
    assert.deepStrictEqual({ ...response, usage: 0 }, { ...entire.response, usage: 0 }, where)
  }
}

/** The whole body equivalent to a stream's chunks, joined field by field. */
const joined = (chunks: ReadonlyArray<any>): unknown => {
  const message: Record<string, any> = {}
  let finish: unknown = null
  let usage: unknown
  for (const chunk of chunks) {
    usage = chunk.usage ?? usage
    for (const { delta, finish_reason: reason } of chunk.choices) {
      finish = reason ?? finish
      for (const [field, value] of Object.entries<any>(delta)) {
        if (field === "tool_calls") {
          for (const call of value ?? []) {
            const calls = (message.tool_calls ??= [])
            const before = (calls[call.index] ??= {
              ...call,
              function: { name: call.function.name, arguments: "" }
            })
            before.function.arguments += call.function.arguments ?? ""
          }
        } else if (Array.isArray(value)) message[field] = [...(message[field] || []), ...value]
        else if (typeof value === "string" && !Array.isArray(message[field])) {
          message[field] = `${message[field] ?? ""}${value}`
        }
      }
    }
  }
  return { choices: [{ index: 0, message, finish_reason: finish }], usage }
}

const call = (place: number) => ({ id: `call_${place}`, function: { name: "read", arguments: "{}" } })

const chunk = (delta: unknown) => ({ choices: [{ delta }] })

decoderSuite("chat completion", {
  protocol: chat,
  profile,
  errors: {
    "groq-midstream-error": "InvalidRequest",
    "openrouter-midstream-error": "InvalidRequest",
    "json-invalid-body": "InvalidResponse",
    "json-not-json": "InvalidResponse"
  },
  piece: (index) => chunk({ tool_calls: [{ ...call(index), index }] }),
  joined,
  foreign: {
    object: "response",
    output: [{ type: "message", content: [{ type: "output_text", text: "hi" }] }]
  },
  marker: "[DONE]",
  shortened,
  assertCut,
  accidents: [
    "\n\n",
    "null",
    "\u0000",
    "data: ",
    "data: null\n\n",
    "data: [DONE]\n\n",
    "event: error\n",
    'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}}]}\n\n',
    'data: {"choices":[{"delta":{"tool_calls":[{"id":"x","function":{"name":"f","arguments":"[1]"}}]}}]}\n\n',
    'data: {"choices":[{"finish_reason":"tool_calls"}]}\n\n'
  ]
})

describe("a streamed chat completion", () => {
  it("fails with InvalidResponse beyond the bound of calls", () => {
    for (const numbered of [true, false]) {
      const decoder = chat.decoder(profile)
      let error: ModelError | undefined
      let calls = 0
      for (; error === undefined && calls < 20_000; calls++) {
        const tool = { ...call(calls), ...(numbered ? { index: calls } : {}) }
        error = decoder.event("message", JSON.stringify(chunk({ tool_calls: [tool] })), () => {})
      }
      assert.strictEqual(error?.reason._tag, "InvalidResponse")
      assert.strictEqual(calls, 10_001)
    }
  })
})
