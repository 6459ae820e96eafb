/**
 * Held runs that become ready at a time, without an operation: waits, expiries and announcements.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { AgentHandle } from "../../src/dispatch/AgentHandle.ts"
import { attach, dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import * as Worker from "../../src/durable/Worker.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { RunStoreError, StoreBusy } from "../../src/store/RunStoreError.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as WaitTool from "../../src/tool/WaitTool.ts"
import { call, probe, rebind } from "../helpers/Fixture.ts"

type Store = RunStore["Service"]

const test = (title: string, body: Effect.Effect<void, unknown, RunStore | Scope.Scope>) =>
  it.effect(title, () =>
    Effect.scoped(
      Effect.provideService(
        Effect.provide(body, Layer.fresh(layerMemory)),
        References.MinimumLogLevel,
        "None"
      )
    )
  )

const id = (text: string) => text as RunId

/** A program whose agent waits for as long as its prompt says, and then asks for an approval that expires after a second. */
const waiter = Effect.gen(function* () {
  const write = probe("write", { approval: { expiresIn: "1 second", warnBefore: "250 millis" } })
  const model = ScriptedModel.make(({ messages, turn }) => {
    const [part] = messages[0]?.role === "user" ? messages[0].content : []
    const wait = { calls: [{ tool: "wait", arguments: { for: part?._tag === "text" ? part.text : "" } }] }
    return turn === 1 ? wait : turn === 2 ? { calls: [call("write", "1")] } : "done"
  })
  const { runtime } = yield* rebind(Agent.make("a", { tools: [WaitTool.make(), write.tool] }), model)
  return runtime
})

/** A store that counts the reads of ready runs and of due times. */
const counting = (store: Store) => {
  const counts = { ready: 0, nextDue: 0 }
  const counted = (name: keyof typeof counts) => {
    const operation: (filter?: any) => Effect.Effect<any, RunStoreError> = store[name]
    return (filter?: unknown) =>
      Effect.suspend(() => {
        counts[name] += 1
        return operation(filter)
      })
  }
  return { counts, store: { ...store, ready: counted("ready"), nextDue: counted("nextDue") } as Store }
}

/** Starts a worker. Collects the times at which it has driven runs, each with the reason. */
const working = Effect.fnUntraced(function* (options: Worker.WorkerOptions = {}) {
  const clock = yield* Clock.Clock
  const done: Array<string> = []
  const runtime = yield* waiter
  const onTakenUp: Worker.WorkerOptions["onTakenUp"] = ({ error, reason, runId }) =>
    void done.push(`${runId} ${error?._tag ?? reason} ${clock.currentTimeMillisUnsafe()}`)
  yield* Effect.forkScoped(Worker.run([runtime], { ...options, onTakenUp }), { startImmediately: true })
  yield* TestClock.adjust(0)
  return done
})

/** Holds a run, and lets the worker hear of it. */
const waits = (runId: string, prompt: string) =>
  waiter.pipe(
    Effect.flatMap((runtime) => runPromptStored(runtime, { prompt, runId: id(runId) })),
    Effect.andThen(Effect.repeat(Effect.yieldNow, { times: 100 }))
  )

describe("a worker", () => {
  test(
    "releases a wait, announces an expiry and denies at their times, between its polls",
    Effect.gen(function* () {
      yield* waits("a", "1250 millis")
      const done = yield* working({ pollInterval: "10 minutes" })
      yield* TestClock.adjust("1249 millis")
      assert.deepStrictEqual(done, [])
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(done, ["a expired 1250", "a expiring 2000", "a expired 2250"])
    })
  )

  test(
    "releases a wait that begins after the worker, and ends before the ones that it knows",
    Effect.gen(function* () {
      yield* waits("late", "1 minute")
      const done = yield* working({ pollInterval: "10 minutes" })
      yield* TestClock.adjust("5 seconds")
      yield* waits("early", "900 millis")
      yield* TestClock.adjust("950 millis")
      assert.deepStrictEqual(done, ["early expired 5900"])
    })
  )

  test(
    "reads an idle store no more often than it polls",
    Effect.gen(function* () {
      const { counts, store } = counting(yield* RunStore)
      yield* waits("a", "20 days")
      yield* Effect.provideService(working(), RunStore, store)
      yield* TestClock.adjust("1 minute")
      // Once at the start, and once for the subscription to the notifications of the store.
      assert.deepStrictEqual(counts, { ready: 31, nextDue: 2 })
    })
  )

  test(
    "reads the store once when a wait ends that it cannot release, because another process owns the run",
    Effect.gen(function* () {
      const memory = yield* RunStore
      yield* waits("a", "1 second")
      yield* memory.claim({ runId: id("a"), owner: "other", ttl: "1 hour" })
      const { counts, store } = counting(memory)
      const options = { pollInterval: "10 minutes" } as const
      const done = yield* Effect.provideService(working(options), RunStore, store)
      yield* TestClock.adjust("500 millis")
      const before = { ...counts }
      yield* TestClock.adjust("5 minutes")
      assert.deepStrictEqual(counts, { ready: before.ready + 1, nextDue: before.nextDue + 1 })
      assert.deepStrictEqual(done, [])
    })
  )

  test(
    "finds the runs at its next poll if the store cannot say when they are due",
    Effect.gen(function* () {
      const memory = yield* RunStore
      const error = new RunStoreError({ operation: "nextDue", reason: new StoreBusy({ waitedMs: 1 }) })
      const store = { ...memory, nextDue: () => Effect.fail(error) }
      yield* waits("a", "1250 millis")
      const done = yield* Effect.provideService(working(), RunStore, store)
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(done, ["a expired 2000"])
    })
  )

  for (const [what, change] of [
    ["forward", 3_600_000],
    ["back", -3_600_000]
  ] as const) {
    test(
      `releases waits on time after the clock was set ${what}`,
      Effect.gen(function* () {
        yield* TestClock.setTime(7_200_000)
        const clock = yield* Clock.Clock
        let offset = 0
        const time = () => clock.currentTimeMillisUnsafe() + offset
        const shifted: Clock.Clock = {
          ...clock,
          sleep: (duration) => clock.sleep(duration),
          monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
          currentTimeMillisUnsafe: time,
          currentTimeMillis: Effect.sync(time)
        }
        yield* Effect.gen(function* () {
          const options = { pollInterval: "10 minutes" } as const
          yield* waits("before", "1 hour")
          const done = yield* working(options)
          yield* TestClock.adjust("1 second")
          offset = change
          // A sleep ends after two seconds at the latest.
          yield* TestClock.adjust("2 seconds")
          assert.strictEqual(
            done.some((text) => text.startsWith("before expired")),
            change > 0
          )
          yield* waits("after", "500 millis")
          yield* TestClock.adjust("550 millis")
          assert.include(done, `after expired ${7_203_500 + change}`)
        }).pipe(Effect.provideService(Clock.Clock, shifted))
      })
    )
  }
})

/** The status of a handle at each time at which it has changed. */
const following = Effect.fnUntraced(function* (handle: AgentHandle<unknown, unknown>) {
  const seen: Array<string> = []
  const clock = yield* Clock.Clock
  yield* Effect.forkScoped(
    Stream.runForEach(handle.status.changes, (status) =>
      Effect.sync(() => seen.push(`${status} ${clock.currentTimeMillisUnsafe()}`))
    ),
    { startImmediately: true }
  )
  return seen
})

describe("a handle", () => {
  test(
    "releases a wait, announces an expiry and denies at their times, between the polls of the store",
    Effect.gen(function* () {
      const { counts, store } = counting(yield* RunStore)
      const inStore = Effect.provideService(RunStore, store)
      const runtime = yield* waiter
      const handle = yield* inStore(dispatchPromptStored(runtime, { prompt: "1250 millis", runId: id("a") }))
      const other = yield* inStore(attach([runtime], id("a")))
      yield* handle.wait
      const seen = yield* following(handle)
      yield* TestClock.adjust("1249 millis")
      assert.strictEqual(handle.status.current(), "held")
      yield* TestClock.adjust("5 seconds")
      yield* other.done
      assert.deepStrictEqual(seen, [
        "held 0",
        "running 1250",
        "held 1250",
        "running 2000",
        "held 2000",
        "running 2250",
        "completed 2250"
      ])
      assert.strictEqual(counts.nextDue, 0)
    })
  )

  test(
    "releases a wait that begins after the others, and ends before them",
    Effect.gen(function* () {
      const runtime = yield* waiter
      const late = yield* dispatchPromptStored(runtime, { prompt: "1 minute", runId: id("late") })
      yield* late.wait
      yield* TestClock.adjust("200 millis")
      const early = yield* dispatchPromptStored(runtime, { prompt: "900 millis", runId: id("early") })
      yield* early.wait
      const seen = yield* following(early)
      yield* Effect.repeat(Effect.yieldNow, { times: 100 })
      yield* TestClock.adjust("950 millis")
      assert.deepStrictEqual(seen, ["held 200", "running 1100", "held 1100"])
    })
  )

  test(
    "polls the store when a wait ends that it cannot release, because another process owns the run",
    Effect.gen(function* () {
      const memory = yield* RunStore
      const { counts, store } = counting(memory)
      const runtime = yield* waiter
      const dispatched = dispatchPromptStored(runtime, { prompt: "1 second", runId: id("a") })
      yield* Effect.flatMap(Effect.provideService(dispatched, RunStore, store), (handle) => handle.wait)
      yield* TestClock.adjust("900 millis")
      yield* memory.claim({ runId: id("a"), owner: "other", ttl: "1 hour" })
      const before = counts.ready
      yield* TestClock.adjust("10 seconds")
      // One at the end of the wait, and then one each half second.
      assert.isAtMost(counts.ready - before, 22)
    })
  )
})
