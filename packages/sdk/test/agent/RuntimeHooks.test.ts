import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import * as Tracer from "effect/Tracer"
import * as Agent from "../../src/agent/Agent.ts"
import { observe, observed, type RuntimeHooks } from "../../src/agent/RuntimeHooks.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import * as Limits from "../../src/domain/Limits.ts"
import { OptionsInvalid } from "../../src/domain/OptionsInvalid.ts"
import { ConnectionLost, InvalidRequest } from "../../src/model/ModelError.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as Tool from "../../src/tool/Tool.ts"
import {
  approvalOf,
  approve,
  bind,
  call,
  deny,
  expect,
  only,
  probe,
  safe,
  throughJson
} from "../helpers/Fixture.ts"

/** Hooks that record their notices in short. */
const writing = () => {
  const log: Array<string> = []
  const path = (told: { readonly agentPath: ReadonlyArray<string> }) => told.agentPath.join("/")
  const hooks: RuntimeHooks = {
    onTurn: (turn) =>
      log.push(
        `turn ${path(turn)} ${turn.turn}: ${turn.calls.map(({ outcome, tool }) => `${tool} ${outcome}`).join(", ")}`
      ),
    onModelCall: (told) =>
      log.push(
        told.status === "answered"
          ? `model ${path(told)} ${told.turn} answered ${told.finishReason}`
          : told.status === "failed"
            ? `model ${path(told)} ${told.turn} failed ${told.reason}`
            : `model ${told.turn} ${told.status} ${told.reason}`
      ),
    onToolCall: (told) => log.push(`tool ${path(told)} ${told.tool} ${told.status} #${told.attempt}`),
    onRequest: (told) => log.push(`request ${path(told)} ${told.request._tag} ${told.status}`),
    onRunEnd: (told) => log.push(`end ${path(told)} ${told.status}`)
  }
  return { log, hooks }
}

describe("observe", () => {
  it.effect("reports model calls, tool calls, turns and the end, in order", () =>
    Effect.gen(function* () {
      const { hooks, log } = writing()
      const agent = Agent.make("a", {
        tools: [safe("read").tool, probe("write", { needsApproval: false }).tool]
      })
      const { runtime } = yield* bind(agent, [
        { calls: [call("read", "1"), call("write", "2"), call("nothing", "3")] },
        "done"
      ])
      yield* runPrompt(runtime, { prompt: "go" }, { onUpdate: observe(hooks) })
      assert.deepStrictEqual(log, [
        "model a 1 answered toolCalls",
        "tool a nothing failed #0",
        "tool a read started #1",
        "tool a read completed #1",
        "tool a write started #1",
        "tool a write completed #1",
        "turn a 1: read completed, write completed, nothing failed",
        "model a 2 answered stop",
        "turn a 2: ",
        "end a completed"
      ])
    })
  )

  it.effect("reports costs and durations", () =>
    Effect.gen(function* () {
      const told: Array<unknown> = []
      const wait = Tool.make("wait", {
        safety: "readOnly",
        handler: () => Effect.as(Effect.sleep("3 seconds"), "")
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [wait] }), [
        {
          calls: [{ tool: "wait" }],
          delay: "2 seconds",
          usage: { inputTokens: 7, outputTokens: 5, costUsd: 0.5 }
        },
        "done"
      ])
      const onUpdate = observe({
        onModelCall: (call) => {
          if (call.status === "answered") told.push(["model", call.ms, call.usage.inputTokens])
        },
        onToolCall: ({ ms, status }) => told.push(["tool", status, ms]),
        onTurn: ({ usage }) => told.push(["turn", usage.costUsd]),
        onRunEnd: ({ usage }) => told.push(["end", usage.turns, usage.outputTokens >= 5])
      })
      const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }, { onUpdate }), {
        startImmediately: true
      })
      yield* TestClock.adjust("2 seconds")
      yield* TestClock.adjust("3 seconds")
      yield* Effect.yieldNow
      assert.strictEqual(running.pollUnsafe()?._tag, "Success")
      assert.deepStrictEqual(told.slice(0, 4), [
        ["model", 2000, 7],
        ["tool", "started", undefined],
        ["tool", "completed", 3000],
        ["turn", 0.5]
      ])
      assert.deepStrictEqual(told.at(-1), ["end", 2, true])
    })
  )

  it.effect("reports requests, and decisions of a resumed run by tool name", () =>
    Effect.gen(function* () {
      const first = writing()
      const agent = Agent.make("a", { tools: [probe("write").tool, probe("drop").tool] })
      const { runtime } = yield* bind(agent, [{ calls: [call("write", "1"), call("drop", "2")] }, "done"])
      const held = yield* runPrompt(runtime, { prompt: "go" }, { onUpdate: observe(first.hooks) })
      assert.deepStrictEqual(first.log, [
        "model a 1 answered toolCalls",
        "request a approval opened",
        "request a approval opened"
      ])
      const second = writing()
      const state = throughJson(held.state)
      const decisions = [approve(approvalOf(held, "1")), deny(approvalOf(held, "2"))]
      yield* runPrompt(runtime, { state, decisions }, { onUpdate: observe(second.hooks, state) })
      assert.deepStrictEqual(second.log, [
        "request a approval decided",
        "request a approval decided",
        "tool a drop denied #0",
        "tool a write started #1",
        "tool a write completed #1",
        "turn a 1: write completed, drop denied",
        "model a 2 answered stop",
        "turn a 2: ",
        "end a completed"
      ])
    })
  )

  it.effect("ignores a resumed run without its state", () =>
    Effect.gen(function* () {
      const { hooks, log } = writing()
      const agent = Agent.make("a", { tools: [probe("write").tool] })
      const { runtime } = yield* bind(agent, [{ calls: [call("write", "1")] }, "done", "again"])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const decisions = [approve(approvalOf(held, "1"))]
      const onUpdate = observe(hooks)
      const done = yield* runPrompt(runtime, { state: held.state, decisions }, { onUpdate })
      assert.deepStrictEqual(log, [])
      // The next run of the session is reported from its start.
      yield* runPrompt(runtime, { state: done.state, prompt: "more" }, { onUpdate })
      assert.deepStrictEqual(log, ["model a 1 answered stop", "turn a 1: ", "end a completed"])
    })
  )

  it.effect("reports a sub-agent's calls and end with its agent path, inside its parent's call", () =>
    Effect.gen(function* () {
      const { hooks, log } = writing()
      const child = Agent.make("child", { tools: [probe("write").tool] })
      const { runtime } = yield* bind(Agent.make("a", { subAgents: [child] }), [
        { calls: [{ tool: "child", arguments: { prompt: "go" } }] },
        { calls: [call("write", "1")] },
        "child done",
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" }, { onUpdate: observe(hooks) })
      const state = throughJson(held.state)
      const decisions = [approve(only(held, "approval"))]
      yield* runPrompt(runtime, { state, decisions }, { onUpdate: observe(hooks, state) })
      assert.deepStrictEqual(log, [
        "model a 1 answered toolCalls",
        "tool a child started #1",
        "model a/child 1 answered toolCalls",
        "request a/child approval opened",
        "request a/child approval decided",
        "tool a/child write started #1",
        "tool a/child write completed #1",
        "turn a/child 1: write completed",
        "model a/child 2 answered stop",
        "turn a/child 2: ",
        "end a/child completed",
        "tool a child completed #1",
        "turn a 1: child completed",
        "model a 2 answered stop",
        "turn a 2: ",
        "end a completed"
      ])
    })
  )

  it("reports a background sub-agent after the receipt of its call", () => {
    const { hooks, log } = writing()
    const usage = { inputTokens: 1, outputTokens: 1 }
    const started = (runId: string, agentPath: ReadonlyArray<string>) => ({
      _tag: "run.started",
      at: 0,
      runId,
      sessionId: "s",
      agent: { name: agentPath.at(-1), instructions: "", tools: {} },
      agentPath,
      prompt: [{ _tag: "text", text: "go" }],
      limits: Limits.defaults,
      policy: { mode: "ask" },
      asks: false,
      structured: false
    })
    const answered = (content: ReadonlyArray<object>) => ({
      _tag: "model.answered",
      at: 1,
      content,
      usage,
      finishReason: "stop"
    })
    const inside = (event: object) => ({ _tag: "child.advanced", at: 2, callId: "r.t1.1", event })
    const call = { _tag: "toolCall", providerCallId: "1", name: "delegate", arguments: "{}" }
    const text = { _tag: "text", text: "done" }
    const onUpdate = observe(hooks)
    const events: ReadonlyArray<object> = [
      started("r", ["a"]),
      answered([call]),
      {
        _tag: "tool.classified",
        at: 1,
        callId: "r.t1.1",
        target: "background",
        safety: "readOnly",
        idempotent: false,
        arguments: { agent: "child", prompt: "go" },
        allowedBy: "tool"
      },
      inside(started("r.t1.1", ["a", "child"])),
      answered([text]),
      inside(answered([text])),
      inside({ _tag: "run.completed", at: 3 }),
      { _tag: "run.completed", at: 4 }
    ]
    events.forEach((event, index) =>
      onUpdate({ _tag: "event", runId: "r", revision: index + 1, event } as unknown as RunUpdate)
    )
    assert.deepStrictEqual(log, [
      "model a 1 answered stop",
      "tool a delegate completed #0",
      "turn a 1: delegate completed",
      "model a 2 answered stop",
      "turn a 2: ",
      "model a/child 1 answered stop",
      "turn a/child 1: ",
      "end a/child completed",
      "end a completed"
    ])
  })

  it.effect("reports a fallback and the failure of a model call", () =>
    Effect.gen(function* () {
      const { hooks, log } = writing()
      const { runtime } = yield* bind(Agent.make("a"), [
        { text: "late", error: new ConnectionLost({ description: "reset" }), errorOnlyStreaming: true },
        { error: new InvalidRequest({ description: "no" }) }
      ])
      const done = yield* runPrompt(runtime, { prompt: "go" }, { onUpdate: observe(hooks) })
      yield* runPrompt(runtime, { state: done.state, prompt: "more" }, { onUpdate: observe(hooks) })
      assert.deepStrictEqual(log, [
        "model 1 fallback ConnectionLost",
        "model a 1 answered stop",
        "turn a 1: ",
        "end a completed",
        "model a 1 failed InvalidRequest",
        "end a error"
      ])
    })
  )

  it("reports a retry of a model call", () => {
    const { hooks, log } = writing()
    observe(hooks)({
      _tag: "retry",
      runId: "r",
      turn: 3,
      attempt: 1,
      waitMs: 9,
      reason: "RateLimited"
    } as RunUpdate)
    assert.deepStrictEqual(log, ["model 3 retry RateLimited"])
  })

  it.effect("reports the outcome of each open call of a cancelled run", () =>
    Effect.gen(function* () {
      const { hooks, log } = writing()
      const agent = Agent.make("a", { tools: [probe("write").tool] })
      const { runtime } = yield* bind(agent, [{ calls: [call("write", "1")] }])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const decisions = [deny(only(held, "approval"), { then: "stop" })]
      yield* runPrompt(runtime, { state: held.state, decisions }, { onUpdate: observe(hooks, held.state) })
      assert.deepStrictEqual(log, [
        "request a approval decided",
        "tool a write denied #0",
        "turn a 1: write denied",
        "end a cancelled"
      ])
    })
  )

  it.effect("reports the outcomes of every turn of a long history", () =>
    Effect.gen(function* () {
      const turns: Array<string> = []
      const script = Array.from({ length: 40 }, (_, index) => ({
        calls: [call("read", `${index}a`), call("no", `${index}b`)]
      }))
      const agent = Agent.make("a", { tools: [safe("read").tool], limits: { maxTurns: 50 } })
      const { runtime } = yield* bind(agent, [...script, "done"])
      const onUpdate = observe({
        onTurn: ({ calls }) => turns.push(calls.map(({ outcome }) => outcome).join())
      })
      expect(yield* runPrompt(runtime, { prompt: "go" }, { onUpdate }), "completed")
      assert.deepStrictEqual(turns, [...script.map(() => "completed,failed"), ""])
    })
  )

  it.effect("isolates the run and other hooks from a hook that throws or rejects", () =>
    Effect.gen(function* () {
      const ends: Array<string> = []
      const fail = () => {
        throw new Error("hook")
      }
      const { runtime } = yield* bind(Agent.make("a", { tools: [safe("read").tool] }), [
        { calls: [call("read", "1")] },
        "done"
      ])
      const onUpdate = observe({
        onModelCall: fail,
        onTurn: () => Promise.reject(new Error("later")),
        onToolCall: fail,
        onRunEnd: ({ status }) => ends.push(status)
      })
      const result = yield* runPrompt(runtime, { prompt: "go" }, { onUpdate })
      assert.strictEqual(result.status, "completed")
      assert.deepStrictEqual(ends, ["completed"])
    })
  )

  it("refuses a hook that it does not know, and names the nearest one, and a hook that is no function", () => {
    const messageOf = (hooks: unknown) => {
      try {
        observe(hooks as RuntimeHooks)
        return "accepted"
      } catch (error) {
        assert.instanceOf(error, OptionsInvalid)
        return error.message
      }
    }
    assert.include(messageOf({ onToolCalls: () => {} }), 'did you mean "onToolCall"')
    assert.include(messageOf({ onTurn: "log" }), "onTurn")
    assert.notStrictEqual(messageOf(undefined), "accepted")
    assert.notStrictEqual(
      messageOf(() => {}),
      "accepted"
    )
    class Metrics {
      readonly onTurn = () => {}
      onRunEnd() {}
    }
    assert.deepStrictEqual(
      [messageOf(new Metrics()), messageOf({ onTurn: undefined })],
      ["accepted", "accepted"]
    )
  })

  it.effect("reports once and opens no span per streamed part", () =>
    Effect.gen(function* () {
      const run = (chunkSize: number) =>
        Effect.gen(function* () {
          let spans = 0
          let told = 0
          const count = () => {
            told += 1
          }
          const tracer = Tracer.make({
            span: (options) => {
              spans += 1
              return new Tracer.NativeSpan(options)
            }
          })
          const { runtime } = yield* bind(Agent.make("a"), [{ text: "x".repeat(500), chunkSize }])
          const onUpdate = observe({ onModelCall: count, onTurn: count, onRunEnd: count })
          yield* Effect.withTracer(runPrompt(runtime, { prompt: "go" }, { onUpdate }), tracer)
          return { spans, told }
        })
      assert.deepStrictEqual(yield* run(1), yield* run(500))
      assert.strictEqual((yield* run(1)).told, 3)
    })
  )
})

describe("observed", () => {
  const update = { _tag: "fallback", runId: "r", turn: 1, reason: "x" } as RunUpdate

  it("notifies the hooks and the subscriber", () => {
    const log: Array<string> = []
    const both = observed({ onModelCall: () => log.push("hook") }, () => log.push("watcher"))
    both?.(update)
    observed({ onModelCall: () => log.push("alone") }, undefined)?.(update)
    assert.deepStrictEqual(log, ["hook", "watcher", "alone"])
  })

  it("returns the subscriber itself when no hook is about runs", () => {
    const onUpdate = () => {}
    assert.strictEqual(observed(undefined, onUpdate), onUpdate)
    assert.strictEqual(observed({ onReconfigured: () => {} }, onUpdate), onUpdate)
    assert.isUndefined(observed({}, undefined))
  })
})
