/**
 * Answers that were cut by the cancellation of a run, in trees of agents, beside mail, and across processes.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import type { RequestId } from "../../src/domain/Id.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import { messages } from "../../src/domain/RunState.ts"
import { exportRun, importRun } from "../../src/durable/archive.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { assertValid, bind, call, expect, probe, rebind, transcript } from "../helpers/Fixture.ts"
import { delegate, lastSent, runId, scoutRun } from "../helpers/Team.ts"

const test = (name: string, effect: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(name, () => Effect.provide(effect, Layer.fresh(layerMemory)))

const roses = { text: "Roses are red", chunkSize: 1, hangAfter: 10 }
const note = "user: The run was cancelled while you were answering. Your last answer is incomplete."

/** An `onUpdate`, and an effect that waits until this agent has streamed two words. */
const streaming = (agent: string) => {
  const streamed = Deferred.makeUnsafe<void>()
  let words = ""
  const onUpdate = (update: RunUpdate) => {
    if (update._tag !== "delta" || update.agentPath.at(-1) !== agent) return
    if (update.part._tag === "text-delta") words += update.part.delta
    if (words === "Roses are ") Deferred.doneUnsafe(streamed, Effect.void)
  }
  return { onUpdate, streamed: Deferred.await(streamed) }
}

describe("an answer that was cut", () => {
  const agent = Agent.make("a")

  test(
    "stands before a message that arrived while the model was answering",
    Effect.gen(function* () {
      const { runtime } = yield* bind(agent, [roses])
      const cancellation = Cancellation.make()
      const { onUpdate, streamed } = streaming("a")
      const running = yield* Effect.forkChild(
        runPromptStored(runtime, { prompt: "A poem", runId }, { cancellation, onUpdate })
      )
      yield* streamed
      yield* sendMessage(runId, "A short one")
      cancellation.cancel("enough")
      const { state } = expect(yield* Fiber.join(running), "cancelled")
      assert.deepStrictEqual(transcript(state), [
        "user: A poem",
        "assistant: Roses are ",
        note,
        "user: A short one"
      ])
      assert.deepInclude(messages(state)[1], { role: "assistant", cut: true })
    })
  )

  test(
    "stays in a fork of its run and in an archive of it",
    Effect.gen(function* () {
      const { model, runtime } = yield* bind(agent, [roses, "forked", "moved"])
      const cancellation = Cancellation.make()
      const { onUpdate, streamed } = streaming("a")
      const running = yield* Effect.forkChild(
        runPromptStored(runtime, { prompt: "A poem", runId }, { cancellation, onUpdate })
      )
      yield* streamed
      cancellation.cancel("enough")
      yield* Fiber.join(running)
      const before = yield* loadState(runId)
      const expected = ["user: A poem", "assistant: Roses are ", note, "user: Go on"]
      const { revision } = before
      const fork = expect(yield* forkRun(runtime, { runId, revision, prompt: "Go on" }), "completed")
      assert.deepStrictEqual(transcript(fork.state).slice(0, -1), expected)
      const archive = JSON.parse(JSON.stringify(yield* exportRun(runId)))
      yield* Effect.provide(
        Effect.gen(function* () {
          yield* importRun(archive)
          assert.deepStrictEqual(yield* loadState(runId), before)
          const moved = yield* runPromptStored(runtime, { runId, message: "Go on" })
          assert.deepStrictEqual(transcript(moved.state).slice(0, -1), expected)
        }),
        Layer.fresh(layerMemory)
      )
      assert.strictEqual(model.remaining(), 0)
    })
  )

  test(
    "is not kept when the run is suspended, and the next process asks the model again",
    Effect.gen(function* () {
      const { model, runtime } = yield* bind(agent, [roses, "Roses are red."])
      const suspension = { soon: Cancellation.make(), now: Cancellation.make() }
      const { onUpdate, streamed } = streaming("a")
      const running = yield* Effect.forkChild(
        Effect.exit(runPromptStored(runtime, { prompt: "A poem", runId }, { onUpdate, suspension }))
      )
      yield* streamed
      suspension.soon.cancel("deploy")
      suspension.now.cancel("deploy")
      yield* Fiber.join(running)
      const { runtime: next } = yield* rebind(agent, model)
      const { state } = expect(yield* runPromptStored(next, { runId }), "completed")
      assert.deepStrictEqual(transcript(state), ["user: A poem", "assistant: Roses are red."])
    })
  )

  test(
    "is not the answer of a later model call of the same run",
    Effect.gen(function* () {
      const suspension = { soon: Cancellation.make(), now: Cancellation.make() }
      const cancellation = Cancellation.make()
      const { model, runtime } = yield* bind(agent, [roses, { hang: true }])
      const first = streaming("a")
      const running = yield* Effect.forkChild(
        Effect.exit(
          runPromptStored(runtime, { prompt: "A poem", runId }, { onUpdate: first.onUpdate, suspension })
        )
      )
      yield* first.streamed
      suspension.soon.cancel("deploy")
      suspension.now.cancel("deploy")
      yield* Fiber.join(running)
      const again = yield* Effect.forkChild(runPromptStored(runtime, { runId }, { cancellation }))
      while (model.requests.length < 2) yield* Effect.yieldNow
      cancellation.cancel("enough")
      const { state } = expect(yield* Fiber.join(again), "cancelled")
      assert.deepStrictEqual(transcript(state), ["user: A poem"])
    })
  )
})

describe("the answer of a sub-agent that was cut", () => {
  const lead = Agent.make("lead", { subAgents: [Agent.make("scout")], delegation: "delegate" })
  const modelOf = () =>
    ScriptedModel.make(({ agentPath, turn }) => {
      if (agentPath.length > 1) return roses
      return turn === 1 ? { calls: [delegate("scout", false)] } : "done"
    })

  test(
    "is a part of the result that its lead reads, when the sub-agent alone is cancelled",
    Effect.gen(function* () {
      const model = modelOf()
      const { runtime } = yield* rebind(lead, model)
      const { onUpdate, streamed } = streaming("scout")
      const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }, { onUpdate }))
      yield* streamed
      yield* cancelRun(scoutRun, "too slow")
      const { state } = expect(yield* Fiber.join(running), "completed")
      assert.include(
        lastSent(model, "lead"),
        JSON.stringify("scout was stopped: too slow. Its answer was cut:\n\nRoses are").slice(1, -1)
      )
      assertValid(state)
    })
  )

  test(
    "is in the sub-agent's own run, when the lead is cancelled",
    Effect.gen(function* () {
      const { runtime } = yield* rebind(lead, modelOf())
      const { onUpdate, streamed } = streaming("scout")
      const cancellation = Cancellation.make()
      const running = yield* Effect.forkChild(
        runPromptStored(runtime, { prompt: "go", runId }, { cancellation, onUpdate })
      )
      yield* streamed
      cancellation.cancel("enough")
      const { state } = expect(yield* Fiber.join(running), "cancelled")
      assert.isFalse(messages(state).some((message) => message.role === "assistant" && message.cut === true))
      const ends = (yield* (yield* RunStore).events(runId))
        .map((event) => unwrap(event))
        .flatMap(({ event, path }) =>
          event._tag === "run.cancelled" ? [[path.at(-1), event.said?.[0]?.text]] : []
        )
      assert.deepStrictEqual(ends, [
        [scoutRun, "Roses are "],
        [undefined, undefined]
      ])
      assert.deepStrictEqual(transcript(yield* loadState(scoutRun)), [
        "user: do",
        "assistant: Roses are ",
        note
      ])
    })
  )
})

describe("an answer that was cut while a decision was acknowledged", () => {
  test(
    "is kept together with the decision",
    Effect.gen(function* () {
      const store = yield* RunStore
      const lead = Agent.make("lead", {
        subAgents: [Agent.make("helper", { tools: [probe("erase").tool] })],
        delegation: "delegate"
      })
      const model = ScriptedModel.make(({ agentPath, turn }) => {
        if (agentPath.length > 1) return { calls: [call("erase", "2")] }
        return turn === 1 ? { calls: [delegate("helper")] } : roses
      })
      const { runtime } = yield* rebind(lead, model)
      const { onUpdate, streamed } = streaming("lead")
      const cancellation = Cancellation.make()
      const request = "run.t1.1.r1" as RequestId
      const decision: DecisionInput = { _tag: "approve", requestId: request, by: "ann" }
      let isDecided = false
      /** Accepts the decision right before the commit that ends the run. */
      const deciding: RunStore["Service"] = {
        ...store,
        append: (options) => {
          if (isDecided || !options.events.some(({ _tag }) => _tag === "run.cancelled")) {
            return store.append(options)
          }
          isDecided = true
          return Effect.andThen(Effect.orDie(store.decideAll([decision])), store.append(options))
        }
      }
      const running = yield* Effect.forkChild(
        Effect.provideService(
          runPromptStored(runtime, { prompt: "go", runId }, { cancellation, onUpdate }),
          RunStore,
          deciding
        )
      )
      yield* streamed
      while ((yield* store.pending()).length < 1) yield* Effect.yieldNow
      cancellation.cancel("enough")
      const { state } = expect(yield* Fiber.join(running), "cancelled")
      assert.isTrue(isDecided)
      assert.include(transcript(state), "assistant: Roses are ")
      assert.deepStrictEqual(yield* store.decisions(runId), [])
    })
  )
})
