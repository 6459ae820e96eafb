/**
 * A reader of `events` places what other processes send between the events that it reads from the store.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import type { Revision, RunId } from "../../src/domain/Id.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { layerMemory, RunStore, type RunSignal } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

const runId = "run" as RunId

const said = (text: string): RunEvent => ({
  _tag: "message.queued",
  at: 1,
  content: [{ _tag: "text", text }]
})

/** A text of another process, published at a revision. */
const text = (revision: number, chunk: string): RunSignal => ({
  text: JSON.stringify({
    revision,
    updates: [{ _tag: "output", agentRunId: runId, agentPath: ["clerk"], callId: "c", chunk }]
  })
})

/** A Fermata with a held run of five events, whose store passes signals on, and what another process does to that run. */
const open = Effect.gen(function* () {
  const store = yield* Effect.provide(RunStore, Layer.fresh(layerMemory))
  const clock = yield* TestClock.make()
  const listeners = new Set<(signal: RunSignal) => void>()
  const signal = (given: RunSignal) => {
    for (const listener of Array.from(listeners)) listener(given)
  }
  const broadcast = {
    maxTextBytes: 7000,
    publisher: () => ({ isWatched: () => false, send: () => {} }),
    watch: (_: RunId, listener: (signal: RunSignal) => void) => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    }
  }
  const pay = tool("pay", { handler: () => "paid" })
  const fermata = yield* Effect.acquireRelease(
    Effect.promise(() =>
      Fermata.make({
        agents: [agent("clerk", { tools: [pay] })],
        model: ScriptedModel.make(() => ({ calls: [{ tool: "pay" }] })).client,
        store: Layer.merge(
          Layer.succeed(RunStore, RunStore.of({ ...store, broadcast })),
          Layer.succeed(Clock.Clock, clock)
        )
      })
    ),
    (fermata) => Effect.promise(() => fermata.close())
  )
  yield* Effect.promise(() => fermata.runPrompt("clerk", "pay", { runId }))
  const lease = yield* store.claim({ runId, owner: "another", ttl: "1 hour" })
  const append = (revision: number, ...texts: ReadonlyArray<string>) =>
    store.append({
      lease,
      expected: (revision - texts.length) as Revision,
      events: texts.map(said) as [RunEvent],
      status: "running"
    })
  const read = (count: number) =>
    Effect.promise(async () => {
      const seen: Array<string> = []
      while (seen.length < count) {
        const { done, value } = await reader.next()
        if (done === true) break
        if (value?._tag === "event") seen.push(`event ${value.revision}`)
        else if (value?._tag === "output") seen.push(value.chunk)
      }
      return seen
    })
  const reader = fermata.events(runId, { until: "end" })[Symbol.asyncIterator]()
  yield* read(5)
  /** Begins to read, so that the reader waits. */
  const waiting = (count: number) =>
    Effect.gen(function* () {
      const reading = yield* Effect.forkChild(read(count), { startImmediately: true })
      yield* Effect.promise(() => new Promise((resume) => setImmediate(resume)))
      return reading
    })
  return { adjust: clock.adjust, append, fermata, listeners, read, reader, signal, waiting }
})

describe("a reader of events of another process", () => {
  it.live("reads a commit at once when it is notified of it, without a poll", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { append, signal, waiting } = yield* open
        const reading = yield* waiting(1)
        yield* append(6, "six")
        signal({ revision: 6 })
        assert.deepStrictEqual(yield* Fiber.join(reading), ["event 6"])
      })
    )
  )

  it.live(
    "receives text after the events that were stored before it, and not after those that were stored later",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const { append, read, signal } = yield* open
          signal(text(4, "too old"))
          signal(text(5, "five"))
          yield* append(7, "six", "seven")
          signal({ revision: 7 })
          signal(text(7, "seven"))
          assert.deepStrictEqual(yield* read(4), ["five", "event 6", "event 7", "seven"])
          yield* append(8, "eight")
          signal({ revision: 8 })
          signal(text(7, "late"))
          signal(text(8, "eight"))
          assert.deepStrictEqual(yield* read(2), ["event 8", "eight"])
        })
      )
  )

  it.live("receives text that was published before its events are stored", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { append, read, signal } = yield* open
        signal(text(6, "early"))
        assert.deepStrictEqual(yield* read(1), ["early"])
        yield* append(6, "six")
        signal({ revision: 6 })
        assert.deepStrictEqual(yield* read(1), ["event 6"])
      })
    )
  )

  it.live("ignores a text that it cannot read", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { read, signal } = yield* open
        signal({ text: "{}" })
        signal(text(5, "five"))
        assert.deepStrictEqual(yield* read(1), ["five"])
      })
    )
  )

  it.live("announces itself while its consumer reads, and no longer after it has left or stayed away", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { adjust, listeners, reader, waiting } = yield* open
        assert.strictEqual(listeners.size, 1)
        yield* adjust("6 seconds")
        assert.strictEqual(listeners.size, 0)
        yield* waiting(1)
        assert.strictEqual(listeners.size, 1)
        yield* Effect.promise(async () => void (await reader.return?.()))
        assert.strictEqual(listeners.size, 0)
      })
    )
  )
})
