import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import * as ContextPolicy from "../../src/context/ContextPolicy.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import { ConnectionLost, ModelError } from "../../src/model/ModelError.ts"
import * as Tokenizer from "../../src/model/Tokenizer.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { ToolFailure } from "../../src/tool/ToolError.ts"
import { assertValid, bind, call, expect, probe, results, safe, watch } from "../helpers/Fixture.ts"

const boom = (): never => {
  throw new Error("boom")
}

describe("a context policy", () => {
  it.effect("fails the run with its error when it throws", () =>
    Effect.gen(function* () {
      const { runtime } = yield* Effect.provideService(
        bind(Agent.make("a"), ["unheard"]),
        ContextPolicy.ContextPolicy,
        { prepare: boom }
      )
      const { error } = expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
      assert.strictEqual(error._tag, "RunDefect")
      assert.include(error.message, "The context policy failed: boom")
    })
  )

  it.effect("fails the run with its error when its tokenizer throws", () =>
    Effect.gen(function* () {
      const { runtime } = yield* Effect.provideService(
        bind(Agent.make("a", { limits: { maxContextTokens: 100 } }), ["unheard"]),
        Tokenizer.Tokenizer,
        { count: boom }
      )
      const { error } = expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
      assert.strictEqual(error._tag, "RunDefect")
      assert.include(error.message, "boom")
    })
  )
})

describe("an untyped model client", () => {
  const usage = { inputTokens: 1, outputTokens: 1 }
  const ending = { _tag: "finish", finishReason: "stop", usage }
  const said = { _tag: "text-delta", delta: "hello" }
  const saying = (...parts: ReadonlyArray<unknown>) =>
    ({ ...ScriptedModel.make([]).client, stream: () => Stream.fromIterable(parts) }) as ModelClient["Service"]
  const whole = (complete: () => unknown) =>
    ({
      ...ScriptedModel.make([]).client,
      stream: () => Stream.fail(new ModelError({ reason: new ConnectionLost({ description: "reset" }) })),
      complete
    }) as ModelClient["Service"]
  const made = (client: ModelClient["Service"]) =>
    Effect.provideService(Runtime.make({ agent: Agent.make("a") }), ModelClient, client)
  const cases: Record<string, ModelClient["Service"]> = {
    "without a finish reason": saying(said, { ...ending, finishReason: undefined }),
    "with a call whose arguments are not text": saying(
      { _tag: "tool-call", providerCallId: "1", name: "t", arguments: { path: "a" } },
      ending
    ),
    "with a call without a name": saying({ _tag: "tool-call", providerCallId: "1", arguments: "" }, ending),
    "of undefined": whole(() => Effect.succeed(undefined)),
    "without parts": whole(() => Effect.succeed({ finishReason: "stop", usage })),
    "that is a promise": whole(() => Promise.resolve({ content: [], finishReason: "stop", usage }))
  }
  for (const [what, client] of Object.entries(cases)) {
    it.effect(`fails the run with an answer ${what}`, () =>
      Effect.gen(function* () {
        const told = watch()
        const result = yield* runPrompt(yield* made(client), { prompt: "go" }, { onUpdate: told.onUpdate })
        const { error, state } = expect(result, "error")
        assert.include(["ModelFailed", "RunDefect"], error._tag)
        assert.include(error.message, "model client")
        if (error._tag === "ModelFailed") assert.strictEqual(state.usage.unpricedRequests, 1)
        assert.deepStrictEqual(told.tags().slice(-1), ["run.failed"])
        assertValid(state)
      })
    )
  }

  it.effect("can leave out the usage, which then counts as 0", () =>
    Effect.gen(function* () {
      const runtime = yield* made(saying(said, { ...ending, usage: undefined }))
      const { state, text } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.strictEqual(text, "hello")
      assert.strictEqual(state.usage.inputTokens, 0)
    })
  )

  it.effect("cannot report a negative cost: the request counts as unpriced", () =>
    Effect.gen(function* () {
      const runtime = yield* made(saying(said, { ...ending, usage: { ...usage, costUsd: -5 } }))
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.strictEqual(state.usage.costUsd, 0)
      assert.strictEqual(state.usage.unpricedRequests, 1)
    })
  )
})

describe("a model client", () => {
  const lost = new ModelError({ reason: new ConnectionLost({ description: "reset" }) })
  const scripted = ScriptedModel.make(["unheard"]).client
  const clients: Record<string, ModelClient["Service"]> = {
    "in `stream`": { ...scripted, stream: boom },
    "in `complete`": {
      ...scripted,
      stream: () => Stream.fail(lost),
      complete: boom
    },
    "in `contextTokens`": { ...scripted, contextTokens: boom }
  }
  for (const [when, client] of Object.entries(clients)) {
    it.effect(`fails the run with its error when it throws ${when}`, () =>
      Effect.gen(function* () {
        const runtime = yield* Effect.provideService(
          Runtime.make({ agent: Agent.make("a") }),
          ModelClient,
          client
        )
        const told = watch()
        const { error, state } = expect(
          yield* runPrompt(runtime, { prompt: "go" }, { onUpdate: told.onUpdate }),
          "error"
        )
        assert.strictEqual(error._tag, "RunDefect")
        assert.include(error.message, "boom")
        assert.deepStrictEqual(told.tags().slice(-1), ["run.failed"])
        assertValid(state)
      })
    )
  }
})

describe("a tool handler", () => {
  it.effect("that throws fails its own call and no sibling", () =>
    Effect.gen(function* () {
      for (const toolConcurrency of [1, 2, 9]) {
        const tools = [
          safe("throws", { handler: boom }),
          safe("value", { handler: () => "value" }),
          safe("promise", { handler: async ({ id }) => Promise.resolve(id) }),
          safe("rejects", { handler: () => Promise.reject(new Error("no")) }),
          safe("rejectsNothing", { handler: () => Promise.reject() }),
          safe("effect", { handler: () => Effect.as(Effect.yieldNow, "effect") }),
          safe("dies", { handler: () => Effect.die(new Error("dead")) }),
          safe("interrupts", { handler: () => Effect.interrupt }),
          safe("thenable", { handler: () => ({ then: boom }) as unknown as Promise<string> }),
          safe("last", { handler: async () => "last" })
        ]
        const agent = Agent.make("a", { tools: tools.map(({ tool }) => tool), limits: { toolConcurrency } })
        const calls = tools.map(({ tool }, index) => call(tool.name, String(index)))
        const { runtime } = yield* bind(agent, [{ calls }, "done"])
        const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
        assert.deepStrictEqual(results(state), [
          "throws failed: throws failed: boom",
          "value completed: value",
          "promise completed: 2",
          "rejects failed: rejects failed: no",
          "rejectsNothing failed: rejectsNothing failed: an unknown error",
          "effect completed: effect",
          "dies failed: dies failed: dead",
          "interrupts failed: interrupts failed: it stopped itself",
          "thenable failed: thenable failed: boom",
          "last completed: last"
        ])
        for (const { ran } of tools) assert.strictEqual(ran.length, 1)
      }
    })
  )

  it.effect("is retried when it throws, rejects or returns a failing effect", () =>
    Effect.gen(function* () {
      const failing = (fail: (failure: ToolFailure) => unknown) => {
        let left = 2
        return () => (left-- > 0 ? fail(new ToolFailure({ description: "again" })) : "at last")
      }
      const handlers = {
        throws: failing((failure) => {
          throw failure
        }),
        rejects: failing((failure) => Promise.reject(failure)),
        fails: failing((failure) => Effect.fail(failure))
      }
      for (const [name, handler] of Object.entries(handlers)) {
        const { tool, ran } = safe(name, { retry: Schedule.recurs(3), handler })
        const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [
          { calls: [call(name, "1")] },
          "done"
        ])
        const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
        assert.deepStrictEqual(results(state), [`${name} completed: at last`])
        assert.strictEqual(ran.length, 3)
      }
    })
  )

  it.effect("that finishes within its grace period is not retried", () =>
    Effect.gen(function* () {
      const { tool, ran } = probe("read", {
        safety: "readOnly",
        timeout: "1 second",
        retry: Schedule.recurs(3),
        handler: (_, { signal }) =>
          new Promise<string>((resolve) => signal.addEventListener("abort", () => resolve("half a page")))
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [
        { calls: [call("read", "1")] },
        "done"
      ])
      const fiber = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }), { startImmediately: true })
      yield* TestClock.adjust("1 second")
      const { state } = expect(yield* Fiber.join(fiber), "completed")
      assert.deepStrictEqual(results(state), ["read completed: half a page"])
      assert.strictEqual(ran.length, 1)
    })
  )
})
