import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Agent from "../../src/agent/Agent.ts"
import { attach } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { type RunEvent, unwrap } from "../../src/domain/RunEvent.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { decideAllStored, decideStored } from "../../src/durable/decideStored.ts"
import { explain } from "../../src/durable/explain.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approvalOf, approve, call, expect, probe, rebind, safe } from "../helpers/Fixture.ts"

const runId = "run" as RunId
const childRun = "run.t1.1" as RunId

const delegate = (agent: string, background: boolean) => ({
  tool: "delegate",
  arguments: { agent, prompt: "do", background }
})

const test = (name: string, effect: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(name, () => Effect.provide(effect, layerMemory))

/** A lead and its child, each held on a `pay` call. */
const held = Effect.fnUntraced(function* (background: boolean) {
  const own = probe("pay")
  const childs = probe("pay")
  const lead = Agent.make("lead", {
    tools: [own.tool],
    subAgents: [Agent.make("child", { tools: [childs.tool] })],
    delegation: "delegate"
  })
  const model = ScriptedModel.make(({ agentPath, turn }) => {
    if (turn > 1) return `${agentPath.at(-1)} is done`
    return agentPath.length > 1
      ? { calls: [call("pay", "child")] }
      : { calls: [delegate("child", background), call("pay", "own")] }
  })
  const { runtime } = yield* rebind(lead, model)
  const result = yield* runPromptStored(runtime, { prompt: "go", runId })
  const request = (id: string) => approvalOf(result, id)
  return { childs, own, request, runtime }
})

for (const background of [true, false]) {
  describe(`${background ? "a background" : "an attached"} sub-agent with an acknowledged cancellation`, () => {
    test(
      "rejects decisions, alone and in a batch, and its lead accepts them",
      Effect.gen(function* () {
        const { childs, own, request, runtime } = yield* held(background)
        yield* cancelRun(childRun, "not needed")
        const late = yield* Effect.flip(decideStored([runtime], approve(request("child"))))
        assert.deepInclude({ ...late }, {
          _tag: "RequestSuperseded",
          reason: `the run ${childRun} is being cancelled`
        } as never)
        const both = [approve(request("own")), approve(request("child"))]
        assert.strictEqual((yield* Effect.flip(decideAllStored([runtime], both)))._tag, "RequestSuperseded")
        const refused = yield* Effect.flip(runPromptStored(runtime, { runId, decisions: both }))
        assert.strictEqual(refused._tag, "RequestSuperseded")
        yield* decideStored([runtime], approve(request("own")))
        expect(yield* runPromptStored(runtime, { runId }), "completed")
        assert.deepStrictEqual([own.ran, childs.ran], [["own"], []])
      })
    )

    test(
      "ends without running an approved call, and its journal keeps the approval",
      Effect.gen(function* () {
        const { childs, request, runtime } = yield* held(background)
        yield* decideStored([runtime], approve(request("child")))
        yield* cancelRun(childRun, "not needed")
        expect(yield* runPromptStored(runtime, { runId }), "interrupted")
        assert.deepStrictEqual(childs.ran, [])
        const { cancelled, requests } = yield* loadState(childRun)
        assert.deepStrictEqual(
          requests.map(({ decision }) => decision?._tag),
          ["approve"]
        )
        assert.deepStrictEqual(
          cancelled?.calls.map(({ state, tool }) => `${tool} ${state}`),
          ["pay notStarted"]
        )
      })
    )

    test(
      "rejects decisions through its handle",
      Effect.gen(function* () {
        const { childs, request, runtime } = yield* held(background)
        const handle = yield* attach([runtime], childRun)
        yield* cancelRun(childRun, "not needed")
        assert.strictEqual(
          (yield* Effect.flip(handle.decide(approve(request("child")))))._tag,
          "RequestSuperseded"
        )
        expect(yield* handle.done, "cancelled")
        assert.deepStrictEqual(childs.ran, [])
      }).pipe(Effect.scoped)
    )
  })
}

describe("a working run with an acknowledged cancellation", () => {
  test(
    "rejects decisions",
    Effect.gen(function* () {
      const looking = yield* Deferred.make<void>()
      const release = yield* Deferred.make<void>()
      const look = safe("look", {
        handler: () =>
          Effect.andThen(Deferred.succeed(looking, undefined), Deferred.await(release)).pipe(
            Effect.as("seen"),
            Effect.uninterruptible
          )
      })
      const pay = probe("pay")
      const lead = Agent.make("lead", {
        tools: [pay.tool],
        subAgents: [Agent.make("scout", { tools: [look.tool] })],
        delegation: "delegate"
      })
      const model = ScriptedModel.make(({ agentPath, turn }) =>
        turn > 1
          ? "done"
          : {
              calls: agentPath.length > 1 ? [call("look", "1")] : [delegate("scout", false), call("pay", "1")]
            }
      )
      const { runtime } = yield* rebind(lead, model, { cancelGrace: "1 hour" })
      const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }))
      yield* Deferred.await(looking)
      const [asked] = yield* (yield* RunStore).pending()
      yield* cancelRun(runId, "enough")
      const late = yield* Effect.flip(decideStored([runtime], approve(asked!.request)))
      assert.deepInclude({ ...late }, {
        _tag: "RequestSuperseded",
        reason: `the run ${runId} is being cancelled`
      } as never)
      assert.include((yield* explain(runId)).text, "It waits for approval of pay")
      yield* Deferred.succeed(release, undefined)
      yield* (yield* RunStore).decisions(runId)
      yield* Fiber.interrupt(running)
      assert.deepStrictEqual(pay.ran, [])
    })
  )
})

describe("a decision acknowledged while the run supersedes its request", () => {
  test(
    "replaces the superseding event, and its call runs",
    Effect.gen(function* () {
      const store = yield* RunStore
      const pay = probe("pay")
      const look = safe("look")
      const usage = { inputTokens: 100, outputTokens: 0 }
      const lead = Agent.make("lead", {
        tools: [pay.tool],
        subAgents: [Agent.make("helper", { tools: [look.tool], limits: { maxTurns: 50 } })],
        delegation: "delegate",
        limits: { maxTokens: 400, wrapUp: true }
      })
      const model = ScriptedModel.make(({ agentPath, settings, turn }) => {
        if (settings?.toolChoice === "none") return { text: "half done", usage }
        if (agentPath.length > 1)
          return turn < 6 ? { calls: [call("look", String(turn))], usage } : { text: "looked", usage }
        return turn === 1
          ? { calls: [delegate("helper", false), call("pay", "1")], usage }
          : { text: "done", usage }
      })
      const { runtime } = yield* rebind(lead, model)
      // After the run last read its mail.
      const meanwhile = (events: ReadonlyArray<RunEvent>) => {
        const withdrawn = events.find(({ _tag }) => _tag === "request.superseded")
        if (withdrawn?._tag !== "request.superseded") return Effect.void
        const { requestId } = withdrawn
        return Effect.ignore(store.decide({ _tag: "approve", requestId, by: "ann" }))
      }
      const racing: RunStore["Service"] = {
        ...store,
        append: (options) => Effect.andThen(meanwhile(options.events), store.append(options)),
        park: (options) => Effect.andThen(meanwhile(options.events), store.park(options))
      }
      const raced = Effect.provideService(runPromptStored(runtime, { prompt: "go", runId }), RunStore, racing)
      const first = expect(yield* raced, "interrupted")
      assert.deepStrictEqual(
        first.interruptions.map(({ _tag }) => _tag),
        ["limit"]
      )
      const { requestId } = first.interruptions[0]!
      const decisions = [{ _tag: "topUp", requestId, by: "ann", limit: 5000 } as const]
      expect(yield* runPromptStored(runtime, { runId, decisions }), "completed")
      assert.deepStrictEqual(pay.ran, ["1"])
    })
  )

  test(
    "does not lose a result: a body that ends during the refused commit is recorded, and not in doubt",
    Effect.gen(function* () {
      const store = yield* RunStore
      const posting = yield* Deferred.make<void>()
      const post = yield* Deferred.make<void>()
      const posted = yield* Deferred.make<void>()
      const pay = probe("pay")
      const look = safe("look")
      const poster = probe("post", {
        needsApproval: false,
        handler: () =>
          Effect.gen(function* () {
            yield* Deferred.succeed(posting, undefined)
            yield* Deferred.await(post)
            yield* Deferred.succeed(posted, undefined)
            return "posted"
          })
      })
      const usage = { inputTokens: 100, outputTokens: 0 }
      const lead = Agent.make("lead", {
        tools: [pay.tool],
        subAgents: [
          Agent.make("helper", { tools: [look.tool], limits: { maxTurns: 50 } }),
          Agent.make("poster", { tools: [poster.tool], limits: { maxTokens: 100 } })
        ],
        delegation: "delegate",
        limits: { maxTokens: 600, wrapUp: true }
      })
      const model = ScriptedModel.make(({ agentPath, settings, turn }) => {
        if (settings?.toolChoice === "none") return { text: "half done", usage }
        if (agentPath.at(-1) === "poster") return { calls: [call("post", "1")], usage }
        if (agentPath.length > 1)
          return turn < 9 ? { calls: [call("look", String(turn))], usage } : { text: "looked", usage }
        if (turn === 1) return { calls: [delegate("poster", true)], usage }
        return { calls: [delegate("helper", false), call("pay", "1")], usage }
      })
      const { runtime } = yield* rebind(lead, model)
      let isRefused = false
      const racing: RunStore["Service"] = {
        ...store,
        append: (options) =>
          Effect.gen(function* () {
            const withdrawn = options.events.find(({ _tag }) => _tag === "request.superseded")
            if (withdrawn?._tag === "request.superseded") {
              isRefused = true
              yield* Effect.ignore(
                store.decide({ _tag: "approve", requestId: withdrawn.requestId, by: "ann" })
              )
              yield* Deferred.await(posting)
              yield* Deferred.succeed(post, undefined)
              yield* Deferred.await(posted)
              // The sub-agent's loop folds the result, and waits for this commit to end.
              yield* Effect.repeat(Effect.yieldNow, { times: 50 })
            }
            return yield* store.append(options)
          })
      }
      const raced = runPromptStored(runtime, { prompt: "go", runId })
      const { interruptions } = expect(yield* Effect.provideService(raced, RunStore, racing), "interrupted")
      assert.isTrue(isRefused)
      assert.notInclude(
        interruptions.map(({ _tag }) => _tag),
        "inDoubt"
      )
      assert.deepStrictEqual(poster.ran, ["1"])
      const { events } = yield* store.load(runId)
      const tags = events.map(({ _tag }) => _tag)
      // The approved call runs, and then the run wraps up.
      assert.deepStrictEqual(pay.ran, ["1"])
      const [decided, asked] = ["request.decided", "wrapUp.asked"].map((tag) =>
        tags.lastIndexOf(tag as RunEvent["_tag"])
      )
      assert.isAbove(decided!, 0)
      assert.isAbove(asked!, decided!)
      assert.notInclude(tags, "request.superseded")
      const results = events.filter((event) => unwrap(event).path[0] === "run.t1.1")
      assert.include(
        results.map((event) => unwrap(event).event._tag),
        "tool.completed"
      )
    })
  )
})
