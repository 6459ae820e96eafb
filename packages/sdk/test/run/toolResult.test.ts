import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import type { ToolCallNotice } from "../../src/agent/RuntimeHooks.ts"
import type { ToolMessage, UserPart } from "../../src/domain/Message.ts"
import { messages } from "../../src/domain/RunState.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as Hold from "../../src/tool/Hold.ts"
import * as Tool from "../../src/tool/Tool.ts"
import {
  approvalOf,
  approve,
  bind,
  bindCreated,
  call,
  expect,
  probe,
  results,
  safe,
  throughJson
} from "../helpers/Fixture.ts"

const circular: { self?: unknown } = {}
circular.self = circular
class Empty {}

/** Runs a read-only tool once, and returns its message as the model and another process read it. */
const resultOf = (
  handler: () => unknown,
  options: Partial<Tool.ToolOptions<any, any>> = {},
  runtimeOptions: { readonly maxResultLength?: number } = {}
) =>
  Effect.gen(function* () {
    const { tool } = safe("read", { ...options, handler })
    const { model, runtime } = yield* bindCreated(
      Agent.make("a", { tools: [tool] }),
      [{ calls: [call("read", "1")] }, "done"],
      runtimeOptions
    )
    const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
    const found = messages(throughJson(state)).find(({ role }) => role === "tool") as ToolMessage
    assert.deepStrictEqual(model.requests[1]?.messages.at(-1)?.content, found.content)
    return found
  })

const contentOf = (...given: Parameters<typeof resultOf>) =>
  Effect.map(resultOf(...given), ({ content, outcome }) => {
    assert.strictEqual(outcome, "completed")
    return content
  })

const textOf = (content: ReadonlyArray<UserPart>): string => {
  assert.strictEqual(content.length, 1)
  const [part] = content
  return part?._tag === "text" ? part.text : assert.fail("the result is not text")
}

describe("a result that cannot be shown", () => {
  const throwing = {
    toJSON: () => {
      throw new Error("no longer open")
    }
  }
  const hostile = new Proxy(
    {},
    {
      has: () => {
        throw new Error("do not look")
      }
    }
  )
  const values: ReadonlyArray<readonly [string, unknown, string]> = [
    ["an object that contains itself", circular, "it contains itself"],
    ["an object whose toJSON throws", throwing, "reading it as JSON failed: no longer open"],
    ["an object that throws when it is read", hostile, "it throws when it is read"],
    ["a Response", new Response("hi"), "it is a Response, which has no fields"],
    ["a function", () => 1, "it is a function"],
    [
      "a hold in an object",
      { jobs: [Hold.pending()] },
      "it contains a hold, which a handler has to return by itself"
    ],
    ["a class instance without fields", new Empty(), "it is an Empty, which has no fields"],
    ["a generator", (function* () {})(), "it is an object, which has no fields"],
    ["parts that are not valid", Tool.content([{ _tag: "text" } as never]), "its parts are not valid"]
  ]
  for (const [what, value, problem] of values) {
    it.effect(`such as ${what} fails the call with a sentence`, () =>
      Effect.gen(function* () {
        const { content, outcome } = yield* resultOf(() => value)
        assert.strictEqual(outcome, "failed")
        assert.include(textOf(content), `read ran, but its result cannot be shown: ${problem}`)
        assert.notInclude(textOf(content), "effect")
      })
    )
  }

  it.effect("is logged and passed to onToolCall, and its body is not retried", () =>
    Effect.gen(function* () {
      const logs: Array<string> = []
      const notices: Array<ToolCallNotice> = []
      const read = safe("read", { handler: () => new Empty() as never, retry: Schedule.recurs(3) })
      const { runtime } = yield* bindCreated(
        Agent.make("a", { tools: [read.tool] }),
        [{ calls: [call("read", "1")] }, "done"],
        { hooks: { onToolCall: (notice) => void notices.push(notice) } }
      )
      const logger = Logger.make(
        ({ cause, message }) => void logs.push(`${String(message)} ${String(cause)}`)
      )
      yield* Effect.provide(runPrompt(runtime, { prompt: "go" }), Logger.layer([logger]))
      assert.deepStrictEqual(read.ran, ["1"])
      assert.lengthOf(logs, 1)
      assert.include(logs[0], 'The result of the tool "read" cannot be shown to a model: it is an Empty')
      assert.isDefined(notices.at(-1)?.cause)
    })
  )

  it.effect("of a tool with side effects says that it may have taken effect", () =>
    Effect.gen(function* () {
      const pay = probe("pay", { handler: () => new Empty() as never })
      const { runtime } = yield* bind(Agent.make("a", { tools: [pay.tool] }), [
        { calls: [call("pay", "1")] },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const decisions = [approve(approvalOf(held, "1"))]
      const { state } = expect(yield* runPrompt(runtime, { state: held.state, decisions }), "completed")
      assert.deepStrictEqual(results(state), [
        "pay failed: pay ran, but its result cannot be shown: it is an Empty, which has no fields. It may have taken effect."
      ])
    })
  )
})

describe("a result with values that JSON does not have", () => {
  it.effect("shows them as text", () =>
    Effect.gen(function* () {
      assert.strictEqual(textOf(yield* contentOf(() => 12345678901234567890n)), "12345678901234567890")
      const odd = { big: 1n, half: Number.NaN, most: Infinity, at: new Float32Array([1, 0.5]) }
      assert.strictEqual(
        textOf(yield* contentOf(() => odd)),
        '"big":"1","half":"NaN","most":"Infinity","at":[1,0.5]'.replace(/^.*$/, "{$&}")
      )
      const page = { status: 200, response: new Response("hi"), close: () => {} }
      assert.strictEqual(
        textOf(yield* contentOf(() => page)),
        '{"status":200,"response":"[a Response without fields]"}'
      )
    })
  )
})

describe("bytes as a result", () => {
  const png = Uint8Array.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 1])
  const base64 = Buffer.from(png).toString("base64")
  const image = { _tag: "file", mediaType: "image/png", source: { _tag: "bytes", base64 } }

  it.effect("become an attachment with the media type that they begin with", () =>
    Effect.gen(function* () {
      for (const bytes of [png, Buffer.from(png), png.slice().buffer, new DataView(png.buffer)]) {
        assert.deepStrictEqual(yield* contentOf(() => bytes), [image as UserPart])
      }
      const types: ReadonlyArray<readonly [string, string]> = [
        ["image/jpeg", "\u00ff\u00d8\u00ff\u00e0"],
        ["image/gif", "GIF89a"],
        ["image/webp", "RIFF\u0000\u0001\u0002\u0003WEBPVP8 "],
        ["application/pdf", "%PDF-1.7"],
        ["text/plain", "hello"],
        ["application/octet-stream", "\u0000\u0001"],
        ["application/octet-stream", "\u00e9"]
      ]
      for (const [mediaType, latin1] of types) {
        const [part] = yield* contentOf(() => Buffer.from(latin1, "latin1"))
        assert.deepInclude(part, { _tag: "file", mediaType })
      }
    })
  )

  it.effect("of a Blob or a File keep its type and its name, also from a promise and an effect", () =>
    Effect.gen(function* () {
      const typed = { ...image, mediaType: "image/x-icon" }
      const blob = new Blob([png], { type: "image/x-icon" })
      const file = new File([png], "logo.png", { type: "image/png" })
      assert.deepStrictEqual(yield* contentOf(() => blob), [typed as UserPart])
      assert.deepStrictEqual(yield* contentOf(async () => file), [{ ...image, name: "logo.png" } as UserPart])
      assert.deepStrictEqual(yield* contentOf(() => Effect.succeed(new Blob([png]))), [image as UserPart])
    })
  )

  it.effect("inside an object are attached, and the object names them", () =>
    Effect.gen(function* () {
      const shots = { page: "home", shot: Buffer.from(png), raw: png }
      assert.deepStrictEqual(yield* contentOf(() => shots), [
        {
          _tag: "text",
          text: '{"page":"home","shot":"[attachment 1: image/png, 10 bytes]","raw":"[attachment 2: image/png, 10 bytes]"}'
        },
        image,
        image
      ] as ReadonlyArray<UserPart>)
    })
  )

  it.effect(
    "of a Blob or a File inside another value are attached, also as the result of a tool that streams",
    () =>
      Effect.gen(function* () {
        const file = new File([png], "logo.png", { type: "image/x-icon" })
        const value = { page: "home", shots: [new Blob([png])], more: new Map([["logo", { file }]]) }
        const shown = {
          page: "home",
          shots: ["[attachment 1: image/png, 10 bytes]"],
          more: [["logo", { file: "[attachment 2: image/x-icon, 10 bytes]" }]]
        }
        const parts = [
          { _tag: "text", text: JSON.stringify(shown) },
          image,
          { ...image, mediaType: "image/x-icon", name: "logo.png" }
        ] as ReadonlyArray<UserPart>
        assert.deepStrictEqual(yield* contentOf(() => value), parts)
        assert.deepStrictEqual(yield* contentOf(async () => value), parts)
        assert.deepStrictEqual(yield* contentOf(() => Effect.succeed(value)), parts)
        const streamed = async function* () {
          yield { result: new Blob([png]) }
        }
        assert.deepStrictEqual(yield* contentOf(streamed), [image as UserPart])
        assert.deepStrictEqual(yield* contentOf(() => Stream.make({ result: value })), parts)
        const circle: Record<string, unknown> = { blob: new Blob([png]) }
        circle["self"] = circle
        const { content, outcome } = yield* resultOf(() => circle)
        assert.strictEqual(outcome, "failed")
        assert.include(textOf(content), "it contains itself")
      })
  )

  it.effect("that are text are scrubbed", () =>
    Effect.gen(function* () {
      const secret = `token ghp_${"a".repeat(36)}`
      for (const handler of [
        () => Buffer.from(secret),
        () =>
          Tool.content([
            {
              _tag: "file",
              mediaType: "text/plain",
              source: { _tag: "bytes", base64: Buffer.from(secret).toString("base64") }
            }
          ])
      ]) {
        const [part] = yield* contentOf(handler)
        assert(part?._tag === "file" && part.source._tag === "bytes")
        assert.strictEqual(
          Buffer.from(part.source.base64, "base64").toString(),
          "token [REDACTED:github-token]"
        )
      }
    })
  )
})

describe("a result that is too long", () => {
  it.effect("keeps its head and its tail, and a mark says how many characters are missing", () =>
    Effect.gen(function* () {
      const long = `${"a".repeat(700_000)}${"b".repeat(800_000)}`
      const shown = textOf(yield* contentOf(() => long))
      assert.strictEqual(
        shown,
        `${"a".repeat(500_000)}\n[… 500,000 of 1,500,000 characters are missing here …]\n${"b".repeat(500_000)}`
      )
      assert.strictEqual(textOf(yield* contentOf(() => "c".repeat(1_000_000))), "c".repeat(1_000_000))
    })
  )

  it.effect("is cut to the maxResultLength of its tool, else to that of its runtime", () =>
    Effect.gen(function* () {
      const cut = "abc\n[… 4 of 10 characters are missing here …]\nhij"
      const handler = () => "abcdefghij"
      assert.strictEqual(textOf(yield* contentOf(handler, { maxResultLength: 6 })), cut)
      assert.strictEqual(textOf(yield* contentOf(handler, {}, { maxResultLength: 6 })), cut)
      assert.strictEqual(
        textOf(yield* contentOf(handler, { maxResultLength: 10 }, { maxResultLength: 6 })),
        "abcdefghij"
      )
    })
  )

  it.effect("does not split a character", () =>
    Effect.gen(function* () {
      const shown = textOf(yield* contentOf(() => "😀".repeat(10), { maxResultLength: 6 }))
      assert.isTrue(shown.isWellFormed(), shown)
    })
  )

  it.effect("of several parts keeps its short parts whole", () =>
    Effect.gen(function* () {
      const parts = [
        { _tag: "text", text: "x".repeat(100) },
        { _tag: "text", text: "short" },
        { _tag: "file", mediaType: "image/png", source: { _tag: "bytes", base64: "A".repeat(400) } }
      ] as const
      const shown = yield* contentOf(() => Tool.content(parts), { maxResultLength: 65 })
      assert.deepStrictEqual(shown, [
        {
          _tag: "text",
          text: `${"x".repeat(15)}\n[… 70 of 100 characters are missing here …]\n${"x".repeat(15)}`
        },
        { _tag: "text", text: "short" },
        {
          _tag: "text",
          text: "[A file of image/png is left out: with its 400 characters of base64, the result is longer than 65 characters.]"
        }
      ])
    })
  )

  it.effect("is cut after its secrets are removed", () =>
    Effect.gen(function* () {
      const token = `ghp_${"a".repeat(36)}`
      const shown = textOf(yield* contentOf(() => `${token}${" ".repeat(80)}`, { maxResultLength: 80 }))
      assert.isTrue(shown.startsWith("[REDACTED:github-token] "), shown)
    })
  )

  it.effect("is cut in a failure, too", () =>
    Effect.gen(function* () {
      const { content } = yield* resultOf(
        () => {
          throw new Error("e".repeat(100))
        },
        { maxResultLength: 10 }
      )
      assert.strictEqual(
        textOf(content),
        "read failed: eeeee\n[… 90 of 100 characters are missing here …]\neeeee"
      )
    })
  )

  it.effect("is bounded by a whole number above 0", () =>
    Effect.gen(function* () {
      for (const maxResultLength of [0, -1, 1.5, Number.NaN, "1000" as never]) {
        assert.throws(
          () => Tool.make("read", { handler: () => "", maxResultLength }),
          /"maxResultLength" .*a whole number of characters, 1 or more/
        )
        const error = yield* Effect.flip(bind(Agent.make("a"), [], { maxResultLength }))
        assert.include(error.message, '"maxResultLength" takes a whole number of characters, 1 or more')
      }
    })
  )
})
