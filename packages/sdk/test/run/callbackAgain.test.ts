/**
 * Runs that are suspended while the approval callback is asked, and held runs that are resumed with a callback.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import type { RuntimeOptions } from "../../src/agent/Runtime.ts"
import * as Conductor from "../../src/dispatch/Conductor.ts"
import { attach, dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RunId } from "../../src/domain/Id.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import { isCallbackAsked } from "../../src/durable/internal/continueStored.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, call, expect, probe, rebind, results } from "../helpers/Fixture.ts"

type Callback = NonNullable<RuntimeOptions<never, undefined>["approvalCallback"]>

const runId = "run" as RunId
const task = (agent: string, background: boolean) => ({
  tool: "delegate",
  arguments: { agent, prompt: "do", background }
})

/** An approval callback that signals the request and never answers. */
const person = Effect.gen(function* () {
  const begun = yield* Deferred.make<Interruption>()
  const approvalCallback: Callback = (request) =>
    Effect.andThen(Deferred.succeed(begun, request), Effect.never)
  return { begun, approvalCallback }
})

// Each suspension without progress counts.
const limits = { maxRecoveries: 10 }

const approving = () => {
  const asked: Array<string> = []
  const approvalCallback: Callback = (request) => {
    asked.push(request.agentPath.join("/"))
    return approve(request, { by: "callback" })
  }
  return { asked, approvalCallback }
}

/** Runtimes with the same agents and model; `depth` is the number of agents above the one that asks. */
const programs = (depth: number, background = false) => {
  const write = probe("write")
  let agent: Agent.Agent = Agent.make("writer", { tools: [write.tool] })
  for (let above = 0; above < depth; above++) {
    agent = Agent.make(`lead${above}`, { subAgents: [agent], delegation: "delegate", limits })
  }
  const model = ScriptedModel.make(({ agentPath, messages }) => {
    if (messages.some(({ role }) => role === "tool")) return "done"
    const below = depth - agentPath.length
    if (below < 0) return { calls: [call("write", "1")] }
    return { calls: [task(below === 0 ? "writer" : `lead${below - 1}`, background)] }
  })
  const open = (approvalCallback?: Callback) =>
    Effect.map(
      rebind(agent, model, approvalCallback === undefined ? {} : { approvalCallback }),
      ({ runtime }) => runtime
    )
  return { open, write }
}

const stored = <A, E>(body: Effect.Effect<A, E, RunStore | Scope.Scope>) =>
  Effect.provide(Effect.scoped(body), Layer.fresh(layerMemory))

/** Starts or resumes the run in a runtime that is suspended while its callback is asked. */
const letGo = (open: ReturnType<typeof programs>["open"], input: { readonly prompt?: string }) =>
  Effect.gen(function* () {
    const { approvalCallback, begun } = yield* person
    const runtime = yield* open(approvalCallback)
    const suspension = { soon: Cancellation.make(), now: Cancellation.make() }
    const { prompt } = input
    const running = yield* Effect.forkChild(
      Effect.flip(
        runPromptStored(runtime, prompt === undefined ? { runId } : { runId, prompt }, { suspension })
      )
    )
    const request = yield* Deferred.await(begun)
    suspension.soon.cancel("closing")
    suspension.now.cancel("closing")
    assert.strictEqual((yield* Fiber.join(running))._tag, "RunSuspended")
    return request
  })

describe("a run that is suspended while its approval callback is asked", () => {
  for (const [what, depth, background] of [
    ["of the agent itself", 0, false],
    ["of a sub-agent's sub-agent", 2, false],
    ["of a sub-agent in the background", 1, true]
  ] as const) {
    it.effect(`asks the callback again after each resume: a request ${what}`, () =>
      stored(
        Effect.gen(function* () {
          const { open, write } = programs(depth, background)
          yield* letGo(open, { prompt: "go" })
          for (let times = 0; times < 5; times++) yield* letGo(open, {})
          const { approvalCallback, asked } = approving()
          const runtime = yield* open(approvalCallback)
          expect(yield* runPromptStored(runtime, { runId }), "completed")
          assert.strictEqual(asked.length, 1)
          assert.deepStrictEqual(write.ran, ["1"])
        })
      )
    )
  }

  it.effect("is held when resumed without a callback, and can be decided", () =>
    stored(
      Effect.gen(function* () {
        const { open, write } = programs(0)
        const request = yield* letGo(open, { prompt: "go" })
        const store = yield* RunStore
        assert.deepStrictEqual(
          (yield* store.pending()).map((pending) => pending.request.requestId),
          [request.requestId]
        )
        const runtime = yield* open()
        expect(yield* runPromptStored(runtime, { runId }), "interrupted")
        const decisions = [approve(request)]
        expect(yield* runPromptStored(runtime, { runId, decisions }), "completed")
        assert.deepStrictEqual(write.ran, ["1"])
      })
    )
  )

  it.effect("is resumed by recover and by attach", () =>
    Effect.gen(function* () {
      for (const how of ["recover", "attach"]) {
        const { open, write } = programs(0)
        yield* stored(
          Effect.gen(function* () {
            const closing = yield* Scope.make()
            const { approvalCallback, begun } = yield* person
            const first = yield* open(approvalCallback)
            const handle = yield* Scope.provide(dispatchPromptStored(first, { prompt: "go", runId }), closing)
            yield* Deferred.await(begun)
            const closed = yield* Effect.forkChild(Scope.close(closing, Exit.void))
            yield* TestClock.adjust("2 seconds")
            yield* Fiber.join(closed)
            assert.strictEqual(handle.status.current(), "suspended")
            const runtime = yield* open(approving().approvalCallback)
            if (how === "recover") yield* recover([runtime])
            else expect(yield* (yield* attach([runtime], runId)).done, "completed")
            assert.strictEqual((yield* (yield* RunStore).head(runId)).status, "completed")
            assert.deepStrictEqual(write.ran, ["1"])
          })
        )
      }
    })
  )

  it.effect("is returned held by conductor.drain when it is not stored", () =>
    Effect.gen(function* () {
      const { open, write } = programs(1)
      const { approvalCallback, begun } = yield* person
      const conductor = yield* Conductor.make()
      yield* conductor.dispatch(yield* open(approvalCallback), { prompt: "go" })
      yield* Deferred.await(begun)
      const [drained] = yield* conductor.drain
      assert.isDefined(drained?.held)
      const runtime = yield* open(approving().approvalCallback)
      const { state } = expect(yield* runPrompt(runtime, { state: drained!.held! }), "completed")
      assert.deepStrictEqual(write.ran, ["1"])
      assert.strictEqual(results(state).length, 1)
    }).pipe(Effect.scoped)
  )
})

describe("a held run that is resumed with an approval callback", () => {
  for (const depth of [0, 2]) {
    it.effect(`asks the callback about its open requests (${depth} agents above)`, () =>
      stored(
        Effect.gen(function* () {
          const { open, write } = programs(depth)
          const nobody = yield* open()
          const held = expect(yield* runPrompt(nobody, { prompt: "go" }), "interrupted")
          const { approvalCallback, asked } = approving()
          const runtime = yield* open(approvalCallback)
          expect(yield* runPrompt(runtime, { state: held.state }), "completed")
          for (const how of ["resume", "attach"]) {
            const other = how as RunId
            expect(yield* runPromptStored(nobody, { prompt: "go", runId: other }), "interrupted")
            const end =
              how === "resume"
                ? runPromptStored(runtime, { runId: other })
                : Effect.flatMap(attach([runtime], other), (handle) => handle.done)
            expect(yield* end, "completed")
          }
          assert.strictEqual(asked.length, 3)
          assert.deepStrictEqual(write.ran, ["1", "1", "1"])
        })
      )
    )
  }

  it.effect("stays held each time the callback returns nothing", () =>
    stored(
      Effect.gen(function* () {
        const { open } = programs(0)
        expect(yield* runPromptStored(yield* open(), { prompt: "go", runId }), "interrupted")
        let asked = 0
        const runtime = yield* open(() => {
          asked += 1
          return undefined
        })
        expect(yield* runPromptStored(runtime, { runId }), "interrupted")
        const handle = yield* attach([runtime], runId)
        expect(yield* handle.wait, "interrupted")
        assert.strictEqual(asked, 2)
        assert.deepStrictEqual(yield* (yield* RunStore).ready(), [])
      })
    )
  )
})

describe("a held run of a program with an approval callback", () => {
  it.effect("is continued for the callback only if one of its requests can still be answered", () =>
    Effect.gen(function* () {
      const agent = Agent.make("lead", {
        subAgents: [Agent.make("writer", { tools: [probe("write").tool] })],
        delegation: "delegate"
      })
      const script = [{ calls: [task("writer", true)] }, { calls: [call("write", "1")] }, "done"]
      const { approvalCallback, asked } = approving()
      const { runtime } = yield* rebind(agent, ScriptedModel.make(script))
      const { runtime: asking } = yield* rebind(agent, ScriptedModel.make(script), { approvalCallback })
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "interrupted")
      assert.deepStrictEqual([isCallbackAsked(runtime, state), isCallbackAsked(asking, state)], [false, true])
      const stop = { by: "ann", reason: "not needed" }
      const background = state.background!.map((entry) => ({
        ...entry,
        ...(entry.child === undefined ? {} : { child: { ...entry.child, stop } })
      }))
      assert.isFalse(isCallbackAsked(asking, { ...state, background }))
      assert.deepStrictEqual(asked, [])
    })
  )
})
