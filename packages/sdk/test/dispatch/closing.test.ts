import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import * as Conductor from "../../src/dispatch/Conductor.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import { attach } from "../../src/dispatch/dispatchPromptStored.ts"
import { groupOfScope } from "../../src/dispatch/internal/HandleGroup.ts"
import { interruptions } from "../../src/domain/RunState.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, call, expect, probe, rebind, safe, throughJson } from "../helpers/Fixture.ts"
import { timeSpent } from "../helpers/timeSpent.ts"

const inOneStore = <A, E>(body: Effect.Effect<A, E, RunStore | Scope.Scope>) =>
  Effect.provide(Effect.scoped(body), Layer.fresh(layerMemory))

/** Counts the live fibers of the body. */
const countingFibers = <A, E, R>(body: (alive: () => number) => Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    let alive = 0
    return Effect.provideService(
      body(() => alive),
      Metric.FiberRuntimeMetrics,
      {
        recordFiberStart: () => {
          alive += 1
        },
        recordFiberEnd: () => {
          alive -= 1
        }
      }
    )
  })

/** Agents that hang in a tool or in a model call, or call `write`, as their prompt says. */
const hanging = Effect.gen(function* () {
  const signals: Array<AbortSignal> = []
  const hang = safe("hang", {
    handler: (_, { signal }) => {
      signals.push(signal)
      return Effect.never
    }
  })
  const write = probe("write")
  const { runtime } = yield* rebind(
    Agent.make("a", { tools: [hang.tool, write.tool] }),
    ScriptedModel.make(({ messages, turn }) => {
      const [said] = messages
      const prompt = said?.role === "user" && said.content[0]?._tag === "text" ? said.content[0].text : ""
      if (prompt === "model") return { hang: true }
      return turn === 1 ? { calls: [call(prompt, "1")] } : "done"
    })
  )
  return { runtime, signals, write }
})

describe("the cancellation of 1,000 runs", () => {
  it.live("takes less than a second, ends each run once, aborts every signal and leaves no fiber", () =>
    countingFibers((alive) =>
      Effect.gen(function* () {
        const { runtime, signals } = yield* hanging
        const ends: Array<string> = []
        const scope = yield* Scope.make()
        const conductor = yield* Effect.provideService(
          Conductor.make({ concurrency: 1000 }),
          Scope.Scope,
          scope
        )
        const before = alive()
        const handles = yield* Effect.forEach(Array.from({ length: 1000 }), (_, i) =>
          conductor.dispatch(
            runtime,
            { prompt: ["model", "hang", "write"][i % 3]! },
            {
              name: `tree/${i % 7}/${i}`,
              onUpdate: (update) => {
                if (
                  update._tag === "event" &&
                  /^run\.(completed|cancelled|failed)$/.test(update.event._tag)
                ) {
                  ends.push(`${update.runId} ${update.event._tag}`)
                }
              }
            }
          )
        )
        // The `write` runs are held, and the others hang.
        while (
          signals.length < 333 ||
          handles.filter(({ status }) => status.current() === "held").length < 333
        ) {
          yield* Effect.yieldNow
        }
        assert.isAbove(alive(), before + 600)
        const spent = timeSpent()
        assert.strictEqual(yield* conductor.cancel("tree", "enough"), 1000)
        const { cpuMs, waitedMs } = spent()
        assert.isBelow(cpuMs, 1000)
        assert.isBelow(waitedMs, 1000)
        for (const { done, status } of handles) {
          assert.strictEqual(status.current(), "cancelled")
          assert.strictEqual(expect(yield* done, "cancelled").reason, "enough")
        }
        assert.strictEqual(new Set(ends).size, 1000)
        assert.strictEqual(ends.length, 1000)
        assert.isTrue(signals.every(({ aborted }) => aborted))
        assert.strictEqual(signals.length, 333)
        assert.strictEqual(alive(), before)
        assert.deepStrictEqual(conductor.handles(), [])
        yield* Scope.close(scope, Exit.void)
      })
    )
  )
})

describe("Conductor.drain", () => {
  it.effect("refuses further runs, cancels those without a store, and returns the held states", () =>
    countingFibers((alive) =>
      Effect.gen(function* () {
        const { runtime, write } = yield* hanging
        const before = alive()
        const conductor = yield* Conductor.make({ concurrency: 2 })
        const names = ["write", "hang", "model", "model"]
        const handles = yield* Effect.forEach(names, (prompt) =>
          conductor.dispatch(runtime, { prompt }, { name: prompt })
        )
        const held = expect(yield* handles[0]!.wait, "interrupted")
        const events = yield* Effect.forkChild(Stream.runDrain(conductor.events), {
          startImmediately: true
        })
        const drained = yield* conductor.drain
        assert.deepStrictEqual(
          drained.map(({ name, status }) => `${name} ${status}`),
          ["write cancelled", "hang cancelled", "model cancelled", "model error"]
        )
        assert.deepStrictEqual(drained[0]?.held, held.state)
        assert.strictEqual((yield* Effect.flip(handles[3]!.done))._tag, "ConductorClosed")
        const refused = yield* Effect.flip(conductor.dispatch(runtime, { prompt: "model" }))
        assert.strictEqual(refused._tag, "ConductorClosed")
        assert.deepStrictEqual(yield* conductor.drain, drained)
        yield* Fiber.join(events)
        assert.strictEqual(alive(), before)

        // The held state can be resumed.
        const state = drained[0]!.held!
        const decisions = interruptions(state).map((request) => approve(request))
        expect(yield* runPrompt(runtime, { state, decisions }), "completed")
        assert.deepStrictEqual(write.ran, ["1"])
      })
    )
  )

  it.effect("returns acknowledged decisions and messages in the held state", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const write = probe("write", {
        handler: ({ id }) =>
          id === "1" ? Effect.andThen(Deferred.succeed(begun, undefined), Effect.never) : id
      })
      const model = ScriptedModel.make(({ messages, turn }) =>
        turn > 1
          ? "done"
          : { calls: [call("write", JSON.stringify(messages[0]).includes("first") ? "1" : "2")] }
      )
      const { runtime } = yield* rebind(Agent.make("a", { tools: [write.tool] }), model)
      const conductor = yield* Conductor.make({ concurrency: 1 })
      const first = yield* conductor.dispatch(runtime, { prompt: "first" }, { name: "first" })
      yield* first.wait
      const second = yield* conductor.dispatch(runtime, { prompt: "second" }, { name: "second" })
      yield* second.wait
      yield* first.decide(approve(first.interruptions()[0]!))
      yield* Deferred.await(begun)
      // Without a free slot, the acknowledged decision waits with the run.
      yield* second.decide(approve(second.interruptions()[0]!))
      yield* second.send("In blue, please.")
      assert.strictEqual(second.status.current(), "queued")
      assert.deepStrictEqual(interruptions(second.state()!), [])

      const draining = yield* Effect.forkChild(conductor.drain)
      yield* TestClock.adjust("5 seconds")
      const drained = yield* Fiber.join(draining)
      assert.deepStrictEqual(
        drained.map(({ held, name }) => [name, held === undefined ? [] : interruptions(held)]),
        [
          ["first", []],
          ["second", []]
        ]
      )
      assert.isUndefined(drained[0]?.held)
      const state = throughJson(drained[1]!.held!)
      expect(yield* runPrompt(runtime, { state }), "completed")
      assert.deepStrictEqual(write.ran, ["1", "2"])
      assert.include(JSON.stringify(model.requests.at(-1)?.messages), "In blue, please.")
    })
  )

  it.effect("returns a run with an accepted decision that has not taken effect", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const looking = yield* Deferred.make<void>()
      const look = safe("look", {
        handler: () => Effect.andThen(Deferred.succeed(looking, undefined), Effect.never)
      })
      const lead = Agent.make("lead", {
        tools: [write.tool],
        subAgents: [Agent.make("scout", { tools: [look.tool] })]
      })
      const model = ScriptedModel.make(({ agentPath, turn }) =>
        turn > 1
          ? "done"
          : agentPath.length > 1
            ? { calls: [call("look", "1")] }
            : { calls: [{ tool: "scout", arguments: { prompt: "do" } }, call("write", "1")] }
      )
      const { runtime } = yield* rebind(lead, model)
      const conductor = yield* Conductor.make()
      const handle = yield* conductor.dispatch(runtime, { prompt: "go" })
      yield* Deferred.await(looking)
      // The call waits behind the working scout.
      yield* handle.decide(approve(handle.interruptions()[0]!))
      const [drained] = yield* conductor.drain
      const again = yield* Effect.forkChild(runPrompt(runtime, { state: throughJson(drained!.held!) }))
      yield* TestClock.adjust("1 hour")
      expect(yield* Fiber.join(again), "completed")
      assert.deepStrictEqual(write.ran, ["1"])
    })
  )

  it.effect("returns the same runs to two concurrent calls, and drains once", () =>
    Effect.gen(function* () {
      const stopped = yield* Deferred.make<void>()
      const release = yield* Deferred.make<void>()
      const slow = safe("slow", {
        handler: () =>
          Effect.onInterrupt(Effect.never, () =>
            Effect.andThen(Deferred.succeed(stopped, undefined), Deferred.await(release))
          )
      })
      const write = probe("write")
      const { runtime } = yield* rebind(
        Agent.make("a", { tools: [slow.tool, write.tool] }),
        ScriptedModel.make(({ messages: [said] }) => ({
          calls: [call(JSON.stringify(said?.content).includes("slow") ? "slow" : "write", "1")]
        })),
        { cancelGrace: "1 minute" }
      )
      const conductor = yield* Conductor.make()
      const held = yield* conductor.dispatch(runtime, { prompt: "write" }, { name: "held" })
      const { state } = expect(yield* held.wait, "interrupted")
      yield* conductor.dispatch(runtime, { prompt: "slow" }, { name: "slow" })
      const first = yield* Effect.forkChild(conductor.drain)
      yield* Deferred.await(stopped)
      // The held run has ended by now, the slow one has not.
      const second = yield* Effect.forkChild(conductor.drain, { startImmediately: true })
      yield* Effect.yieldNow
      assert.deepStrictEqual([first.pollUnsafe(), second.pollUnsafe()], [undefined, undefined])
      yield* Deferred.succeed(release, undefined)
      const drained = yield* Fiber.join(first)
      assert.deepStrictEqual(
        drained.map(({ name, status }) => `${name} ${status}`),
        ["held cancelled", "slow cancelled"]
      )
      assert.deepStrictEqual(drained[0]?.held, state)
      assert.deepStrictEqual(yield* Fiber.join(second), drained)
      assert.deepStrictEqual(yield* conductor.drain, drained)
    })
  )

  it.effect("suspends stored runs, which can be attached to by their ids", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const { runtime, write } = yield* hanging
        const scope = yield* Scope.make()
        const conductor = yield* Effect.provideService(Conductor.make({ concurrency: 2 }), Scope.Scope, scope)
        const [held, busy, queued] = yield* Effect.forEach(["write", "model", "model"], (prompt) =>
          conductor.dispatchStored(runtime, { prompt })
        )
        const { interruptions } = expect(yield* held!.wait, "interrupted")
        const third = yield* conductor.dispatchStored(runtime, { prompt: "model" })
        assert.strictEqual(third.status.current(), "queued")
        const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
        yield* TestClock.adjust("5 seconds")
        yield* Fiber.join(closing)
        assert.deepStrictEqual(
          [held, busy, queued, third].map((handle) => handle!.status.current()),
          ["suspended", "suspended", "suspended", "suspended"]
        )
        assert.strictEqual((yield* Effect.flip(third.done))._tag, "RunSuspended")
        assert.strictEqual((yield* store.head(held!.runId)).status, "held")
        assert.strictEqual((yield* store.head(busy!.runId)).status, "running")
        assert.isUndefined((yield* store.head(busy!.runId)).lease)
        assert.strictEqual((yield* store.head(third.runId)).status, "held")

        const found = yield* attach([runtime], held!.runId)
        yield* found.decide(approve(interruptions[0]!))
        expect(yield* found.done, "completed")
        assert.deepStrictEqual(write.ran, ["1"])
      })
    )
  )

  it.effect("ends after drainTimeout", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const stubborn = safe("stubborn", {
        handler: () =>
          Effect.uninterruptible(Effect.andThen(Deferred.succeed(begun, undefined), Effect.sleep("1 minute")))
      })
      const { runtime } = yield* rebind(
        Agent.make("a", { tools: [stubborn.tool] }),
        ScriptedModel.make(() => ({ calls: [call("stubborn", "1")] })),
        { cancelGrace: "1 minute" }
      )
      const conductor = yield* Conductor.make({ drainTimeout: "3 seconds" })
      yield* conductor.dispatch(runtime, { prompt: "go" })
      yield* Deferred.await(begun)
      const draining = yield* Effect.forkChild(conductor.drain)
      yield* TestClock.adjust("3 seconds")
      const [left] = yield* Fiber.join(draining)
      assert.strictEqual(left?.status, "running")
      yield* TestClock.adjust("2 minutes")
    })
  )
})

describe("a scope with many runs", () => {
  it.effect("keeps no run that has ended, and cancels the others concurrently when it closes", () =>
    Effect.gen(function* () {
      const allStarted = yield* Deferred.make<void>()
      let started = 0
      const slow = safe("slow", {
        handler: () => {
          started += 1
          if (started === 100) Deferred.doneUnsafe(allStarted, Exit.void)
          return Effect.onInterrupt(Effect.never, () => Effect.sleep("1 second"))
        }
      })
      const { runtime } = yield* rebind(
        Agent.make("a", { tools: [slow.tool] }),
        ScriptedModel.make(() => ({ calls: [call("slow", "1")] })),
        { cancelGrace: "1 minute" }
      )
      const scope = yield* Scope.make()
      const inScope = Effect.provideService(Scope.Scope, scope)
      const handles = yield* Effect.forEach(Array.from({ length: 100 }), () =>
        inScope(dispatchPrompt(runtime, { prompt: "go" }))
      )
      const group = yield* inScope(groupOfScope)
      yield* Deferred.await(allStarted)
      assert.strictEqual(group.handles.size, 100)

      yield* Effect.forkChild(handles[0]!.cancel(), { startImmediately: true })
      yield* TestClock.adjust("1 second")
      expect(yield* handles[0]!.done, "cancelled")
      assert.strictEqual(group.handles.size, 99)

      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* TestClock.adjust("1 second")
      assert.isDefined(closing.pollUnsafe())
      for (const { done } of handles) expect(yield* done, "cancelled")
      assert.strictEqual(group.handles.size, 0)
    })
  )
})
