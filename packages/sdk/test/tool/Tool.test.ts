import { assert, describe, it } from "@effect/vitest"
import * as Tool from "../../src/tool/Tool.ts"

const textOf = (value: unknown) => {
  const [part, ...rest] = Tool.toContent(value)
  assert.strictEqual(rest.length, 0)
  assert.strictEqual(part?._tag, "text")
  return part?._tag === "text" ? part.text : ""
}

describe("Tool.make", () => {
  it("makes a sideEffecting tool that is not idempotent by default", () => {
    const tool = Tool.make("deploy", { handler: () => "" })
    assert.strictEqual(tool.safety, "sideEffecting")
    assert.isFalse(tool.idempotent)
    assert.strictEqual(tool.target, "tool")
  })
})

describe("Tool.toContent", () => {
  it("keeps text unchanged", () => assert.strictEqual(textOf("a\nb"), "a\nb"))

  it("returns an empty text for undefined and null", () => {
    assert.strictEqual(textOf(undefined), "")
    assert.strictEqual(textOf(null), "")
  })

  it("encodes other values as JSON", () => {
    assert.strictEqual(textOf({ a: [1, true, null] }), '{"a":[1,true,null]}')
    assert.strictEqual(textOf(0), "0")
    assert.strictEqual(textOf(false), "false")
    assert.strictEqual(textOf(new Date(0)), '"1970-01-01T00:00:00.000Z"')
  })

  it("throws for a value that has no JSON", () => {
    const loop: { self?: unknown } = {}
    loop.self = loop
    for (const value of [loop, () => 1, new Response()]) {
      assert.throws(() => Tool.toContent(value), "The result cannot be shown to a model")
    }
    assert.throws(
      () => Tool.toContent(new Blob(["x"])),
      "it is a Blob, which only a run reads: give its bytes"
    )
  })

  it("writes values without a JSON form as text", () => {
    assert.strictEqual(textOf({ big: 12345678901234567890n }), '{"big":"12345678901234567890"}')
    assert.strictEqual(textOf(Symbol("s")), "Symbol(s)")
  })

  it("writes the content of errors, maps and sets", () => {
    assert.strictEqual(textOf(new TypeError("no such file")), "TypeError: no such file")
    assert.strictEqual(textOf({ why: new Error("late") }), '{"why":"Error: late"}')
    assert.strictEqual(textOf(new Map([["a", new Set([1])]])), '[["a",[1]]]')
  })

  it("keeps a result of several parts", () => {
    const parts = [
      { _tag: "text", text: "see" },
      { _tag: "file", mediaType: "image/png", source: { _tag: "url", url: "https://example.com/a.png" } }
    ] as const
    assert.deepStrictEqual(Tool.toContent(Tool.content(parts)), parts)
  })
})
