import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as EventLog from "../../src/control/EventLog.ts"
import { RuntimeCommand } from "../../src/control/RuntimeCommand.ts"
import * as Envelope from "../../src/control/RuntimeEventEnvelope.ts"
import * as RuntimeView from "../../src/control/RuntimeView.ts"

const folder = join(import.meta.dirname, "../fixtures/event-log")
const logs = readdirSync(folder).filter((name) => name.endsWith(".jsonl"))

const linesOf = (name: string) => readFileSync(join(folder, name), "utf8").trimEnd().split("\n")

const envelopesOf = (name: string) =>
  linesOf(name).map((line) => {
    const decoded = Result.getOrThrow(Envelope.decode(JSON.parse(line)))
    return decoded ?? assert.fail(line)
  })

describe("golden event logs", () => {
  it("exist for the current version", () => {
    assert.include(logs, `v${Envelope.version}.jsonl`)
  })

  for (const name of logs) {
    it(`${name} is read and written again byte for byte`, () => {
      assert.deepStrictEqual(
        envelopesOf(name).map((envelope) => JSON.parse(Envelope.encodeLine(envelope))),
        linesOf(name).map((line) => JSON.parse(line))
      )
    })

    it(`${name} replays to the same view in every front end`, () => {
      const view = envelopesOf(name).reduce(RuntimeView.reduce, RuntimeView.empty)
      const expected = readFileSync(join(folder, name.replace(".jsonl", ".view.json")), "utf8")
      assert.strictEqual(`${JSON.stringify(view, null, 2)}\n`, expected)
    })

    it.effect(`${name} replays the same in pieces of any length`, () =>
      Effect.gen(function* () {
        const text = readFileSync(join(folder, name), "utf8")
        for (const size of [97, 1000, 1_000_000]) {
          const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, index) =>
            text.slice(index * size, (index + 1) * size)
          )
          const { events } = EventLog.replay(EventLog.read(Stream.fromIterable(pieces)), { speed: Infinity })
          assert.deepStrictEqual(yield* Stream.runCollect(events), envelopesOf(name))
        }
      })
    )
  }
})

const at = (seq: number, tsUnixMs: number) =>
  ({
    v: 1,
    seq,
    tsUnixMs,
    event: { family: "Lifecycle", _tag: "lifecycle.stopped" }
  }) as Envelope.RuntimeEventEnvelope

describe("a replay", () => {
  const three = Stream.fromIterable([at(1, 0), at(2, 1000), at(3, 11_000)])

  it.effect("waits as long as the events did, divided by its speed, and at most as long as it may", () =>
    Effect.gen(function* () {
      const seen: Array<number> = []
      const { events } = EventLog.replay(three, { speed: 2, longestWaitMs: 3000 })
      const playing = yield* Effect.forkChild(
        Stream.runForEach(events, ({ seq }) => Effect.sync(() => seen.push(seq)))
      )
      yield* TestClock.adjust(499)
      assert.deepStrictEqual(seen, [1])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(seen, [1, 2])
      yield* TestClock.adjust(2999)
      assert.deepStrictEqual(seen, [1, 2])
      yield* TestClock.adjust(1)
      yield* Fiber.join(playing)
      assert.deepStrictEqual(seen, [1, 2, 3])
    })
  )

  it.effect("emits one event for each step while it is paused, and the rest when it is resumed", () =>
    Effect.gen(function* () {
      const seen: Array<number> = []
      const { events, resume, step } = EventLog.replay(three, { speed: Infinity, paused: true })
      const playing = yield* Effect.forkChild(
        Stream.runForEach(events, ({ seq }) => Effect.sync(() => seen.push(seq)))
      )
      yield* TestClock.adjust(10)
      assert.deepStrictEqual(seen, [])
      yield* step
      yield* TestClock.adjust(10)
      assert.deepStrictEqual(seen, [1])
      yield* resume
      yield* Fiber.join(playing)
      assert.deepStrictEqual(seen, [1, 2, 3])
    })
  )
})

describe("the wire format", () => {
  it("refuses an envelope of another version with a sentence that says which program to update", () => {
    const newer = Envelope.decode({ v: 2, seq: 1 })
    assert.include(Result.isFailure(newer) ? newer.failure.message : "", "update the program that reads it")
    const without = Envelope.decode({ seq: 1 })
    assert.include(
      Result.isFailure(without) ? without.failure.message : "",
      "with the version of Fermata that wrote it"
    )
    const malformed = Envelope.decode({ ...at(1, 0), seq: "one" })
    assert.strictEqual(Result.isFailure(malformed) && malformed.failure._tag, "EnvelopeMalformed")
  })

  it("skips an event that a newer program of the same version has added, and ignores added fields", () => {
    const added = Envelope.decode({ ...at(1, 0), event: { family: "Model", _tag: "model.dreamt" } })
    assert.isTrue(Result.isSuccess(added) && added.success === undefined)
    const field = Envelope.decode({ ...at(1, 0), mood: "calm" })
    assert.deepStrictEqual(Result.getOrThrow(field), at(1, 0))
  })

  it("has a JSON Schema for each command and event", () => {
    const commands = Schema.toJsonSchemaDocument(RuntimeCommand)
    assert.isAbove(JSON.stringify(commands).length, 1000)
    assert.isAbove(JSON.stringify(Schema.toJsonSchemaDocument(Envelope.RuntimeEventEnvelope)).length, 1000)
  })
})
