import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import { explain } from "../../src/durable/explain.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { approve, bind, call, only, probe, rebind, safe } from "../helpers/Fixture.ts"

const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(title, () => Effect.provide(body, Layer.fresh(layerMemory)))

describe("explain", () => {
  test(
    "describes the pending request of a held run: its age, its agents, its expiry and the effect of a resume",
    Effect.gen(function* () {
      const deploy = probe("deploy", { approval: { expiresIn: "4 days" } })
      const researcher = Agent.make("researcher", { tools: [deploy.tool] })
      const root = Agent.make("root", { subAgents: [researcher] })
      const { runtime } = yield* bind(root, [
        { calls: [{ tool: "researcher", arguments: { prompt: "look into it" } }] },
        { calls: [call("deploy", "1")] }
      ])
      const held = yield* runPromptStored(runtime, { prompt: "go" })
      yield* TestClock.adjust("3 days")
      const explained = yield* explain(held.runId)
      const request = only(held, "approval")
      assert.deepStrictEqual(explained.waitsFor, [
        {
          requestId: request.requestId,
          kind: "approval",
          what: "for approval of deploy",
          askedBy: ["researcher", "root"],
          since: 0,
          expiresAt: 345_600_000,
          onExpiry: "deny"
        }
      ])
      assert.deepStrictEqual(explained.resuming, ["wait for the open request"])
      assert.strictEqual(
        explained.text,
        `The run ${held.runId} of root is held. It waits for approval of deploy, asked 3 days ago (1970-01-01T00:00:00.000Z) by researcher for root; it expires in 1 day (1970-01-05T00:00:00.000Z), and is denied then. Resuming it would wait for the open request.`
      )
    })
  )

  test(
    "describes what a pending decision would start, and changes nothing",
    Effect.gen(function* () {
      const store = yield* RunStore
      const write = probe("write")
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
        { calls: [call("write", "1"), call("write", "2")] }
      ])
      const held = yield* runPromptStored(runtime, { prompt: "go" })
      const [first] = (yield* store.pending()).map(({ request }) => request)
      yield* store.decide(approve(first!))
      const before = yield* store.head(held.runId)
      const explained = yield* explain(held.runId)
      assert.deepStrictEqual(explained.resuming, ["run write", "wait for the open request"])
      assert.strictEqual(explained.waitsFor.length, 1)
      assert.include(explained.text, "ann has decided (approve), and the run has not acted on it yet.")
      assert.deepStrictEqual(write.ran, [])
      assert.deepStrictEqual(yield* store.head(held.runId), before)
    })
  )

  test(
    "says that a decided call whose tool has changed is checked again instead of run",
    Effect.gen(function* () {
      const store = yield* RunStore
      const { model, runtime } = yield* bind(Agent.make("a", { tools: [probe("write").tool] }), [
        { calls: [call("write", "1"), call("write", "2")] }
      ])
      const held = yield* runPromptStored(runtime, { prompt: "go" })
      for (const { request } of yield* store.pending()) yield* store.decide(approve(request))
      const stricter = probe("write", { safety: "privileged" })
      const { runtime: deployed } = yield* rebind(Agent.make("a", { tools: [stricter.tool] }), model)
      const explained = yield* explain(held.runId, { runtimes: [deployed] })
      assert.deepStrictEqual(explained.resuming, ["check write again, because the definition has changed"])
      const unchanged = yield* explain(held.runId, { runtimes: [runtime] })
      assert.deepStrictEqual(unchanged.resuming, ["run write", "run write", "call the model"])
    })
  )

  test(
    "names the owner of a working run, and the calls in doubt of an orphaned one",
    Effect.gen(function* () {
      const store = yield* RunStore
      const pay = probe("pay", { needsApproval: false })
      const { runtime } = yield* bind(Agent.make("a", { tools: [pay.tool, safe("look").tool] }), [
        { calls: [call("look", "1"), call("pay", "2")] },
        "done"
      ])
      const done = yield* runPromptStored(runtime, { prompt: "go" })
      const { events } = yield* store.load(done.runId)
      assert.strictEqual((yield* explain(done.runId)).text, `The run ${done.runId} of a is completed.`)
      yield* store.remove(done.runId)
      const started = events.findIndex(
        (event) => event._tag === "tool.started" && event.callId.endsWith(".2")
      )
      const [first, ...rest] = events.slice(0, started + 1)
      const { runId, sessionId } = done
      const left = { runId, sessionId, agent: "a", status: "running", owner: "worker 1" } as const
      const lease = yield* store.create({ ...left, events: [first!, ...rest], ttl: "1 minute" })
      assert.strictEqual(
        (yield* explain(runId)).text,
        `The run ${runId} of a is driven by worker 1, whose lease ends in 1 minute (1970-01-01T00:01:00.000Z) at the earliest.`
      )
      yield* store.release(lease)
      assert.strictEqual(
        (yield* explain(runId)).text,
        `The run ${runId} of a is running, and no process drives it. Resuming it would find out whether pay has happened, without running it again.`
      )
    })
  )

  test(
    "describes the exceeded budget of a run",
    Effect.gen(function* () {
      const failed = yield* bind(Agent.make("a"), [{ hang: true }])
      const run = yield* runPromptStored(failed.runtime, { prompt: "go", limits: { maxTurns: 0 } })
      const { runId } = run
      assert.include((yield* explain(runId)).text, "It waits for a larger turns budget: 0 of 0 are used")
    })
  )
})
