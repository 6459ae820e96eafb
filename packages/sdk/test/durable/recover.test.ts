import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import * as Id from "../../src/domain/Id.ts"
import type { RunId } from "../../src/domain/Id.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { recover, takeUp } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { RunStoreError, StoreBusy } from "../../src/store/RunStoreError.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, bind, call, expect, only, probe, rebind, results, safe } from "../helpers/Fixture.ts"

const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(title, () => Effect.provide(body, Layer.fresh(layerMemory)))

const open = { needsApproval: false }
const tagsOf = (runId: RunId) =>
  Effect.map(
    RunStore.use((store) => store.events(runId)),
    (events) => events.map(({ _tag }) => _tag)
  )

/** Truncates the journal after the first such event, as a killed process would leave it. */
const leftBehind = (runId: RunId, last: (event: RunEvent) => boolean) =>
  Effect.gen(function* () {
    const store = yield* RunStore
    const { events, head } = yield* store.load(runId)
    const count = events.findIndex(last) + 1
    assert.isAbove(count, 0, "the journal holds no such event")
    yield* store.remove(runId)
    const [first, ...rest] = events.slice(0, count)
    const { agent, sessionId } = head
    const left = { runId, sessionId, agent, status: "running", owner: "gone", ttl: 0 } as const
    yield* store.create({ ...left, events: [first!, ...rest] })
  })

const is = (tag: RunEvent["_tag"]) => (event: RunEvent) => event._tag === tag

/** A completed run with a read and a write, and a runtime that continues a truncated copy. */
const finished = (...rest: Parameters<typeof bind>[1]) =>
  Effect.gen(function* () {
    const program = () => {
      const read = safe("read")
      const write = probe("write", open)
      return { read, write, agent: Agent.make("a", { tools: [read.tool, write.tool] }) }
    }
    const script = [{ calls: [call("read", "1"), call("write", "2")] }, "done"]
    const first = yield* bind(program().agent, script)
    const { runId } = yield* runPromptStored(first.runtime, { prompt: "go" })
    const again = program()
    const { runtime, model } = yield* bind(again.agent, rest.length === 0 ? script : rest)
    return { runId, runtime, model, read: again.read, write: again.write }
  })

const outcomes = (runtimes: ReadonlyArray<Runtime<any>>) =>
  Effect.map(recover(runtimes), (runs) =>
    runs.map(({ error, reason, status }) => `${reason}: ${error?._tag ?? status}`)
  )

describe("takeUp", () => {
  test(
    "returns an error for a run of an agent that the program does not have",
    Effect.gen(function* () {
      const { runId, runtime } = yield* finished()
      yield* leftBehind(runId, is("run.started"))
      const store = yield* RunStore
      const [ready] = yield* store.ready()
      const [, other] = yield* Effect.all([finished(), bind(Agent.make("other"), [])])
      const taken = yield* takeUp([other.runtime], store, ready!, {})
      assert.deepInclude({ ...taken.error }, { _tag: "AgentNotFound", agent: "a", known: ["other"] })
      assert.isUndefined(taken.status)
      assert.strictEqual((yield* takeUp([runtime], store, ready!, {})).status, "completed")
    })
  )
})

describe("recover", () => {
  test(
    "resumes a run whose process died before the model answered",
    Effect.gen(function* () {
      const { runId, runtime, write } = yield* finished()
      yield* leftBehind(runId, is("run.started"))
      assert.deepStrictEqual(yield* outcomes([runtime]), ["orphaned: completed"])
      assert.deepStrictEqual(write.ran, ["2"])
      assert.include(yield* tagsOf(runId), "run.recovered")
      assert.deepStrictEqual(yield* outcomes([runtime]), [])
    })
  )

  test(
    "opens an inDoubt request for a started side-effecting call",
    Effect.gen(function* () {
      const store = yield* RunStore
      const { runId, runtime, write } = yield* finished("done")
      yield* leftBehind(
        runId,
        (event) => event._tag === "tool.started" && event.callId === Id.toolCallId(runId, 1, 2)
      )
      assert.deepStrictEqual(yield* outcomes([runtime]), ["orphaned: held"])
      const [waiting] = yield* store.pending()
      assert.deepInclude(waiting!.request, { _tag: "inDoubt", tool: "write" })
      assert.deepStrictEqual(write.ran, [])
      yield* decideStored([runtime], {
        _tag: "supply",
        requestId: waiting!.request.requestId,
        by: "ann",
        result: "it is there"
      })
      assert.deepStrictEqual(yield* outcomes([runtime]), ["decided: completed"])
      assert.deepStrictEqual(write.ran, [])
    })
  )

  test(
    "skips a held run, and resumes it once it is decided",
    Effect.gen(function* () {
      const write = probe("write")
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
        { calls: [call("write", "1")] },
        "done"
      ])
      const held = yield* runPromptStored(runtime, { prompt: "go" })
      const before = yield* tagsOf(held.runId)
      assert.deepStrictEqual(yield* outcomes([runtime]), [])
      assert.deepStrictEqual(yield* tagsOf(held.runId), before)
      yield* decideStored([runtime], approve(only(held, "approval")))
      assert.deepStrictEqual(yield* outcomes([runtime]), ["decided: completed"])
      assert.deepStrictEqual(write.ran, ["1"])
    })
  )

  test(
    "drives all ready runs up to the limit, also more than a page",
    Effect.gen(function* () {
      const { runtime } = yield* rebind(
        Agent.make("a", { tools: [probe("write").tool] }),
        ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [call("write", "1")] } : "done"))
      )
      for (let index = 0; index < 130; index += 1) {
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        yield* decideStored([runtime], approve(only(held, "approval")))
      }
      assert.strictEqual((yield* recover([runtime], { limit: 1000 })).length, 130)
    })
  )

  test(
    "announces an expiring request once, and denies it at its expiry",
    Effect.gen(function* () {
      const store = yield* RunStore
      const write = probe("write", { approval: { expiresIn: "8 hours" } })
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
        { calls: [call("write", "1")] },
        "done"
      ])
      const { runId } = yield* runPromptStored(runtime, { prompt: "go" })
      yield* TestClock.adjust("6 hours")
      assert.deepStrictEqual(yield* outcomes([runtime]), [])
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(yield* outcomes([runtime]), ["expiring: held"])
      assert.deepStrictEqual((yield* tagsOf(runId)).at(-1), "request.expiring")
      assert.deepStrictEqual(yield* outcomes([runtime]), [])
      assert.strictEqual((yield* store.pending()).length, 1)
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(yield* outcomes([runtime]), ["expired: completed"])
      assert.deepStrictEqual(write.ran, [])
      assert.include(results(yield* loadState(runId))[0], "write denied: Nobody decided before")
    })
  )

  test(
    "cancels a held run with a pending cancellation",
    Effect.gen(function* () {
      const store = yield* RunStore
      const { runtime } = yield* bind(Agent.make("a", { tools: [probe("write").tool] }), [
        { calls: [call("write", "1")] }
      ])
      const { runId } = yield* runPromptStored(runtime, { prompt: "go" })
      yield* store.requestCancel(runId, "not needed")
      assert.deepStrictEqual(yield* outcomes([runtime]), ["cancelled: cancelled"])
      assert.strictEqual((yield* loadState(runId)).cancelled?.reason, "not needed")
    })
  )

  test(
    "returns the error of a run that cannot be resumed, does not change it, and resumes the others",
    Effect.gen(function* () {
      const { runId, runtime, model } = yield* finished()
      yield* leftBehind(runId, is("tool.classified"))
      const other = yield* bind(Agent.make("b"), ["done"])
      const spare = yield* runPromptStored(other.runtime, { prompt: "go" })
      yield* leftBehind(spare.runId, is("run.started"))
      const before = yield* tagsOf(runId)
      const changed = yield* rebind(Agent.make("a"), model)
      const again = yield* bind(Agent.make("b"), ["done"])
      const runs = yield* recover([changed.runtime, again.runtime])
      assert.deepStrictEqual(
        runs.map(({ agent, error, status }) => `${agent} ${error?._tag ?? status}`).toSorted(),
        ["a ToolUnavailable", "b completed"]
      )
      assert.deepStrictEqual(yield* tagsOf(runId), before)
      assert.deepStrictEqual(yield* outcomes([runtime]), ["orphaned: completed"])
    })
  )

  test(
    "skips runs of agents that it is not given",
    Effect.gen(function* () {
      const { runId } = yield* finished()
      yield* leftBehind(runId, is("run.started"))
      const other = yield* bind(Agent.make("b"), [])
      assert.deepStrictEqual(yield* outcomes([other.runtime]), [])
      const renamed = yield* bind(Agent.make("c", { aliases: ["a"] }), ["done"])
      assert.deepStrictEqual(yield* outcomes([renamed.runtime]), ["orphaned: completed"])
    })
  )

  test(
    "fails a run with WorkersLost after three more processes died without progress",
    Effect.gen(function* () {
      const store = yield* RunStore
      const { runId, runtime } = yield* finished()
      yield* leftBehind(runId, is("run.started"))
      const die = Effect.gen(function* () {
        const lease = yield* store.claim({ runId, owner: "next", ttl: 0 })
        const expected = (yield* store.head(runId)).revision
        const live = yield* Effect.andThen(
          TestClock.adjust("1 millis"),
          store.claim({ runId, owner: lease.owner, ttl: "1 second" })
        )
        const events = [{ _tag: "run.recovered", at: 5 }] as const
        yield* store.append({ lease: live, expected, events, status: "running" })
        yield* store.release(live)
      })
      yield* Effect.all([die, die, die])
      assert.deepStrictEqual(yield* outcomes([runtime]), ["orphaned: error"])
      assert.strictEqual((yield* loadState(runId)).failure?._tag, "WorkersLost")
      assert.deepStrictEqual(yield* outcomes([runtime]), [])
      // The run can be resumed explicitly.
      expect(yield* runPromptStored(runtime, { runId }), "completed")
    })
  )

  for (const options of [{ idempotent: true }, { safety: "readOnly" }] as const) {
    test(
      `fails a run with WorkersLost after three more store defects, for ${"safety" in options ? "read-only" : "idempotent"} bodies as well`,
      Effect.gen(function* () {
        const store = yield* RunStore
        const { ran, tool } = probe("act", { needsApproval: false, ...options })
        const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [{ calls: [call("act", "1")] }])
        // The process survives; each attempt to drive the run fails.
        const broken = {
          ...store,
          append: (given: Parameters<typeof store.append>[0]) =>
            given.events.some(({ _tag }) => _tag === "tool.completed")
              ? Effect.die(new Error("the driver has met a defect"))
              : store.append(given)
        }
        const once = Effect.provideService(recover([runtime]), RunStore, broken)
        const started = Effect.provideService(runPromptStored(runtime, { prompt: "go" }), RunStore, broken)
        assert.isTrue(Exit.isFailure(yield* Effect.exit(started)))
        for (const attempt of [1, 2, 3]) {
          const [recovered] = yield* once
          assert.strictEqual(recovered?.error?._tag, "RunDefect")
          assert.strictEqual(ran.length, attempt + 1)
        }
        assert.deepStrictEqual(
          (yield* once).map(({ status }) => status),
          ["error"]
        )
        assert.deepStrictEqual(yield* once, [])
        assert.strictEqual(ran.length, 4)
        const [head] = yield* store.list()
        const { failure } = yield* loadState(head!.runId)
        assert.deepStrictEqual(failure, { _tag: "WorkersLost", times: 4 })
      })
    )
  }

  test(
    "fails only when the store does",
    Effect.gen(function* () {
      const store = yield* RunStore
      const { runtime } = yield* bind(Agent.make("a"), [])
      const reason = new StoreBusy({ waitedMs: 1 })
      const error = new RunStoreError({ operation: "ready", reason })
      const broken = { ...store, ready: () => Effect.fail(error) }
      const exit = yield* Effect.flip(Effect.provideService(recover([runtime]), RunStore, broken))
      assert.strictEqual(exit, error)
    })
  )
})

describe("a process that was frozen past its lease", () => {
  test(
    "starts neither a tool nor a model call when it wakes, and writes nothing",
    Effect.gen(function* () {
      const store = yield* RunStore
      const reached = yield* Deferred.make<void>()
      const thaw = yield* Deferred.make<void>()
      const read = safe("read", {
        handler: () =>
          Effect.as(Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(thaw)), "seen")
      })
      const { runtime, model } = yield* bind(Agent.make("a", { tools: [read.tool] }), [
        { calls: [call("read", "1")] },
        "done"
      ])
      // While frozen, the process does not renew its lease.
      let frozen = true
      const silent = new RunStoreError({ operation: "renew", reason: new StoreBusy({ waitedMs: 1 }) })
      const view = {
        ...store,
        renew: (...args: Parameters<typeof store.renew>) =>
          Effect.suspend(() => (frozen ? Effect.fail(silent) : store.renew(...args)))
      }
      const running = yield* Effect.forkChild(
        Effect.provideService(runPromptStored(runtime, { prompt: "go" }), RunStore, view)
      )
      yield* Deferred.await(reached)
      yield* TestClock.adjust("16 seconds")
      const [head] = yield* store.list()
      const thief = yield* store.claim({ runId: head!.runId, owner: "thief", ttl: "1 hour" })
      frozen = false
      yield* Deferred.succeed(thaw, undefined)
      const error = yield* Effect.flip(Fiber.join(running))
      assert.strictEqual(error._tag, "LeaseLost")
      assert.strictEqual(model.requests.length, 1)
      assert.strictEqual((yield* store.head(thief.runId)).revision, head!.revision)
    })
  )
})

describe("two cancellations of a held run", () => {
  test(
    "cancel it for the first reason",
    Effect.gen(function* () {
      const store = yield* RunStore
      const { runtime } = yield* bind(Agent.make("a", { tools: [probe("write").tool] }), [
        { calls: [call("write", "1")] }
      ])
      const { runId } = yield* runPromptStored(runtime, { prompt: "go" })
      yield* store.requestCancel(runId, "the first")
      yield* cancelRun(runId, "the second")
      assert.strictEqual((yield* loadState(runId)).cancelled?.reason, "the first")
    })
  )
})

describe("a `reconcile` or approval rule that never answers", () => {
  test(
    "times out with the tool: the call is in doubt, or needs approval",
    Effect.gen(function* () {
      const store = yield* RunStore
      const { runId, model } = yield* finished()
      yield* leftBehind(
        runId,
        (event) => event._tag === "tool.started" && event.callId === Id.toolCallId(runId, 1, 2)
      )
      const hanging = probe("write", { ...open, timeout: "1 minute", reconcile: () => Effect.never })
      const { runtime } = yield* rebind(Agent.make("a", { tools: [safe("read").tool, hanging.tool] }), model)
      const recovering = yield* Effect.forkChild(outcomes([runtime]))
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* Fiber.join(recovering), ["orphaned: held"])
      assert.strictEqual((yield* store.pending())[0]?.request._tag, "inDoubt")

      const ruled = probe("ruled", { timeout: "1 minute", needsApproval: () => Effect.never })
      const { runtime: other } = yield* bind(Agent.make("b", { tools: [ruled.tool] }), [
        { calls: [call("ruled", "1")] }
      ])
      const running = yield* Effect.forkChild(runPromptStored(other, { prompt: "go" }))
      yield* TestClock.adjust("1 minute")
      const asked = only(yield* Fiber.join(running), "approval")
      assert.include(asked.reason, "The approval rule of ruled failed")
    })
  )
})

describe("a run that cannot be resumed", () => {
  test(
    "does not keep `recover` from the others when there are many such runs",
    Effect.gen(function* () {
      const { model, runtime } = yield* bind(
        Agent.make("a", { tools: [probe("gone").tool] }),
        Array.from({ length: 120 }, () => ({ calls: [call("gone", "1"), call("gone", "2")] }))
      )
      for (let index = 0; index < 120; index += 1) {
        const { interruptions } = expect(yield* runPromptStored(runtime, { prompt: "go" }), "interrupted")
        for (const request of interruptions) yield* decideStored([runtime], approve(request))
      }
      const healthy = yield* bind(Agent.make("b", { tools: [probe("write").tool] }), [
        { calls: [call("write", "1")] },
        "done"
      ])
      const held = yield* runPromptStored(healthy.runtime, { prompt: "go" })
      yield* decideStored([healthy.runtime], approve(only(held, "approval")))
      const changed = yield* rebind(Agent.make("a"), model)
      const runs = yield* recover([changed.runtime, healthy.runtime], { limit: 1 })
      assert.deepStrictEqual(
        runs.filter(({ error }) => error === undefined).map(({ status }) => status),
        ["completed"]
      )
    })
  )
})
