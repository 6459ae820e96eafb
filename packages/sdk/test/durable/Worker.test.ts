import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Random from "effect/Random"
import * as References from "effect/References"
import * as Scheduler from "effect/Scheduler"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { pageSize, type Recovered } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import * as Worker from "../../src/durable/Worker.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { RunBusy, RunConflict, RunNotFound, RunStoreError, StoreBusy } from "../../src/store/RunStoreError.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, bind, call, only, probe, rebind, results, safe } from "../helpers/Fixture.ts"
import { failing, thrown } from "../helpers/Hostile.ts"

const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(title, () =>
    Effect.provideService(Effect.provide(body, Layer.fresh(layerMemory)), References.MinimumLogLevel, "None")
  )

/** Starts a worker, and collects the runs that it has driven. */
const working = (runtimes: ReadonlyArray<Runtime<any>>, options: Worker.WorkerOptions = {}) =>
  Effect.gen(function* () {
    let waiting: Array<(run: Recovered) => void> = []
    const done: Array<Recovered> = []
    const onTakenUp = (run: Recovered) => {
      done.push(run)
      waiting.splice(0).forEach((resume) => resume(run))
    }
    const fiber = yield* Effect.forkChild(Worker.run(runtimes, { ...options, onTakenUp }), {
      startImmediately: true
    })
    const next = Effect.callback<Recovered>((resume) => {
      waiting.push((run) => resume(Effect.succeed(run)))
    })
    return { fiber, next, done }
  })

const held = (...script: Parameters<typeof bind>[1]) =>
  Effect.gen(function* () {
    const write = probe("write")
    const bound = yield* bind(Agent.make("a", { tools: [write.tool] }), [
      { calls: [call("write", "1")] },
      ...script
    ])
    const result = yield* runPromptStored(bound.runtime, { prompt: "go" })
    return { ...bound, write, runId: result.runId, request: only(result, "approval") }
  })

describe("a worker", () => {
  test(
    "resumes a run as soon as it is decided, without polling",
    Effect.gen(function* () {
      const { request, runtime, write } = yield* held("done")
      const { done, fiber, next } = yield* working([runtime])
      yield* Effect.yieldNow
      yield* decideStored([runtime], approve(request))
      assert.deepInclude(yield* done.length === 0 ? next : Effect.succeed(done[0]!), {
        reason: "decided",
        status: "completed"
      })
      assert.deepStrictEqual(write.ran, ["1"])
      yield* Fiber.interrupt(fiber)
    })
  )

  test(
    "resumes a run that was decided before the worker started",
    Effect.gen(function* () {
      const { request, runtime } = yield* held("done")
      yield* decideStored([runtime], approve(request))
      const { next } = yield* working([runtime])
      assert.deepInclude(yield* next, { reason: "decided", status: "completed" })
    })
  )

  test(
    "drives a run that is ready behind more than a page of runs that are not retried yet",
    Effect.gen(function* () {
      const [write, read] = [probe("write"), probe("read")]
      const model = ScriptedModel.make(({ messages: [first, ...rest] }) =>
        rest.length > 0
          ? "done"
          : { calls: [call(JSON.stringify(first).includes("read") ? "read" : "write", "1")] }
      )
      const { runtime } = yield* rebind(Agent.make("a", { tools: [write.tool, read.tool] }), model)
      for (let count = 0; count <= pageSize; count++) {
        const prompt = count < pageSize ? "write" : "read"
        const request = only(yield* runPromptStored(runtime, { prompt }), "approval")
        yield* decideStored([runtime], approve(request))
      }
      const { runtime: without } = yield* rebind(Agent.make("a", { tools: [read.tool] }), model)
      const { done, next } = yield* working([without])
      while (done.length <= pageSize) yield* next
      assert.deepStrictEqual(
        done.filter(({ error }) => error === undefined).map(({ status }) => status),
        ["completed"]
      )
      assert.deepStrictEqual([write.ran, read.ran], [[], ["1"]])
    })
  )

  test(
    "suspends its runs after the running bodies when it is stopped, and another worker resumes them",
    Effect.gen(function* () {
      const store = yield* RunStore
      const reached = yield* Deferred.make<void>()
      const finish = yield* Deferred.make<void>()
      const write = probe("write", {
        needsApproval: false,
        handler: () =>
          Effect.as(Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(finish)), "written")
      })
      const agent = Agent.make("a", { tools: [write.tool, probe("other").tool] })
      const { model, runtime } = yield* bind(agent, [
        { calls: [call("other", "0")] },
        { calls: [call("write", "1"), call("write", "2")] },
        "done"
      ])
      const first = yield* runPromptStored(runtime, { prompt: "go" })
      yield* decideStored([runtime], approve(only(first, "approval")))
      const { fiber } = yield* working([runtime])
      yield* Deferred.await(reached)
      const stopping = yield* Effect.forkChild(Fiber.interrupt(fiber))
      yield* Effect.yieldNow
      yield* Deferred.succeed(finish, undefined)
      yield* Fiber.join(stopping)
      // The running body has finished and is recorded; the next one has not started.
      assert.deepStrictEqual(write.ran, ["1"])
      const head = yield* store.head(first.runId)
      assert.deepInclude(head, { status: "running" })
      assert.isUndefined(head.lease)

      const again = yield* rebind(agent, model)
      const { next } = yield* working([again.runtime])
      assert.deepInclude(yield* next, { reason: "orphaned", status: "completed" })
      assert.deepStrictEqual(write.ran, ["1", "2"])
      assert.deepStrictEqual(results(yield* loadState(first.runId)).slice(1), [
        "write completed: written",
        "write completed: written"
      ])
    })
  )

  test(
    "interrupts a body after drainTimeout, and the next worker finds it in doubt",
    Effect.gen(function* () {
      const store = yield* RunStore
      const reached = yield* Deferred.make<void>()
      const write = probe("write", {
        handler: () => Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
      })
      const agent = Agent.make("a", { tools: [write.tool] })
      const { model, runtime } = yield* bind(agent, [{ calls: [call("write", "1")] }, "done"])
      const first = yield* runPromptStored(runtime, { prompt: "go" })
      yield* decideStored([runtime], approve(only(first, "approval")))
      const { fiber } = yield* working([runtime], { drainTimeout: "2 seconds" })
      yield* Deferred.await(reached)
      const stopping = yield* Effect.forkChild(Fiber.interrupt(fiber))
      yield* TestClock.adjust("2 seconds")
      yield* Fiber.join(stopping)
      assert.isUndefined((yield* store.head(first.runId)).lease)
      const again = yield* rebind(agent, model)
      const { next } = yield* working([again.runtime])
      assert.deepInclude(yield* next, { reason: "orphaned", status: "held" })
      assert.strictEqual((yield* store.pending())[0]?.request._tag, "inDoubt")
    })
  )

  test(
    "continues when the store is available again",
    Effect.gen(function* () {
      const store = yield* RunStore
      const { request, runtime } = yield* held("done")
      yield* decideStored([runtime], approve(request))
      let down = true
      const failing = new RunStoreError({ operation: "ready", reason: new StoreBusy({ waitedMs: 1 }) })
      const view = {
        ...store,
        ready: (...args: Parameters<typeof store.ready>) =>
          Effect.suspend(() => (down ? Effect.fail(failing) : store.ready(...args)))
      }
      const { done } = yield* Effect.provideService(working([runtime]), RunStore, view)
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(done, [])
      down = false
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(done[0]?.status, "completed")
    })
  )

  test(
    "drives every run although its callbacks fail",
    Effect.gen(function* () {
      const store = yield* RunStore
      for (const fail of Object.values(failing)) {
        for (const make of Object.values(thrown)) {
          const runs = [yield* held("done"), yield* held("done"), yield* held("done")]
          for (const { request, runtime } of runs) yield* decideStored([runtime], approve(request))
          const watching = () => fail(make()) as never
          const other = yield* rebind(
            Agent.make("a", { tools: [probe("write").tool] }),
            ScriptedModel.make(() => "done")
          )
          const worker = yield* Effect.forkChild(
            Worker.run([other.runtime], { onTakingUp: watching, onTakenUp: watching, onUpdate: watching }),
            { startImmediately: true }
          )
          yield* TestClock.adjust("2 seconds")
          for (const { runId } of runs) assert.strictEqual((yield* store.head(runId)).status, "completed")
          assert.isUndefined(worker.pollUnsafe())
          yield* Fiber.interrupt(worker)
        }
      }
    })
  )

  const runsToTakeUp = (count: number) =>
    Effect.gen(function* () {
      const { runtime } = yield* rebind(
        Agent.make("a", { tools: [probe("write").tool] }),
        ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [call("write", "1")] } : "done"))
      )
      for (let index = 0; index < count; index += 1) {
        const result = yield* runPromptStored(runtime, { prompt: "go" })
        yield* decideStored([runtime], approve(only(result, "approval")))
      }
      return runtime
    })

  test(
    "rarely claims a run that another worker claims, though both read the same page",
    Effect.gen(function* () {
      const store = yield* RunStore
      const runtime = yield* runsToTakeUp(60)
      const both = yield* Deferred.make<void>()
      let readers = 0
      const view = {
        ...store,
        ready: (...args: Parameters<typeof store.ready>) =>
          Effect.tap(store.ready(...args), () =>
            ++readers === 2 ? Deferred.succeed(both, undefined) : Deferred.await(both)
          )
      }
      const taken: Array<RunId> = []
      const options = { concurrency: 5, onTakingUp: (runId: RunId) => void taken.push(runId) }
      const work = Effect.provideService(working([runtime], options), RunStore, view)
      const workers = yield* Random.withSeed(Effect.all([work, work]), 7)
      yield* TestClock.adjust("10 seconds")
      assert.isAtLeast(new Set(taken.slice(0, 10)).size, 8)
      assert.deepStrictEqual(yield* store.ready(), [])
      for (const { fiber } of workers) yield* Fiber.interrupt(fiber)
    })
  )

  test(
    "takes up runs with each reason in turn, also one at a time",
    Effect.gen(function* () {
      const store = yield* RunStore
      const runtime = yield* runsToTakeUp(60)
      for (const { runId } of (yield* store.list({ limit: 1000 })).slice(0, 30)) {
        yield* store.requestCancel(runId, "enough")
      }
      const { done, fiber } = yield* Random.withSeed(working([runtime], { concurrency: 1 }), 7)
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.interrupt(fiber)
      assert.isAtLeast(done.length, 10)
      assert.deepStrictEqual(
        new Set(done.slice(0, 10).map(({ reason }) => reason)),
        new Set(["cancelled", "decided"])
      )
    })
  )

  test(
    "polls again after a defect of the store or of a logger",
    Effect.gen(function* () {
      const store = yield* RunStore
      const { request, runtime } = yield* held("done")
      yield* decideStored([runtime], approve(request))
      let defects = 2
      const view = {
        ...store,
        ready: (...args: Parameters<typeof store.ready>) => {
          if (defects-- > 0) throw new Error("the driver is not loaded")
          return store.ready(...args)
        }
      }
      const logger = Logger.make(() => {
        throw new Error("the disk of the log is full")
      })
      const { done, fiber } = yield* working([runtime]).pipe(
        Effect.provideService(RunStore, view),
        Effect.provideService(References.MinimumLogLevel, "Warn"),
        Effect.provide(Logger.layer([logger]))
      )
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(
        done.map(({ status }) => status),
        ["completed"]
      )
      assert.isUndefined(fiber.pollUnsafe())
    })
  )

  test(
    "backs off from a run that cannot be resumed, and logs each attempt",
    Effect.gen(function* () {
      const { model, request, runtime, runId } = yield* held("done")
      yield* decideStored([runtime], approve(request))
      const changed = yield* rebind(Agent.make("a"), model)
      const said: Array<string> = []
      const logger = Logger.make(({ message }) => {
        said.push(String(message))
      })
      const { done } = yield* working([changed.runtime]).pipe(
        Effect.provideService(References.MinimumLogLevel, "Warn"),
        Effect.provide(Logger.layer([logger]))
      )
      yield* TestClock.adjust("20 seconds")
      assert.deepStrictEqual(
        done.map(({ error }) => error?._tag),
        ["ToolUnavailable", "ToolUnavailable", "ToolUnavailable", "ToolUnavailable"]
      )
      assert.strictEqual(said.length, 4)
      assert.include(said[0], `The run ${runId} cannot be driven`)
      assert.include(said[0], "define it again")
    })
  )

  test(
    "resumes a run again after its first attempt ended before the worker's fiber continued",
    Effect.gen(function* () {
      const store = yield* RunStore
      const { request, runtime, runId } = yield* held("done")
      yield* decideStored([runtime], approve(request))
      let attempts = 0
      let slow: Fiber.Fiber<unknown, unknown> | undefined
      const view = {
        ...store,
        claim: (...args: Parameters<typeof store.claim>) =>
          Effect.suspend(() => {
            slow = undefined
            // Another process claims the run first.
            return attempts === 1
              ? Effect.fail(new RunBusy({ runId, owner: "other", until: 0 }))
              : store.claim(...args)
          })
      }
      class Hindering extends Scheduler.MixedScheduler {
        override shouldYield(fiber: Fiber.Fiber<unknown, unknown>) {
          return fiber === slow && fiber.currentOpCount > 2
        }
      }
      const { done } = yield* working([runtime], {
        onTakingUp: () => {
          attempts += 1
          // From here the worker's fiber yields at each step until the run is claimed.
          slow = Fiber.getCurrent()
        }
      }).pipe(
        Effect.provideService(RunStore, view),
        Effect.provideService(Scheduler.Scheduler, new Hindering())
      )
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(
        done.map(({ error, status }) => error?._tag ?? status),
        ["RunBusy", "completed"]
      )
    })
  )

  for (const what of ["conflicts", "is not found"]) {
    test(
      `retries a run that ${what} three times at once, and then backs off`,
      Effect.gen(function* () {
        const store = yield* RunStore
        const { request, runtime, runId } = yield* held("done")
        yield* decideStored([runtime], approve(request))
        let isDamaged = true
        const view = {
          ...store,
          claim: (...args: Parameters<typeof store.claim>) =>
            Effect.suspend(() =>
              isDamaged && what === "is not found"
                ? Effect.fail(new RunNotFound({ runId }))
                : store.claim(...args)
            ),
          append: (...args: Parameters<typeof store.append>) =>
            Effect.suspend(() => {
              const { expected } = args[0]
              return isDamaged
                ? Effect.fail(new RunConflict({ runId, expected, actual: expected }))
                : store.append(...args)
            })
        }
        const { done, next } = yield* Effect.provideService(working([runtime]), RunStore, view)
        while (done.length < 4) yield* next
        // The fifth and sixth attempts come after 2 and 4 seconds.
        for (const [seconds, attempts] of [
          [1, 4],
          [1, 5],
          [2, 5],
          [2, 6]
        ] as const) {
          yield* TestClock.adjust(`${seconds} seconds`)
          while (done.length < attempts) yield* next
          for (let turn = 0; turn < 100; turn++) yield* Effect.yieldNow
          assert.lengthOf(done, attempts)
        }
        isDamaged = false
        yield* Effect.all([next, TestClock.adjust("8 seconds")], { concurrency: 2 })
        assert.deepInclude(done.at(-1), { reason: "decided", status: "completed" })
      })
    )
  }

  test(
    "drives no more runs at once than its concurrency",
    Effect.gen(function* () {
      let now = 0
      let most = 0
      const read = safe("read", {
        handler: () =>
          Effect.sync(() => {
            most = Math.max(most, ++now)
          }).pipe(
            Effect.andThen(Effect.sleep("1 second")),
            Effect.andThen(Effect.sync(() => void now--)),
            Effect.as("seen")
          )
      })
      const write = probe("write")
      const script = Array.from({ length: 10 }, () => ({ calls: [call("write", "1")] }))
      const { runtime } = yield* bind(Agent.make("a", { tools: [read.tool, write.tool] }), [
        ...script,
        ...Array.from({ length: 20 }, (_, index) => (index < 10 ? { calls: [call("read", "1")] } : "done"))
      ])
      for (let index = 0; index < 10; index += 1) {
        const result = yield* runPromptStored(runtime, { prompt: "go" })
        yield* decideStored([runtime], approve(only(result, "approval")))
      }
      const { done } = yield* working([runtime], { concurrency: 3 })
      yield* TestClock.adjust("20 seconds")
      assert.strictEqual(most, 3)
      assert.strictEqual(done.filter(({ status }) => status === "completed").length, 10)
    })
  )
})
