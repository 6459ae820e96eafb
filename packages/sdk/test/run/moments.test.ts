/**
 * A run stopped at each of its moments in turn: by a token, and by an interruption of its fiber.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import type { RunResult } from "../../src/run/RunResult.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { busy, checkEnds, isEnd } from "../helpers/Busy.ts"
import { assertValid, call, events, expect, probe, rebind, watch } from "../helpers/Fixture.ts"

/** Runs to the end and stops at a moment: the nth update or the nth turn of the scheduler. Returns whether there was one. */
const stoppedAt = (
  moment: number,
  per: "update" | "turn",
  how: (fiber: Fiber.Fiber<unknown, unknown>, token: Cancellation.CancellationToken) => void
) =>
  Effect.gen(function* () {
    let alive = 0
    let most = 0
    const counting = Effect.provideService(Metric.FiberRuntimeMetrics, {
      recordFiberStart: () => {
        alive += 1
        most = Math.max(most, alive)
      },
      recordFiberEnd: () => {
        alive -= 1
      }
    })
    const { runtime, tools } = yield* busy
    const token = Cancellation.make()
    const told = watch()
    let isStopped = false
    let fiber: Fiber.Fiber<any, unknown> | undefined
    const onUpdate = (update: RunUpdate) => {
      told.onUpdate(update)
      if (per !== "update" || told.updates.length !== moment || fiber === undefined) return
      isStopped = true
      how(fiber, token)
    }
    fiber = yield* Effect.forkChild(
      counting(runPrompt(runtime, { prompt: "go" }, { cancellation: token, onUpdate }))
    )
    if (per === "turn") {
      for (let turn = 1; turn < moment && fiber.pollUnsafe() === undefined; turn++) yield* Effect.yieldNow
      isStopped = fiber.pollUnsafe() === undefined
      if (isStopped) how(fiber, token)
    }
    const exit = yield* Fiber.await(fiber)
    checkEnds(events(told.updates), tools)
    // A fiber that stopped the run from inside has yet to return.
    yield* Effect.yieldNow
    assert.strictEqual(alive, 0, "fibers are left")
    if (!isStopped) assert.isAbove(most, 3)
    return { exit, isStopped, tags: told.tags() }
  })

describe("a run cancelled at any moment", () => {
  for (const per of ["update", "turn"] as const) {
    it.effect(`ends once, as does each of its sub-agents, repeats no call and leaves no fiber (${per})`, () =>
      Effect.gen(function* () {
        const seen = new Set<string>()
        for (let moment = 1, isStopped = true; isStopped; moment++) {
          const stopped = yield* stoppedAt(moment, per, (_, token) => token.cancel("enough"))
          isStopped = stopped.isStopped
          const result = (yield* stopped.exit) as RunResult
          assertValid(result.state)
          seen.add(result.status)
          if (!isStopped) {
            expect(result, "completed")
            assert.isAbove(moment, per === "update" ? 60 : 4)
          }
        }
        assert.deepStrictEqual([...seen].toSorted(), ["cancelled", "completed"])
      })
    )

    it.effect(`publishes its end when its fiber is interrupted (${per})`, () =>
      Effect.gen(function* () {
        for (let moment = 1, isStopped = true; isStopped; moment++) {
          const stopped = yield* stoppedAt(moment, per, (fiber) => fiber.interruptUnsafe())
          isStopped = stopped.isStopped
          const last = stopped.tags.at(-1)
          // A run that was not started publishes nothing.
          if (last === undefined) continue
          assert.isTrue(isEnd(last), last)
          if (last === "run.cancelled") assert.isTrue(Exit.hasInterrupts(stopped.exit))
        }
      })
    )
  }

  it.effect("starts no model call and no tool when the signal was aborted before", () =>
    Effect.gen(function* () {
      const { runtime, tools } = yield* busy
      const cancellation = Cancellation.fromSignal(AbortSignal.abort(new Error("closed")))
      const told = watch()
      const result = yield* runPrompt(runtime, { prompt: "go" }, { cancellation, onUpdate: told.onUpdate })
      assert.strictEqual(expect(result, "cancelled").reason, "closed")
      assert.deepStrictEqual(told.tags(), ["run.started", "run.cancelled"])
      for (const { ran } of tools) assert.deepStrictEqual(ran, [])
    })
  )
})

describe("the signal of a cancelled tool", () => {
  it.effect("is aborted in a copy of its context", () =>
    Effect.gen(function* () {
      const cancellation = Cancellation.make()
      const { tool } = probe("work", {
        needsApproval: false,
        handler: async (_, context) => {
          const copy = { ...context, attempt: 7 }
          cancellation.cancel("enough")
          await Promise.resolve()
          return `${copy.callId === context.callId} ${copy.signal.aborted} ${typeof copy.progress}`
        }
      })
      const { runtime } = yield* rebind(
        Agent.make("a", { tools: [tool] }),
        ScriptedModel.make([{ calls: [call("work", "1")] }, "done"])
      )
      const result = expect(yield* runPrompt(runtime, { prompt: "go" }, { cancellation }), "cancelled")
      assert.include(JSON.stringify(result.state.history), "true true function")
    })
  )

  it.effect("is aborted in a wrapper of its context", () =>
    Effect.gen(function* () {
      const cancellation = Cancellation.make()
      const { tool } = probe("work", {
        needsApproval: false,
        handler: async (_, context) => {
          const wrapped = [new Proxy(context, {}), Object.create(context) as typeof context]
          const before = wrapped.map(({ signal }) => signal)
          cancellation.cancel("enough")
          await Promise.resolve()
          return [...before, ...wrapped.map(({ signal }) => signal)].map(({ aborted }) => aborted).join()
        }
      })
      const { runtime } = yield* rebind(
        Agent.make("a", { tools: [tool] }),
        ScriptedModel.make([{ calls: [call("work", "1")] }, "done"])
      )
      const result = expect(yield* runPrompt(runtime, { prompt: "go" }, { cancellation }), "cancelled")
      assert.include(JSON.stringify(result.state.history), "true,true,true,true")
    })
  )

  it.effect("is aborted when it is first read after the cancellation", () =>
    Effect.gen(function* () {
      const cancellation = Cancellation.make()
      const { contexts, tool } = probe("work", {
        needsApproval: false,
        handler: async (_, context) => {
          cancellation.cancel("enough")
          await Promise.resolve()
          return context.signal.aborted ? "stopped half-way" : "went on"
        }
      })
      const { runtime } = yield* rebind(
        Agent.make("a", { tools: [tool] }),
        ScriptedModel.make([{ calls: [call("work", "1")] }, "done"])
      )
      const result = expect(yield* runPrompt(runtime, { prompt: "go" }, { cancellation }), "cancelled")
      assert.deepStrictEqual(
        result.calls.map(({ state }) => state),
        ["finished"]
      )
      assert.include(JSON.stringify(result.state.history), "stopped half-way")
      assert.strictEqual((contexts[0]!.signal.reason as Error).message, "enough")
    })
  )
})
