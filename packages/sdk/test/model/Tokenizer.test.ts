import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { ToolCallId } from "../../src/domain/Id.ts"
import type { Message } from "../../src/domain/Message.ts"
import * as Tokenizer from "../../src/model/Tokenizer.ts"

const user = (sequence: number, text: string): Message => ({
  role: "user",
  sequence,
  at: 0,
  content: [{ _tag: "text", text }]
})

/** Counts words, and records the counted texts. */
const words = () => {
  const counted: Array<string> = []
  const count = (text: string) => {
    counted.push(text)
    return text.split(" ").length
  }
  return { tokenizer: { count }, counted }
}

describe("Tokenizer", () => {
  it.effect("is an estimate by default", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* Tokenizer.Tokenizer, Tokenizer.estimate)
      const { tokenizer } = words()
      const provided = yield* Effect.provideService(Tokenizer.Tokenizer, Tokenizer.Tokenizer, tokenizer)
      assert.strictEqual(provided, tokenizer)
    })
  )

  it("estimates a third of the ASCII characters plus all others", () => {
    assert.strictEqual(Tokenizer.estimate.count(""), 0)
    assert.strictEqual(Tokenizer.estimate.count("abcd"), 2)
    assert.strictEqual(Tokenizer.estimate.count("日本語"), 3)
    assert.strictEqual(Tokenizer.estimate.count("a日bc"), 2)
  })

  it("counts a message once", () => {
    const { counted, tokenizer } = words()
    const messages = [user(0, "one two"), user(1, "three")]
    const first = Tokenizer.countMessages(tokenizer, messages)
    assert.strictEqual(first, 4 + 2 + 4 + 1)
    assert.strictEqual(Tokenizer.countMessages(tokenizer, [...messages, user(2, "four")]), first + 5)
    assert.deepStrictEqual(counted, ["one two", "three", "four"])
  })

  it("starts from the provider's count, and counts only later messages", () => {
    const { counted, tokenizer } = words()
    const first = { instructions: "be brief", messages: [user(0, "one two"), user(1, "three")], tools: [] }
    Tokenizer.remember(first, { inputTokens: 1000, outputTokens: 100 })
    const second = { ...first, messages: [...first.messages, user(2, "four five")] }
    assert.strictEqual(Tokenizer.countRequest(tokenizer, second), 1000 + 4 + 2)
    assert.deepStrictEqual(counted, ["four five"])
    Tokenizer.remember(second, { inputTokens: 2000, outputTokens: 100 })
    assert.strictEqual(Tokenizer.countRequest(tokenizer, second), 2000)
    assert.strictEqual(Tokenizer.countRequest(tokenizer, first), 1000)
  })

  it("counts everything when the request does not start like the counted one", () => {
    const { tokenizer } = words()
    const [one, two, three] = [user(0, "one two"), user(1, "three"), user(2, "four five")]
    const request = { instructions: "be brief", messages: [one, two], tools: [] }
    Tokenizer.remember(request, { inputTokens: 1000, outputTokens: 100 })
    for (const other of [
      { ...request, messages: [two, three] },
      { ...request, messages: [one, three] },
      { ...request, instructions: "be long" },
      { ...request, tools: [] }
    ]) {
      assert.isBelow(Tokenizer.countRequest(tokenizer, other), 50)
    }
  })

  it("ignores a provider's count of 0", () => {
    const { tokenizer } = words()
    const request = { instructions: "be brief", messages: [user(0, "one two")], tools: [] }
    Tokenizer.remember(request, { inputTokens: 0, outputTokens: 0 })
    assert.strictEqual(Tokenizer.countRequest(tokenizer, request), 2 + 4 + 2)
  })

  it("counts calls, results, files and tools", () => {
    const { tokenizer } = words()
    const call = { callId: "r.t1.1" as ToolCallId, providerCallId: "c", name: "look" }
    const text = {
      _tag: "file",
      mediaType: "text/csv",
      source: { _tag: "bytes", base64: "aGVsbG8=" }
    } as const
    const image = {
      _tag: "file",
      mediaType: "image/png",
      source: { _tag: "url", url: "https://x.test/a" }
    } as const
    const messages: ReadonlyArray<Message> = [
      {
        role: "assistant",
        sequence: 0,
        at: 0,
        content: [{ _tag: "toolCall", ...call, arguments: '{"at": "it"}' }]
      },
      { role: "tool", sequence: 1, at: 0, ...call, outcome: "completed", content: [text, image] }
    ]
    assert.strictEqual(Tokenizer.countMessages(tokenizer, messages), 4 + 4 + 1 + 2 + (4 + 2 + 1500))
    const tools = [{ name: "look", description: "looks at it", parameters: { type: "object" } }]
    assert.strictEqual(
      Tokenizer.countRequest(tokenizer, { instructions: "", messages: [], tools }),
      1 + 4 + 1 + 3 + 1
    )
  })
})
