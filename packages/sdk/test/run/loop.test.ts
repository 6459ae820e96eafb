import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { z } from "zod"
import * as Agent from "../../src/agent/Agent.ts"
import * as ContextPolicy from "../../src/context/ContextPolicy.ts"
import { messages } from "../../src/domain/RunState.ts"
import {
  ConnectionLost,
  InvalidRequest,
  ProviderFault,
  RateLimited,
  StreamUnsupported
} from "../../src/model/ModelError.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import type { DataSchema } from "../../src/tool/DataSchema.ts"
import * as Scrubber from "../../src/tool/Scrubber.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { ToolFailure } from "../../src/tool/ToolError.ts"
import {
  approvalOf,
  approve,
  assertValid,
  bind,
  call,
  events,
  expect,
  probe,
  results,
  safe,
  throughJson,
  transcript,
  watch
} from "../helpers/Fixture.ts"

describe("a prompt", () => {
  it.effect("completes with an answer without calls", () =>
    Effect.gen(function* () {
      const { runtime, model } = yield* bind(Agent.make("a", { instructions: "Be brief." }), ["Hello!"])
      const result = expect(yield* runPrompt(runtime, { prompt: "Hi" }), "completed")
      assert.strictEqual(result.text, "Hello!")
      assert.deepStrictEqual(transcript(result.state), ["user: Hi", "assistant: Hello!"])
      assert.strictEqual(model.requests[0]?.instructions, "Be brief.")
      assert.strictEqual(result.usage.requests, 1)
      assert.strictEqual(result.usage.inputTokens, 10)
    })
  )

  it.effect("is refused when empty, without a model call", () =>
    Effect.gen(function* () {
      const { runtime, model } = yield* bind(Agent.make("a"), ["x"])
      for (const prompt of ["", "  \n", [], [{ _tag: "text", text: " " }] as const]) {
        const error = yield* Effect.flip(runPrompt(runtime, { prompt }))
        assert.strictEqual(error._tag, "EmptyPrompt")
      }
      assert.strictEqual(model.requests.length, 0)
    })
  )

  it.effect("can contain files", () =>
    Effect.gen(function* () {
      const { runtime, model } = yield* bind(Agent.make("a"), ["A cat."])
      const file = {
        _tag: "file",
        mediaType: "image/png",
        source: { _tag: "bytes", base64: "aGk=" }
      } as const
      expect(yield* runPrompt(runtime, { prompt: [file] }), "completed")
      assert.deepStrictEqual(model.requests[0]?.messages[0]?.content, [file])
    })
  )

  it.effect("continues the session of an ended run", () =>
    Effect.gen(function* () {
      const { runtime, model } = yield* bind(Agent.make("a"), ["one", "two"])
      const first = expect(yield* runPrompt(runtime, { prompt: "1" }), "completed")
      const second = expect(yield* runPrompt(runtime, { state: first.state, prompt: "2" }), "completed")
      assert.notStrictEqual(second.runId, first.runId)
      assert.strictEqual(second.sessionId, first.sessionId)
      assert.deepStrictEqual(second.state.parent, { runId: first.runId, revision: first.state.revision })
      assert.deepStrictEqual(transcript(second.state), [
        "user: 1",
        "assistant: one",
        "user: 2",
        "assistant: two"
      ])
      assert.strictEqual(second.usage.requests, 1)
      assert.strictEqual(second.state.sessionUsage.requests, 2)
      assert.strictEqual(model.requests[1]?.messages.length, 3)
    })
  )

  it.effect("is required to continue a completed run", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a"), ["one"])
      const { state } = yield* runPrompt(runtime, { prompt: "1" })
      const error = yield* Effect.flip(runPrompt(runtime, { state }))
      assert.strictEqual(error._tag, "RunEnded")
      assert.include(error.message, "start a new run in its session")
    })
  )
})

describe("budgets", () => {
  const looping = Array.from({ length: 20 }, (_, index) => ({ calls: [call("safe", `${index}`)] }))

  it.effect("end the run after 8 turns by default", () =>
    Effect.gen(function* () {
      const { tool, ran } = safe()
      const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), looping)
      const { error, state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
      assert.deepInclude({ ...error }, { _tag: "BudgetExceeded", budget: "turns", limit: 8, spent: 8 })
      assert.strictEqual(ran.length, 8)
      assertValid(state)
    })
  )

  it.effect("leave a state that continues with larger limits", () =>
    Effect.gen(function* () {
      const { tool, ran } = safe()
      const agent = Agent.make("a", { tools: [tool], limits: { maxTurns: 2 } })
      const { runtime } = yield* bind(agent, [...looping.slice(0, 2), "done"])
      const failed = expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
      const again = yield* runPrompt(runtime, { state: throughJson(failed.state) })
      assert.strictEqual(expect(again, "error").error._tag, "BudgetExceeded")
      const done = yield* runPrompt(runtime, { state: again.state, limits: { maxTurns: 3 } })
      assert.strictEqual(expect(done, "completed").text, "done")
      assert.strictEqual(done.runId, failed.runId)
      assert.deepStrictEqual(ran, ["0", "1"])
    })
  )

  it.effect("count tokens", () =>
    Effect.gen(function* () {
      const agent = Agent.make("a", { tools: [safe().tool], limits: { maxTokens: 30 } })
      const { runtime, model } = yield* bind(agent, looping)
      const { error } = expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
      assert.deepInclude({ ...error }, { budget: "tokens", limit: 30, spent: 30 })
      assert.strictEqual(model.requests.length, 2)
    })
  )

  it.effect("count tool calls, and run no call of an answer with too many", () =>
    Effect.gen(function* () {
      const { tool, ran } = safe()
      const agent = Agent.make("a", { tools: [tool], limits: { maxToolCalls: 2 } })
      const { runtime } = yield* bind(agent, [
        { calls: [call("safe", "1")] },
        { calls: [call("safe", "2"), call("safe", "3")] },
        "done"
      ])
      const { error, state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
      assert.deepInclude({ ...error }, { budget: "toolCalls", limit: 2, spent: 3 })
      assert.deepStrictEqual(ran, ["1"])
      const done = yield* runPrompt(runtime, { state: throughJson(state), limits: { maxToolCalls: 3 } })
      expect(done, "completed")
      assert.deepStrictEqual(ran, ["1", "2", "3"])
    })
  )

  it.effect("count money", () =>
    Effect.gen(function* () {
      const agent = Agent.make("a", { tools: [safe().tool], limits: { maxCostUsd: 0.02 } })
      const { runtime } = yield* bind(
        agent,
        looping.map((answer) => ({ ...answer, usage: { costUsd: 0.015 } }))
      )
      const { error, state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
      assert.deepInclude({ ...error }, { budget: "cost", limit: 0.02 })
      assert.strictEqual(state.usage.requests, 2)
    })
  )

  it.effect("end the run when a price is unknown", () =>
    Effect.gen(function* () {
      const agent = Agent.make("a", { tools: [safe().tool], limits: { maxCostUsd: 100 } })
      const unpriced = { inputTokens: 1, outputTokens: 1, costUsd: undefined as unknown as number }
      const { runtime, model } = yield* bind(agent, [
        () => ({ calls: [call("safe", "1")], usage: unpriced }),
        "never asked"
      ])
      const { error } = expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
      assert.strictEqual(error._tag, "BudgetExceeded")
      assert.include(error.message, "cost of this run is unknown")
      assert.strictEqual(model.requests.length, 1)
    })
  )

  it.effect("bound the context before the model call", () =>
    Effect.gen(function* () {
      const agent = Agent.make("a", { limits: { maxContextTokens: 50 } })
      const { runtime, model } = yield* bind(agent, ["done"])
      const failed = expect(yield* runPrompt(runtime, { prompt: "x".repeat(600) }), "error")
      assert.deepInclude({ ...failed.error }, { _tag: "BudgetExceeded", budget: "context", limit: 50 })
      assert.strictEqual(model.requests.length, 0)
      expect(
        yield* runPrompt(runtime, { state: failed.state, limits: { maxContextTokens: 500 } }),
        "completed"
      )
    })
  )
})

describe("instructions of an agent", () => {
  it.effect("are computed for each turn by a function, a promise or an effect", () =>
    Effect.gen(function* () {
      const turns: Array<string> = []
      const agent = Agent.make("a", {
        tools: [safe().tool],
        instructions: ({ turn, state }) => {
          turns.push(`${turn}:${messages(state).length}`)
          const text = `turn ${turn}`
          return turn === 1 ? text : turn === 2 ? Promise.resolve(text) : Effect.succeed(text)
        }
      })
      const script = [{ calls: [call("safe", "1")] }, { calls: [call("safe", "2")] }, "done"]
      const { runtime, model } = yield* bind(agent, script)
      expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(
        model.requests.map(({ instructions }) => instructions),
        ["turn 1", "turn 2", "turn 3"]
      )
      assert.deepStrictEqual(turns, ["1:1", "2:3", "3:5"])
    })
  )

  it.effect("end the run with a resumable state when they fail", () =>
    Effect.gen(function* () {
      let broken = true
      const agent = Agent.make("a", {
        instructions: () => {
          if (broken) throw new Error("no weather")
          return "ok"
        }
      })
      const { runtime } = yield* bind(agent, ["done"])
      const { error, state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
      assert.strictEqual(error._tag, "RunDefect")
      assert.include(error.message, "no weather")
      broken = false
      expect(yield* runPrompt(runtime, { state: throughJson(state) }), "completed")
    })
  )
})

describe("the context policy", () => {
  it.effect("selects what the model sees, and the history keeps every message", () =>
    Effect.gen(function* () {
      const policy: ContextPolicy.ContextPolicy = {
        prepare: ({ instructions, messages }) =>
          Effect.succeed({ instructions: `${instructions}!`, messages: messages.slice(-1) })
      }
      const { runtime, model } = yield* Effect.provideService(
        bind(Agent.make("a", { instructions: "Hey" }), ["one", "two"]),
        ContextPolicy.ContextPolicy,
        policy
      )
      const { state } = yield* runPrompt(runtime, { prompt: "1" })
      const { state: after } = yield* runPrompt(runtime, { state, prompt: "2" })
      assert.strictEqual(model.requests[1]?.instructions, "Hey!")
      assert.strictEqual(model.requests[1]?.messages.length, 1)
      assert.strictEqual(messages(after).length, 4)
    })
  )

  it.effect("ends the run with its error when it fails", () =>
    Effect.gen(function* () {
      const { runtime } = yield* Effect.provideService(
        bind(Agent.make("a"), []),
        ContextPolicy.ContextPolicy,
        {
          prepare: () => Effect.die(new Error("index is gone"))
        }
      )
      const { error } = expect(yield* runPrompt(runtime, { prompt: "1" }), "error")
      assert.include(error.message, "index is gone")
    })
  )
})

describe("a streamed answer", () => {
  it.effect("publishes deltas in order and keeps the finished message", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a"), [{ text: "ab cd ef", chunkSize: 3, reasoning: "hm" }])
      const { updates, onUpdate } = watch()
      const { state } = yield* runPrompt(runtime, { prompt: "go" }, { onUpdate })
      assert.deepStrictEqual(
        updates
          .flatMap((update) => (update._tag === "delta" ? [update.part] : []))
          .map((part) => ("delta" in part ? part.delta : part._tag)),
        ["hm", "reasoning-end", "ab ", "cd ", "ef", "finish"]
      )
      assert.deepStrictEqual(
        events(updates).map(({ _tag }) => _tag),
        ["run.started", "model.answered", "run.completed"]
      )
      assert.strictEqual(state.revision, 3)
    })
  )

  it.effect("falls back once to a whole answer when it fails before its first part", () =>
    Effect.gen(function* () {
      for (const error of [
        new ConnectionLost({ description: "cut" }),
        new StreamUnsupported({ description: "no streams" })
      ]) {
        const { runtime, model } = yield* bind(Agent.make("a"), [
          { text: "whole", error, errorOnlyStreaming: true }
        ])
        const { updates, onUpdate } = watch()
        const result = yield* runPrompt(runtime, { prompt: "go" }, { onUpdate })
        assert.strictEqual(expect(result, "completed").text, "whole")
        assert.deepStrictEqual(
          updates.flatMap((update) => (update._tag === "fallback" ? [update.reason] : [])),
          [error._tag]
        )
        assert.strictEqual(model.requests.length, 2)
        assert.strictEqual(result.usage.turns, 1)
      }
    })
  )

  it.effect("ends the run with a resumable state when the fallback fails as well", () =>
    Effect.gen(function* () {
      const error = new ConnectionLost({ description: "cut" })
      const { runtime, model } = yield* bind(Agent.make("a"), [{ error }, { error }, "done"])
      const failed = expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
      assert.deepInclude(
        { ...failed.error },
        { _tag: "ModelFailed", reason: "ConnectionLost", isRetryable: true }
      )
      assert.strictEqual(model.requests.length, 2)
      expect(yield* runPrompt(runtime, { state: throughJson(failed.state) }), "completed")
    })
  )

  it.effect(
    "does not fall back after the first part, nor after an error that a second request cannot help",
    () =>
      Effect.gen(function* () {
        for (const answer of [
          { text: "abc", chunkSize: 1, error: new ProviderFault({ description: "down" }), failAfter: 1 },
          { text: "abc", cut: true },
          { error: new InvalidRequest({ description: "bad" }) },
          // The client has already retried these.
          { error: new RateLimited({ description: "slow down" }) },
          { error: new ProviderFault({ description: "down" }) }
        ]) {
          const { runtime, model } = yield* bind(Agent.make("a"), [answer, "never asked"])
          expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
          assert.strictEqual(model.requests.length, 1)
        }
      })
  )

  it.effect("leaves nothing in the history when it is cut off", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a"), [{ text: "half an ans", cut: true }])
      const { error, state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
      assert.deepInclude({ ...error }, { reason: "ConnectionLost" })
      assert.deepStrictEqual(transcript(state), ["user: go"])
    })
  )

  it.effect("keeps a secret of the error out of the state", () =>
    Effect.gen(function* () {
      const key = `sk-proj-${"a1B2".repeat(10)}`
      const error = new InvalidRequest({ description: `Incorrect API key: ${key}` })
      const { runtime } = yield* bind(Agent.make("a"), [{ error }])
      const { state } = yield* runPrompt(runtime, { prompt: "go" })
      assert.notInclude(JSON.stringify(state), key)
    })
  )

  it.effect("ends the run with an error when the client throws or interrupts itself", () =>
    Effect.gen(function* () {
      const { runtime, model } = yield* bind(Agent.make("a"), [])
      const thrower = {
        ...runtime,
        model: {
          ...model.client,
          stream: () => {
            throw new Error("no client")
          }
        }
      }
      const thrown = expect(yield* runPrompt(thrower, { prompt: "go" }), "error")
      assert.include(thrown.error.message, "no client")
      const stopper = {
        ...runtime,
        model: { ...model.client, stream: () => Stream.fromEffect(Effect.interrupt) }
      }
      assert.strictEqual(expect(yield* runPrompt(stopper, { prompt: "go" }), "error").error._tag, "RunDefect")
    })
  )
})

describe("a wrong answer of the model", () => {
  const correct = (answer: Parameters<typeof bind>[1][number], tool = safe(), more = {}) =>
    Effect.gen(function* () {
      const { runtime, model } = yield* bind(Agent.make("a", { tools: [tool.tool], ...more }), [
        answer,
        "sorry"
      ])
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assertValid(state)
      assert.strictEqual(model.requests.length, 2)
      return results(state)
    })

  it.effect("gets a failed result that lists the tools when the tool is unknown", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* correct({ calls: [call("saef", "1")] }), [
        'saef failed: There is no tool "saef". The tools are: safe.'
      ])
    })
  )

  it.effect("gets a failed result when the agent has no tools", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a"), [{ calls: [call("any", "1")] }, "sorry"])
      const { state } = yield* runPrompt(runtime, { prompt: "go" })
      assert.deepStrictEqual(results(state), [
        'any failed: There is no tool "any", and no other. Answer without calling one.'
      ])
    })
  )

  it.effect("gets a failed result when the arguments are not JSON", () =>
    Effect.gen(function* () {
      const [result] = yield* correct({ calls: [{ tool: "safe", argumentsText: '{"id": "1' }] })
      assert.include(result, "not valid JSON")
    })
  )

  it.effect(
    "gets a failed result instead of an approval request when the arguments have the wrong type",
    () =>
      Effect.gen(function* () {
        const gated = probe("deploy")
        const [result] = yield* correct({ calls: [{ tool: "deploy", arguments: { id: 7 } }] }, gated)
        assert.include(result, "deploy does not take these arguments")
        assert.include(result, "id")
        assert.deepStrictEqual(gated.ran, [])
      })
  )

  it.effect("may have empty text for a call without arguments", () =>
    Effect.gen(function* () {
      const now = Tool.make("now", { safety: "readOnly", handler: () => "noon" })
      const { runtime } = yield* bind(Agent.make("a", { tools: [now] }), [
        { calls: [{ tool: "now", argumentsText: "" }] },
        "done"
      ])
      const { state } = yield* runPrompt(runtime, { prompt: "go" })
      assert.deepStrictEqual(results(state), ["now completed: noon"])
    })
  )

  it.effect(
    "may have any object, null or an empty list for a tool without parameters, and gets a failed result for other values",
    () =>
      Effect.gen(function* () {
        const now = Tool.make("now", { safety: "readOnly", handler: () => "noon" })
        const takenBy = (argumentsText: string) =>
          Effect.gen(function* () {
            const { runtime } = yield* bind(Agent.make("a", { tools: [now] }), [
              { calls: [{ tool: "now", argumentsText }] },
              "done"
            ])
            return results((yield* runPrompt(runtime, { prompt: "go" })).state)[0]
          })
        for (const text of ["{}", '{"zone":"UTC"}', "null", "[]", " "]) {
          assert.strictEqual(yield* takenBy(text), "now completed: noon")
        }
        for (const text of ["5", "true", '"noon"', "[1]"]) {
          assert.include(yield* takenBy(text), "now does not take these arguments: Expected no arguments")
        }
      })
  )
})

describe("a failing tool body", () => {
  const bodies: ReadonlyArray<readonly [string, () => unknown, string]> = [
    [
      "throws",
      () => {
        throw new Error("boom")
      },
      "safe failed: safe failed: boom"
    ],
    ["rejects", () => Promise.reject(new Error("boom")), "safe failed: safe failed: boom"],
    ["rejects with no error", () => Promise.reject(undefined), "safe failed: safe failed: an unknown error"],
    [
      "fails",
      () => Effect.fail(new ToolFailure({ description: "no such file" })),
      "safe failed: safe failed: no such file"
    ],
    ["dies", () => Effect.die(new Error("boom")), "safe failed: safe failed: boom"],
    ["interrupts itself", () => Effect.interrupt, "safe failed: safe failed: it stopped itself"]
  ]
  for (const [what, handler, expected] of bodies) {
    it.effect(`that ${what} becomes a result, and the loop continues`, () =>
      Effect.gen(function* () {
        const { tool, ran } = safe("safe", { handler })
        const { runtime } = yield* bind(Agent.make("a", { tools: [tool as Tool.Tool] }), [
          { calls: [call("safe", "1")] },
          "done"
        ])
        const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
        assert.deepStrictEqual(ran, ["1"])
        assert.deepStrictEqual(results(state), [expected])
      })
    )
  }

  it.effect("does not stop its siblings", () =>
    Effect.gen(function* () {
      const bad = safe("bad", {
        handler: (): string => {
          throw new Error("boom")
        }
      })
      const good = safe("good", { handler: () => Effect.as(Effect.sleep("1 second"), "fine") })
      const { runtime } = yield* bind(Agent.make("a", { tools: [bad.tool, good.tool] }), [
        { calls: [call("good", "1"), call("bad", "2"), call("good", "3")] },
        "done"
      ])
      const fiber = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }))
      yield* TestClock.adjust("1 second")
      const { state } = yield* Fiber.join(fiber)
      assert.deepStrictEqual(results(state), [
        "good completed: fine",
        "bad failed: bad failed: boom",
        "good completed: fine"
      ])
    })
  )
})

describe("the order of calls", () => {
  const open = { needsApproval: false }

  it.effect("runs contiguous reads together, and every other call alone, in the order of the answer", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const handler = ({ id }: { readonly id: string }) =>
        Effect.gen(function* () {
          log.push(`+${id}`)
          yield* Effect.sleep("1 second")
          log.push(`-${id}`)
          return id
        })
      const read = safe("read", { handler })
      const write = probe("write", { ...open, handler })
      const { runtime } = yield* bind(Agent.make("a", { tools: [read.tool, write.tool] }), [
        {
          calls: [
            call("read", "1"),
            call("read", "2"),
            call("write", "3"),
            call("write", "4"),
            call("read", "5")
          ]
        },
        "done"
      ])
      const fiber = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }))
      yield* TestClock.adjust("10 seconds")
      const { state } = expect(yield* Fiber.join(fiber), "completed")
      assert.deepStrictEqual(log, ["+1", "+2", "-1", "-2", "+3", "-3", "+4", "-4", "+5", "-5"])
      assert.deepStrictEqual(
        results(state).map((result) => result.slice(-1)),
        ["1", "2", "3", "4", "5"]
      )
    })
  )

  it.effect("bounds the number of concurrent reads by toolConcurrency", () =>
    Effect.gen(function* () {
      let now = 0
      let most = 0
      const read = safe("read", {
        handler: () =>
          Effect.gen(function* () {
            most = Math.max(most, ++now)
            yield* Effect.sleep("1 second")
            now -= 1
            return ""
          })
      })
      const agent = Agent.make("a", { tools: [read.tool], limits: { toolConcurrency: 3 } })
      const calls = Array.from({ length: 10 }, (_, index) => call("read", `${index}`))
      const { runtime } = yield* bind(agent, [{ calls }, "done"])
      const fiber = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }))
      yield* TestClock.adjust("4 seconds")
      expect(yield* Fiber.join(fiber), "completed")
      assert.strictEqual(most, 3)
    })
  )

  it.effect("is kept for results when calls finish in another order", () =>
    Effect.gen(function* () {
      const read = safe("read", {
        handler: ({ id }) => Effect.as(Effect.sleep(`${10 - Number(id)} seconds`), id)
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [read.tool] }), [
        { calls: [call("read", "1"), call("read", "2"), call("read", "3")] },
        "done"
      ])
      const fiber = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }))
      yield* TestClock.adjust("10 seconds")
      const { state } = yield* Fiber.join(fiber)
      assert.deepStrictEqual(results(state), ["read completed: 1", "read completed: 2", "read completed: 3"])
    })
  )

  it.effect("lets reads pass an undecided call, and lets no side effect overtake it", () =>
    Effect.gen(function* () {
      const read = safe("read")
      const gated = probe("gated")
      const free = probe("free", open)
      const { runtime, model } = yield* bind(Agent.make("a", { tools: [read.tool, gated.tool, free.tool] }), [
        {
          calls: [
            call("free", "1"),
            call("read", "2"),
            call("gated", "3"),
            call("read", "4"),
            call("free", "5")
          ]
        },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      assert.deepStrictEqual(free.ran, ["1"])
      assert.deepStrictEqual(read.ran, ["2", "4"])
      assert.strictEqual(model.requests.length, 1)
      const done = yield* runPrompt(runtime, {
        state: throughJson(held.state),
        decisions: [approve(approvalOf(held, "3"))]
      })
      expect(done, "completed")
      assert.deepStrictEqual([free.ran, read.ran, gated.ran], [["1", "5"], ["2", "4"], ["3"]])
    })
  )
})

describe("the scrubber", () => {
  it.effect("redacts a tool's output before the journal, subscribers and the model see it", () =>
    Effect.gen(function* () {
      const secret = "hunter2-hunter2"
      const started = yield* Deferred.make<void>()
      const leaky = safe("leaky", {
        handler: (_, context) => {
          context.progress(`using ${secret}`)
          context.output(`TOKEN=${secret}`)
          Deferred.doneUnsafe(started, Effect.void)
          return { token: secret }
        }
      })
      const failing = safe("failing", {
        handler: (): string => {
          throw new Error(`401 for ${secret}`)
        }
      })
      const gated = probe("gated", { preview: () => `curl -d ${secret}` })
      const { runtime, model } = yield* Effect.provideService(
        bind(Agent.make("a", { tools: [leaky.tool, failing.tool, gated.tool] }), [
          { calls: [call("leaky", "1"), call("failing", "2"), call("gated", "3")] },
          "done"
        ]),
        Scrubber.Scrubber,
        Scrubber.make({ secrets: [secret] })
      )
      const { updates, onUpdate } = watch()
      const held = yield* runPrompt(runtime, { prompt: "go" }, { onUpdate })
      const done = yield* runPrompt(
        runtime,
        { state: held.state, decisions: [approve(approvalOf(held, "3"))] },
        { onUpdate }
      )
      expect(done, "completed")
      for (const seen of [updates, model.requests, held.state, done.state]) {
        assert.notInclude(JSON.stringify(seen), secret)
      }
      assert.deepStrictEqual(results(done.state).slice(0, 2), [
        'leaky completed: {"token":"[REDACTED:secret]"}',
        "failing failed: failing failed: 401 for [REDACTED:secret]"
      ])
      assert.deepStrictEqual(
        updates.flatMap((update) =>
          update._tag === "progress" ? [update.message] : update._tag === "output" ? [update.chunk] : []
        ),
        ["using [REDACTED:secret]", "TOKEN=[REDACTED:secret]"]
      )
    })
  )
})

describe("the structured output of an agent", () => {
  const Weather = Schema.Struct({ city: Schema.String, at: Schema.DateFromString })
  const effectAgent = Agent.make("a", { output: Weather as unknown as DataSchema<typeof Weather.Type> })

  it.effect("is decoded with the agent's schema, which the model request contains", () =>
    Effect.gen(function* () {
      const { runtime, model } = yield* bind(effectAgent, ['{"city":"Rome","at":"2026-01-02T00:00:00.000Z"}'])
      const result = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(result.output, { city: "Rome", at: new Date("2026-01-02T00:00:00.000Z") })
      assert.deepStrictEqual(result.state.output, { city: "Rome", at: "2026-01-02T00:00:00.000Z" })
      assert.strictEqual(model.requests[0]?.output?.name, "a")
      assert.deepStrictEqual(model.requests[0]?.output?.schema["required"], ["city", "at"])
    })
  )

  it.effect("accepts a zod schema", () =>
    Effect.gen(function* () {
      const schema = z.object({ city: z.string(), rain: z.boolean().default(false) })
      const { runtime } = yield* bind(
        Agent.make("a", { output: schema as DataSchema<z.infer<typeof schema>> }),
        ['```json\n{"city":"Rome"}\n```']
      )
      const result = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(result.output, { city: "Rome", rain: false })
      assert.doesNotThrow(() => throughJson(result.state))
    })
  )

  it.effect("is requested again when it nests deeper than a journal could return", () =>
    Effect.gen(function* () {
      const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels)
      const agent = Agent.make("a", { output: Schema.Unknown })
      const { runtime, model } = yield* bind(agent, [201, 1000, 100_000, 200].map(nested))
      const result = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.strictEqual(JSON.stringify(result.output), nested(200))
      assert.lengthOf(model.requests, 4)
      const misfit = "The answer does not fit the required form: it is nested more than 200 levels deep."
      for (const { messages } of model.requests.slice(1))
        assert.include(JSON.stringify(messages.at(-1)), misfit)
    })
  )

  it.effect("is requested again, with the error, when it does not match the schema", () =>
    Effect.gen(function* () {
      const { runtime, model } = yield* bind(effectAgent, [
        "It is sunny in Rome.",
        '{"city":"Rome"}',
        '{"city":"Rome","at":"2026-01-02T00:00:00.000Z"}'
      ])
      const { updates, onUpdate } = watch()
      const result = expect(yield* runPrompt(runtime, { prompt: "go" }, { onUpdate }), "completed")
      assert.strictEqual(result.usage.turns, 3)
      const told = model.requests.slice(1).map(({ messages }) => messages.at(-1))
      assert.deepStrictEqual(
        told.map((message) => message?.role === "user" && message.origin),
        ["runtime", "runtime"]
      )
      assert.include(JSON.stringify(told[0]), "it is not JSON")
      assert.include(JSON.stringify(told[1]), "at")
      assert.strictEqual(events(updates).filter(({ _tag }) => _tag === "output.rejected").length, 2)
    })
  )

  it.effect("ends the run with the turn budget when it never matches", () =>
    Effect.gen(function* () {
      const { runtime, model } = yield* bind(effectAgent, ["no", "no", "no", "no"])
      const { error } = expect(yield* runPrompt(runtime, { prompt: "go", limits: { maxTurns: 3 } }), "error")
      assert.deepInclude({ ...error }, { _tag: "BudgetExceeded", budget: "turns", limit: 3 })
      assert.strictEqual(model.requests.length, 3)
    })
  )
})
