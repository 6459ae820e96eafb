import { assert, describe, it } from "@effect/vitest"
import * as History from "../../src/domain/History.ts"
import { text, type Message } from "../../src/domain/Message.ts"

describe("History", () => {
  const message = (sequence: number): Message => ({
    role: "user",
    sequence,
    at: 1,
    content: [text(`${sequence}`)]
  })

  it("is equal whether it is appended to or built from an array, at every length around its chunks", () => {
    let history = History.empty
    const all: Array<Message> = []
    for (let i = 0; i <= 3 * History.chunkSize; i++) {
      assert.strictEqual(History.size(history), i)
      assert.deepStrictEqual(History.fromArray(all), history)
      assert.deepStrictEqual(History.toArray(history), all)
      assert.strictEqual(History.last(history), all.at(-1))
      const added = message(i)
      history = History.append(history, added)
      all.push(added)
      if (i < History.chunkSize + 2 && i % 9 !== 0) continue
      assert.deepStrictEqual(History.toArray(History.replaceLast(history, message(-1))), [
        ...all.slice(0, -1),
        message(-1)
      ])
    }
  })

  it("shares its full chunks with the history before an append, which it does not change", () => {
    const before = History.fromArray(Array.from({ length: 3 * History.chunkSize }, (_, i) => message(i)))
    const after = History.append(before, message(3 * History.chunkSize))
    assert.strictEqual(after.chunks, before.chunks)
    assert.strictEqual(History.size(before), 3 * History.chunkSize)
  })
})
