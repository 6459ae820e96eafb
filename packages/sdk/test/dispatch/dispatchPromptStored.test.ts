import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import * as Conductor from "../../src/dispatch/Conductor.ts"
import { attach, dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { ProviderFault } from "../../src/model/ModelError.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as FaultyRunStore from "../../src/testing/FaultyRunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, assertValid, call, expect, only, probe, rebind, safe } from "../helpers/Fixture.ts"

const inOneStore = <A, E>(body: Effect.Effect<A, E, RunStore | Scope.Scope>) =>
  Effect.provide(Effect.scoped(body), Layer.fresh(layerMemory))

const runId = "run" as RunId

/** Two processes with an agent that calls `write` once, with approval. */
const writer = Effect.gen(function* () {
  const write = probe("write")
  const model = ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [call("write", "1")] } : "done"))
  const agent = Agent.make("a", { tools: [write.tool] })
  const { runtime } = yield* rebind(agent, model, { owner: "here" })
  const other = (yield* rebind(agent, model, { owner: "elsewhere" })).runtime
  return { agent, model, other, runtime, write }
})

/** A tool whose body waits until it is opened. */
const slow = () => {
  const begun = Deferred.makeUnsafe<void>()
  const open = Deferred.makeUnsafe<void>()
  const { ran, tool } = safe("slow", {
    handler: () => Effect.as(Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(open)), "slow")
  })
  return { tool, ran, begun: Deferred.await(begun), open: Deferred.succeed(open, undefined) }
}

const inScope = Effect.fnUntraced(function* () {
  const scope = yield* Scope.make()
  return {
    run: Effect.provideService(Scope.Scope, scope),
    close: Scope.close(scope, Exit.void)
  }
})

describe("dispatchPromptStored", () => {
  it.effect("returns once the run is stored, and resumes it after a decision", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const { runtime, write } = yield* writer
        const handle = yield* dispatchPromptStored(runtime, { prompt: "go", runId })
        assert.strictEqual((yield* store.head(runId)).sessionId, handle.sessionId)
        const held = only(yield* handle.wait, "approval")
        assert.strictEqual(handle.status.current(), "held")
        assert.deepStrictEqual(handle.interruptions(), [held])
        yield* handle.decide(approve(held))
        const { state } = expect(yield* handle.done, "completed")
        assert.deepStrictEqual(write.ran, ["1"])
        assert.strictEqual((yield* store.head(runId)).status, "completed")
        assertValid(state)
      })
    )
  )

  it.effect("resumes the run when a decision is made in the store", () =>
    inOneStore(
      Effect.gen(function* () {
        const { runtime, write } = yield* writer
        const handle = yield* dispatchPromptStored(runtime, { prompt: "go" })
        const held = only(yield* handle.wait, "approval")
        yield* decideStored([], approve(held))
        expect(yield* handle.done, "completed")
        assert.deepStrictEqual(write.ran, ["1"])
      })
    )
  )

  it.effect("starts once per run id", () =>
    inOneStore(
      Effect.gen(function* () {
        const { runtime } = yield* writer
        yield* dispatchPromptStored(runtime, { prompt: "go", runId })
        const again = yield* Effect.flip(dispatchPromptStored(runtime, { prompt: "go", runId }))
        assert.strictEqual(again._tag, "RunExists")
      })
    )
  )

  it.effect("suspends a held run when its scope closes, and `attach` finds it", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const { other, runtime, write } = yield* writer
        const scope = yield* inScope()
        const handle = yield* scope.run(dispatchPromptStored(runtime, { prompt: "go", runId }))
        const held = only(yield* handle.wait, "approval")
        yield* scope.close
        assert.strictEqual(handle.status.current(), "suspended")
        assert.strictEqual((yield* Effect.flip(handle.done))._tag, "RunSuspended")
        assert.strictEqual((yield* store.head(runId)).status, "held")

        const found = yield* attach([other], runId)
        assert.strictEqual(found.status.current(), "held")
        assert.deepStrictEqual(found.interruptions(), [held])
        yield* found.decide(approve(held))
        expect(yield* found.done, "completed")
        assert.deepStrictEqual(write.ran, ["1"])
      })
    )
  )

  it.effect("suspends a working run when its scope closes, and `attach` resumes it", () =>
    inOneStore(
      Effect.gen(function* () {
        const { begun, open, ran, tool } = slow()
        const { runtime } = yield* rebind(
          Agent.make("a", { tools: [tool] }),
          ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [call("slow", "1")] } : "done"))
        )
        const scope = yield* inScope()
        const handle = yield* scope.run(dispatchPromptStored(runtime, { prompt: "go", runId }))
        yield* begun
        const closing = yield* Effect.forkChild(scope.close)
        yield* TestClock.adjust("2 seconds")
        yield* Fiber.join(closing)
        assert.strictEqual(handle.status.current(), "suspended")
        yield* open
        const found = yield* attach([runtime], runId)
        expect(yield* found.done, "completed")
        assert.deepStrictEqual(ran, ["1", "1"])
      })
    )
  )

  it.effect("cancels the run when its scope closes with onClose `cancel`", () =>
    inOneStore(
      Effect.gen(function* () {
        const { runtime } = yield* writer
        const scope = yield* inScope()
        const handle = yield* scope.run(
          dispatchPromptStored(runtime, { prompt: "go", runId }, { onClose: "cancel" })
        )
        only(yield* handle.wait, "approval")
        yield* scope.close
        expect(yield* handle.done, "cancelled")
        assert.strictEqual((yield* (yield* RunStore).head(runId)).status, "cancelled")
      })
    )
  )

  it.effect("follows a run that another process resumes, to its end", () =>
    inOneStore(
      Effect.gen(function* () {
        const { other, runtime, write } = yield* writer
        const handle = yield* dispatchPromptStored(runtime, { prompt: "go", runId })
        const held = only(yield* handle.wait, "approval")
        const release = yield* (yield* RunStore).claim({ runId, owner: "somebody", ttl: "1 minute" })
        yield* handle.decide(approve(held))
        // The owner of the lease does not drive the run.
        yield* TestClock.adjust("10 seconds")
        assert.strictEqual(handle.status.current(), "running")
        assert.deepStrictEqual(write.ran, [])
        yield* (yield* RunStore).release(release)
        const { state } = expect(yield* runPromptStored(other, { runId }), "completed")
        assert.deepStrictEqual(write.ran, ["1"])
        yield* TestClock.adjust("1 second")
        assert.strictEqual((yield* handle.done).state.revision, state.revision)
      })
    )
  )

  it.effect("denies an expired request and continues", () =>
    inOneStore(
      Effect.gen(function* () {
        const write = probe("write", { approval: { expiresIn: "1 hour" } })
        const { runtime } = yield* rebind(
          Agent.make("a", { tools: [write.tool] }),
          ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [call("write", "1")] } : "so be it"))
        )
        const handle = yield* dispatchPromptStored(runtime, { prompt: "go" })
        only(yield* handle.wait, "approval")
        yield* TestClock.adjust("59 minutes")
        assert.strictEqual(handle.status.current(), "held")
        yield* TestClock.adjust("2 minutes")
        assert.strictEqual(expect(yield* handle.done, "completed").text, "so be it")
        assert.deepStrictEqual(write.ran, [])
      })
    )
  )

  it.effect("recovers from a short failure of the store", () =>
    Effect.gen(function* () {
      let appends = 0
      const faulty = FaultyRunStore.layer({
        // The second append has the result of the call.
        after: (operation) =>
          operation === "append" && ++appends === 2
            ? Effect.fail(FaultyRunStore.error(operation, "connectionLost"))
            : Effect.void
      })
      yield* Effect.gen(function* () {
        const { runtime, write } = yield* writer
        const handle = yield* dispatchPromptStored(runtime, { prompt: "go" })
        const waiting = yield* Effect.forkChild(handle.wait)
        for (let second = 0; second < 5; second++) yield* TestClock.adjust("1 second")
        const held = only(yield* Fiber.join(waiting), "approval")
        yield* handle.decide(approve(held))
        for (let second = 0; second < 5; second++) yield* TestClock.adjust("1 second")
        const { state } = expect(yield* handle.done, "completed")
        assert.isAbove(appends, 2)
        assert.deepStrictEqual(write.ran, ["1"])
        assertValid(state)
      }).pipe(Effect.scoped, Effect.provide(Layer.provide(faulty, Layer.fresh(layerMemory))))
    })
  )

  it.effect("fails when the store refuses the run", () =>
    Effect.gen(function* () {
      const faulty = FaultyRunStore.layer({
        before: (operation) => Effect.fail(FaultyRunStore.error(operation, "full"))
      })
      const { runtime } = yield* writer
      const error = yield* dispatchPromptStored(runtime, { prompt: "go" }).pipe(
        Effect.scoped,
        Effect.provide(Layer.provide(faulty, Layer.fresh(layerMemory))),
        Effect.flip
      )
      assert.strictEqual(error._tag, "RunStoreError")
    })
  )

  it.effect("retries a retryable failure with `restart`", () =>
    inOneStore(
      Effect.gen(function* () {
        const { runtime } = yield* rebind(
          Agent.make("a"),
          ScriptedModel.make([{ error: new ProviderFault({ description: "busy" }) }, "done"])
        )
        const handle = yield* dispatchPromptStored(runtime, { prompt: "go" }, { restart: { times: 1 } })
        yield* TestClock.adjust("1 second")
        expect(yield* handle.done, "completed")
      })
    )
  )
})

describe("AgentHandle.cancel of a stored run", () => {
  it.effect("cancels a working run and a held run once each, and closes their requests", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const { runtime } = yield* writer
        const held = yield* dispatchPromptStored(runtime, { prompt: "go" })
        only(yield* held.wait, "approval")
        const { begun, tool } = slow()
        const busyAgent = yield* rebind(
          Agent.make("busy", { tools: [tool] }),
          ScriptedModel.make(() => ({ calls: [call("slow", "1")] }))
        )
        const busy = yield* dispatchPromptStored(busyAgent.runtime, { prompt: "go" })
        yield* begun
        for (const handle of [held, busy]) {
          const result = expect(yield* handle.cancel("enough"), "cancelled")
          assert.strictEqual(result.reason, "enough")
          assert.strictEqual((yield* store.head(handle.runId)).status, "cancelled")
          assert.strictEqual((yield* handle.cancel("again")).state, result.state)
          const events = yield* store.events(handle.runId)
          assert.strictEqual(events.filter(({ _tag }) => _tag === "run.cancelled").length, 1)
        }
        assert.deepStrictEqual(yield* store.pending(), [])
      })
    )
  )

  it.effect("cancels a run that another process drives, and returns after its end", () =>
    inOneStore(
      Effect.gen(function* () {
        const { begun, tool } = slow()
        const agent = Agent.make("a", { tools: [tool] })
        const model = ScriptedModel.make(() => ({ calls: [call("slow", "1")] }))
        const { runtime: other } = yield* rebind(agent, model)
        const { runtime } = yield* rebind(agent, model)
        const theirs = yield* Effect.forkChild(runPromptStored(other, { prompt: "go", runId }))
        yield* begun
        const handle = yield* attach([runtime], runId)
        assert.strictEqual(handle.status.current(), "running")
        const cancelling = yield* Effect.forkChild(handle.cancel("enough"))
        for (let second = 0; second < 10; second++) yield* TestClock.adjust("1 second")
        assert.strictEqual(expect(yield* Fiber.join(cancelling), "cancelled").reason, "enough")
        expect(yield* Fiber.join(theirs), "cancelled")
      })
    )
  )
})

describe("attach", () => {
  it.effect("refuses an unknown run, and a run without its agent", () =>
    inOneStore(
      Effect.gen(function* () {
        const { runtime } = yield* writer
        assert.strictEqual((yield* Effect.flip(attach([runtime], runId)))._tag, "RunNotFound")
        yield* runPromptStored(runtime, { prompt: "go", runId })
        const other = (yield* rebind(Agent.make("b"), ScriptedModel.make([]))).runtime
        assert.strictEqual((yield* Effect.flip(attach([other], runId)))._tag, "AgentNotFound")
      })
    )
  )

  it.effect("returns the result of an ended run without starting it again", () =>
    inOneStore(
      Effect.gen(function* () {
        const model = ScriptedModel.make([
          "done",
          { error: new ProviderFault({ description: "busy" }) },
          "not asked"
        ])
        const { runtime } = yield* rebind(Agent.make("a"), model)
        const done = yield* runPromptStored(runtime, { prompt: "go" })
        const failed = yield* runPromptStored(runtime, { prompt: "go" })
        for (const ended of [done, failed]) {
          const handle = yield* attach([runtime], ended.runId)
          assert.strictEqual(handle.status.current(), ended.status)
          assert.deepStrictEqual((yield* handle.done).state, ended.state)
          assert.strictEqual((yield* Effect.flip(handle.send("on")))._tag, "RunEnded")
        }
        assert.strictEqual(model.remaining(), 1)
      })
    )
  )

  it.effect("resumes the run of a dead process once its lease has expired", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const { runtime, write } = yield* writer
        const held = only(yield* runPromptStored(runtime, { prompt: "go", runId }), "approval")
        yield* store.claim({ runId, owner: "dies", ttl: "15 seconds" })
        yield* store.decide(approve(held))
        const handle = yield* attach([runtime], runId)
        assert.strictEqual(handle.status.current(), "running")
        yield* TestClock.adjust("14 seconds")
        assert.deepStrictEqual(write.ran, [])
        yield* TestClock.adjust("3 seconds")
        expect(yield* handle.done, "completed")
        assert.deepStrictEqual(write.ran, ["1"])
      })
    )
  )

  it.effect("gives every handle of a run the same result", () =>
    inOneStore(
      Effect.gen(function* () {
        const { other, runtime, write } = yield* writer
        const first = yield* dispatchPromptStored(runtime, { prompt: "go", runId })
        const held = only(yield* first.wait, "approval")
        const handles = [first, ...(yield* Effect.forEach([1, 2, 3], () => attach([other], runId)))]
        yield* handles[2]!.decide(approve(held))
        yield* TestClock.adjust("3 seconds")
        const ends = yield* Effect.forEach(handles, ({ done }) => done)
        for (const end of ends) assert.deepStrictEqual(end.state, ends[0]!.state)
        assert.deepStrictEqual(write.ran, ["1"])
        const late = yield* Effect.flip(handles[3]!.decide({ ...approve(held), by: "bob" }))
        assert.strictEqual(late._tag, "AlreadyDecided")
      })
    )
  )

  it.effect("shows the requests of a run that another process holds", () =>
    inOneStore(
      Effect.gen(function* () {
        const { begun, open, tool } = slow()
        const write = probe("write")
        const agent = Agent.make("a", { tools: [tool, write.tool] })
        const model = ScriptedModel.make(({ turn }) =>
          turn === 1 ? { calls: [call("slow", "1")] } : turn === 2 ? { calls: [call("write", "1")] } : "done"
        )
        const { runtime: other } = yield* rebind(agent, model)
        const { runtime } = yield* rebind(agent, model)
        const theirs = yield* Effect.forkChild(runPromptStored(other, { prompt: "go", runId }))
        yield* begun
        const handle = yield* attach([runtime], runId)
        assert.deepStrictEqual(handle.interruptions(), [])
        yield* open
        const held = only(yield* Fiber.join(theirs), "approval")
        yield* TestClock.adjust("1 second")
        assert.strictEqual(handle.status.current(), "held")
        assert.deepStrictEqual(handle.interruptions(), [held])
        yield* handle.decide(approve(held))
        expect(yield* handle.done, "completed")
        assert.deepStrictEqual(write.ran, ["1"])
      })
    )
  )

  it.effect("puts runs from before a restart under a conductor, with one inbox", () =>
    inOneStore(
      Effect.gen(function* () {
        const { other, runtime, write } = yield* writer
        const ids = ["one", "two", "three"].map((id) => id as RunId)
        for (const runId of ids) yield* runPromptStored(other, { prompt: "go", runId })
        const conductor = yield* Conductor.make({ concurrency: 1, limits: { maxRuns: 3 } })
        const handles = yield* Effect.forEach(ids, (runId) =>
          conductor.attach([runtime], runId, { name: `old/${runId}` })
        )
        const inbox = conductor.inbox.current()
        assert.deepStrictEqual(
          inbox.map(({ name }) => name),
          ["old/one", "old/two", "old/three"]
        )
        for (const { request } of inbox) yield* conductor.decide(approve(request))
        for (const end of yield* Conductor.all(handles)) expect(end, "completed")
        assert.strictEqual(write.ran.length, 3)
        // Each run has had one turn before.
        assert.strictEqual(conductor.spending().spent.turns, 3)
        const { runId } = yield* runPromptStored(other, { prompt: "go" })
        const refused = yield* Effect.flip(conductor.attach([runtime], runId))
        assert.strictEqual(refused._tag, "ConductorBudgetExceeded")
      })
    )
  )
})
