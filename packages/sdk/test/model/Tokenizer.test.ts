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

/** A token for each word, and how many texts were counted. */
const words = () => {
  const counted: Array<string> = []
  const count = (text: string) => {
    counted.push(text)
    return text.split(" ").length
  }
  return { tokenizer: { count }, counted }
}

describe("Tokenizer", () => {
  it.effect("estimates unless another is provided", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* Tokenizer.Tokenizer, Tokenizer.estimate)
      const { tokenizer } = words()
      const provided = yield* Effect.provideService(Tokenizer.Tokenizer, Tokenizer.Tokenizer, tokenizer)
      assert.strictEqual(provided, tokenizer)
    })
  )

  it("estimates a third of the ASCII characters and all others", () => {
    assert.strictEqual(Tokenizer.estimate.count(""), 0)
    assert.strictEqual(Tokenizer.estimate.count("abcd"), 2)
    assert.strictEqual(Tokenizer.estimate.count("日本語"), 3)
    assert.strictEqual(Tokenizer.estimate.count("a日bc"), 2)
  })

  it("counts a message once, however often it is asked", () => {
    const { counted, tokenizer } = words()
    const messages = [user(0, "one two"), user(1, "three")]
    const first = Tokenizer.countMessages(tokenizer, messages)
    assert.strictEqual(first, 4 + 2 + 4 + 1)
    assert.strictEqual(Tokenizer.countMessages(tokenizer, [...messages, user(2, "four")]), first + 5)
    assert.deepStrictEqual(counted, ["one two", "three", "four"])
  })

  it("believes the last usage, and counts only what came after it", () => {
    const { counted, tokenizer } = words()
    const messages = [user(0, "one two"), user(1, "three"), user(2, "four five")]
    const anchor = Tokenizer.anchorOf({ inputTokens: 900, outputTokens: 100 }, 2)
    assert.strictEqual(Tokenizer.countMessages(tokenizer, messages, anchor), 1000 + 4 + 2)
    const request = { instructions: "be brief", messages, tools: [] }
    assert.strictEqual(Tokenizer.countRequest(tokenizer, request, anchor), 1000 + 4 + 2)
    assert.notInclude(counted, "be brief")
  })

  it("counts everything when the history is shorter than the one that the usage was for", () => {
    const { tokenizer } = words()
    const request = { instructions: "be brief", messages: [user(0, "one two")], tools: [] }
    const anchor = Tokenizer.anchorOf({ inputTokens: 900, outputTokens: 100 }, 7)
    assert.strictEqual(Tokenizer.countRequest(tokenizer, request, anchor), 2 + 4 + 2)
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
