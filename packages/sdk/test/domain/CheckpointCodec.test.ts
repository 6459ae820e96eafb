import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { vi } from "vitest"
import { decode, encode, type Pieces } from "../../src/domain/CheckpointCodec.ts"
import { evolveAll } from "../../src/domain/evolve.ts"
import { chunkSize, settledChunks, size } from "../../src/domain/History.ts"
import type { Revision, RunId } from "../../src/domain/Id.ts"
import { text } from "../../src/domain/Message.ts"
import type { RunState } from "../../src/domain/RunState.ts"
import * as RunStateCodec from "../../src/domain/RunStateCodec.ts"
import { answered, fold, said, started } from "./Journal.ts"
import { difference } from "./Ledger.ts"
import { simulate } from "./Simulation.ts"
import { tape } from "./Tape.ts"

vi.setConfig({ testTimeout: 300_000 })

const numRuns = Number(process.env["FERMATA_SIMULATIONS"] ?? 100)

/** This many messages, alternating between the model and the user. */
const more = (messages: number) =>
  Array.from({ length: messages }, (_, index) =>
    index % 2 === 0 ? answered(`answer ${index}`) : said(`message ${index}`)
  )

/** A run with this many messages. */
const after = (messages: number): RunState => fold(started(), ...more(messages - 1))

/** The pieces of a state, after the given chunks. */
const whole = (state: RunState, chunks: ReadonlyArray<string>): Pieces => {
  const pieces = encode(state, chunks.length)
  assert.isDefined(pieces, "it can be written")
  return { chunks: [...chunks, ...pieces!.chunks], state: pieces!.state }
}

const read = (pieces: Pieces, { revision, runId }: RunState): RunState | undefined =>
  decode({ ...pieces, revision, runId })

const isSame = (actual: unknown, expected: unknown, what: string) =>
  assert.isUndefined(difference(actual, expected), what)

describe("a checkpoint", () => {
  it("and the events after it give the state of all events, at any revision", () => {
    let shared = 0
    fc.assert(
      fc.property(tape(), fc.nat(3), fc.nat(15), fc.array(fc.nat(100)), (numbers, full, left, gaps) => {
        // The next chunk is almost full.
        const before = after((full + 1) * chunkSize - left)
        const { end, events, states } = simulate(numbers, before)
        let { chunks } = whole(before, [])
        let at = 0
        for (const gap of [...gaps, 0]) {
          at += gap
          const state = states[at]
          if (state === undefined) break
          const pieces = whole(state, chunks)
          const known = read(pieces, state)
          isSame(known, state, `written after ${at + 1} events`)
          const later = evolveAll(known, events.slice(at + 1))!
          isSame(later, end, "with the events after it")
          assert.strictEqual(RunStateCodec.encode(later), RunStateCodec.encode(end))
          if (pieces.chunks.length > chunks.length && chunks.length > 0) shared += 1
          chunks = pieces.chunks
        }
      }),
      // Limits the time for shrinking a failure.
      { numRuns, interruptAfterTimeLimit: 120_000 + 50 * numRuns }
    )
    assert.isAbove(shared, 0)
  })

  it("keeps the last message, which may change, out of its chunks", () => {
    const state = after(2 * chunkSize)
    assert.strictEqual(size(state.history), 2 * chunkSize)
    assert.strictEqual(settledChunks(state.history), 1)
    assert.strictEqual(settledChunks(after(2 * chunkSize + 1).history), 2)
    assert.strictEqual(settledChunks(after(2).history), 0)
    isSame(read(whole(state, []), state), state, "read")
  })

  it("is not decoded when its chunks, state, revision or run id differ from what was written", () => {
    const state = after(3 * chunkSize + 5)
    const pieces = whole(state, [])
    isSame(read(pieces, state), state, "read")
    const [a, b, c] = pieces.chunks as [string, string, string]
    const is = (changed: Partial<Pieces>, of = state) => read({ ...pieces, ...changed }, of)
    assert.isUndefined(is({ chunks: [a, c, b] }), "chunks in another order")
    assert.isUndefined(is({ chunks: [a, c] }), "a chunk is missing")
    assert.isUndefined(is({ chunks: [a, b, c, c] }), "a chunk too many")
    assert.isUndefined(is({ chunks: [a, b, c.slice(0, -1)] }), "text that ends too early")
    assert.isUndefined(is({ chunks: [a, b, c.replace('"role"', '"rule"')] }), "another field")
    assert.isUndefined(is({ chunks: [a, b, JSON.stringify(JSON.parse(c).slice(1))] }), "a short chunk")
    assert.isUndefined(is({ state: pieces.state.replace('"status"', '"more":1,"status"') }), "a field more")
    assert.isUndefined(is({ state: "" }), "no text")
    assert.isUndefined(is({}, { ...state, revision: (state.revision + 1) as Revision }), "another revision")
    assert.isUndefined(is({}, { ...state, runId: "run-2" as RunId }), "another run")
  })

  it("is not written for a state that would not be read back unchanged", () => {
    const strange = { ...after(3), more: 1 }
    assert.isUndefined(encode(strange, 0))
  })

  it("is not written for a history with a chunk that is too long for a row", () => {
    const state = after(chunkSize + 2)
    const long = fold(started({ prompt: [text("x".repeat(2 ** 24))] }), ...more(chunkSize + 1))
    assert.isDefined(encode(state, 0))
    assert.isUndefined(encode(long, 0))
    // Chunks that are stored already are not written again.
    assert.isDefined(encode(long, 1))
  })

  it("is not written when a provider payload or a file's URL makes a chunk too long", () => {
    const part = "x".repeat(2 ** 19)
    const payload = { items: Array.from({ length: 33 }, () => ({ encrypted: part })) }
    const url = "data:," + part.repeat(33)
    for (const content of [
      [{ _tag: "reasoning", text: "", payload }],
      [{ _tag: "file", mediaType: "text/plain", source: { _tag: "url", url } }]
    ] as const) {
      const long = fold(started(), answered(content), ...more(chunkSize))
      assert.isUndefined(encode(long, 0))
      assert.isDefined(encode(long, 1))
    }
    // The last message is part of the state's row.
    assert.isUndefined(encode(fold(started(), answered([{ _tag: "text", text: "", payload }])), 0))
  })
})
