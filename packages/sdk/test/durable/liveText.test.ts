/**
 * The live text of a run for watching processes: what is sent, and how much at a time.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import type { RunId, ToolCallId } from "../../src/domain/Id.ts"
import { broadcasting, decodeLiveText } from "../../src/durable/internal/LiveText.ts"
import type { ModelPart } from "../../src/model/ModelPart.ts"
import { RunStore } from "../../src/store/RunStore.ts"
import { layerMemory } from "../../src/store/RunStore.ts"

const runId = "run" as RunId
const whose = { runId, agentRunId: runId, agentPath: ["root"] }
const delta = (part: ModelPart, turn = 1): RunUpdate => ({ ...whose, _tag: "delta", turn, part })
const said = (text: string): RunUpdate => delta({ _tag: "text-delta", delta: text })
const output = (chunk: string, call = "c"): RunUpdate => ({
  ...whose,
  _tag: "output",
  callId: call as ToolCallId,
  chunk
})
const progress = (message: string): RunUpdate => ({
  ...whose,
  _tag: "progress",
  callId: "c" as ToolCallId,
  message
})
const event = (revision: number): RunUpdate => ({
  _tag: "event",
  runId,
  revision,
  event: { _tag: "turn.started", at: 1, turn: 1 } as never
})

const maxTextBytes = 7000

/** The sender of a run's text, and what it has sent, decoded. */
const open = Effect.gen(function* () {
  const store = yield* RunStore
  const sent: Array<string> = []
  const watch = { isWatched: true, asked: 0 }
  const publisher = {
    isWatched: () => {
      watch.asked += 1
      return watch.isWatched
    },
    send: (text: string) => void sent.push(text)
  }
  const broadcast = { maxTextBytes, publisher: () => publisher, watch: () => () => {} }
  const passedOn: Array<RunUpdate> = []
  const add = yield* broadcasting({ ...store, broadcast }, runId, (update) => void passedOn.push(update))
  /** What was sent since the last call: the revision of each text, with its updates in short. */
  const taken = () =>
    sent.splice(0).map((text) => {
      assert.isAtMost(new TextEncoder().encode(text).length, maxTextBytes)
      const { revision, updates } = decodeLiveText(runId, text)!
      return [revision, ...updates.map(inShort)]
    })
  return { add: add!, passedOn, sent, taken, watch }
}).pipe(Effect.provide(layerMemory))

const inShort = (update: RunUpdate): string => {
  const omitted = "omitted" in update ? `(${update.omitted}) ` : ""
  switch (update._tag) {
    case "delta":
      return `${omitted}${update.part._tag} ${"delta" in update.part ? update.part.delta : ""}`
    case "output":
      return `${omitted}output ${update.callId} ${update.chunk}`
    case "progress":
      return `${omitted}progress ${update.message}`
    default:
      return update._tag
  }
}

const named = (stream: "stdout" | "stderr", chunk: string): RunUpdate =>
  ({ ...output(chunk), stream }) as RunUpdate

describe("the live text of a tool with named streams", () => {
  const inFull = (texts: ReadonlyArray<string>) =>
    texts.flatMap((text) => decodeLiveText(runId, text)!.updates)

  it.effect("keeps the names and the order of the streams, and joins what follows each other", () =>
    Effect.gen(function* () {
      const { add, sent } = yield* open
      add(said("at once"))
      sent.splice(0)
      for (const chunk of ["a", "b"]) add(named("stdout", chunk))
      for (const chunk of ["c", "d"]) add(named("stderr", chunk))
      add(named("stdout", "e"))
      yield* TestClock.adjust(50)
      assert.deepStrictEqual(
        inFull(sent).map((update) =>
          update._tag === "output" ? [update.stream, update.chunk] : update._tag
        ),
        [
          ["stdout", "ab"],
          ["stderr", "cd"],
          ["stdout", "e"]
        ]
      )
    })
  )

  it.effect("keeps all of the text if the streams alternate often", () =>
    Effect.gen(function* () {
      const { add, sent } = yield* open
      add(said("at once"))
      sent.splice(0)
      for (let index = 0; index < 500; index += 1) add(named(index % 2 === 0 ? "stdout" : "stderr", "x"))
      yield* TestClock.adjust(50)
      const got = inFull(sent)
      const kept = got.map((update) => (update._tag === "output" ? update.chunk : "")).join("").length
      const omitted = got.reduce((sum, update) => sum + ("omitted" in update ? (update.omitted ?? 0) : 0), 0)
      assert.strictEqual(kept + omitted, 500)
      assert.isAtMost(got.length, 110)
    })
  )

  it.effect("has the media of a tool", () =>
    Effect.gen(function* () {
      const { add, sent } = yield* open
      const media = {
        ...whose,
        _tag: "media" as const,
        callId: "c" as ToolCallId,
        path: "/workspace/a.png",
        mediaType: "image/png"
      }
      add(media)
      assert.deepStrictEqual(inFull(sent), [media])
    })
  )

  it("is refused with a stream of another name", () => {
    const text = JSON.stringify({ revision: 1, updates: [{ ...output("x"), stream: "stdin" }] })
    assert.deepStrictEqual(decodeLiveText(runId, text)?.updates, [])
  })
})

describe("the live text of a run", () => {
  it.effect(
    "is sent at once, then joined and sent twenty times a second, with the revision at which it was published",
    () =>
      Effect.gen(function* () {
        const { add, passedOn, taken } = yield* open
        add(event(3))
        add(said("One "))
        assert.deepStrictEqual(taken(), [[3, "text-delta One "]])
        for (const word of ["two ", "three ", "four "]) add(said(word))
        add(output("a"))
        add(output("x", "d"))
        add(output("b"))
        for (const message of ["10 %", "20 %"]) add(progress(message))
        yield* TestClock.adjust("49 millis")
        assert.deepStrictEqual(taken(), [])
        yield* TestClock.adjust("1 millis")
        assert.deepStrictEqual(taken(), [
          [3, "text-delta two three four ", "output c ab", "output d x", "progress 20 %"]
        ])
        assert.strictEqual(passedOn.length, 10)
        yield* TestClock.adjust("1 minute")
        assert.deepStrictEqual(taken(), [])
      })
  )

  it.effect("is sent before the next event is published", () =>
    Effect.gen(function* () {
      const { add, taken } = yield* open
      add(said("One "))
      add(said("two"))
      taken()
      add(event(7))
      assert.deepStrictEqual(taken(), [[0, "text-delta two"]])
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(taken(), [])
    })
  )

  it.effect("is neither kept nor sent while no other process watches the run", () =>
    Effect.gen(function* () {
      const { add, sent, watch } = yield* open
      watch.isWatched = false
      for (let index = 0; index < 100; index += 1) add(said("word "))
      add(event(1))
      yield* TestClock.adjust("1 second")
      watch.isWatched = true
      add(event(2))
      assert.deepStrictEqual(sent, [])
    })
  )

  it.effect("appears also in writing without spaces", () =>
    Effect.gen(function* () {
      const { add, taken } = yield* open
      add(said("你好世界"))
      assert.deepStrictEqual(taken(), [[0, "text-delta 你好世界"]])
    })
  )

  it.effect(
    "is bounded: of more than four texts at a time the latest are sent, with the number of omitted characters",
    () =>
      Effect.gen(function* () {
        const { add, sent, taken } = yield* open
        add(output("first"))
        taken()
        const written = Array.from({ length: 30_000 }, (_, index) => (index % 10 === 0 ? "😀" : "é"))
        for (const letter of written) add(output(letter))
        yield* TestClock.adjust("50 millis")
        assert.strictEqual(sent.length, 4)
        const updates = sent.flatMap((text) => decodeLiveText(runId, text)!.updates)
        const got = updates.map((update) => (update._tag === "output" ? update.chunk : "")).join("")
        const [first, ...rest] = updates
        assert.isTrue(written.join("").endsWith(got))
        assert.strictEqual(first?._tag === "output" && first.omitted, written.join("").length - got.length)
        assert.isTrue(rest.every((update) => !("omitted" in update)))
      })
  )

  it.effect("keeps at most 64 Ki characters between two texts, and counts the others", () =>
    Effect.gen(function* () {
      const { add, sent, taken } = yield* open
      add(output("first"))
      taken()
      for (let call = 0; call < 100; call += 1) add(output("x".repeat(1000), `c${call}`))
      yield* TestClock.adjust("50 millis")
      const updates = sent.flatMap((text) => decodeLiveText(runId, text)!.updates)
      const got = updates.reduce(
        (sum, update) => sum + (update._tag === "output" ? update.chunk.length : 0),
        0
      )
      const [first] = updates
      assert.strictEqual(first?._tag === "output" && first.omitted, 100_000 - got)
    })
  )

  it.effect("counts a progress message that is too large for a text", () =>
    Effect.gen(function* () {
      const { add, taken } = yield* open
      add(progress("x".repeat(maxTextBytes)))
      assert.deepStrictEqual(taken(), [])
      yield* TestClock.adjust("50 millis")
      add(output("next"))
      assert.deepStrictEqual(taken(), [[0, `(${maxTextBytes}) output c next`]])
    })
  )

  it.effect("leaves out what is not text: complete parts, retries and fallbacks", () =>
    Effect.gen(function* () {
      const { add, sent } = yield* open
      add(delta({ _tag: "text-end", text: "One" }))
      add(delta({ _tag: "tool-call", name: "pay", arguments: "{}", providerCallId: "1" }))
      add({ ...whose, _tag: "retry", turn: 1, attempt: 1, waitMs: 1, reason: "RateLimited" })
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(sent, [])
    })
  )

  it("that cannot be read is ignored", () => {
    for (const text of ["", "null", "[]", "{}", '{"revision":1}', '{"revision":"1","updates":[]}']) {
      assert.isUndefined(decodeLiveText(runId, text), text)
    }
    const updates = [
      null,
      1,
      {},
      { ...whose, _tag: "delta" },
      { ...whose, _tag: "output", chunk: 1 },
      { ...whose, _tag: "event" },
      output("x")
    ]
    const read = decodeLiveText(runId, JSON.stringify({ revision: 1, updates }))
    assert.deepStrictEqual(read, { revision: 1, updates: [output("x")] })
  })
})
