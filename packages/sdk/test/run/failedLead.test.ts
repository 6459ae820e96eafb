/**
 * A lead fails while its background sub-agent waits or was just decided: no acknowledged decision is lost.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import { attach } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RunId } from "../../src/domain/Id.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { decideAllStored, decideStored } from "../../src/durable/decideStored.ts"
import { explain } from "../../src/durable/explain.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { InvalidRequest } from "../../src/model/ModelError.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, call, deny, expect, probe, rebind } from "../helpers/Fixture.ts"

const runId = "run" as RunId
const life = "1 hour"

const stored = (name: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(name, () => Effect.provide(body, layerMemory))

/** A lead whose second model call fails once; its background sub-agent waits for two approvals. */
const failing = Effect.gen(function* () {
  const publish = probe("publish", { approval: { expiresIn: life } })
  const lead = Agent.make("lead", {
    delegation: "delegate",
    subAgents: [Agent.make("publisher", { tools: [publish.tool] })]
  })
  let failures = 0
  const model = ScriptedModel.make(({ agentPath, messages, turn }) => {
    if (agentPath.length > 1)
      return turn > 1 ? "published" : { calls: [call("publish", "1"), call("publish", "2")] }
    const isStarted = messages.some(({ role }) => role === "tool")
    if (!isStarted)
      return {
        calls: [{ tool: "delegate", arguments: { agent: "publisher", prompt: "do", background: true } }]
      }
    if (failures > 0) return "done"
    failures += 1
    return {
      // After the sub-agent is held.
      delay: "1 second",
      error: new InvalidRequest({ description: "no" })
    }
  })
  const { runtime } = yield* rebind(lead, model)
  return { publish, runtime }
})

/** Runs until the sub-agent waits, runs `meanwhile`, and lets the lead fail. */
const failed = <E>(
  meanwhile: (requests: ReadonlyArray<Interruption>) => Effect.Effect<unknown, E, RunStore>
) =>
  Effect.gen(function* () {
    const { publish, runtime } = yield* failing
    const store = yield* RunStore
    // Notifies of nothing, so that the lead does not read the decision before it fails.
    const silent = { ...store, changes: Stream.never, notices: () => Effect.succeed([]) }
    const running = yield* runPromptStored(runtime, { prompt: "go", runId }).pipe(
      Effect.provideService(RunStore, silent),
      Effect.forkChild
    )
    yield* TestClock.adjust("500 millis")
    const requests = (yield* store.pending()).map(({ request }) => request)
    assert.strictEqual(requests.length, 2)
    yield* meanwhile(requests)
    yield* TestClock.adjust("1 second")
    expect(yield* Fiber.join(running), "error")
    return { publish, requests, runtime, store }
  })

const nothing = () => Effect.void

describe("a decision acknowledged while the lead of a background sub-agent fails", () => {
  stored(
    "takes effect when the failed run is resumed",
    Effect.gen(function* () {
      const { publish, runtime, store } = yield* failed(([first, second]) =>
        Effect.flatMap(RunStore, (store) => store.decideAll([approve(first!), deny(second!)]))
      )
      expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.deepStrictEqual(publish.ran, ["1"])
      assert.deepStrictEqual(yield* store.decisions(runId), [])
    })
  )

  stored(
    "is not waited for, as `explain` says, before the run is resumed",
    Effect.gen(function* () {
      yield* failed(nothing)
      const { text, waitsFor } = yield* explain(runId)
      assert.deepStrictEqual(waitsFor, [])
      assert.notInclude(text, "It waits")
      assert.include(text, "Resuming it would")
    })
  )

  stored(
    "blocks neither another prompt in the session nor a fork nor a cancellation",
    Effect.gen(function* () {
      const { publish, runtime, store } = yield* failed(([first]) =>
        Effect.flatMap(RunStore, (store) => store.decide(approve(first!)))
      )
      expect(yield* forkRun(runtime, { runId, prompt: "again" }), "completed")
      const after = expect(yield* runPromptStored(runtime, { runId, message: "again" }), "completed")
      assert.notStrictEqual(after.runId, runId)
      yield* cancelRun(runId, "enough")
      assert.strictEqual((yield* store.head(runId)).status, "error")
      assert.deepStrictEqual(publish.ran, [])
    })
  )

  stored(
    "is skipped once the run has superseded its request",
    Effect.gen(function* () {
      const { requests, runtime, store } = yield* failed(nothing)
      expect(yield* runPromptStored(runtime, { runId }), "interrupted")
      yield* store.decideAll(requests.map((request) => approve(request)))
      // A state whose request was superseded while the inbox still shows it, as earlier versions could leave it.
      const lease = yield* store.claim({ runId, owner: "me", ttl: "1 minute" })
      const { revision } = lease === undefined ? { revision: 0 } : yield* store.head(runId)
      const passed: RunEvent = {
        _tag: "request.superseded",
        at: 0,
        requestId: requests[0]!.requestId,
        reason: "it was decided when it no longer waited"
      }
      yield* store.append({ lease, expected: revision as never, events: [passed], status: "held" })
      assert.deepStrictEqual(
        (yield* store.decisions(runId)).map(({ requestId }) => requestId),
        [requests[1]!.requestId]
      )
      yield* store.release(lease)
    })
  )
})

describe("a background sub-agent held when its lead fails", () => {
  stored(
    "rejects decisions with the hint to resume the run, and accepts them after the resume",
    Effect.gen(function* () {
      const { publish, requests, runtime, store } = yield* failed(nothing)
      assert.deepStrictEqual(yield* store.pending(), [])
      const early = yield* Effect.flip(decideStored([runtime], approve(requests[0]!)))
      assert.include(early.message, "resume it first")
      const held = expect(yield* runPromptStored(runtime, { runId }), "interrupted")
      assert.deepStrictEqual(held.interruptions, requests)
      assert.deepStrictEqual(
        (yield* store.pending()).map(({ request }) => request),
        requests
      )
      yield* decideAllStored(
        [runtime],
        requests.map((request) => approve(request))
      )
      expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.deepStrictEqual(publish.ran, ["1", "2"])
    })
  )

  stored(
    "shows its requests again on resume after an earlier version left them closed",
    Effect.gen(function* () {
      const { publish, requests, runtime, store } = yield* failed(nothing)
      // As that version left it: the run is held, and its inbox is empty.
      const hidden: RunStore["Service"] = { ...store, pending: () => Effect.succeed([]) }
      expect(yield* runPromptStored(runtime, { runId }), "interrupted")
      const before = (yield* store.head(runId)).revision
      expect(
        yield* Effect.provideService(runPromptStored(runtime, { runId }), RunStore, hidden),
        "interrupted"
      )
      const events = yield* store.events(runId, { from: before })
      assert.deepStrictEqual(
        events.map(({ _tag }) => _tag),
        ["run.resumed", "run.held"]
      )
      yield* store.decideAll(requests.map((request) => approve(request)))
      expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.deepStrictEqual(publish.ran, ["1", "2"])
    })
  )

  stored(
    "is denied by expiry when the run is resumed too late",
    Effect.gen(function* () {
      const { publish, runtime } = yield* failed(nothing)
      yield* TestClock.adjust(life)
      expect(yield* runPromptStored(runtime, { runId }), "completed")
      assert.deepStrictEqual(publish.ran, [])
    })
  )

  it.effect("takes decisions passed with the state when nothing is stored", () =>
    Effect.gen(function* () {
      const { publish, runtime } = yield* failing
      const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }))
      yield* TestClock.adjust("2 seconds")
      const { state } = expect(yield* Fiber.join(running), "error")
      const held = expect(yield* runPrompt(runtime, { state }), "interrupted")
      const decisions = held.interruptions.map((request) => approve(request))
      expect(yield* runPrompt(runtime, { state, decisions }), "completed")
      assert.deepStrictEqual(publish.ran, ["1", "2"])
    })
  )
})

describe("the cancellation of a sub-agent whose lead has failed", () => {
  const publisherRun = "run.t1.1" as RunId
  const ways: {
    readonly [how: string]: (runtime: Runtime) => Effect.Effect<unknown, unknown, RunStore | Scope.Scope>
  } = {
    "by its run": () => cancelRun(publisherRun, "enough"),
    "by its handle": (runtime) =>
      Effect.flatMap(attach([runtime], publisherRun), (handle) => handle.cancel("enough"))
  }
  for (const [how, cancel] of Object.entries(ways)) {
    stored(
      `is kept ${how}, and ends it before any of its calls starts when the lead is resumed`,
      Effect.gen(function* () {
        const { publish, requests, runtime, store } = yield* failed(([, second]) =>
          Effect.flatMap(RunStore, (store) => store.decide(approve(second!)))
        )
        yield* Effect.scoped(cancel(runtime))
        assert.deepStrictEqual(yield* store.ready(), [])
        expect(yield* runPromptStored(runtime, { runId }), "completed")
        assert.deepStrictEqual(publish.ran, [])
        assert.deepStrictEqual((yield* loadState(publisherRun)).cancelled?.reason, "enough")
        assert.deepStrictEqual(yield* store.messages(runId), [])
        assert.strictEqual(
          (yield* Effect.flip(store.decide(approve(requests[0]!))))._tag,
          "RequestSuperseded"
        )
      })
    )
  }

  stored(
    "through the lead's handle is kept, and ends the lead when it is resumed",
    Effect.gen(function* () {
      const { publish, runtime } = yield* failed(([, second]) =>
        Effect.flatMap(RunStore, (store) => store.decide(approve(second!)))
      )
      const handle = yield* attach([runtime], runId)
      assert.strictEqual((yield* handle.cancel("enough")).status, "error")
      const { reason } = expect(yield* runPromptStored(runtime, { runId }), "cancelled")
      assert.strictEqual(reason, "enough")
      assert.deepStrictEqual(publish.ran, [])
    }).pipe(Effect.scoped)
  )
})

describe("a stored decision that does not fit the request of a working run", () => {
  stored(
    "fails the drive with a non-retryable error before it releases anything",
    Effect.gen(function* () {
      const store = yield* RunStore
      const asked = yield* Deferred.make<Interruption>()
      const pay = probe("pay")
      const { runtime } = yield* rebind(
        Agent.make("clerk", { tools: [pay.tool] }),
        ScriptedModel.make(({ turn }) => (turn > 1 ? "done" : { calls: [call("pay", "1")] })),
        {
          approvalCallback: (request) => Effect.andThen(Deferred.succeed(asked, request), Effect.never)
        }
      )
      // A damaged store.
      const damaged: RunStore["Service"] = {
        ...store,
        decisions: (runId) =>
          Effect.map(store.decisions(runId), (decisions) =>
            decisions.map((decision) => ({ ...decision, digest: "0".repeat(64) }))
          )
      }
      const running = yield* Effect.forkChild(
        Effect.flip(
          Effect.provideService(runPromptStored(runtime, { prompt: "go", runId }), RunStore, damaged)
        )
      )
      yield* store.decide(approve(yield* Deferred.await(asked)))
      const error = yield* Fiber.join(running)
      assert.strictEqual(error._tag, "RunStoreError")
      assert.strictEqual("isRetryable" in error && error.isRetryable, false)
      assert.include(error.message, "restore the store from a backup, or remove the run")
      assert.deepStrictEqual(pay.ran, [])
      // The run itself is intact.
      const sound = yield* rebind(
        runtime.bound.agent as Agent.Agent,
        ScriptedModel.make(() => "done")
      )
      expect(yield* runPromptStored(sound.runtime, { runId }), "completed")
      assert.deepStrictEqual(pay.ran, ["1"])
    })
  )
})
