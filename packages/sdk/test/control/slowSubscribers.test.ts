import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import * as ControlPlane from "../../src/control/ControlPlane.ts"
import { EventHistory } from "../../src/control/internal/EventHistory.ts"
import type { RuntimeEvent } from "../../src/control/RuntimeEvent.ts"
import type { RuntimeEventEnvelope } from "../../src/control/RuntimeEventEnvelope.ts"
import * as RuntimeView from "../../src/control/RuntimeView.ts"
import * as RunStore from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { assertSound, eventsSoFar, untilSaved } from "./following.ts"

const delta = (taskId: string, offset: number, text: string) =>
  ({
    family: "Model",
    _tag: "model.textDelta",
    sessionId: "s",
    taskId,
    turn: 1,
    agentPath: ["a"],
    agentRunId: taskId,
    offset,
    delta: text
  }) as unknown as RuntimeEvent

const note = { family: "Warning", _tag: "warning.raised", code: "c", message: "m" } as const

const deltaOf = ({ event }: { readonly event: RuntimeEvent | undefined }) =>
  event?._tag === "model.textDelta" ? event.delta : assert.fail(event?._tag)

describe("EventHistory", () => {
  it("merges unread text by the answer that it belongs to, and stays small", () => {
    const history = new EventHistory({ keepEvents: 100, keepText: 1_000_000 })
    const subscriber = history.subscribe(0)
    const streams = [{ isFinished: false }, { isFinished: false }] as const
    const texts = ["", ""]
    for (let count = 0; count < 100_000; count += 1) {
      const which = count % 3 === 0 ? 1 : 0
      const text = `${count % 10}`
      history.push(delta(`t${which}`, texts[which]!.length, text), 0, undefined, streams[which])
      texts[which] += text
    }
    assert.isBelow(history.size, 1100)
    assert.strictEqual(history.seq, 100_000)
    const read = history.after(subscriber.seq, 10_000)
    assert.strictEqual(read.at(-1)?.seq, 100_000)
    const isOf = (which: number) => (entry: (typeof read)[number]) => entry.stream === streams[which]
    for (const which of [0, 1])
      assert.strictEqual(read.filter(isOf(which)).map(deltaOf).join(""), texts[which])
    const numbers = read.map(({ seq }) => seq)
    assert.deepStrictEqual(
      numbers,
      numbers.toSorted((one, other) => one - other)
    )
  })

  it("never merges across the place of a subscriber, so that none receives a text twice", () => {
    const history = new EventHistory({ keepEvents: 100, keepText: 1_000_000 })
    const stream = { isFinished: false }
    const places = [0, 1, 7, 500, 1023].map((seq) => ({
      seq,
      cursor: undefined as { seq: number } | undefined
    }))
    let text = ""
    for (let count = 0; count < 5000; count += 1) {
      for (const place of places) if (place.seq === count) place.cursor = history.subscribe(count)
      history.push(delta("t", count, "x"), 0, undefined, stream)
      text += "x"
    }
    for (const { cursor, seq } of places)
      assert.strictEqual(
        history.after(cursor!.seq, 10_000).map(deltaOf).join(""),
        text.slice(seq),
        `from ${seq}`
      )
  })

  it("drops the text of finished answers beyond its limit, the oldest first, and no durable event", () => {
    const history = new EventHistory({ keepEvents: 1000, keepText: 5000 })
    for (let answer = 0; answer < 20; answer += 1) {
      const stream = { isFinished: false }
      for (let count = 0; count < 500; count += 1)
        history.push(delta(`t${answer}`, count, "xy"), 0, undefined, stream)
      stream.isFinished = true
      history.push(note, 0)
    }
    assert.isAtMost(history.characters, 5000 + 2048)
    const notes = history.after(0, 100_000).filter(({ event }) => event?._tag === "warning.raised")
    assert.strictEqual(notes.length, 20)
  })
})

const long = "The quick brown fox jumps over the lazy dog. ".repeat(2000)

const planeOf = (
  script: Parameters<typeof ScriptedModel.make>[0],
  options: ControlPlane.ControlOptions = {}
) =>
  Effect.flatMap(
    Effect.provide(Runtime.make({ agent: Agent.make("writer") }), ScriptedModel.make(script).layer),
    (runtime) => ControlPlane.make({ ...options, agents: [runtime] })
  )

describe("a subscriber that reads nothing until the end", () => {
  for (const isStored of [false, true])
    it.effect(
      `sees every durable event, and the merged text byte for byte, ${isStored ? "with" : "without"} a store`,
      () => {
        const body = Effect.gen(function* () {
          const plane = yield* planeOf(
            [
              { text: long, chunkSize: 3 },
              { text: "Short.", chunkSize: 2 }
            ],
            { keepEvents: 2 }
          )
          const slow = yield* Stream.toPull(plane.events())
          const first = yield* slow
          yield* plane.submit({ _tag: "SubmitPrompt", prompt: "Write" })
          const { seq } = yield* untilSaved(plane)
          yield* plane.submit({ _tag: "SubmitPrompt", prompt: "More" })
          yield* untilSaved(plane, seq + 1)
          yield* plane.submit({ _tag: "Shutdown" })
          const read: Array<RuntimeEventEnvelope> = [...first]
          while (true) {
            const page = yield* Effect.orElseSucceed(slow, () => [] as ReadonlyArray<RuntimeEventEnvelope>)
            if (page.length === 0) break
            read.push(...page)
          }
          assertSound(read)
          const text = read.reduce(
            (text, { event }) =>
              event._tag === "model.textDelta" && event.taskId === taskOf(read)
                ? text.slice(0, event.offset) + event.delta
                : text,
            ""
          )
          assert.strictEqual(text, long)
          assert.isBelow(read.length, 1200)
          const view = read.reduce(RuntimeView.reduce, RuntimeView.empty)
          const late = (yield* eventsSoFar(plane)).reduce(RuntimeView.reduce, RuntimeView.empty)
          assert.deepStrictEqual(view, late)
        })
        return Effect.scoped(isStored ? Effect.provide(body, RunStore.layerMemory) : body)
      }
    )
})

const taskOf = (read: ReadonlyArray<RuntimeEventEnvelope>): string => {
  const { event } = read.find(({ event }) => event._tag === "task.started")!
  return event._tag === "task.started" ? event.taskId : assert.fail()
}
