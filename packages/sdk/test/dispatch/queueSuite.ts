/**
 * What a conductor promises about its queued runs, on any store.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import * as Conductor from "../../src/dispatch/Conductor.ts"
import { attach } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RunId, SessionId } from "../../src/domain/Id.ts"
import { textOf } from "../../src/domain/Message.ts"
import { exportRun, importRun } from "../../src/durable/archive.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { explain } from "../../src/durable/explain.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { readResult } from "../../src/durable/readResult.ts"
import { recover } from "../../src/durable/recover.ts"
import { revokeGrant } from "../../src/durable/revokeGrant.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import { InvalidRequest } from "../../src/model/ModelError.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import type { RunStoreError } from "../../src/store/RunStoreError.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, call, expect, only, probe, rebind } from "../helpers/Fixture.ts"

/** Two runtimes of one agent, as of two processes. The model repeats the user's messages; `hang` never returns, `write` calls the tool. */
const team = Effect.gen(function* () {
  const asked: Array<string> = []
  const write = probe("write")
  const agent = Agent.make("a", { tools: [write.tool] })
  const model = ScriptedModel.make(({ messages, turn }) => {
    const said = messages.flatMap(({ content, role }) => (role === "user" ? [textOf(content)] : []))
    asked.push(said.join(" "))
    if (said.includes("hang")) return { hang: true }
    if (said.includes("fail")) return { error: new InvalidRequest({ description: "no" }) }
    if (said.includes("slowly")) return { text: "slowly", delay: "100 millis" }
    return said.includes("write") && turn === 1 ? { calls: [call("write", "1")] } : said.join(" ")
  })
  const [{ runtime }, { runtime: other }] = yield* Effect.all([rebind(agent, model), rebind(agent, model)])
  return { asked, other, runtime, write }
})

/** A conductor in a scope of its own. */
const conducting = Effect.fnUntraced(function* (options: Conductor.ConductorOptions = {}) {
  const scope = yield* Scope.make()
  const given = { name: "nightly", concurrency: 1, drainTimeout: "500 millis", ...options } as const
  const conductor = yield* Effect.provideService(Conductor.make(given), Scope.Scope, scope)
  yield* Effect.addFinalizer(() => conductor.drain)
  return conductor
})

/** A conductor whose only slot is taken, with a queued run. */
const queueing = Effect.fnUntraced(function* (runtime: Runtime, prompt = "go") {
  const conductor = yield* conducting()
  const first = yield* conductor.dispatchStored(runtime, { prompt: "hang" })
  const queued = yield* conductor.dispatchStored(runtime, { prompt }, { name: "work/1" })
  assert.strictEqual(queued.status.current(), "queued")
  return { conductor, first, queued, runId: queued.runId }
})

/** How often the run was taken up, in its journal. */
const starts = Effect.fnUntraced(function* (runId: RunId) {
  const events = yield* (yield* RunStore).events(runId)
  return events.filter(({ _tag }) => _tag === "run.resumed" || _tag === "run.recovered").length
})

export const queueSuite = (name: string, layer: Layer.Layer<RunStore, RunStoreError>) => {
  const test = <E>(title: string, body: () => Effect.Effect<void, E, RunStore | Scope.Scope>) =>
    it.live(title, () => Effect.provide(Effect.scoped(Effect.suspend(body)), layer), 20_000)

  describe(`a queued run of a conductor, stored in ${name}`, () => {
    test("is stored as held with its conductor, and says so", () =>
      Effect.gen(function* () {
        const { asked, runtime } = yield* team
        const { queued, runId } = yield* queueing(runtime)
        const store = yield* RunStore
        const { lease, status } = yield* store.head(runId)
        assert.deepStrictEqual([status, lease], ["held", undefined])
        const tags = (yield* store.events(runId)).map(({ _tag }) => _tag)
        assert.deepStrictEqual(tags, ["run.started", "run.held"])
        const { resuming, text } = yield* explain(runId)
        assert.include(text, 'is queued as "work/1": it waits for a slot of the conductor "nightly"')
        assert.deepStrictEqual(resuming, ["call the model"])
        assert.deepStrictEqual(yield* queued.explain, yield* explain(runId, { runtimes: [runtime] }))
        assert.strictEqual((yield* readResult(runId)).status, "running")
        assert.deepStrictEqual(yield* store.pending({ runId }), [])
        assert.deepStrictEqual(asked, ["hang"])
      }))

    test("starts in its conductor when it has a slot, with the budgets of the conductor", () =>
      Effect.gen(function* () {
        const { runtime } = yield* team
        const conductor = yield* conducting({ limits: { maxTokens: 1000, maxRuns: 2 } })
        const first = yield* conductor.dispatchStored(runtime, { prompt: "hang", limits: { maxTokens: 400 } })
        const queued = yield* conductor.dispatchStored(runtime, { prompt: "go" })
        assert.strictEqual(conductor.spending().reserved.tokens, 400)
        yield* first.cancel()
        const { state } = expect(yield* queued.done, "completed")
        assert.isAbove(state.limits.maxTokens ?? 0, 500)
        assert.isUndefined(state.startedWith?.limits)
        assert.deepStrictEqual(state.conductor, { name: "nightly" })
        assert.isUndefined(state.awaitsSlot)
        assert.strictEqual(conductor.spending().spent.runs, 2)
        assert.strictEqual(yield* starts(queued.runId), 1)
      }))

    test("is suspended with its conductor, started by no worker, and adopted by a conductor of the same name", () =>
      Effect.gen(function* () {
        const { asked, other, runtime } = yield* team
        const { conductor, first, runId } = yield* queueing(runtime)
        const drained = yield* conductor.drain
        assert.deepStrictEqual(
          drained.map(({ name, status }) => ({ name, status })),
          [
            { name: undefined, status: "suspended" },
            { name: "work/1", status: "suspended" }
          ]
        )
        yield* cancelRun(first.runId, "enough")
        assert.deepStrictEqual(yield* recover([other]), [])
        assert.deepStrictEqual(asked, ["hang"])

        const stranger = yield* conducting({ name: "daily" })
        assert.deepStrictEqual(yield* stranger.adopt([other]), [])
        const next = yield* conducting()
        const [adopted, ...more] = yield* next.adopt([other])
        assert.deepStrictEqual([adopted?.runId, adopted?.name, more], [runId, "work/1", []])
        assert.strictEqual(next.spending().spent.runs, 1)
        expect(yield* adopted!.done, "completed")
        assert.deepStrictEqual(asked, ["hang", "go"])
        assert.deepStrictEqual(yield* next.adopt([other]), [])
        assert.strictEqual(next.spending().spent.runs, 1)
      }))

    test("is adopted within the budgets of the next conductor, which are free again when it has ended", () =>
      Effect.gen(function* () {
        const { other, runtime } = yield* team
        const { conductor, first, runId } = yield* queueing(runtime)
        yield* conductor.drain
        yield* cancelRun(first.runId, "enough")
        const next = yield* conducting({ limits: { maxTokens: 1000 } })
        const [adopted] = yield* next.adopt([other])
        const { state } = expect(yield* adopted!.done, "completed")
        assert.deepStrictEqual([adopted!.runId, state.limits.maxTokens], [runId, 1000])
        assert.strictEqual(next.spending().reserved.tokens, 0)
        assert.isAbove(next.spending().spent.tokens, 0)
      }))

    test("is left as it is by a conductor whose maxRuns is reached, which warns, and adopted by another one", () =>
      Effect.gen(function* () {
        const { other, runtime } = yield* team
        const { conductor, first, runId } = yield* queueing(runtime)
        yield* conductor.drain
        const store = yield* RunStore
        const before = yield* store.events(runId)
        const warned: Array<string> = []
        const logger = Logger.make(({ message }) => void warned.push(String(message)))
        const next = yield* conducting({ limits: { maxRuns: 1 } })
        const adopting = Effect.provide(next.adopt([other]), Logger.layer([logger]))
        const adopted = yield* adopting
        assert.deepStrictEqual(
          adopted.map(({ runId }) => runId),
          [first.runId]
        )
        assert.lengthOf(warned, 1)
        assert.include(warned[0], `left 1 of its runs as they are, beginning with ${runId}`)
        assert.deepStrictEqual(yield* adopting, adopted)
        assert.deepStrictEqual(yield* store.events(runId), before)
        const roomy = yield* conducting()
        const all = yield* roomy.adopt([other])
        assert.include(
          all.map(({ runId }) => runId),
          runId
        )
      }))

    test("is adopted within the bound, after the runs that had started, in the order of dispatch", () =>
      Effect.gen(function* () {
        const { asked, other, runtime } = yield* team
        const before = yield* conducting()
        const first = yield* before.dispatchStored(runtime, { prompt: "write" }, { name: "first" })
        const request = only(yield* first.wait, "approval")
        const running = yield* before.dispatchStored(runtime, { prompt: "hang" }, { name: "running" })
        yield* running.status.changes.pipe(
          Stream.filter((status) => status === "running"),
          Stream.runHead
        )
        for (const prompt of ["a", "b", "c"])
          yield* before.dispatchStored(runtime, { prompt }, { name: prompt })
        yield* before.drain
        const next = yield* conducting()
        const adopted = yield* next.adopt([other])
        assert.deepStrictEqual(
          adopted.map(({ name, status }) => [name, status.current()]),
          [
            ["running", "running"],
            ["first", "held"],
            ["a", "queued"],
            ["b", "queued"],
            ["c", "queued"]
          ]
        )
        assert.deepStrictEqual(yield* next.adopt([other]), adopted)
        assert.strictEqual(next.spending().spent.runs, 5)
        yield* next.decide(approve(request))
        assert.strictEqual(yield* next.cancel("running"), 1)
        yield* Conductor.all(adopted)
        assert.deepStrictEqual(asked.slice(-4), ["write", "a", "b", "c"])
      }))

    test("is started once by two conductors that adopt it at the same time, and its body runs once", () =>
      Effect.gen(function* () {
        const { other, runtime, write } = yield* team
        const { conductor, runId } = yield* queueing(runtime, "write")
        const conductors = yield* Effect.all([conducting(), conducting()])
        const adopting = conductors.map((one, index) => one.adopt([index === 0 ? runtime : other]))
        yield* conductor.drain
        const handles = (yield* Effect.all(adopting, { concurrency: "unbounded" })).flatMap((found) =>
          found.filter((handle) => handle.runId === runId)
        )
        assert.strictEqual(handles.length, 2)
        const [held] = yield* Effect.forEach(handles, ({ wait }) => wait, { concurrency: "unbounded" })
        yield* conductors[1]!.decide(approve(only(held!, "approval")))
        for (const end of yield* Conductor.all(handles)) expect(end, "completed")
        assert.deepStrictEqual(write.ran, ["1"])
        assert.strictEqual(
          (yield* (yield* RunStore).events(runId)).filter(({ _tag }) => _tag === "model.answered").length,
          2
        )
      }))

    test("ends in the queue when another process cancels it", () =>
      Effect.gen(function* () {
        const { asked, runtime } = yield* team
        const { conductor, queued, runId } = yield* queueing(runtime)
        yield* cancelRun(runId, "not needed")
        assert.strictEqual(expect(yield* queued.done, "cancelled").reason, "not needed")
        assert.strictEqual(conductor.handles().length, 1)
        const own = yield* conductor.dispatchStored(runtime, { prompt: "go" })
        expect(yield* own.cancel("nor this"), "cancelled")
        assert.strictEqual((yield* (yield* RunStore).head(own.runId)).status, "cancelled")
        assert.deepStrictEqual(asked, ["hang"])
      }))

    test("keeps a message that is sent to it, and stays queued when a worker takes the message", () =>
      Effect.gen(function* () {
        const { asked, other, runtime } = yield* team
        const { first, queued, runId } = yield* queueing(runtime)
        yield* queued.send("and hurry")
        yield* sendMessage(runId, "please")
        const [taken] = yield* recover([other])
        assert.deepInclude(taken, { runId, reason: "message", status: "held" })
        assert.deepStrictEqual(yield* recover([other]), [])
        assert.include((yield* explain(runId)).text, "is queued")
        assert.deepStrictEqual(asked, ["hang"])
        yield* first.cancel()
        assert.strictEqual(expect(yield* queued.done, "completed").text, "go and hurry please")
      }))

    test("is followed and not started by a handle without a conductor", () =>
      Effect.gen(function* () {
        const { asked, other, runtime } = yield* team
        const { first, runId } = yield* queueing(runtime)
        const handle = yield* attach([other], runId)
        assert.strictEqual(handle.status.current(), "queued")
        yield* handle.send("quickly")
        assert.strictEqual(handle.status.current(), "queued")
        assert.deepStrictEqual(asked, ["hang"])
        yield* first.cancel()
        assert.strictEqual(expect(yield* handle.done, "completed").text, "go quickly")
      }))

    test("starts outside the conductor when it is resumed by its id, once", () =>
      Effect.gen(function* () {
        const { asked, other, runtime } = yield* team
        const { first, queued, runId } = yield* queueing(runtime)
        expect(yield* runPromptStored(other, { runId }), "completed")
        expect(yield* queued.done, "completed")
        yield* first.cancel()
        assert.deepStrictEqual(asked, ["hang", "go"])
      }))

    test("is not tried again by its conductor if it failed elsewhere meanwhile", () =>
      Effect.gen(function* () {
        const { asked, other, runtime } = yield* team
        const { runId } = yield* queueing(runtime, "fail")
        expect(yield* runPromptStored(other, { runId }), "error")
        const asks = asked.length
        expect(yield* runPromptStored(runtime, { runId, "~queued": "start" }), "error")
        assert.strictEqual(asked.length, asks)
      }))

    test("is stored when a message forks a run and there is no slot for the fork", () =>
      Effect.gen(function* () {
        const { other, runtime } = yield* team
        const conductor = yield* conducting()
        const held = yield* conductor.dispatchStored(runtime, { prompt: "write" }, { name: "writer" })
        yield* held.wait
        yield* conductor.dispatchStored(runtime, { prompt: "hang" })
        const fork = yield* held.send("go", { whenHeld: "fork" })
        assert.strictEqual(fork.status.current(), "queued")
        assert.include((yield* explain(fork.runId)).text, 'queued as "writer"')
        yield* conductor.drain
        const next = yield* conducting({ concurrency: 2 })
        const found = (yield* next.adopt([other])).find(({ runId }) => runId === fork.runId)
        // The fork repeats the open turn.
        only(yield* found!.wait, "approval")
      }))

    test("is stored even if its conductor is drained, or its dispatch is interrupted, while it is being stored", () =>
      Effect.gen(function* () {
        const { runtime } = yield* team
        const store = yield* RunStore
        const conductor = yield* conducting()
        yield* conductor.dispatchStored(runtime, { prompt: "hang" })
        const start = (runId: string) =>
          Effect.forkChild(conductor.dispatchStored(runtime, { prompt: "go", runId: runId as RunId }), {
            startImmediately: true
          })
        const interrupted = yield* start("interrupted")
        yield* Fiber.interrupt(interrupted)
        const isReturned = Exit.isSuccess(yield* Fiber.await(interrupted))
        const found = yield* Effect.option(store.head("interrupted" as RunId))
        if (!isReturned && Option.isSome(found)) assert.strictEqual(found.value.status, "cancelled")

        const drained = yield* start("drained")
        yield* conductor.drain
        const handle = yield* Fiber.join(drained)
        assert.strictEqual(handle.status.current(), "suspended")
        assert.strictEqual((yield* store.head(handle.runId)).status, "held")
      }))

    test("starts with the grants of its session, without those that were revoked while it was queued", () =>
      Effect.gen(function* () {
        const { runtime, write } = yield* team
        const sessionId = "granted" as SessionId
        const first = yield* runPromptStored(runtime, { prompt: "write", sessionId })
        const grant = { scope: "session", arguments: {} } as const
        const decisions = [approve(only(first, "approval"), { grant })]
        expect(yield* runPromptStored(runtime, { runId: first.runId, decisions }), "completed")
        const conductor = yield* conducting()
        const other = yield* conductor.dispatchStored(runtime, { prompt: "hang" })
        const queued = yield* conductor.dispatchStored(runtime, { prompt: "write", sessionId })
        const [given] = yield* (yield* RunStore).grants({ runId: first.runId })
        yield* revokeGrant(first.runId, given!.grant.id, "ann")
        yield* other.cancel()
        only(yield* queued.wait, "approval")
        assert.deepStrictEqual(write.ran, ["1"])
      }))

    test("keeps its session, and is refused if the session is busy", () =>
      Effect.gen(function* () {
        const { runtime } = yield* team
        const conductor = yield* conducting()
        const sessionId = "talk" as SessionId
        const first = yield* conductor.dispatchStored(runtime, { prompt: "hang" })
        const queued = yield* conductor.dispatchStored(runtime, { prompt: "go", sessionId })
        const again = conductor.dispatchStored(runtime, { prompt: "and go", sessionId })
        assert.strictEqual((yield* Effect.flip(again))._tag, "SessionBusy")
        assert.strictEqual(
          (yield* Effect.flip(runPromptStored(runtime, { prompt: "x", sessionId })))._tag,
          "SessionBusy"
        )
        const twice = conductor.dispatchStored(runtime, { prompt: "go", runId: queued.runId })
        assert.strictEqual((yield* Effect.flip(twice))._tag, "RunExists")
        assert.strictEqual(conductor.spending().spent.runs, 2)
        yield* first.cancel()
        expect(yield* queued.done, "completed")
        const next = yield* conductor.dispatchStored(runtime, { prompt: "and go", sessionId })
        assert.strictEqual(expect(yield* next.done, "completed").text, "go and go")
      }))

    test("stays queued if the conductor's budget is exhausted, for a conductor with another budget", () =>
      Effect.gen(function* () {
        const { other, runtime } = yield* team
        const conductor = yield* conducting({ limits: { maxTurns: 1 } })
        yield* conductor.dispatchStored(runtime, { prompt: "slowly" })
        const queued = yield* conductor.dispatchStored(runtime, { prompt: "go" })
        assert.strictEqual((yield* Effect.flip(queued.done))._tag, "ConductorBudgetExceeded")
        assert.strictEqual(conductor.spending().spent.runs, 1)
        const [adopted] = yield* (yield* conducting()).adopt([other])
        assert.strictEqual(adopted?.runId, queued.runId)
        expect(yield* adopted!.done, "completed")
      }))

    test("can be forked, exported and removed while it is queued, and the copy is adopted elsewhere", () =>
      Effect.gen(function* () {
        const { other, runtime } = yield* team
        const { conductor, queued, runId } = yield* queueing(runtime)
        const fork = expect(yield* forkRun(other, { runId, prompt: "instead" }), "completed")
        assert.deepStrictEqual([fork.text, fork.state.conductor], ["go instead", undefined])
        const store = yield* RunStore
        yield* store.remove(fork.runId)
        const archive = JSON.stringify(yield* exportRun(runId))
        yield* store.remove(runId)
        assert.strictEqual((yield* Effect.flip(queued.done))._tag, "RunNotFound")
        assert.strictEqual(conductor.handles().length, 1)
        yield* Effect.gen(function* () {
          yield* importRun(JSON.parse(archive))
          assert.include((yield* explain(runId)).text, "is queued")
          const [adopted] = yield* (yield* conducting()).adopt([other])
          expect(yield* adopted!.done, "completed")
        }).pipe(Effect.provide(Layer.fresh(layerMemory)))
      }))
  })
}
