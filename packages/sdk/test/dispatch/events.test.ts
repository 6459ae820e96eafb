import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import type { AgentHandle, HandleUpdate } from "../../src/dispatch/AgentHandle.ts"
import * as Conductor from "../../src/dispatch/Conductor.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import { attach, dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, bind, call, only, probe, rebind, safe } from "../helpers/Fixture.ts"

const inOneStore = <A, E>(body: Effect.Effect<A, E, RunStore>) =>
  Effect.provide(body, Layer.fresh(layerMemory))

/** The updates in short: revision and tag of an event, or the tag. */
const brief = (updates: ReadonlyArray<HandleUpdate>): ReadonlyArray<string> =>
  updates.map((update) =>
    update._tag === "event"
      ? `${update.revision} ${update.event._tag}`
      : update._tag === "skipped"
        ? `skipped ${update.updates}`
        : update._tag
  )

const onlyEvents = (updates: ReadonlyArray<HandleUpdate>) => updates.filter(({ _tag }) => _tag === "event")

const collect = <E>(handle: AgentHandle<unknown, E>) => Effect.forkChild(Stream.runCollect(handle.events))

const writing = Effect.gen(function* () {
  const { tool } = probe("write")
  return yield* rebind(
    Agent.make("a", { tools: [tool] }),
    ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [call("write", "1")] } : "done"))
  )
})

const decidedInStore = (run: ReadonlyArray<string>) =>
  run.map((line) =>
    line === "6 run.resumed" ? "6 request.decided" : line === "7 request.decided" ? "7 run.resumed" : line
  )

const wholeRun = [
  "1 run.started",
  "2 model.answered",
  "3 tool.classified",
  "4 request.opened",
  "5 run.held",
  "6 run.resumed",
  "7 request.decided",
  "8 tool.started",
  "9 tool.completed",
  "10 model.answered",
  "11 run.completed"
]

describe("AgentHandle.events", () => {
  it.effect("contain the whole run with its holds for a reader that starts later", () =>
    Effect.gen(function* () {
      const { runtime } = yield* writing
      const handle = yield* dispatchPrompt(runtime, { prompt: "go" })
      const held = only(yield* handle.wait, "approval")
      const late = yield* collect(handle)
      yield* Effect.yieldNow
      yield* handle.decide(approve(held))
      assert.deepStrictEqual(brief(onlyEvents(yield* Fiber.join(late))), wholeRun)
      // After the end as well.
      assert.deepStrictEqual(brief(yield* Stream.runCollect(handle.events)), wholeRun)
    })
  )

  it.effect("keep the latest events of a run without a store, and count the skipped ones", () =>
    Effect.gen(function* () {
      const { runtime } = yield* writing
      const handle = yield* dispatchPrompt(runtime, { prompt: "go" }, { keepEvents: 3 })
      only(yield* handle.wait, "approval")
      yield* handle.cancel()
      assert.deepStrictEqual(brief(yield* Stream.runCollect(handle.events)), [
        "skipped 4",
        "5 run.held",
        "6 run.resumed",
        "7 run.cancelled"
      ])
    })
  )

  it.effect("skip updates of a slow reader, with a count, and never block the run", () =>
    Effect.gen(function* () {
      const { handle, reading } = yield* noisyAndSlow((runtime) => dispatchPrompt(runtime, { prompt: "go" }))
      const result = yield* handle.done
      const updates = yield* reading
      const told = brief(updates)
      const { revision } = result.state
      assert.strictEqual(told.at(-1), `${revision} run.completed`)
      const missed = updates.find((update) => update._tag === "skipped")
      assert.isAbove(missed?.updates ?? 0, 700)
      assert.isBelow(updates.length, 300)
    })
  )
})

describe("a slow reader of a handle or a conductor", () => {
  it.effect("buffers a bounded number of characters of large output", () =>
    inOneStore(
      Effect.gen(function* () {
        const begin = yield* Deferred.make<void>()
        const chunk = "x".repeat(100_000)
        const noisy = safe("noisy", {
          handler: (_, { output }) =>
            Effect.map(Deferred.await(begin), () => {
              for (let i = 0; i < 100; i++) output(chunk)
              return "done"
            })
        })
        const agent = Agent.make("a", { tools: [noisy.tool] })
        const script = ({ turn }: { readonly turn: number }) =>
          turn === 1 ? { calls: [call("noisy", "1")] } : "done"
        const { runtime } = yield* rebind(agent, ScriptedModel.make(script))
        const conductor = yield* Conductor.make()
        const handles = [
          yield* conductor.dispatch(runtime, { prompt: "go" }),
          yield* dispatchPromptStored(runtime, { prompt: "go" })
        ]
        const all = Effect.forEach(handles, ({ done }) => Effect.exit(done))
        const first = yield* Deferred.make<void>()
        /** Stops reading after the first update until all runs end, and returns the output received afterwards. */
        const slow = <A>(stream: Stream.Stream<A, unknown>, chunkOf: (update: A) => number) =>
          Effect.forkChild(
            Stream.runFold(
              Stream.mapEffect(stream, (update) =>
                Effect.as(Effect.andThen(Deferred.succeed(first, undefined), all), chunkOf(update))
              ),
              () => 0,
              (sum, length) => sum + length
            )
          )
        const lengthOf = (update: HandleUpdate) => (update._tag === "output" ? update.chunk.length : 0)
        const reading = [
          yield* slow(handles[0]!.events, lengthOf),
          yield* slow(handles[1]!.events, lengthOf),
          yield* slow(conductor.events, (told) => (told._tag === "update" ? lengthOf(told.update) : 0))
        ]
        yield* Deferred.await(first)
        yield* Deferred.succeed(begin, undefined)
        yield* all
        yield* conductor.drain
        const lengths = yield* Effect.forEach(reading, Fiber.join)
        for (const length of lengths) assert.isAtMost(length, 300_000)
        assert.isAtLeast(lengths[0]!, chunk.length)
      }).pipe(Effect.scoped)
    )
  )
})

/** A run with much progress, and a reader that stops after its first update until the run ends. */
const noisyAndSlow = Effect.fnUntraced(function* <E, F, R>(
  dispatch: (runtime: Runtime<undefined>) => Effect.Effect<AgentHandle<undefined, E>, F, R>
) {
  const begin = yield* Deferred.make<void>()
  const noisy = safe("noisy", {
    handler: (_, { progress }) =>
      Effect.map(Deferred.await(begin), () => {
        for (let i = 0; i < 1000; i++) progress(`${i}`)
        return "done"
      })
  })
  const { runtime } = yield* bind(Agent.make("a", { tools: [noisy.tool] }), [
    { calls: [call("noisy", "1")] },
    "done"
  ])
  const handle = yield* dispatch(runtime)
  const first = yield* Deferred.make<void>()
  const slow = Stream.mapEffect(handle.events, (update) =>
    Effect.as(Effect.andThen(Deferred.succeed(first, undefined), Effect.exit(handle.done)), update)
  )
  const reading = yield* Effect.forkChild(Stream.runCollect(slow))
  yield* Deferred.await(first)
  yield* Deferred.succeed(begin, undefined)
  return { handle, reading: Fiber.join(reading) }
})

describe("AgentHandle.events of a stored run", () => {
  it.effect("start with the journal in every handle", () =>
    inOneStore(
      Effect.scoped(
        Effect.gen(function* () {
          const { runtime } = yield* writing
          const handle = yield* dispatchPromptStored(runtime, { prompt: "go" })
          const held = only(yield* handle.wait, "approval")
          const other = yield* attach([runtime], handle.runId)
          const [one, two] = [yield* collect(handle), yield* collect(other)]
          yield* Effect.yieldNow
          yield* handle.decide(approve(held))
          yield* handle.done
          yield* TestClock.adjust("2 seconds")
          assert.deepStrictEqual(brief(onlyEvents(yield* Fiber.join(one))), decidedInStore(wholeRun))
          assert.deepStrictEqual(brief(onlyEvents(yield* Fiber.join(two))), decidedInStore(wholeRun))
          assert.deepStrictEqual(brief(yield* Stream.runCollect(handle.events)), decidedInStore(wholeRun))
        })
      )
    )
  )

  it.effect("reach a slow reader completely, and skip only transient updates", () =>
    inOneStore(
      Effect.scoped(
        Effect.gen(function* () {
          const { handle, reading } = yield* noisyAndSlow((runtime) =>
            dispatchPromptStored(runtime, { prompt: "go" })
          )
          const { state } = yield* handle.done
          const updates = yield* reading
          assert.deepStrictEqual(
            onlyEvents(updates).map((update) => (update._tag === "event" ? update.revision : 0)),
            Array.from({ length: state.revision }, (_, i) => i + 1)
          )
          const missed = updates.find((update) => update._tag === "skipped")
          assert.isAbove(missed?.updates ?? 0, 700)
        })
      )
    )
  )

  it.effect("contain all pages of a long journal, also after the end", () =>
    inOneStore(
      Effect.scoped(
        Effect.gen(function* () {
          const turns = 150
          const { runtime } = yield* rebind(
            Agent.make("a", { tools: [safe("look").tool], limits: { maxTurns: turns } }),
            ScriptedModel.make(({ turn }) => (turn < turns ? { calls: [call("look", `${turn}`)] } : "done"))
          )
          const handle = yield* dispatchPromptStored(runtime, { prompt: "go" })
          const { state } = yield* handle.done
          assert.isAbove(state.revision, 520)
          const read = onlyEvents(yield* Stream.runCollect(handle.events))
          assert.deepStrictEqual(
            read.map((update) => (update._tag === "event" ? update.revision : 0)),
            Array.from({ length: state.revision }, (_, i) => i + 1)
          )
        })
      )
    )
  )

  it.effect("follow a run that another process drives", () =>
    inOneStore(
      Effect.scoped(
        Effect.gen(function* () {
          const { runtime } = yield* writing
          const other = (yield* writing).runtime
          const runId = "run" as RunId
          const held = only(yield* runPromptStored(other, { prompt: "go", runId }), "approval")
          const handle = yield* attach([runtime], runId)
          const reading = yield* collect(handle)
          yield* Effect.yieldNow
          yield* runPromptStored(other, { runId, decisions: [approve(held)] })
          yield* TestClock.adjust("2 seconds")
          assert.deepStrictEqual(brief(yield* Fiber.join(reading)), decidedInStore(wholeRun))
        })
      )
    )
  )

  it.effect("are published once by a handle that follows another process through a slow store", () =>
    Effect.gen(function* () {
      const store = yield* Effect.provide(RunStore, Layer.fresh(layerMemory))
      const isRead = yield* Deferred.make<void>()
      let reads = 0
      const slow = RunStore.of({
        ...store,
        events: (...args) =>
          Effect.suspend(() => {
            reads += 1
            return Effect.tap(store.events(...args), Deferred.await(isRead))
          })
      })
      const [begun, end] = [yield* Deferred.make<void>(), yield* Deferred.make<string>()]
      const isAttached = yield* Deferred.make<string>()
      const first = probe("first", { needsApproval: false, handler: () => Deferred.await(isAttached) })
      const second = probe("second", {
        needsApproval: false,
        handler: () => Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(end))
      })
      const agent = Agent.make("a", { tools: [first.tool, second.tool] })
      const script = [{ calls: [call("first", "1"), call("second", "2")] }, "done"]
      const runId = "run" as RunId
      const { runtime } = yield* bind(agent, script)
      const working = yield* Effect.forkChild(
        Effect.provideService(runPromptStored(runtime, { prompt: "go", runId }), RunStore, store),
        { startImmediately: true }
      )
      const seen: Array<number> = []
      yield* Effect.gen(function* () {
        const handle = yield* attach([runtime], runId, {
          onUpdate: (update) => {
            if (update._tag === "event") seen.push(update.revision)
          }
        })
        yield* Deferred.succeed(isAttached, "done")
        yield* Deferred.await(begun)
        yield* TestClock.adjust("2 seconds")
        assert.isAbove(reads, 1)
        yield* Deferred.succeed(isRead, undefined)
        yield* Deferred.succeed(end, "done")
        yield* Fiber.join(working)
        yield* TestClock.adjust("2 seconds")
        const { state } = yield* handle.done
        assert.strictEqual(seen.at(-1), state.revision)
        assert.strictEqual(new Set(seen).size, seen.length)
      }).pipe(Effect.scoped, Effect.provideService(RunStore, slow))
    })
  )

  it.effect("are not read from the store repeatedly while a commit is pending", () =>
    Effect.gen(function* () {
      const store = yield* Effect.provide(RunStore, Layer.fresh(layerMemory))
      let reads = 0
      const counted = RunStore.of({
        ...store,
        events: (...args) =>
          Effect.suspend(() => {
            reads += 1
            return store.events(...args)
          })
      })
      const ends = yield* Effect.forEach(["1", "2", "3"], () => Deferred.make<string>())
      const begun = yield* Deferred.make<void>()
      const tools = ends.map((end, index) =>
        safe(`read${index + 1}`, {
          handler: () => Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(end))
        })
      )
      const { runtime } = yield* bind(Agent.make("a", { tools: tools.map(({ tool }) => tool) }), [
        { calls: ends.map((_, index) => call(`read${index + 1}`, `${index + 1}`)) },
        "done"
      ])
      const read = yield* Effect.gen(function* () {
        const completed = yield* Queue.unbounded<number>()
        const handle = yield* dispatchPromptStored(
          runtime,
          { prompt: "go" },
          {
            onUpdate: (update) => {
              if (update._tag === "event" && update.event._tag === "tool.completed")
                Queue.offerUnsafe(completed, update.revision)
            }
          }
        )
        const end = (index: number) => Deferred.succeed(ends[index]!, "read")
        yield* Deferred.await(begun)
        yield* end(0)
        const first = yield* Queue.take(completed)
        assert.isBelow((yield* store.head(handle.runId)).revision, first)
        const updates: Array<HandleUpdate> = []
        const reading = yield* Effect.forkChild(
          Stream.runForEach(handle.events, (update) =>
            Effect.sync(() => {
              if (update._tag === "event") updates.push(update)
            })
          )
        )
        yield* Effect.yieldNow
        yield* end(1)
        yield* Queue.take(completed)
        for (let i = 0; i < 1000; i += 1) yield* Effect.yieldNow
        assert.isBelow(reads, 10)
        yield* end(2)
        const { state } = yield* handle.done
        yield* Fiber.join(reading)
        assert.strictEqual(updates.length, state.revision)
        return brief(updates)
      }).pipe(Effect.scoped, Effect.provideService(RunStore, counted))
      assert.strictEqual(new Set(read).size, read.length)
    })
  )
})
