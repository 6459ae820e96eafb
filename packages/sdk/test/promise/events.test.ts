/**
 * A reader of `events` does not read its store while its consumer is busy, nor after its end.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { isFermataClosed, isRunNotFound } from "../../src/promise/guards.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

const runId = "run"

/** A Fermata with a held run on a test clock, and counts of reads of its store and of subscriptions to it. */
const open = Effect.gen(function* () {
  const store = yield* Effect.provide(RunStore, Layer.fresh(layerMemory))
  const clock = yield* TestClock.make()
  const seen = { reads: 0, lists: 0, listening: 0, delay: undefined as Duration.Input | undefined }
  const counted =
    <Args extends ReadonlyArray<unknown>, A, E>(read: (...args: Args) => Effect.Effect<A, E>) =>
    (...args: Args) =>
      Effect.suspend(() => {
        seen.reads += 1
        return read(...args)
      })
  const slowly = <A, E>(read: Effect.Effect<A, E>) =>
    seen.delay === undefined ? read : Effect.delay(read, seen.delay)
  const listening = Effect.acquireRelease(
    Effect.sync(() => {
      seen.listening += 1
    }),
    () =>
      Effect.sync(() => {
        seen.listening -= 1
      })
  )
  const watched = RunStore.of({
    ...store,
    head: counted(store.head),
    list: (filter) =>
      Effect.suspend(() => {
        seen.lists += 1
        return slowly(counted(store.list)(filter))
      }),
    load: counted(store.load),
    ready: (filter) => slowly(counted(store.ready)(filter)),
    events: counted(store.events),
    changes: Stream.unwrap(Effect.as(listening, store.changes))
  })
  const pay = tool("pay", { handler: () => "paid" })
  const make = Effect.acquireRelease(
    Effect.promise(() =>
      Fermata.make({
        agents: [agent("clerk", { tools: [pay] })],
        model: ScriptedModel.make(() => ({ calls: [{ tool: "pay" }] })).client,
        store: Layer.merge(Layer.succeed(RunStore, watched), Layer.succeed(Clock.Clock, clock))
      })
    ),
    (fermata) => Effect.promise(() => fermata.close())
  )
  const fermata = yield* make
  yield* Effect.promise(() => fermata.runPrompt("clerk", "pay", { runId }))
  /** The number of reads of the store within a minute. */
  const readsInAMinute = Effect.suspend(() => {
    const before = seen.reads
    return Effect.map(clock.adjust("1 minute"), () => seen.reads - before)
  })
  return {
    adjust: clock.adjust,
    another: Effect.map(make, (fermata) => ({ waiting: waiting(fermata) })),
    fermata,
    readsInAMinute,
    seen,
    waiting: waiting(fermata)
  }
})

/** A reader that has read all events so far and waits for more. */
const waiting =
  (fermata: Fermata.Fermata) =>
  (options: Fermata.EventsOptions = {}) =>
    Effect.promise(async () => {
      const reader = fermata.events(runId, { until: "end", ...options })[Symbol.asyncIterator]()
      for (let event = 1; event <= 5; event += 1) await reader.next()
      return { reader, next: reader.next() }
    })

describe("the reader of a run's events", () => {
  it.live("polls the store while its consumer waits, and not while it is busy", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const waited = yield* open
        yield* waited.waiting()
        assert.isAbove(yield* waited.readsInAMinute, 10)
        const busy = yield* open
        const reader = busy.fermata.events(runId, { until: "end" })[Symbol.asyncIterator]()
        yield* Effect.promise(() => reader.next())
        assert.strictEqual(yield* busy.readsInAMinute, 0)
      })
    )
  )

  it.live("reads the heads of all watched runs at once: twice a second, or after a change of any run", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { adjust, fermata, seen, waiting } = yield* open
        yield* Effect.forEach(Array.from({ length: 50 }), () => waiting())
        const readsAfter = (effect: Effect.Effect<unknown>) =>
          Effect.suspend(() => {
            const before = { ...seen }
            return Effect.map(effect, () => [seen.reads - before.reads, seen.lists - before.lists])
          })
        const park = Effect.promise(async () => {
          await fermata.runPrompt("clerk", "pay")
          await new Promise((resume) => setImmediate(resume))
        })
        yield* adjust("1 second")
        assert.deepStrictEqual(yield* readsAfter(adjust("500 millis")), [1, 1])
        assert.deepStrictEqual(yield* readsAfter(adjust("2 seconds")), [4, 4])
        yield* adjust("250 millis")
        const before = seen.lists
        for (let run = 0; run < 20; run += 1) yield* park
        assert.strictEqual(seen.lists - before, 1)
        yield* adjust("40 millis")
        assert.strictEqual(seen.lists - before, 2)
      })
    )
  )

  it.live(
    "stops polling the store when its consumer stays away for five seconds, and continues when it is back",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const { adjust, fermata, readsInAMinute, seen } = yield* open
          const reader = fermata.events(runId, { until: "end" })[Symbol.asyncIterator]()
          yield* Effect.promise(() => reader.next())
          yield* adjust("4 seconds")
          assert.strictEqual(seen.listening, 1)
          yield* adjust("2 seconds")
          assert.strictEqual(seen.listening, 0)
          for (let event = 2; event <= 5; event += 1) yield* Effect.promise(() => reader.next())
          const next = reader.next()
          yield* Effect.promise(() => new Promise((resume) => setImmediate(resume)))
          assert.strictEqual(seen.listening, 1)
          assert.isAbove(yield* readsInAMinute, 10)
          yield* Effect.promise(() => fermata.cancel(runId))
          assert.isFalse((yield* Effect.promise(() => next)).done)
        })
      )
  )

  it.live("and the handles of its process look at a slow store for a tenth of the time", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { adjust, fermata, seen, waiting } = yield* open
        yield* waiting()
        yield* Effect.promise(async () => (await fermata.dispatch("clerk", "pay")).wait())
        seen.delay = "100 millis"
        yield* adjust("1 minute")
        const before = { ...seen }
        yield* adjust("5 minutes")
        // One look of 100 ms per second for the readers, and one of 200 ms in 2 seconds for the handles.
        assert.approximately(seen.lists - before.lists, 300 + 150, 10)
        assert.approximately(seen.reads - before.reads, 300 + 2 * 150, 15)
      })
    )
  )

  it.live("ends at once after the last known event, beside another reader", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { fermata, waiting } = yield* open
        yield* waiting()
        yield* Effect.promise(async () => {
          for await (const _ of fermata.events(runId, { from: 5 })) assert.fail("It is known.")
        })
      })
    )
  )

  it.live("continues when another observed run ends", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { fermata, readsInAMinute, waiting } = yield* open
        yield* waiting()
        yield* Effect.promise(async () => {
          const handle = await fermata.dispatch("clerk", "pay")
          await handle.wait()
          await handle.cancel()
        })
        assert.isAbove(yield* readsInAMinute, 10)
      })
    )
  )

  it.live("continues when the Fermata that subscribed to the store first is closed", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const first = yield* open
        const second = yield* first.another
        yield* first.waiting()
        yield* second.waiting()
        yield* Effect.promise(() => first.fermata.close())
        assert.isAbove(yield* first.readsInAMinute, 10)
      })
    )
  )

  it.live("is refused by a closed Fermata", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { fermata } = yield* open
        const reading = fermata.events(runId)
        yield* Effect.promise(() => fermata.close())
        const error = yield* Effect.promise(() =>
          reading[Symbol.asyncIterator]()
            .next()
            .catch((error: unknown) => error)
        )
        assert.isTrue(isFermataClosed(error))
      })
    )
  )

  it.live("rejects at once when its Fermata removes the run", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { fermata, waiting } = yield* open
        const { next } = yield* waiting()
        yield* Effect.promise(async () => {
          await fermata.remove(runId)
          assert.isTrue(isRunNotFound(await next.catch((error: unknown) => error)))
        })
      })
    )
  )

  const ends: Record<string, (opened: Effect.Success<typeof open>) => Effect.Effect<void>> = {
    "its consumer returned": ({ waiting }) =>
      Effect.flatMap(waiting(), ({ reader }) => Effect.promise(async () => void (await reader.return?.()))),
    "its consumer left its loop": ({ fermata }) =>
      Effect.promise(async () => {
        for await (const _ of fermata.events(runId, { until: "end" })) break
      }),
    "its signal was aborted": ({ waiting }) =>
      Effect.gen(function* () {
        const controller = new AbortController()
        const { next } = yield* waiting({ signal: controller.signal })
        controller.abort()
        assert.isTrue((yield* Effect.promise(() => next)).done)
      }),
    "its signal was aborted while its consumer was busy": ({ fermata }) =>
      Effect.promise(async () => {
        const controller = new AbortController()
        const { signal } = controller
        const reader = fermata.events(runId, { until: "end", signal })[Symbol.asyncIterator]()
        await reader.next()
        controller.abort()
        assert.isTrue((await reader.next()).done)
      }),
    "it started with an aborted signal": ({ fermata }) =>
      Effect.promise(async () => {
        const signal = AbortSignal.abort()
        for await (const _ of fermata.events(runId, { signal })) assert.fail("It was aborted.")
      }),
    "the end of the run": ({ fermata, waiting }) =>
      Effect.gen(function* () {
        const { next, reader } = yield* waiting()
        yield* Effect.promise(async () => {
          await fermata.cancel(runId)
          for (let read = await next; read.done !== true;) read = await reader.next()
        })
      }),
    "its Fermata was closed while its consumer was busy": ({ fermata }) =>
      Effect.promise(async () => {
        const reader = fermata.events(runId, { until: "end" })[Symbol.asyncIterator]()
        await reader.next()
        await fermata.close()
      }),
    "its Fermata was closed": ({ fermata, waiting }) =>
      Effect.gen(function* () {
        const { next } = yield* waiting()
        yield* Effect.promise(() => fermata.close())
        assert.isTrue((yield* Effect.promise(() => next)).done)
      })
  }

  for (const [when, end] of Object.entries(ends)) {
    it.live(`neither polls the store nor subscribes to it after ${when}`, () =>
      Effect.scoped(
        Effect.gen(function* () {
          const opened = yield* open
          yield* end(opened)
          assert.strictEqual(opened.seen.listening, 0)
          assert.strictEqual(yield* opened.readsInAMinute, 0)
        })
      )
    )
  }
})
