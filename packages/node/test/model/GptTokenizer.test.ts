import { readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { GptTokenizer, Tokenizer } from "@fermata/node"
import * as Effect from "effect/Effect"

const seconds = (run: () => void) => {
  const { user } = process.cpuUsage()
  run()
  return (process.cpuUsage().user - user) / 1e6
}

describe("GptTokenizer", () => {
  it("is loaded without Effect", async () => {
    assert.strictEqual((await GptTokenizer.load()).count("A fermata holds a note."), 7)
  })

  it.effect("counts as tiktoken does, also in Japanese", () =>
    Effect.gen(function* () {
      const { count } = yield* GptTokenizer.make
      assert.strictEqual(count(""), 0)
      // Counted with OpenAI's own tiktoken.
      assert.strictEqual(count("tiktoken is great!"), 6)
      assert.strictEqual(count("お誕生日おめでとう"), 8)
    })
  )

  it.effect("counts a special token of the model as text", () =>
    Effect.gen(function* () {
      const { count } = yield* GptTokenizer.make
      assert.isAbove(count("<|endoftext|>"), 1)
    })
  )

  it.effect("is the tokenizer where its layer is provided", () =>
    Effect.gen(function* () {
      const tokenizer = yield* Tokenizer.Tokenizer
      assert.notStrictEqual(tokenizer, Tokenizer.estimate)
      assert.strictEqual(tokenizer.count("tiktoken is great!"), 6)
    }).pipe(Effect.provide(GptTokenizer.layer))
  )

  it.effect("counts between a third and all of the completion tokens that a provider reported", () =>
    Effect.gen(function* () {
      const folder = join(
        import.meta.dirname,
        "../../../sdk/test/fixtures/models/chat/json-openai-parallel-tools"
      )
      const { usageOnWire } = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8"))
      const { choices } = JSON.parse(readFileSync(join(folder, "response.json"), "utf8"))
      const tokenizer = yield* GptTokenizer.make
      const calls: ReadonlyArray<{ function: { name: string; arguments: string } }> =
        choices[0].message.tool_calls
      const counted = calls.reduce(
        (sum, { function: call }) => sum + tokenizer.count(call.name) + tokenizer.count(call.arguments),
        0
      )
      assert.isAtMost(counted, usageOnWire.completion_tokens)
      assert.isAtLeast(counted, usageOnWire.completion_tokens / 3)
    })
  )

  it.effect("counts long runs of one character in pieces, in a few seconds and off by a few tokens", () =>
    Effect.gen(function* () {
      const { count } = yield* GptTokenizer.make
      const blanks = " ".repeat(200_000)
      const letters = "a".repeat(200_000)
      const emoji = "🎵".repeat(20_000)
      assert.isBelow(
        seconds(() => [blanks, letters, emoji].map(count)),
        5
      )
      const run = "a".repeat(4001)
      // Two cuts cost two tokens at most.
      assert.closeTo(count(run), count(run.slice(0, 2000)) * 2 + 1, 2)
      // A cut never goes through a character.
      assert.closeTo(count(emoji), count("🎵".repeat(1000)) * 20, 20)
    })
  )
})
