/**
 * A run that is stopped at each of its moments, one after the other: by a token, by its program, and by letting go.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import { runPrompt } from "../../src/agent/runPrompt.ts"
import type { RunResult } from "../../src/agent/RunResult.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { assertValid, call, events, expect, probe, rebind, safe, watch } from "./Fixture.ts"

const open = { needsApproval: false }
const delegate = (agent: string, background: boolean) => ({
  tool: "delegate",
  arguments: { agent, prompt: "do", background }
})

/** A lead that reads three ways at once, writes, has one sub-agent that it waits for and one in the background, and is asked. */
const busy = Effect.gen(function* () {
  const tools = [
    safe("value", { handler: () => "value" }),
    safe("promise", {
      handler: async () => {
        await Promise.resolve()
        return "promise"
      }
    }),
    safe("effect", { handler: () => Effect.as(Effect.yieldNow, "effect") }),
    probe("write", { ...open, handler: () => Effect.as(Effect.yieldNow, "written") }),
    probe("gated")
  ]
  const toolsOf = (...names: ReadonlyArray<string>) =>
    tools.flatMap(({ tool }) => (names.includes(tool.name) ? [tool] : []))
  const reader = Agent.make("reader", { tools: toolsOf("promise", "effect") })
  const writer = Agent.make("writer", { tools: toolsOf("write", "gated") })
  const lead = Agent.make("lead", {
    tools: toolsOf("value", "promise", "effect", "write", "gated"),
    subAgents: [reader, writer],
    delegation: "delegate"
  })
  const script: Record<string, ReadonlyArray<ScriptedModel.ScriptedAnswer | string>> = {
    lead: [
      { calls: [call("value", "1"), call("promise", "2"), call("effect", "3"), call("write", "4")] },
      { calls: [delegate("writer", true), delegate("reader", false), call("gated", "5")] },
      { calls: [{ tool: "wait_for_agent" }] },
      "done"
    ],
    reader: [{ calls: [call("promise", "6"), call("effect", "7")] }, "read"],
    writer: [{ calls: [call("write", "8"), call("gated", "9")] }, "written"]
  }
  const model = ScriptedModel.make((request: ModelRequest) => {
    const name = request.agentPath.at(-1) ?? ""
    const answers = request.messages.filter(({ role }) => role === "assistant").length
    return script[name]?.[answers] ?? `${name} is done`
  })
  const { runtime } = yield* rebind(lead, model, {
    approvalCallback: async ({ requestId }) => {
      await Promise.resolve()
      return { _tag: "approve", requestId, by: "callback" }
    }
  })
  return { runtime, tools }
})

const isEnd = (tag: string) => /^run\.(completed|cancelled|failed)$/.test(tag)

/** What has to hold, whenever a run was stopped: one end for each, nothing begun after it, no effect twice, nothing in flight. */
const check = (updates: ReadonlyArray<RunUpdate>, tools: ReadonlyArray<ReturnType<typeof probe>>) => {
  const begun = new Set<string>()
  const ended = new Set<string>()
  for (const wrapped of events(updates)) {
    const { event, path } = unwrap(wrapped)
    const run = path.at(-1) ?? "root"
    assert.isFalse(ended.has(run), `${run} goes on after its end: ${event._tag}`)
    if (event._tag === "run.started") begun.add(run)
    if (isEnd(event._tag)) ended.add(run)
  }
  assert.deepStrictEqual([...ended].toSorted(), [...begun].toSorted())
  for (const { ran } of tools) assert.strictEqual(new Set(ran).size, ran.length)
}

/** Runs it to its end, and stops it at a moment: an update that is told, or a turn of the scheduler. Says whether there was one. */
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
    check(told.updates, tools)
    // The one that has stopped it from its own inside has still to return.
    yield* Effect.yieldNow
    assert.strictEqual(alive, 0, "fibers are left")
    if (!isStopped) assert.isAbove(most, 3)
    return { exit, isStopped, tags: told.tags() }
  })

describe("a run that is cancelled at any moment", () => {
  for (const per of ["update", "turn"] as const) {
    it.effect(
      `has one end, as each of its sub-agents; nothing is done twice; no fiber is left (${per})`,
      () =>
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
              assert.isAbove(moment, per === "update" ? 60 : 5)
            }
          }
          assert.deepStrictEqual([...seen].toSorted(), ["cancelled", "completed"])
        })
    )

    it.effect(`comes to its end first when the fiber that runs it is interrupted (${per})`, () =>
      Effect.gen(function* () {
        for (let moment = 1, isStopped = true; isStopped; moment++) {
          const stopped = yield* stoppedAt(moment, per, (fiber) => fiber.interruptUnsafe())
          isStopped = stopped.isStopped
          const last = stopped.tags.at(-1)
          // Nobody is told of what was not begun.
          if (last === undefined) continue
          assert.isTrue(isEnd(last), last)
          if (last === "run.cancelled") assert.isTrue(Exit.hasInterrupts(stopped.exit))
        }
      })
    )
  }

  it.effect("is not begun where the signal was aborted before: no model is asked, no tool runs", () =>
    Effect.gen(function* () {
      const { runtime, tools } = yield* busy
      const cancellation = Cancellation.fromSignal(AbortSignal.abort(new Error("closed")))
      const told = watch()
      const result = yield* runPrompt(runtime, { prompt: "go" }, { cancellation, ...told })
      assert.strictEqual(expect(result, "cancelled").reason, "closed")
      assert.deepStrictEqual(told.tags(), ["run.started", "run.cancelled"])
      for (const { ran } of tools) assert.deepStrictEqual(ran, [])
    })
  )
})

describe("a tool that is stopped", () => {
  it.effect("finds its signal aborted, also when it looks at it for the first time after that", () =>
    Effect.gen(function* () {
      const cancellation = Cancellation.make()
      const { contexts, tool } = probe("work", {
        ...open,
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
