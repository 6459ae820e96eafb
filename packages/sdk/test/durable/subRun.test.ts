import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { type RunEvent, unwrap } from "../../src/domain/RunEvent.ts"
import { interruptions } from "../../src/domain/RunState.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { explain } from "../../src/durable/explain.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import {
  approvalOf,
  approve,
  assertValid,
  call,
  expect,
  rebind,
  safe,
  transcript
} from "../helpers/Fixture.ts"
import { delegate, ends, helperRun, lastSent, runId, scoutRun, team, writerRun } from "../helpers/Team.ts"

const inOneStore = <A, E>(body: Effect.Effect<A, E, RunStore>) =>
  Effect.provide(body, Layer.fresh(layerMemory))

describe("a message to a sub-agent's run", () => {
  it.effect("reaches that sub-agent and no other agent", () =>
    inOneStore(
      Effect.gen(function* () {
        const { held, model, runtime } = yield* team()
        const receipt = yield* sendMessage(writerRun, "Mind the gap.", { messageId: "m1" })
        assert.deepStrictEqual(yield* sendMessage(writerRun, "Mind the gap.", { messageId: "m1" }), receipt)
        const [taken] = yield* recover([runtime])
        assert.deepInclude({ ...taken }, { runId, reason: "message", status: "held" })
        yield* decideStored([runtime], approve(approvalOf(held, "w")))
        yield* recover([runtime])
        assert.include(lastSent(model, "writer"), "Mind the gap.")
        for (const other of ["lead", "scout", "helper"]) {
          assert.notInclude(lastSent(model, other), "Mind the gap.")
        }
        const { text } = expect(
          yield* runPromptStored(runtime, { runId, decisions: [approve(approvalOf(held, "h"))] }),
          "completed"
        )
        assert.strictEqual(text, "lead is done")
        // After the end, a repeated send is acknowledged.
        assert.deepStrictEqual(yield* sendMessage(writerRun, "Mind the gap.", { messageId: "m1" }), receipt)
        const other = yield* Effect.flip(sendMessage(writerRun, "?", { messageId: "m1" }))
        assert.strictEqual(other._tag, "MessageInvalid")
        const state = yield* loadState(writerRun)
        assert.deepStrictEqual(transcript(state).slice(-2), [
          "user: Mind the gap.",
          "assistant: writer is done"
        ])
        assertValid(state)
      })
    )
  )

  it.effect("reaches a working sub-agent at its next turn", () =>
    inOneStore(
      Effect.gen(function* () {
        const begun = yield* Deferred.make<void>()
        const open = yield* Deferred.make<void>()
        const gate = safe("gate", {
          handler: () =>
            Effect.as(Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(open)), "through")
        })
        const model = ScriptedModel.make(({ agentPath, turn }) => {
          if (agentPath.length === 1) return turn === 1 ? { calls: [delegate("scout", false)] } : "done"
          return turn === 1 ? { calls: [call("gate", "1")] } : "heard"
        })
        const lead = Agent.make("lead", {
          subAgents: [Agent.make("scout", { tools: [gate.tool] })],
          delegation: "delegate"
        })
        const { runtime } = yield* rebind(lead, model)
        const heard = yield* Deferred.make<void>()
        const onUpdate = (update: RunUpdate) => {
          if (update._tag !== "event" || unwrap(update.event).event._tag !== "message.queued") return
          Deferred.doneUnsafe(heard, Effect.void)
        }
        const running = yield* Effect.forkChild(
          runPromptStored(runtime, { prompt: "go", runId }, { onUpdate })
        )
        yield* Deferred.await(begun)
        yield* sendMessage(scoutRun, "By the way.")
        yield* Deferred.await(heard)
        yield* Deferred.succeed(open, undefined)
        expect(yield* Fiber.join(running), "completed")
        assert.deepStrictEqual(transcript(yield* loadState(scoutRun)), [
          "user: do",
          "assistant: (gate)",
          "tool: through",
          "user: By the way.",
          "assistant: heard"
        ])
      })
    )
  )

  it.effect("reaches a background sub-agent at its next turn while its lead works", () =>
    inOneStore(
      Effect.gen(function* () {
        const begun = yield* Deferred.make<void>()
        const open = yield* Deferred.make<void>()
        const gate = safe("gate", {
          handler: () =>
            Effect.as(Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(open)), "through")
        })
        const model = ScriptedModel.make(({ agentPath, messages, turn }) => {
          if (agentPath.length > 1) return turn === 1 ? { calls: [call("gate", "1")] } : "heard"
          if (turn === 1) return { calls: [delegate("scout")] }
          return turn === 2 ? { text: "thinking", delay: "1 minute" } : `${messages.length} messages`
        })
        const lead = Agent.make("lead", {
          subAgents: [Agent.make("scout", { tools: [gate.tool] })],
          delegation: "delegate"
        })
        const { runtime } = yield* rebind(lead, model)
        const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }))
        yield* Deferred.await(begun)
        yield* sendMessage(scoutRun, "By the way.")
        // The store notifies it while the lead's model call runs.
        yield* TestClock.adjust("1 second")
        yield* Deferred.succeed(open, undefined)
        const asked = () => model.requests.filter(({ agentPath }) => agentPath.length > 1).length
        yield* Effect.repeat(Effect.yieldNow, { until: () => asked() === 2 })
        assert.include(lastSent(model, "scout"), "By the way.")
        assert.strictEqual(model.requests.filter(({ agentPath }) => agentPath.length === 1).length, 2)
        yield* TestClock.adjust("2 minutes")
        assertValid(expect(yield* Fiber.join(running), "completed").state)
        assert.notInclude(lastSent(model, "lead"), "By the way.")
      })
    )
  )

  it.effect("is refused when the sub-agent has ended or does not exist", () =>
    inOneStore(
      Effect.gen(function* () {
        const { held, runtime } = yield* team()
        yield* runPromptStored(runtime, { runId, decisions: [approve(approvalOf(held, "w"))] })
        const late = yield* Effect.flip(sendMessage(writerRun, "late"))
        assert.deepInclude(
          { ...late },
          { _tag: "RunEnded", runId: writerRun, status: "completed", root: runId }
        )
        assert.include(late.message, "the run that it worked for, run.")
        for (const nobody of ["run.t1.3", "run.t9.1", "run.t1.2.t1.1", "other.t1.1", "run.t1.2.r1"]) {
          const error = yield* Effect.flip(sendMessage(nobody as RunId, "hello"))
          assert.deepInclude({ ...error }, { _tag: "RunNotFound", runId: nobody })
        }
        assert.deepStrictEqual(yield* (yield* RunStore).messages(runId), [])
      })
    )
  )
})

describe("the cancellation of a sub-agent's run", () => {
  for (const background of [true, false]) {
    it.effect(
      `ends it and the sub-agents under it, and no other (${background ? "in the background" : "attached"})`,
      () =>
        inOneStore(
          Effect.gen(function* () {
            const { held, model, runtime, write } = yield* team(background)
            yield* cancelRun(scoutRun, "not needed")
            const [taken] = yield* recover([runtime])
            assert.strictEqual(taken?.status, "held")
            assert.deepStrictEqual(yield* ends(), [`${helperRun} run.cancelled`, `${scoutRun} run.cancelled`])
            const state = yield* loadState(runId)
            assert.deepStrictEqual(
              interruptions(state).map(({ runId }) => runId),
              [writerRun]
            )
            const pending = yield* (yield* RunStore).pending()
            assert.deepStrictEqual(
              pending.map(({ request }) => request.runId),
              [writerRun]
            )
            const done = yield* runPromptStored(runtime, {
              runId,
              decisions: [approve(approvalOf(held, "w"))]
            })
            assertValid(expect(done, "completed").state)
            assert.include(lastSent(model, "lead"), "scout was stopped: not needed.")
            assert.deepStrictEqual(write.ran, ["w"])
            // An ended sub-agent is not cancelled.
            yield* cancelRun(scoutRun, "again")
            yield* cancelRun(writerRun, "again")
            assert.deepStrictEqual(yield* (yield* RunStore).messages(runId), [])
          })
        )
    )
  }

  it.effect("interrupts a sub-agent that another fiber drives, and its siblings continue", () =>
    inOneStore(
      Effect.gen(function* () {
        const hung = yield* Deferred.make<void>()
        const open = yield* Deferred.make<void>()
        const hang = safe("hang", {
          handler: () => Effect.andThen(Deferred.succeed(hung, undefined), Effect.never)
        })
        const gate = safe("gate", { handler: () => Effect.as(Deferred.await(open), "through") })
        const model = ScriptedModel.make(({ agentPath, turn }) => {
          if (agentPath.length === 1) {
            return turn === 1 ? { calls: [delegate("scout", false), delegate("writer", false)] } : "done"
          }
          if (turn > 1) return "written"
          return { calls: [call(agentPath[1] === "scout" ? "hang" : "gate", "1")] }
        })
        const lead = Agent.make("lead", {
          subAgents: [
            Agent.make("scout", { tools: [hang.tool] }),
            Agent.make("writer", { tools: [gate.tool] })
          ],
          delegation: "delegate"
        })
        const { runtime } = yield* rebind(lead, model)
        const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }))
        yield* Deferred.await(hung)
        yield* cancelRun(scoutRun, "too slow")
        yield* Effect.repeat(Effect.andThen(Effect.yieldNow, ends()), { until: ({ length }) => length > 0 })
        assert.deepStrictEqual(yield* ends(), [`${scoutRun} run.cancelled`])
        yield* Deferred.succeed(open, undefined)
        expect(yield* Fiber.join(running), "completed")
        assert.deepStrictEqual(yield* ends(), [`${scoutRun} run.cancelled`, `${writerRun} run.completed`])
        assert.include(lastSent(model, "lead"), "scout was stopped: too slow.")
      })
    )
  )

  it.effect("is committed together with the sub-agent's end", () =>
    inOneStore(
      Effect.gen(function* () {
        const { lead, model } = yield* team()
        const store = yield* RunStore
        const batches: Array<ReadonlyArray<string>> = []
        const told = <Options extends { readonly events: ReadonlyArray<RunEvent> }>(options: Options) => {
          batches.push(options.events.map((event) => unwrap(event).event._tag))
          return options
        }
        const watched = RunStore.of({
          ...store,
          append: (options) => Effect.suspend(() => store.append(told(options))),
          park: (options) => Effect.suspend(() => store.park(told(options)))
        })
        yield* cancelRun(writerRun, "enough")
        const { runtime } = yield* rebind(lead, model)
        yield* Effect.provideService(recover([runtime]), RunStore, watched)
        assert.deepStrictEqual(
          batches.filter((tags) => tags.includes("run.cancelled")),
          [["message.queued", "request.superseded", "run.cancelled"]]
        )
      })
    )
  )

  it.effect("fails with RunNotFound for an unknown sub-agent", () =>
    inOneStore(
      Effect.gen(function* () {
        yield* team()
        const error = yield* Effect.flip(cancelRun("run.t1.9" as RunId, "?"))
        assert.deepInclude({ ...error }, { _tag: "RunNotFound", runId: "run.t1.9" })
        assert.include(error.message, "names a sub-agent's run inside run")
      })
    )
  )
})

describe("the explanation of a sub-agent's run", () => {
  it.effect("describes its requests, its pending mail and the run above it", () =>
    inOneStore(
      Effect.gen(function* () {
        const { held, runtime } = yield* team()
        const explained = yield* explain(scoutRun)
        assert.deepStrictEqual([explained.runId, explained.status], [scoutRun, "held"])
        assert.deepStrictEqual(
          explained.waitsFor.map(({ askedBy, what }) => [what, askedBy]),
          [["for approval of write", ["helper", "scout", "lead"]]]
        )
        assert.include(explained.text, "The run run.t1.1 of scout is held.")
        assert.include(explained.text, "It works for the run run of lead.")
        yield* decideStored([runtime], approve(approvalOf(held, "w")))
        assert.deepStrictEqual((yield* explain(scoutRun)).decided, [])
        const decided = yield* explain(writerRun)
        assert.strictEqual(decided.decided.length, 1)
        assert.deepStrictEqual(decided.resuming, ["run write", "call the model"])
        yield* sendMessage(helperRun, "one thing more")
        yield* cancelRun(writerRun, "enough")
        assert.include((yield* explain(scoutRun)).text, "A message waits to be read.")
        assert.include((yield* explain(writerRun)).text, "Cancellation of run.t1.2 was requested.")
        assert.notInclude((yield* explain(writerRun)).text, "A message waits")
      })
    )
  )

  it.effect("refers to the run above when that is held on a budget", () =>
    inOneStore(
      Effect.gen(function* () {
        const model = ScriptedModel.make(({ agentPath }) =>
          agentPath.length === 1 ? { calls: [delegate("scout", false)] } : { calls: [call("look", "1")] }
        )
        const lead = Agent.make("lead", {
          subAgents: [Agent.make("scout", { tools: [safe("look").tool] })],
          delegation: "delegate",
          limits: { maxTreeTurns: 2 }
        })
        const { runtime } = yield* rebind(lead, model)
        expect(yield* runPromptStored(runtime, { prompt: "go", runId }), "interrupted")
        const explained = yield* explain(scoutRun)
        assert.deepStrictEqual([explained.status, explained.waitsFor], ["held", []])
        assert.include(
          explained.text,
          "It works for the run run of lead, which is held; this run is held with it."
        )
        assert.include((yield* explain(runId)).text, "for a larger treeTurns budget")
      })
    )
  )

  it.effect("describes its end", () =>
    inOneStore(
      Effect.gen(function* () {
        const { held, runtime } = yield* team()
        yield* cancelRun(scoutRun, "not needed")
        yield* runPromptStored(runtime, { runId, decisions: [approve(approvalOf(held, "w"))] })
        const stopped = yield* explain(scoutRun)
        assert.deepStrictEqual([stopped.status, stopped.waitsFor, stopped.resuming], ["cancelled", [], []])
        assert.strictEqual(
          stopped.text,
          "The run run.t1.1 of scout was cancelled: not needed. It works for the run run of lead."
        )
        assert.strictEqual((yield* explain(writerRun)).status, "completed")
        assert.strictEqual((yield* Effect.flip(explain("run.t2.2" as RunId)))._tag, "RunNotFound")
      })
    )
  )
})
