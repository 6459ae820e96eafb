/**
 * A decision acknowledged between a run's last read of its mail and the commit that ends the run.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import type { RequestId, RunId } from "../../src/domain/Id.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { InvalidRequest } from "../../src/model/ModelError.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approvalOf, bind, call, deny, expect, probe, rebind, safe, watch } from "../helpers/Fixture.ts"

const runId = "run" as RunId

const test = (name: string, effect: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(name, () => Effect.provide(effect, Layer.fresh(layerMemory)))

const ends = ({ _tag }: RunEvent) => _tag === "run.cancelled" || _tag === "run.failed"

/** Approves a request with a session grant. */
const allow = (requestId: RequestId): DecisionInput => ({
  _tag: "approve",
  requestId,
  by: "ann",
  grant: { scope: "session" }
})

/** The store, in which these decisions are accepted right before the first commit that ends a run. */
const deciding = (store: RunStore["Service"], decisions: () => ReadonlyArray<DecisionInput>) => {
  let isDecided = false
  const decided: RunStore["Service"] = {
    ...store,
    append: (options) => {
      if (isDecided || !options.events.some(ends)) return store.append(options)
      isDecided = true
      return Effect.andThen(Effect.orDie(store.decideAll(decisions())), store.append(options))
    }
  }
  return decided
}

/** The tags of the run's own events; asserts that the run ends once, with the last event. */
const journal = Effect.gen(function* () {
  const events = yield* (yield* RunStore).events(runId)
  assert.strictEqual(events.findIndex(ends), events.length - 1)
  return events.map(({ _tag }) => _tag)
})

/** Asserts that the decision is in the journal and its grant in the state. */
const isKept = Effect.fnUntraced(function* (requestId: RequestId) {
  assert.deepStrictEqual(yield* (yield* RunStore).decisions(runId), [])
  const { grants } = yield* loadState(runId)
  assert.deepStrictEqual(
    grants.map(({ id }) => id as string),
    [`${requestId}.grant`]
  )
})

describe("a decision acknowledged right before the commit that ends its run", () => {
  const twoCalls = [{ calls: [call("pay", "1"), call("erase", "2")] }]

  test(
    "is kept, with its grant, in the journal and report of a run stopped by a denial",
    Effect.gen(function* () {
      const store = yield* RunStore
      const [pay, erase] = [probe("pay"), probe("erase")]
      const { runtime } = yield* bind(Agent.make("a", { tools: [pay.tool, erase.tool] }), twoCalls)
      const held = yield* runPromptStored(runtime, { prompt: "go", runId })
      const { requestId } = approvalOf(held, "1")
      const { onUpdate, tags } = watch()
      const decisions = [deny(approvalOf(held, "2"), { then: "stop", message: "Enough" })]
      const end = expect(
        yield* Effect.provideService(
          runPromptStored(runtime, { runId, decisions }, { onUpdate }),
          RunStore,
          deciding(store, () => [allow(requestId)])
        ),
        "cancelled"
      )
      assert.strictEqual(end.reason, "Enough")
      assert.deepStrictEqual(
        end.calls.map(({ decided, state }) => [state, decided?.requestId]),
        [
          ["notStarted", requestId],
          ["notStarted", undefined]
        ]
      )
      assert.deepStrictEqual(pay.ran, [])
      yield* isKept(requestId)
      assert.deepStrictEqual((yield* journal).slice(-2), ["request.decided", "run.cancelled"])
      assert.deepStrictEqual(tags().slice(-2), ["request.decided", "run.cancelled"])
    })
  )

  test(
    "is kept, also on a sub-agent's request, in the report of a run cancelled by its token",
    Effect.gen(function* () {
      const store = yield* RunStore
      const begun = yield* Deferred.make<void>()
      const look = safe("look", {
        handler: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
      })
      const lead = Agent.make("lead", {
        tools: [probe("pay").tool, look.tool],
        subAgents: [Agent.make("helper", { tools: [probe("erase").tool] })],
        delegation: "delegate"
      })
      const background = { agent: "helper", prompt: "do", background: true }
      const model = ScriptedModel.make(({ agentPath, turn }) => {
        if (agentPath.length > 1) return { calls: [call("erase", "2")] }
        return turn === 1
          ? { calls: [{ tool: "delegate", arguments: background }] }
          : { calls: [call("look", "1"), call("pay", "3")] }
      })
      const { runtime } = yield* rebind(lead, model)
      const cancellation = Cancellation.make()
      const childs = "run.t1.1.r1" as RequestId
      const own = "run.r1" as RequestId
      const running = yield* Effect.forkChild(
        Effect.provideService(
          runPromptStored(runtime, { prompt: "go", runId }, { cancellation }),
          RunStore,
          deciding(store, () => [
            { _tag: "approve", requestId: childs, by: "ann" },
            { _tag: "approve", requestId: own, by: "ann" }
          ])
        )
      )
      yield* Deferred.await(begun)
      while ((yield* store.pending()).length < 2) yield* Effect.yieldNow
      cancellation.cancel("enough")
      const end = expect(yield* Fiber.join(running), "cancelled")
      assert.include(
        end.calls.map(({ decided }) => decided?.requestId),
        own
      )
      assert.deepStrictEqual(yield* store.decisions(runId), [])
      const child = yield* loadState("run.t1.1" as RunId)
      assert.deepStrictEqual(
        child.cancelled?.calls.map(({ decided }) => decided?.requestId),
        [childs]
      )
      yield* journal
    })
  )

  test(
    "is kept in the journal of a failed run, and its grant applies to the session's next run",
    Effect.gen(function* () {
      const store = yield* RunStore
      const begun = yield* Deferred.make<void>()
      const pay = probe("pay")
      const look = safe("look", {
        handler: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
      })
      const agent = Agent.make("a", { tools: [pay.tool, look.tool], limits: { maxRecoveries: 0 } })
      const calls = [call("pay", "1"), call("look", "2")]
      const { runtime } = yield* bind(agent, [{ calls }, { calls: [call("pay", "1")] }, "done"])
      const suspension = { soon: Cancellation.make(), now: Cancellation.make() }
      const running = yield* Effect.forkChild(
        Effect.flip(runPromptStored(runtime, { prompt: "go", runId }, { suspension }))
      )
      yield* Deferred.await(begun)
      suspension.soon.cancel("It closes.")
      suspension.now.cancel("It is closed.")
      yield* Fiber.join(running)
      const requestId = "run.r1" as RequestId
      const { onUpdate, tags } = watch()
      const failed = Effect.provideService(
        runPromptStored(runtime, { runId }, { onUpdate }),
        RunStore,
        deciding(store, () => [allow(requestId)])
      )
      assert.strictEqual(expect(yield* failed, "error").error._tag, "WorkersLost")
      assert.deepStrictEqual(tags().slice(-2), ["request.decided", "run.failed"])
      assert.deepStrictEqual((yield* journal).slice(-2), ["request.decided", "run.failed"])
      yield* isKept(requestId)
      const { sessionId } = yield* store.head(runId)
      expect(yield* runPromptStored(runtime, { prompt: "again", sessionId }), "completed")
      assert.deepStrictEqual(pay.ran, ["1"])
    })
  )

  test(
    "is kept in the journal of a run whose model failed, and applied when the run resumes",
    Effect.gen(function* () {
      const store = yield* RunStore
      const erase = probe("erase")
      const helper = Agent.make("helper", { tools: [erase.tool] })
      const lead = Agent.make("lead", { subAgents: [helper], delegation: "delegate" })
      const background = { agent: "helper", prompt: "do", background: true }
      let isDown = true
      const model = ScriptedModel.make(({ agentPath, turn }) => {
        if (agentPath.length > 1) return turn === 1 ? { calls: [call("erase", "1")] } : "erased"
        if (turn === 1) return { calls: [{ tool: "delegate", arguments: background }, call("look", "2")] }
        return isDown ? { error: new InvalidRequest({ description: "no" }) } : "done"
      })
      const { runtime } = yield* rebind(lead, model)
      const decision: DecisionInput = { _tag: "approve", requestId: "run.t1.1.r1" as RequestId, by: "ann" }
      const failed = Effect.provideService(
        runPromptStored(runtime, { prompt: "go", runId }),
        RunStore,
        deciding(store, () => [decision])
      )
      expect(yield* failed, "error")
      yield* journal
      assert.deepStrictEqual([yield* store.decisions(runId), erase.ran], [[], []])
      isDown = false
      expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.deepStrictEqual(erase.ran, ["1"])
    })
  )

  test(
    "is kept in the report of a held run cancelled by another process",
    Effect.gen(function* () {
      const store = yield* RunStore
      const { runtime } = yield* bind(
        Agent.make("a", { tools: [probe("pay").tool, probe("erase").tool] }),
        twoCalls
      )
      const held = yield* runPromptStored(runtime, { prompt: "go", runId })
      const { requestId } = approvalOf(held, "1")
      yield* store.decide(allow(requestId))
      yield* cancelRun(runId, "enough")
      const { cancelled } = yield* loadState(runId)
      assert.deepStrictEqual(
        cancelled?.calls.map(({ decided }) => decided?.requestId),
        [requestId, undefined]
      )
      yield* isKept(requestId)
    })
  )
})

describe("a decision acknowledged during the grace period of a cancelled run", () => {
  test(
    "is kept in the report of a run without a store",
    Effect.gen(function* () {
      const [begun, end] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const look = safe("look", {
        handler: () =>
          Effect.uninterruptible(
            Effect.as(Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(end)), "seen")
          )
      })
      const lead = Agent.make("lead", {
        tools: [probe("pay").tool],
        subAgents: [Agent.make("scout", { tools: [look.tool] })],
        delegation: "delegate"
      })
      const model = ScriptedModel.make(({ agentPath }) =>
        agentPath.length > 1
          ? { calls: [call("look", "1")] }
          : { calls: [{ tool: "delegate", arguments: { agent: "scout", prompt: "do" } }, call("pay", "2")] }
      )
      const { runtime } = yield* rebind(lead, model, { cancelGrace: "1 hour" })
      const handle = yield* dispatchPrompt(runtime, { prompt: "go" })
      yield* Deferred.await(begun)
      while (handle.interruptions().length === 0) yield* Effect.yieldNow
      const [request] = handle.interruptions()
      yield* handle.cancel("enough").pipe(Effect.forkChild({ startImmediately: true }))
      yield* handle.decide(allow(request!.requestId))
      yield* Deferred.succeed(end, undefined)
      const { calls, state } = expect(yield* handle.done, "cancelled")
      assert.include(
        calls.map(({ decided }) => decided?.requestId),
        request!.requestId
      )
      assert.lengthOf(state.grants, 1)
    }).pipe(Effect.scoped)
  )
})
