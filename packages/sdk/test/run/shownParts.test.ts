/**
 * The parts of a streamed response as subscribers receive them: without secrets, and together what the journal has.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as fc from "fast-check"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import type { ModelPart } from "../../src/model/ModelPart.ts"
import { ShownParts } from "../../src/run/internal/ShownParts.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as Scrubber from "../../src/tool/Scrubber.ts"
import { bind, probe, watch } from "../helpers/Fixture.ts"

const secret = "correct horse battery"
const token = `ghp_${"a1B2".repeat(9)}`
const scrubber = Scrubber.contained(Scrubber.make({ secrets: [secret] }))

const shownOf = (parts: ReadonlyArray<ModelPart>, given = scrubber): ReadonlyArray<ModelPart> => {
  const shown: Array<ModelPart> = []
  const stream = new ShownParts(given, (part) => void shown.push(part))
  for (const part of parts) stream.add(part)
  stream.end()
  return shown
}

const text = (delta: string): ModelPart => ({ _tag: "text-delta", delta })
const reasoning = (delta: string): ModelPart => ({ _tag: "reasoning-delta", delta })
const args = (delta: string, index = 0): ModelPart => ({
  _tag: "tool-call-delta",
  index,
  name: "write",
  delta
})
const finish: ModelPart = { _tag: "finish", finishReason: "stop", usage: { inputTokens: 1, outputTokens: 1 } }
const joined = (parts: ReadonlyArray<ModelPart>, tag: ModelPart["_tag"], index = 0): string =>
  parts
    .map((part) =>
      part._tag === tag && "delta" in part && (!("index" in part) || part.index === index) ? part.delta : ""
    )
    .join("")

describe("the parts of a response", () => {
  it("are shown as together they are journaled, in every division into deltas", () => {
    const piece = fc.constantFrom(
      secret,
      token,
      "password: hunter2hunter2",
      '{"api_keys":["hunter2hunter2"]}',
      "The key. Then ",
      "\n",
      " ",
      '"',
      "word",
      "世界",
      "[REDACTED:secret]"
    )
    const said = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(""))
    const sizes = fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 4 })
    const deltas = (given: string, sizes: ReadonlyArray<number>, make: (delta: string) => ModelPart) => {
      const parts: Array<ModelPart> = []
      for (let at = 0, index = 0; at < given.length; index += 1) {
        parts.push(make(given.slice(at, at + sizes[index % sizes.length]!)))
        at += sizes[index % sizes.length]!
      }
      return parts
    }
    fc.assert(
      fc.property(said, said, said, said, sizes, (thought, answer, first, second, sizes) => {
        const calls = [
          deltas(first, sizes, (delta) => args(delta)),
          deltas(second, sizes, (delta) => args(delta, 1))
        ]
        const mixed = calls[0]!.flatMap((part, index) => [part, ...calls[1]!.slice(index, index + 1)])
        const shown = shownOf([
          ...deltas(thought, sizes, reasoning),
          ...deltas(answer, sizes, text),
          ...mixed,
          ...calls[1]!.slice(calls[0]!.length),
          finish
        ])
        assert.strictEqual(joined(shown, "reasoning-delta"), scrubber.redact(thought))
        assert.strictEqual(joined(shown, "text-delta"), scrubber.redact(answer))
        assert.strictEqual(joined(shown, "tool-call-delta"), scrubber.redact(first))
        assert.strictEqual(joined(shown, "tool-call-delta", 1), scrubber.redact(second))
        assert.deepStrictEqual(shown.at(-1), finish)
      }),
      { numRuns: 300 }
    )
  })

  it("without a secret are passed on at once, the same objects", () => {
    const parts = [
      text("One "),
      text("two "),
      { _tag: "text-end", payload: { id: 1 } } as const,
      args('{"a": '),
      finish
    ]
    const shown = shownOf(parts)
    assert.strictEqual(shown.length, parts.length)
    for (const [index, part] of shown.entries()) assert.strictEqual(part, parts[index])
  })

  it("are complete before the next part of another kind", () => {
    const parts = [
      reasoning("my key"),
      text("a key"),
      args("{}"),
      { _tag: "tool-call", providerCallId: "1", name: "write", arguments: "{}" } as const
    ]
    assert.deepStrictEqual(
      shownOf(parts).map((part) => ("delta" in part ? part.delta : part._tag)),
      ["my key", "a key", "{}", "tool-call"]
    )
  })

  it("lose the provider's data of a text that lost a secret", () => {
    const replay = { provider: "p", payload: { signature: "s" } }
    const shown = shownOf([
      text(`it is ${secret}`),
      { _tag: "text-end", ...replay },
      reasoning("fine"),
      { _tag: "reasoning-end", text: `or ${secret}`, ...replay },
      {
        _tag: "tool-call",
        providerCallId: "1",
        name: "write",
        arguments: JSON.stringify({ a: secret }),
        ...replay
      }
    ])
    assert.notInclude(JSON.stringify(shown), secret)
    assert.notInclude(JSON.stringify(shown), "payload")
  })

  it("have no secret in the name of a call, in a file and in the last part", () => {
    const source = { _tag: "bytes", base64: Buffer.from(`é ${secret}`).toString("base64") } as const
    const shown = shownOf([
      { _tag: "tool-call-delta", index: 0, name: secret, delta: "{}" },
      { _tag: "tool-call", providerCallId: "1", name: secret, arguments: "{}" },
      { _tag: "file", file: { _tag: "file", mediaType: "text/plain", source, name: secret } },
      { ...finish, paused: { content: secret } }
    ])
    assert.lengthOf(shown, 4)
    assert.notInclude(JSON.stringify(shown), secret)
    assert.notInclude(JSON.stringify(shown), source.base64)
    assert.include(shown[0], { name: "[REDACTED:secret]", delta: "{}" })
  })

  it("are scrubbed word by word if the program's scrubber has no streams", () => {
    const own = Scrubber.contained({ scrub: (given) => given.replaceAll("hunter2", "***") })
    const shown = shownOf([text("it is hun"), text("ter2 and"), text(" more"), finish], own)
    assert.strictEqual(joined(shown, "text-delta"), "it is *** and more")
  })
})

describe("the updates of a run", () => {
  it.effect(
    "show no secret that a model streams in pieces, and what was held back when its stream fails",
    () =>
      Effect.gen(function* () {
        const { onUpdate, updates } = watch()
        const { runtime } = yield* bind(Agent.make("a", { tools: [probe("write").tool] }), [
          {
            text: `${token} is the password: hunter2hunter2`,
            reasoning: `use ${secret}`,
            chunkSize: 3,
            calls: [{ tool: "write", arguments: { id: secret, passwords: ["hunter2hunter2"] } }]
          }
        ])
        yield* runPrompt(runtime, { prompt: "go" }, { onUpdate })
        const shown = JSON.stringify(updates)
        for (const gone of [token, secret, "hunter2", "ghp_"]) assert.notInclude(shown, gone)
        assert.include(textOf(updates), "[REDACTED:github-token] is the password: [REDACTED:password]")
      }).pipe(
        Effect.provideService(Scrubber.Scrubber, Scrubber.make({ secrets: [secret] })),
        Effect.provide(Layer.fresh(layerMemory))
      )
  )

  it.effect("show what was held back when the run is cancelled", () =>
    Effect.gen(function* () {
      const { onUpdate, updates } = watch()
      const isAt = yield* Deferred.make<void>()
      const { runtime } = yield* bind(Agent.make("a"), [])
      const model = {
        ...runtime.model,
        stream: () =>
          Stream.concat(
            Stream.fromIterable([text("It is "), text("the pass"), text("word: hunter2hunter2")]),
            Stream.fromEffect(Effect.andThen(Deferred.succeed(isAt, undefined), Effect.never))
          )
      }
      const fiber = yield* Effect.forkChild(
        runPrompt({ ...runtime, model } as typeof runtime, { prompt: "go" }, { onUpdate })
      )
      yield* Deferred.await(isAt)
      // Of an unmarked text, all but the last word is shown. How soon the mark is noticed depends on the known values of the process.
      assert.match(textOf(updates), /^It is (the )?$/)
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(textOf(updates), "It is the password: [REDACTED:password]")
    })
  )
})

const textOf = (updates: ReadonlyArray<RunUpdate>): string =>
  updates
    .map((update) => (update._tag === "delta" && update.part._tag === "text-delta" ? update.part.delta : ""))
    .join("")
