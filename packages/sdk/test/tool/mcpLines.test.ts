import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { isTooLarge, make } from "../../src/tool/internal/mcpLines.ts"

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes)
const bytes = (text: string) => new TextEncoder().encode(text)

/** The lines of an output that arrives in chunks of these sizes, with a bound of 60 bytes. */
const linesOf = (output: string, sizes: ReadonlyArray<number> = []): ReadonlyArray<string> => {
  const take = make(60)
  let rest = bytes(output)
  let taken = ""
  for (const size of [...sizes, rest.length]) {
    taken += text(take(rest.subarray(0, size)))
    rest = rest.subarray(size)
  }
  return taken.split("\n").filter((line) => line !== "")
}

const long = 'é\\"}{[,:'.repeat(20)

describe("the output of an MCP server's process", () => {
  it("has an error in place of a result that is too long, with the id of its request", () => {
    for (const message of [
      { jsonrpc: "2.0", id: 7, result: { text: long, id: 8, method: "a" } },
      { result: { text: long, id: 8, method: "a" }, id: 7 },
      { result: [{ id: 8 }, long], id: 7, jsonrpc: "2.0" },
      { error: { code: 1, message: long, data: { id: 8 } }, id: 7 }
    ]) {
      const [line, ...others] = linesOf(`${JSON.stringify(message, null, 1).replaceAll("\n", " ")}\n`)
      assert.deepStrictEqual(others, [])
      const answer = JSON.parse(line!)
      assert.strictEqual(answer.id, 7)
      assert.isTrue(isTooLarge(answer))
    }
    assert.strictEqual(JSON.parse(linesOf(`{"id":"seven","result":"${"x".repeat(90)}"}\n`)[0]!).id, "seven")
  })

  it("has no line for a request or notification that is too long, nor for a line that is not a message", () => {
    for (const output of [
      { id: 7, method: "sampling/createMessage", params: { long } },
      { params: { long }, method: "sampling/createMessage", id: 7 },
      { method: "notifications/message", params: { long } },
      { result: long }
    ]) {
      assert.deepStrictEqual(linesOf(`${JSON.stringify(output)}\n`), [])
    }
    assert.deepStrictEqual(linesOf(`listening\n\n  \n{"id":1}\n${long}\n`), ['{"id":1}'])
  })

  it("has the same lines in chunks of any size", () => {
    const message = fc.record({
      id: fc.nat(),
      result: fc.record({ text: fc.string({ unit: "binary", maxLength: 80 }), id: fc.nat() })
    })
    fc.assert(
      fc.property(
        fc.array(message, { maxLength: 5 }),
        fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 20 }),
        (messages, sizes) => {
          const output = messages.map((message) => `${JSON.stringify(message)}\n`).join("")
          const lines = linesOf(output, sizes)
          assert.deepStrictEqual(lines, linesOf(output))
          assert.deepStrictEqual(
            lines.map((line) => JSON.parse(line).id),
            messages.map(({ id }) => id)
          )
        }
      )
    )
  })
})
