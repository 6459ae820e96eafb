import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { attach } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { approvalOf, approve, call, expect, only, rebind, transcript } from "../helpers/Fixture.ts"
import { ends, helperRun, lastSent, runId, scoutRun, team, writerRun } from "../helpers/Team.ts"

const inOneStore = <A, E>(body: Effect.Effect<A, E, RunStore | Scope.Scope>) =>
  Effect.provide(Effect.scoped(body), Layer.fresh(layerMemory))

const ask = { tool: "ask_user", id: "q", arguments: { question: "Which color?" } }

describe("the handle of a sub-agent's run", () => {
  it.effect("shows its requests, and follows it to its end", () =>
    inOneStore(
      Effect.gen(function* () {
        const { runtime, write } = yield* team(true, {
          writer: [{ calls: [call("write", "w")] }, { calls: [call("write", "w2")] }]
        })
        const handle = yield* attach([runtime], writerRun)
        assert.deepStrictEqual([handle.runId, handle.status.current()], [writerRun, "held"])
        assert.deepStrictEqual(
          handle.interruptions().map(({ runId }) => runId),
          [writerRun]
        )
        for (const id of ["w", "w2"]) {
          const held = yield* handle.wait
          assert.strictEqual(held.runId, writerRun)
          yield* handle.decide(approve(approvalOf(held, id)))
        }
        const done = expect(yield* handle.done, "completed")
        assert.deepStrictEqual([done.runId, done.text], [writerRun, "writer is done"])
        assert.strictEqual(handle.status.current(), "completed")
        assert.deepStrictEqual(write.ran, ["w", "w2"])
        assert.deepStrictEqual(handle.interruptions(), [])
        const store = yield* RunStore
        assert.deepStrictEqual(
          (yield* store.pending()).map(({ request }) => request.runId),
          [helperRun]
        )
      })
    )
  )

  it.effect("does not decide requests of other runs", () =>
    inOneStore(
      Effect.gen(function* () {
        const { held, runtime, write } = yield* team()
        const handle = yield* attach([runtime], writerRun)
        const error = yield* Effect.flip(handle.decide(approve(approvalOf(held, "h"))))
        assert.strictEqual(error._tag, "RequestNotFound")
        const above = yield* attach([runtime], scoutRun)
        assert.strictEqual((yield* above.decide(approve(approvalOf(held, "h")))).by, "ann")
        expect(yield* above.done, "completed")
        assert.deepStrictEqual(write.ran, ["h"])
        assert.strictEqual(handle.status.current(), "held")
      })
    )
  )

  it.effect("cancels the sub-agent and those under it, and returns after its end", () =>
    inOneStore(
      Effect.gen(function* () {
        const { held, model, runtime } = yield* team()
        const handle = yield* attach([runtime], scoutRun)
        const statuses = yield* Effect.forkChild(Stream.runCollect(handle.status.changes))
        const { reason } = expect(yield* handle.cancel("not needed"), "cancelled")
        assert.strictEqual(reason, "not needed")
        assert.strictEqual((yield* Fiber.join(statuses)).at(-1), "cancelled")
        assert.deepStrictEqual(yield* ends(), [`${helperRun} run.cancelled`, `${scoutRun} run.cancelled`])
        // An ended run does not change.
        assert.strictEqual(expect(yield* handle.cancel("again"), "cancelled").reason, "not needed")
        const root = yield* attach([runtime], runId)
        yield* root.decide(approve(approvalOf(held, "w")))
        expect(yield* root.done, "completed")
        assert.include(lastSent(model, "lead"), "scout was stopped: not needed.")
      })
    )
  )

  it.effect("sends messages with the meanings that a sub-agent allows", () =>
    inOneStore(
      Effect.gen(function* () {
        const { model, runtime, write } = yield* team(true, {
          writer: [{ calls: [call("write", "w")] }, { calls: [ask] }]
        })
        const handle = yield* attach([runtime], writerRun)
        assert.strictEqual(
          (yield* Effect.flip(handle.send("red", { whenHeld: "answer" })))._tag,
          "NothingToAnswer"
        )
        const refused = yield* Effect.flip(handle.send("or else?", { whenHeld: "fork" }))
        assert.deepInclude({ ...refused }, { _tag: "SubAgentNotForked", runId: writerRun, root: runId })
        assert.strictEqual(yield* handle.send("Ask first.", { whenHeld: "supersede" }), handle)
        const asked = only(yield* handle.wait, "question")
        assert.strictEqual(asked.question, "Which color?")
        assert.include(lastSent(model, "writer"), "Ask first.")
        yield* handle.send("red", { whenHeld: "answer" })
        const { state } = expect(yield* handle.done, "completed")
        assert.include(transcript(state), "tool: red")
        assert.deepStrictEqual(write.ran, [])
        const late = yield* Effect.flip(handle.send("late"))
        assert.strictEqual(late._tag, "RunEnded")
        assert.include((yield* handle.explain).text, "is completed. It works for the run run of lead.")
      })
    )
  )

  it.effect("emits the sub-agent's events from start to end", () =>
    inOneStore(
      Effect.gen(function* () {
        const { held, runtime } = yield* team()
        const handle = yield* attach([runtime], writerRun)
        const reading = yield* Effect.forkChild(Stream.runCollect(handle.events))
        yield* handle.decide(approve(approvalOf(held, "w")))
        yield* handle.done
        const tags = (yield* Fiber.join(reading)).flatMap((update) =>
          update._tag === "event" ? [`${update.revision} ${update.event._tag}`] : []
        )
        assert.deepStrictEqual(tags, [
          "1 run.started",
          "2 model.answered",
          "3 tool.classified",
          "4 request.opened",
          "5 run.held",
          "6 request.decided",
          "7 run.resumed",
          "8 tool.started",
          "9 tool.completed",
          "10 model.answered",
          "11 run.completed"
        ])
        const again = yield* Stream.runCollect((yield* attach([runtime], writerRun)).events)
        assert.strictEqual(again.length, tags.length)
      })
    )
  )

  it.effect("follows another process that drives the run", () =>
    inOneStore(
      Effect.gen(function* () {
        const { held, lead, model, runtime } = yield* team()
        const store = yield* RunStore
        const lease = yield* store.claim({ runId, owner: "elsewhere", ttl: "10 seconds" })
        const handle = yield* attach([runtime], writerRun)
        const waiting = yield* Effect.forkChild(handle.done)
        yield* handle.decide(approve(approvalOf(held, "w")))
        yield* store.release(lease)
        const other = (yield* rebind(lead, model, { owner: "elsewhere" })).runtime
        yield* recover([other])
        yield* TestClock.adjust("5 seconds")
        expect(yield* Fiber.join(waiting), "completed")
      })
    )
  )

  it.effect("returns the result of an ended sub-agent, and does not change the run above", () =>
    inOneStore(
      Effect.gen(function* () {
        const { held, runtime } = yield* team()
        yield* cancelRun(scoutRun, "not needed")
        yield* runPromptStored(runtime, { runId })
        const before = yield* (yield* RunStore).head(runId)
        yield* decideStored([runtime], approve(approvalOf(held, "w")))
        const handle = yield* attach([runtime], scoutRun)
        assert.strictEqual(handle.status.current(), "cancelled")
        assert.strictEqual(expect(yield* handle.wait, "cancelled").reason, "not needed")
        assert.strictEqual((yield* (yield* RunStore).head(runId)).revision, before.revision)
        const error = yield* Effect.flip(attach([runtime], "run.t1.9" as RunId))
        assert.deepInclude({ ...error }, { _tag: "RunNotFound", runId: "run.t1.9" })
        assert.strictEqual((yield* Effect.flip(attach([], writerRun)))._tag, "AgentNotFound")
      })
    )
  )

  it.effect("is suspended with its scope, and can be attached again", () =>
    inOneStore(
      Effect.gen(function* () {
        const { held, runtime } = yield* team()
        const scope = yield* Scope.make()
        const handle = yield* Effect.provideService(attach([runtime], writerRun), Scope.Scope, scope)
        yield* Scope.close(scope, Exit.void)
        assert.strictEqual((yield* Effect.flip(handle.done))._tag, "RunSuspended")
        assert.strictEqual(handle.status.current(), "suspended")
        assert.strictEqual((yield* loadState(runId)).status, "held")
        const again = yield* attach([runtime], writerRun)
        yield* again.decide(approve(approvalOf(held, "w")))
        expect(yield* again.done, "completed")
      })
    )
  )

  it.effect("is cancelled with the whole run", () =>
    inOneStore(
      Effect.gen(function* () {
        const { runtime } = yield* team()
        const handle = yield* attach([runtime], helperRun)
        yield* cancelRun(runId, "all of it")
        yield* TestClock.adjust("5 seconds")
        assert.strictEqual(expect(yield* handle.done, "cancelled").reason, "all of it")
      })
    )
  )
})
