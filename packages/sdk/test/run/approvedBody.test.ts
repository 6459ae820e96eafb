/**
 * What a tool learns about its call: whether a decision approved it, when it started, and how it refuses it.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { doubtLaterEffects } from "../../src/durable/doubtLaterEffects.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import { ToolFailure } from "../../src/tool/ToolError.ts"
import { approve, bind, call, expect, only, probe, results } from "../helpers/Fixture.ts"

describe("isApproved of a tool's context", () => {
  it.effect("is true for a call that a decision approved, and for no other", () =>
    Effect.gen(function* () {
      const write = probe("write", { needsApproval: true })
      const look = probe("look", { needsApproval: false })
      const agent = Agent.make("a", { tools: [write.tool, look.tool] })
      const turn = { calls: [call("look", "0"), call("write", "1")] }
      const { runtime } = yield* bind(agent, [turn, { calls: [call("write", "2")] }, "done"])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const grant = { scope: "run", arguments: {} } as const
      const decisions = [approve(only(held, "approval"), { grant })]
      expect(yield* runPrompt(runtime, { state: held.state, decisions }), "completed")
      assert.deepStrictEqual(
        [...look.contexts, ...write.contexts].map(({ isApproved }) => isApproved),
        [false, true, false]
      )

      const all = yield* bind(agent, [turn, "done"])
      expect(yield* runPrompt(all.runtime, { prompt: "go", policy: { mode: "all" } }), "completed")
      assert.strictEqual(write.contexts.at(-1)?.isApproved, false)
    })
  )

  it.effect("is true again when an approved call is retried", () =>
    Effect.gen(function* () {
      const write = probe("write", { needsApproval: true })
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
        { calls: [call("write", "1")] },
        "done"
      ])
      const held = yield* runPromptStored(runtime, { prompt: "go" })
      const { runId } = held
      yield* decideStored([runtime], approve(only(held, "approval")))
      yield* doubtLaterEffects
      const { requestId } = only(yield* runPromptStored(runtime, { runId }), "inDoubt")
      const decisions = [{ _tag: "retry", requestId, by: "ann" } as const]
      expect(yield* runPromptStored(runtime, { runId, decisions }), "completed")
      assert.deepStrictEqual(
        write.contexts.map(({ isApproved }) => isApproved),
        [true]
      )
    }).pipe(Effect.provide(Layer.fresh(layerMemory)))
  )
})

describe("startedAt of a reconcile's context", () => {
  it.effect("is absent for a start that was lost with its store", () =>
    Effect.gen(function* () {
      const asked: Array<unknown> = []
      const write = probe("write", {
        needsApproval: true,
        reconcile: (_key, _args, { startedAt }) => {
          asked.push(startedAt)
          return { _tag: "happened", result: "it is there" }
        }
      })
      yield* TestClock.adjust("5 seconds")
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
        { calls: [call("write", "1")] },
        "done"
      ])
      const held = yield* runPromptStored(runtime, { prompt: "go" })
      yield* decideStored([runtime], approve(only(held, "approval")))
      yield* doubtLaterEffects
      const done = expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
      assert.deepStrictEqual(results(done.state), ["write completed: it is there"])
      assert.deepStrictEqual(asked, [undefined])
    }).pipe(Effect.provide(Layer.fresh(layerMemory)))
  )
})

describe("facts that fail with ToolFailure", () => {
  it.effect("refuse the call with their description, without a request", () =>
    Effect.gen(function* () {
      const write = probe("write", {
        needsApproval: true,
        facts: () => Effect.fail(new ToolFailure({ description: "There is no such file." }))
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
        { calls: [call("write", "1")] },
        "done"
      ])
      const done = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(results(done.state), ["write failed: There is no such file. write has not run."])
      assert.deepStrictEqual(write.ran, [])
      assert.deepStrictEqual(done.state.requests, [])
    })
  )
})
