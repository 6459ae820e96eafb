import { assert, describe, it } from "@effect/vitest"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import * as Conductor from "../../src/dispatch/Conductor.ts"
import { attach } from "../../src/dispatch/dispatchPromptStored.ts"
import { textOf } from "../../src/domain/Message.ts"
import type { ModelUsage } from "../../src/domain/Usage.ts"
import { InvalidRequest, ProviderFault, type Reason } from "../../src/model/ModelError.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, bind, call, expect, probe, rebind, safe } from "../helpers/Fixture.ts"

/** The text of the user's last message. */
const said = ({
  messages
}: {
  readonly messages: ReadonlyArray<{ readonly role: string; readonly content: any }>
}) => textOf(messages.findLast(({ role }) => role === "user")?.content ?? [])

/** A model that obeys its prompt: `wait n` answers after n seconds, `write` calls a tool, `fail` fails. */
const obeying = (onAsked: (prompt: string) => void = () => {}) =>
  ScriptedModel.make((request) => {
    const prompt = said(request)
    onAsked(prompt)
    const [verb, n = "0"] = prompt.split(" ")
    if (verb === "hang") return { hang: true }
    if (verb === "fail") return { error: new InvalidRequest({ description: "no" }) }
    if (verb === "write" && request.turn === 1) return { calls: [call("write", n)] }
    return verb === "wait" ? { text: prompt, delay: `${Number(n)} seconds` } : prompt
  })

const obedient = (options: { readonly onAsked?: (prompt: string) => void } = {}) =>
  Effect.gen(function* () {
    const write = probe("write")
    const { model, runtime } = yield* rebind(
      Agent.make("a", { tools: [write.tool] }),
      obeying(options.onAsked)
    )
    return { model, runtime, write }
  })

describe("Conductor", () => {
  it.effect("runs as many runs as its concurrency, and queues the others in order", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      const { runtime } = yield* obedient({ onAsked: (prompt) => asked.push(prompt) })
      const conductor = yield* Conductor.make({ concurrency: 2 })
      const handles = yield* Effect.forEach([3, 1, 1, 1], (n, i) =>
        conductor.dispatch(runtime, { prompt: `wait ${n} ${i}` })
      )
      assert.deepStrictEqual(
        handles.map(({ status }) => status.current()),
        ["running", "running", "queued", "queued"]
      )
      assert.strictEqual(asked.length, 2)
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(asked, ["wait 3 0", "wait 1 1", "wait 1 2"])
      yield* TestClock.adjust("2 seconds")
      const ends = yield* Conductor.all(handles)
      assert.deepStrictEqual(
        ends.map((end) => expect(end, "completed").text),
        ["wait 3 0", "wait 1 1", "wait 1 2", "wait 1 3"]
      )
      assert.deepStrictEqual(conductor.handles(), [])
    })
  )

  it.effect(
    "gives the slot of a held run to another run, and queues the held run again once it is decided",
    () =>
      Effect.gen(function* () {
        const { runtime, write } = yield* obedient()
        const conductor = yield* Conductor.make({ concurrency: 1 })
        const held = yield* conductor.dispatch(runtime, { prompt: "write 1" }, { name: "writer" })
        const [second, third] = yield* Effect.forEach(["wait 1", "wait 2"], (prompt) =>
          conductor.dispatch(runtime, { prompt })
        )
        const { interruptions } = expect(yield* held.wait, "interrupted")
        assert.strictEqual(second!.status.current(), "running")
        assert.strictEqual(third!.status.current(), "queued")
        yield* conductor.decide(approve(interruptions[0]!))
        assert.strictEqual(held.status.current(), "queued")
        assert.deepStrictEqual(write.ran, [])
        yield* TestClock.adjust("1 second")
        expect(yield* held.done, "completed")
        assert.deepStrictEqual(write.ran, ["1"])
        assert.strictEqual(third!.status.current(), "running")
        yield* TestClock.adjust("2 seconds")
        expect(yield* third!.done, "completed")
      })
  )

  it.effect("returns the first completed run, and cancels the others", () =>
    Effect.gen(function* () {
      const { runtime } = yield* obedient()
      const conductor = yield* Conductor.make()
      const handles = yield* Effect.forEach(["fail", "write 1", "wait 5", "wait 2", "hang"], (prompt) =>
        conductor.dispatch(runtime, { prompt })
      )
      const first = yield* Effect.forkChild(Conductor.firstSuccess(handles))
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual((yield* Fiber.join(first)).text, "wait 2")
      assert.deepStrictEqual(
        handles.map(({ status }) => status.current()),
        ["error", "cancelled", "cancelled", "completed", "cancelled"]
      )
    })
  )

  it.effect("returns the status of each run when none completes", () =>
    Effect.gen(function* () {
      const { runtime } = yield* obedient()
      const conductor = yield* Conductor.make()
      const handles = yield* Effect.forEach(["fail", "hang"], (prompt) =>
        conductor.dispatch(runtime, { prompt })
      )
      yield* handles[1]!.cancel("too slow")
      const none = yield* Effect.flip(Conductor.firstSuccess(handles))
      assert.deepStrictEqual(
        none.runs.map(({ status }) => status),
        ["error", "cancelled"]
      )
      assert.include(none.message, "too slow")
      assert.strictEqual((yield* Effect.flip(Conductor.firstSuccess([])))._tag, "NoneSucceeded")
    })
  )

  it.effect("waits for a quorum, and fails as soon as it cannot be reached", () =>
    Effect.gen(function* () {
      const { runtime } = yield* obedient()
      const conductor = yield* Conductor.make()
      const dispatch = (prompts: ReadonlyArray<string>) =>
        Effect.forEach(prompts, (prompt) => conductor.dispatch(runtime, { prompt }))
      const enough = yield* dispatch(["wait 3", "fail", "wait 1", "hang"])
      const two = yield* Effect.forkChild(Conductor.quorum(enough, 2))
      yield* TestClock.adjust("3 seconds")
      assert.deepStrictEqual(
        (yield* Fiber.join(two)).map(({ text }) => text),
        ["wait 1", "wait 3"]
      )
      assert.strictEqual(enough[3]!.status.current(), "cancelled")

      const few = yield* dispatch(["fail", "wait 1", "fail", "hang"])
      const missed = yield* Effect.flip(Conductor.quorum(few, 3))
      assert.strictEqual(missed._tag, "QuorumMissed")
      assert.strictEqual(missed.completed, 0)
      assert.deepStrictEqual(
        few.map(({ status }) => status.current()),
        ["error", "cancelled", "error", "cancelled"]
      )
      assert.deepStrictEqual(yield* Conductor.quorum([], 0), [])
    })
  )

  it.effect("does not cancel a failed run of a missed quorum, so that it can be resumed", () =>
    Effect.gen(function* () {
      const { runtime } = yield* obedient()
      const conductor = yield* Conductor.make()
      const [failed, hung] = yield* Effect.forEach(["fail", "hang"], (prompt) =>
        conductor.dispatchStored(runtime, { prompt })
      )
      assert.strictEqual((yield* Effect.flip(Conductor.quorum([failed!, hung!], 2)))._tag, "QuorumMissed")
      const store = yield* RunStore
      assert.strictEqual((yield* store.head(hung!.runId)).status, "cancelled")
      const { cancelReason, status } = yield* store.head(failed!.runId)
      assert.deepStrictEqual({ cancelReason, status }, { cancelReason: undefined, status: "error" })
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("counts each run of a quorum once, also with several handles of it", () =>
    Effect.gen(function* () {
      const { runtime } = yield* obedient()
      const conductor = yield* Conductor.make()
      const [first, second] = yield* Effect.forEach(["wait 1", "wait 2"], (prompt) =>
        conductor.dispatchStored(runtime, { prompt })
      )
      const again = yield* attach([runtime], first!.runId)
      const two = yield* Effect.forkChild(Conductor.quorum([first!, again, first!, second!], 2))
      yield* TestClock.adjust("1 second")
      assert.strictEqual(second!.status.current(), "running")
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(
        (yield* Fiber.join(two)).map(({ runId }) => runId),
        [first!.runId, second!.runId]
      )
      const missed = yield* Effect.flip(Conductor.quorum([first!, first!], 2))
      assert.deepStrictEqual([missed.of, missed.runs], [1, []])
      const ends = yield* Stream.runCollect(Conductor.asCompleted([first!, first!]))
      assert.strictEqual(ends.length, 1)
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("takes the completion that one of the handles of a run reports", () =>
    Effect.gen(function* () {
      const { runtime } = yield* obedient()
      const drained = yield* Conductor.make()
      const suspended = yield* drained.dispatchStored(runtime, { prompt: "write 1" })
      yield* suspended.wait
      const other = yield* attach([runtime], suspended.runId)
      const one = yield* Effect.forkChild(Conductor.quorum([suspended, other], 1))
      yield* drained.drain
      assert.strictEqual(suspended.status.current(), "suspended")
      yield* other.decide(approve(other.interruptions()[0]!))
      assert.strictEqual((yield* Fiber.join(one))[0]?.runId, other.runId)
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("fails a quorum that is not a number", () =>
    Effect.gen(function* () {
      const { runtime } = yield* obedient()
      const conductor = yield* Conductor.make()
      const handle = yield* conductor.dispatch(runtime, { prompt: "hang" })
      const missed = yield* Effect.flip(Conductor.quorum([handle], Number.NaN))
      assert.strictEqual(missed._tag, "QuorumMissed")
      assert.include(missed.message, "pass the number of runs")
      assert.strictEqual(handle.status.current(), "cancelled")
      assert.strictEqual((yield* Effect.flip(Conductor.quorum([], Number.NaN)))._tag, "QuorumMissed")
    })
  )

  it.effect("refuses limits that are not numbers from 0 on", () =>
    Effect.gen(function* () {
      for (const limits of [
        { maxRuns: Number.NaN },
        { maxTurns: Number.NaN },
        { maxTokens: -1 },
        { maxCostUsd: Number.POSITIVE_INFINITY }
      ]) {
        const error = yield* Effect.flip(Effect.scoped(Conductor.make({ limits })))
        assert.strictEqual(error._tag, "LimitsInvalid")
        assert.include(error.message, Object.keys(limits)[0]!)
      }
    })
  )

  it.effect("emits runs in the order in which they end", () =>
    Effect.gen(function* () {
      const { runtime } = yield* obedient()
      const conductor = yield* Conductor.make()
      const handles = yield* Effect.forEach(["wait 3", "fail", "wait 1"], (prompt) =>
        conductor.dispatch(runtime, { prompt })
      )
      const ends = yield* Effect.forkChild(Stream.runCollect(Conductor.asCompleted(handles)))
      yield* TestClock.adjust("1 second")
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(
        (yield* Fiber.join(ends)).map((end) => (end.status === "completed" ? end.text : end.status)),
        ["error", "wait 1", "wait 3"]
      )
    })
  )

  it.effect("cancels no run when a waiting fiber is interrupted", () =>
    Effect.gen(function* () {
      const { runtime } = yield* obedient()
      const conductor = yield* Conductor.make()
      const handles = yield* Effect.forEach(["wait 3", "wait 1"], (prompt) =>
        conductor.dispatch(runtime, { prompt })
      )
      const waiting = yield* Effect.forkChild(
        Effect.all([Conductor.all(handles), Conductor.firstSuccess(handles)], { concurrency: "unbounded" })
      )
      yield* Effect.yieldNow
      yield* Fiber.interrupt(waiting)
      yield* TestClock.adjust("3 seconds")
      for (const end of yield* Conductor.all(handles)) expect(end, "completed")
    })
  )
})

describe("Conductor.make's overflow", () => {
  it.effect("rejects a dispatch above the concurrency or the queue's bound", () =>
    Effect.gen(function* () {
      const { runtime } = yield* obedient()
      const rejecting = yield* Conductor.make({ concurrency: 1, overflow: "reject" })
      yield* rejecting.dispatch(runtime, { prompt: "hang" })
      const full = yield* Effect.flip(rejecting.dispatch(runtime, { prompt: "hang" }))
      assert.strictEqual(full._tag, "ConductorFull")

      const queueing = yield* Conductor.make({ concurrency: 1, maxQueued: 1 })
      yield* queueing.dispatch(runtime, { prompt: "hang" })
      const queued = yield* queueing.dispatch(runtime, { prompt: "hang" })
      const over = yield* Effect.flip(queueing.dispatch(runtime, { prompt: "hang" }))
      assert.strictEqual(over._tag === "ConductorFull" && over.queued, 1)
      yield* queued.cancel()
      yield* queueing.dispatch(runtime, { prompt: "hang" })
    })
  )

  it.effect("blocks a dispatch until a slot is free, and ends with the dispatching fiber", () =>
    Effect.gen(function* () {
      const { runtime } = yield* obedient()
      const conductor = yield* Conductor.make({ concurrency: 1, overflow: "block" })
      yield* conductor.dispatch(runtime, { prompt: "wait 1" })
      const dispatching = yield* Effect.forEach(["wait 2", "wait 3", "wait 4"], (prompt) =>
        Effect.forkChild(conductor.dispatch(runtime, { prompt }), { startImmediately: true })
      )
      assert.strictEqual(conductor.handles().length, 1)
      yield* Fiber.interrupt(dispatching[0]!)
      yield* TestClock.adjust("1 second")
      const second = yield* Fiber.join(dispatching[1]!)
      assert.strictEqual(second.status.current(), "running")
      assert.strictEqual(conductor.handles().length, 1)
      yield* second.cancel()
      const third = yield* Fiber.join(dispatching[2]!)
      yield* TestClock.adjust("4 seconds")
      expect(yield* third.done, "completed")
    })
  )

  it.effect("refuses a blocked dispatch when the conductor is drained", () =>
    Effect.gen(function* () {
      const { runtime } = yield* obedient()
      const conductor = yield* Conductor.make({ concurrency: 1, overflow: "block" })
      yield* conductor.dispatch(runtime, { prompt: "wait 1" })
      const dispatching = yield* Effect.forkChild(conductor.dispatch(runtime, { prompt: "wait 2" }), {
        startImmediately: true
      })
      yield* conductor.drain
      const error = yield* Effect.flip(Fiber.join(dispatching))
      assert.strictEqual(error._tag, "ConductorClosed")
    })
  )
})

describe("Conductor.make's restart", () => {
  const failing = Effect.fnUntraced(function* (failures: number, reason: Reason) {
    const script = [...Array.from({ length: failures }, () => ({ error: reason })), "done"]
    return yield* rebind(Agent.make("a"), ScriptedModel.make(script))
  })
  const busy = new ProviderFault({ description: "overloaded" })

  it.effect("retries a run after a retryable failure, with increasing delays", () =>
    Effect.gen(function* () {
      const { model, runtime } = yield* failing(3, busy)
      const conductor = yield* Conductor.make({ restart: { times: 3, backoff: "10 seconds" } })
      const handle = yield* conductor.dispatch(runtime, { prompt: "go" })
      const asked: Array<number> = []
      for (let second = 0; second < 100; second++) {
        if (model.requests.length > asked.length) asked.push(second)
        if (second === 1) assert.strictEqual(handle.status.current(), "queued")
        yield* TestClock.adjust("1 second")
      }
      assert.deepStrictEqual(asked, [0, 10, 30, 70])
      const result = expect(yield* handle.done, "completed")
      assert.strictEqual(result.text, "done")
      assert.strictEqual(handle.runId, result.runId)
    })
  )

  it.effect("retries with the policy and limits that the run was started with", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const agent = Agent.make("a", { tools: [write.tool], policy: { mode: "all" } })
      const { runtime } = yield* bind(agent, [{ error: busy }, { calls: [call("write", "1")] }])
      const conductor = yield* Conductor.make({ restart: { times: 1, backoff: 0 } })
      const given = { policy: { mode: "ask" }, limits: { maxTokens: 5000 } } as const
      const handle = yield* conductor.dispatch(runtime, { prompt: "go", ...given })
      const { state } = expect(yield* handle.wait, "interrupted")
      assert.deepStrictEqual([state.policy, state.limits.maxTokens], [given.policy, 5000])
      assert.deepStrictEqual(write.ran, [])
    })
  )

  it.effect("returns the last error after the given number of retries", () =>
    Effect.gen(function* () {
      const { runtime } = yield* failing(1000, busy)
      const conductor = yield* Conductor.make({ restart: { times: 2, backoff: 0 } })
      const handle = yield* conductor.dispatch(runtime, { prompt: "go" })
      const reading = yield* Effect.forkChild(Stream.runCollect(handle.events))
      const waiting = yield* Effect.forkChild(handle.done)
      yield* TestClock.adjust("10 minutes")
      const { error } = expect(yield* Fiber.join(waiting), "error")
      assert.include(error.message, "overloaded")
      const tags = (yield* Fiber.join(reading)).map((update) =>
        update._tag === "event" ? update.event._tag : ""
      )
      assert.strictEqual(tags.filter((tag) => tag === "run.failed").length, 3)
    })
  )

  it.effect("returns the last error when the restart schedule itself fails", () =>
    Effect.gen(function* () {
      const boom = (): never => {
        throw new Error("boom")
      }
      const restarts = [
        { schedule: Schedule.addDelay(Schedule.spaced("1 second"), boom) },
        { schedule: Schedule.addDelay(Schedule.spaced("1 second"), () => Effect.die("boom")) }
      ]
      for (const restart of restarts) {
        const { runtime } = yield* failing(1000, busy)
        const conductor = yield* Conductor.make({ restart })
        const handle = yield* conductor.dispatch(runtime, { prompt: "go" })
        const waiting = yield* Effect.forkChild(handle.done)
        yield* TestClock.adjust("10 minutes")
        const { error } = expect(yield* Fiber.join(waiting), "error")
        assert.include(error.message, "overloaded")
      }
    })
  )

  it.effect("does not retry a permanent failure or a cancelled run", () =>
    Effect.gen(function* () {
      const wrong = yield* failing(1, new InvalidRequest({ description: "no" }))
      const conductor = yield* Conductor.make({ restart: { times: 5 } })
      const handle = yield* conductor.dispatch(wrong.runtime, { prompt: "go" })
      expect(yield* handle.done, "error")

      const { runtime } = yield* failing(1000, busy)
      const cancelled = yield* conductor.dispatch(
        runtime,
        { prompt: "go" },
        { restart: { schedule: Schedule.spaced("1 hour") } }
      )
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual(cancelled.status.current(), "queued")
      expect(yield* cancelled.cancel("enough"), "cancelled")
    })
  )
})

describe("Conductor.attach", () => {
  it.effect("counts a run once, and has one handle of it, however often it is attached to", () =>
    Effect.gen(function* () {
      const { runtime } = yield* obedient()
      const first = yield* Conductor.make()
      const { runId } = yield* first.dispatchStored(runtime, { prompt: "write 1" })
      yield* first.drain
      const conductor = yield* Conductor.make({ limits: { maxRuns: 2 } })
      const attached = yield* Effect.all(
        Array.from({ length: 3 }, () => conductor.attach([runtime], runId)),
        { concurrency: "unbounded" }
      )
      const dispatched = yield* conductor.dispatchStored(runtime, { prompt: "write 2" })
      yield* dispatched.wait
      const again = yield* conductor.attach([runtime], dispatched.runId)
      assert.strictEqual(again, dispatched)
      assert.strictEqual(new Set(attached).size, 1)
      assert.deepStrictEqual(conductor.handles(), [attached[0]!, dispatched])
      assert.strictEqual(conductor.spending().spent.runs, 2)
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("does not count a run that has ended, and refuses none for maxRuns", () =>
    Effect.gen(function* () {
      const { runtime } = yield* obedient()
      const first = yield* Conductor.make()
      const [done, failed] = yield* Effect.forEach(["done", "fail"], (prompt) =>
        Effect.flatMap(first.dispatchStored(runtime, { prompt }), ({ done }) => done)
      )
      const second = yield* Conductor.make({ concurrency: 1, limits: { maxRuns: 1 } })
      const running = yield* second.dispatchStored(runtime, { prompt: "write 1" })
      yield* running.wait
      for (const { runId } of [done!, failed!, done!]) {
        assert.isTrue(
          ["completed", "error"].includes((yield* second.attach([runtime], runId)).status.current())
        )
      }
      assert.strictEqual(second.spending().spent.runs, 1)
      assert.deepStrictEqual(second.handles(), [running])
    }).pipe(Effect.provide(layerMemory))
  )
})

describe("Conductor's inbox", () => {
  it.effect("emits on changes of the inbox only, not on other changes of a run", () =>
    Effect.gen(function* () {
      const { runtime } = yield* obedient()
      const conductor = yield* Conductor.make()
      const seen: Array<number> = []
      const watching = yield* Effect.forkChild(
        Stream.runForEach(conductor.inbox.changes, (list) => Effect.sync(() => seen.push(list.length))),
        { startImmediately: true }
      )
      for (let i = 0; i < 3; i += 1) {
        const handle = yield* conductor.dispatch(runtime, { prompt: "wait 1" })
        yield* TestClock.adjust("1 second")
        yield* handle.done
      }
      yield* conductor.drain
      yield* Fiber.join(watching)
      assert.deepStrictEqual(seen, [0])
    })
  )

  it.effect("contains the requests of all runs, and decides them", () =>
    Effect.gen(function* () {
      const { runtime, write } = yield* obedient()
      const conductor = yield* Conductor.make()
      const lists: Array<ReadonlyArray<string | undefined>> = []
      yield* Effect.forkScoped(
        Stream.runForEach(conductor.inbox.changes, (list) =>
          Effect.sync(() => void lists.push(list.map(({ name }) => name)))
        ),
        { startImmediately: true }
      )
      const handles = yield* Effect.forEach(["x", "y", "z"], (name, i) =>
        conductor.dispatch(runtime, { prompt: `write ${i}` }, { name })
      )
      for (const handle of handles) yield* handle.wait
      const inbox = conductor.inbox.current()
      assert.deepStrictEqual(
        inbox.map(({ name, request, runId }) => [name, request.agentPath, runId]),
        handles.map(({ name, runId }) => [name, ["a"], runId])
      )
      for (const { request } of inbox) yield* conductor.decide(approve(request))
      for (const end of yield* Conductor.all(handles)) expect(end, "completed")
      assert.deepStrictEqual(write.ran.toSorted(), ["0", "1", "2"])
      assert.deepStrictEqual(conductor.inbox.current(), [])
      yield* Effect.yieldNow
      assert.deepStrictEqual(lists[0], [])
      assert.deepStrictEqual(lists.at(-1), [])
      assert.isAbove(lists.length, 2)
      const unknown = yield* Effect.flip(
        conductor.decide({ ...approve(inbox[0]!.request), requestId: "no.r1" as never })
      )
      assert.strictEqual(unknown._tag, "RequestNotFound")
    })
  )

  it.effect("contains the requests of sub-agents under the id of their root run", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const writer = Agent.make("writer", { tools: [write.tool] })
      const { runtime } = yield* rebind(
        Agent.make("lead", { subAgents: [writer] }),
        ScriptedModel.make(({ agentPath, turn }) => {
          if (turn > 1) return "done"
          return agentPath.length > 1
            ? { calls: [call("write", "1")] }
            : { calls: [{ tool: "writer", arguments: { prompt: "write" } }] }
        })
      )
      const conductor = yield* Conductor.make()
      const handle = yield* conductor.dispatch(runtime, { prompt: "go" })
      yield* handle.wait
      const [entry, ...none] = conductor.inbox.current()
      assert.deepStrictEqual(none, [])
      assert.deepStrictEqual(entry?.request.agentPath, ["lead", "writer"])
      assert.strictEqual(entry?.runId, handle.runId)
      yield* conductor.decide(approve(entry!.request))
      expect(yield* handle.done, "completed")
      assert.deepStrictEqual(write.ran, ["1"])
    })
  )
})

describe("Conductor.events", () => {
  it.effect("merges the updates of all runs, with the runs' names", () =>
    Effect.gen(function* () {
      const { runtime } = yield* obedient()
      const conductor = yield* Conductor.make()
      const seen: Array<string> = []
      yield* Effect.forkScoped(
        Stream.runForEach(conductor.events, (told) =>
          Effect.sync(() => {
            if (told._tag === "update" && told.update._tag === "event") {
              seen.push(`${told.name} ${told.update.event._tag}`)
            }
          })
        ),
        { startImmediately: true }
      )
      yield* Effect.yieldNow
      const handles = yield* Effect.forEach(["x", "y"], (name) =>
        conductor.dispatch(runtime, { prompt: "hi" }, { name })
      )
      yield* Conductor.all(handles)
      yield* Effect.yieldNow
      assert.deepStrictEqual(
        seen.toSorted(),
        ["x", "y"].flatMap((name) =>
          ["model.answered", "run.completed", "run.started"].map((tag) => `${name} ${tag}`)
        )
      )
    })
  )
})

describe("Conductor.make's limits", () => {
  const priced = (costUsd: number | undefined, turns = 1, delay: Duration.Input = 0) =>
    rebind(
      Agent.make("a", { tools: [safe("look").tool] }),
      ScriptedModel.make(({ turn }) => ({
        ...(turn < turns ? { calls: [call("look", "1")] } : { text: "done" }),
        usage: { inputTokens: 60, outputTokens: 40, costUsd } as Partial<ModelUsage>,
        delay
      }))
    )
  const budgetOf = (error: { readonly _tag: string; readonly budget?: string }) =>
    `${error._tag} ${error.budget}`

  it.effect("refuse a run when a budget is used up, and name the budget", () =>
    Effect.gen(function* () {
      const { runtime } = yield* priced(1)
      for (const [limits, budget, runs] of [
        [{ maxRuns: 2 }, "runs", 2],
        [{ maxTurns: 3 }, "turns", 3],
        [{ maxTokens: 400 }, "tokens", 4],
        [{ maxCostUsd: 2.5 }, "cost", 3]
      ] as const) {
        const conductor = yield* Conductor.make({ concurrency: 1, limits })
        for (let i = 0; i < runs; i++) {
          expect(yield* (yield* conductor.dispatch(runtime, { prompt: "go" })).done, "completed")
        }
        const error = yield* Effect.flip(conductor.dispatch(runtime, { prompt: "go" }))
        assert.strictEqual(budgetOf(error), `ConductorBudgetExceeded ${budget}`)
        const { reserved, spent } = conductor.spending()
        assert.deepStrictEqual(spent, { runs, turns: runs, tokens: 100 * runs, cost: runs })
        assert.deepStrictEqual(reserved, { runs: 0, turns: 0, tokens: 0, cost: 0 })
      }
    })
  )

  it.effect("reserve a share for each run when it starts, and take back the unused rest", () =>
    Effect.gen(function* () {
      const { runtime } = yield* obedient()
      const conductor = yield* Conductor.make({ concurrency: 4, limits: { maxTokens: 1000, maxTurns: 20 } })
      const own = yield* conductor.dispatch(runtime, { prompt: "wait 1", limits: { maxTokens: 400 } })
      const equal = yield* conductor.dispatch(runtime, { prompt: "hang" })
      // The first run asks for 400; the second gets a third of the remaining 600. Turns come from each run's own limit.
      assert.deepStrictEqual(conductor.spending().reserved, { runs: 0, tokens: 600, turns: 16, cost: 0 })
      const third = yield* conductor.dispatch(runtime, { prompt: "hang" })
      assert.deepStrictEqual(conductor.spending().reserved, { runs: 0, tokens: 800, turns: 20, cost: 0 })
      const refused = yield* Effect.flip(conductor.dispatch(runtime, { prompt: "hang" }))
      assert.strictEqual(budgetOf(refused), "ConductorBudgetExceeded turns")
      yield* TestClock.adjust("1 second")
      expect(yield* own.done, "completed")
      const { reserved, spent } = conductor.spending()
      assert.strictEqual(reserved.turns + spent.turns, 13)
      assert.strictEqual((yield* equal.cancel()).state.limits.maxTokens, 200)
      assert.strictEqual((yield* third.cancel()).state.limits.maxTreeTurns, 4)
      assert.strictEqual(conductor.spending().spent.runs, 3)
    })
  )

  it.effect("bound each run by its share", () =>
    Effect.gen(function* () {
      const { runtime } = yield* priced(1, 10, "1 second")
      const conductor = yield* Conductor.make({ concurrency: 2, limits: { maxTokens: 400 } })
      const handles = yield* Effect.forEach([1, 2], () => conductor.dispatch(runtime, { prompt: "go" }))
      for (let second = 0; second < 4; second++) yield* TestClock.adjust("1 second")
      for (const end of yield* Conductor.all(handles)) {
        const { error, state } = expect(end, "error")
        assert.strictEqual(budgetOf(error), "BudgetExceeded tokens")
        assert.strictEqual(state.limits.maxTokens, 200)
      }
      assert.strictEqual(conductor.spending().spent.tokens, 400)
    })
  )

  it.effect("apply beside the caller's limits, which alone pass to a fork and the next run", () =>
    Effect.gen(function* () {
      const agent = Agent.make("a", { tools: [probe("write").tool] })
      const writes = { calls: [call("write", "1")] }
      const { runtime } = yield* bind(agent, [writes, writes, "done"])
      const limits = { maxTokens: 700, maxTurns: 5 }
      const conductor = yield* Conductor.make({ concurrency: 4, limits: { maxTokens: 1000 } })
      const handle = yield* conductor.dispatch(runtime, { prompt: "go", limits })
      const held = yield* handle.wait
      assert.strictEqual(held.state.limits.maxTokens, 700)
      assert.deepStrictEqual(held.state.startedWith, { limits })
      yield* handle.cancel()
      const again = yield* conductor.dispatch(runtime, { state: held.state })
      assert.deepStrictEqual((yield* again.wait).state.startedWith, { limits })
      const fork = yield* again.send("or else?", { whenHeld: "fork" })
      const forked = yield* fork.wait
      assert.deepStrictEqual(forked.state.startedWith, { limits })
      // The fork asks for 700 like its original, and gets the rest of 1,000.
      const { maxTokens, maxTurns } = forked.state.limits
      assert.deepStrictEqual([maxTokens, maxTurns], [300, 5])
      const ended = yield* fork.cancel()
      const alone = yield* runPrompt(runtime, { state: ended.state, prompt: "again" })
      assert.deepStrictEqual(alone.state.limits.maxTokens, 700)
    })
  )

  it.effect("refuse further runs after a run of unknown cost when money is limited", () =>
    Effect.gen(function* () {
      const { runtime } = yield* priced(undefined)
      const conductor = yield* Conductor.make({ limits: { maxCostUsd: 5 } })
      yield* (yield* conductor.dispatch(runtime, { prompt: "go" })).done
      const error = yield* Effect.flip(conductor.dispatch(runtime, { prompt: "go" }))
      assert.strictEqual(budgetOf(error), "ConductorBudgetExceeded cost")
      assert.include(error.message, "is unknown")
      assert.isFalse(conductor.spending().isCostKnown)
    })
  )

  it.effect("fail a queued run when its slot is free and nothing is left", () =>
    Effect.gen(function* () {
      const { runtime } = yield* priced(1, 1, "1 second")
      const conductor = yield* Conductor.make({ concurrency: 1, limits: { maxTokens: 150 } })
      const handles = yield* Effect.forEach([1, 2, 3], () => conductor.dispatch(runtime, { prompt: "go" }))
      yield* TestClock.adjust("3 seconds")
      const [first, second, third] = handles
      expect(yield* first!.done, "completed")
      assert.strictEqual(expect(yield* second!.done, "completed").state.limits.maxTokens, 50)
      assert.strictEqual(budgetOf(yield* Effect.flip(third!.done)), "ConductorBudgetExceeded tokens")
      assert.strictEqual(third!.status.current(), "error")
      assert.strictEqual(conductor.spending().spent.runs, 2)
    })
  )
})

describe("Conductor.cancel", () => {
  it.effect("cancels the runs under a name, and no others", () =>
    Effect.gen(function* () {
      const { runtime } = yield* obedient()
      const conductor = yield* Conductor.make({ concurrency: 3 })
      const names = ["research", "research/eu", "research/eu/de", "researcher", "research/us"]
      const handles = yield* Effect.forEach(names, (name) =>
        conductor.dispatch(runtime, { prompt: "hang" }, { name })
      )
      assert.strictEqual(yield* conductor.cancel("research/eu"), 2)
      assert.deepStrictEqual(
        handles.map(({ status }) => status.current()),
        ["running", "cancelled", "cancelled", "running", "running"]
      )
      assert.strictEqual(yield* conductor.cancel("research", "enough"), 2)
      assert.strictEqual(expect(yield* handles[0]!.done, "cancelled").reason, "enough")
      assert.deepStrictEqual(
        conductor.handles().map(({ name }) => name),
        ["researcher"]
      )
    })
  )
})
