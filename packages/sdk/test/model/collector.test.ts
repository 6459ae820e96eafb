import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { collect } from "../../src/model/ModelClient.ts"
import type { ModelPart, ModelResponse } from "../../src/model/ModelPart.ts"
import { makeCollector, partsOf } from "../../src/model/ModelPart.ts"

const usage = { inputTokens: 3, outputTokens: 2 }
const finish: ModelPart = { _tag: "finish", finishReason: "stop", usage }
const image = {
  _tag: "file",
  mediaType: "image/png",
  source: { _tag: "bytes", base64: "aGk=" }
} as const

const add = (...parts: ReadonlyArray<ModelPart>) => {
  const collector = makeCollector()
  for (const part of parts) collector.add(part)
  return collector
}
const contentOf = (...parts: ReadonlyArray<ModelPart>) => add(...parts, finish).response()?.content

describe("the collector", () => {
  it("joins text deltas into one part", () => {
    assert.deepStrictEqual(
      contentOf({ _tag: "text-delta", delta: "Hel" }, { _tag: "text-delta", delta: "lo" }),
      [{ _tag: "text", text: "Hello" }]
    )
  })

  it("takes the text of an end part as the whole text of its deltas", () => {
    assert.deepStrictEqual(
      contentOf(
        { _tag: "reasoning-delta", delta: "hm" },
        { _tag: "reasoning-end", text: "hum" },
        { _tag: "text-delta", delta: "Hlo" },
        { _tag: "text-end", text: "Hello", provider: "p", payload: { id: 1 } },
        { _tag: "text-delta", delta: "gone" },
        { _tag: "text-end", text: "" }
      ),
      [
        { _tag: "reasoning", text: "hum" },
        { _tag: "text", text: "Hello", provider: "p", payload: { id: 1 } }
      ]
    )
  })

  it("keeps the order of parts of different kinds", () => {
    assert.deepStrictEqual(
      contentOf(
        { _tag: "reasoning-delta", delta: "think" },
        { _tag: "text-delta", delta: "first" },
        { _tag: "file", file: image },
        { _tag: "text-delta", delta: "second" },
        { _tag: "tool-call", providerCallId: "a", name: "read", arguments: "{}" },
        { _tag: "text-delta", delta: "third" },
        { _tag: "reasoning-delta", delta: "again" }
      ),
      [
        { _tag: "reasoning", text: "think" },
        { _tag: "text", text: "first" },
        image,
        { _tag: "text", text: "second" },
        { _tag: "toolCall", providerCallId: "a", name: "read", arguments: "{}" },
        { _tag: "text", text: "third" },
        { _tag: "reasoning", text: "again" }
      ]
    )
  })

  it("keeps the provider's payload of reasoning with and without text", () => {
    const payload = { type: "thinking", signature: "abc==" }
    assert.deepStrictEqual(
      contentOf(
        { _tag: "reasoning-delta", delta: "so" },
        { _tag: "reasoning-end", provider: "anthropic", payload },
        { _tag: "reasoning-end", provider: "openai", payload: { encrypted: "xyz" } }
      ),
      [
        { _tag: "reasoning", text: "so", provider: "anthropic", payload },
        { _tag: "reasoning", text: "", provider: "openai", payload: { encrypted: "xyz" } }
      ]
    )
  })

  it("drops empty reasoning", () => {
    assert.deepStrictEqual(contentOf({ _tag: "reasoning-end" }), [])
  })

  it("keeps a call's payload and its arguments as written", () => {
    assert.deepStrictEqual(
      contentOf({
        _tag: "tool-call",
        providerCallId: "x",
        name: "read",
        arguments: '{ "a" : 1',
        payload: { item: 1 }
      }),
      [{ _tag: "toolCall", providerCallId: "x", name: "read", arguments: '{ "a" : 1', payload: { item: 1 } }]
    )
  })

  it("counts call deltas as content, and does not keep them", () => {
    const collector = add({ _tag: "tool-call-delta", index: 0, name: "read", delta: "{" }, finish)
    assert.isTrue(collector.hasContent())
    assert.deepStrictEqual(collector.response()?.content, [])
  })

  it("has no response before the finish, and no content before the first part", () => {
    assert.isUndefined(add({ _tag: "text-delta", delta: "a" }).response())
    assert.isFalse(add(finish).hasContent())
    assert.isTrue(add({ _tag: "reasoning-delta", delta: "a" }).hasContent())
    assert.isTrue(add({ _tag: "file", file: image }).hasContent())
  })

  it("returns finish reason, usage and profile", () => {
    assert.deepStrictEqual(add({ ...finish, finishReason: "length", profile: "fast" }).response(), {
      content: [],
      usage,
      finishReason: "length",
      profile: "fast"
    })
  })
})

describe("partsOf", () => {
  it("streams a whole answer that collects to an equal one", () => {
    const response: ModelResponse = {
      content: [
        { _tag: "reasoning", text: "hm", provider: "p", payload: { s: 1 } },
        { _tag: "reasoning", text: "", provider: "p", payload: "opaque" },
        { _tag: "text", text: "Hello" },
        image,
        { _tag: "toolCall", providerCallId: "1", name: "a", arguments: "", payload: null },
        { _tag: "toolCall", providerCallId: "1", name: "b", arguments: "{}" }
      ],
      usage,
      finishReason: "toolCalls",
      profile: "main"
    }
    assert.deepStrictEqual(add(...partsOf(response)).response(), response)
  })
})

describe("collect", () => {
  it.effect("calls back for each part, including the finish", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const parts: ReadonlyArray<ModelPart> = [
        { _tag: "text-delta", delta: "a" },
        { _tag: "text-delta", delta: "b" },
        finish
      ]
      const response = yield* collect(Stream.fromArray(parts), ({ _tag }) => seen.push(_tag))
      assert.deepStrictEqual(seen, ["text-delta", "text-delta", "finish"])
      assert.deepStrictEqual(response.content, [{ _tag: "text", text: "ab" }])
    })
  )

  it.effect("fails with ConnectionLost when the stream ends before its finish", () =>
    Effect.gen(function* () {
      const parts: ReadonlyArray<ModelPart> = [{ _tag: "text-delta", delta: "half an ans" }]
      const error = yield* Effect.flip(collect(Stream.fromArray(parts)))
      assert.strictEqual(error._tag, "ModelError")
      assert.strictEqual(error.reason._tag, "ConnectionLost")
      assert.isTrue(error.isRetryable)
    })
  )

  it.effect("passes the stream's error on", () =>
    Effect.gen(function* () {
      const stream: Stream.Stream<ModelPart, "gone"> = Stream.concat(
        Stream.fromArray<ModelPart>([{ _tag: "text-delta", delta: "a" }]),
        Stream.fail("gone" as const)
      )
      assert.strictEqual(yield* Effect.flip(collect(stream)), "gone")
    })
  )
})
