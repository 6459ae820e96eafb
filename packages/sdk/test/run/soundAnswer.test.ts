import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import { messages } from "../../src/domain/RunState.ts"
import * as RunStateCodec from "../../src/domain/RunStateCodec.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import { InvalidResponse, ModelError } from "../../src/model/ModelError.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, type RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { bind, expect, throughJson } from "../helpers/Fixture.ts"
import { untouchable } from "../helpers/Hostile.ts"

const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(title, () => Effect.provide(body, Layer.fresh(layerMemory)))

const usage = { inputTokens: 1, outputTokens: 1 }
const ending = { finishReason: "stop", usage }
const said = { _tag: "text", text: "hello" }
const most = Number.MAX_SAFE_INTEGER

/** A client whose stream fails and whose complete answer is this value; counts its calls. */
const answering = (response: unknown) => {
  const asked = { times: 0 }
  const error = new ModelError({ reason: new InvalidResponse({ description: "no stream" }) })
  const client = {
    stream: () => Stream.fail(error),
    complete: () =>
      Effect.sync(() => {
        asked.times += 1
        return response
      })
  } as unknown as ModelClient["Service"]
  return {
    asked,
    runtime: Effect.provideService(Runtime.make({ agent: Agent.make("a") }), ModelClient, client)
  }
}

const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)])

/** A content that is in no store. */
const content = { sha256: "0".repeat(64), bytes: 5000 }

const cyclic: Record<string, unknown> = {}
cyclic["self"] = cyclic

describe("the response of a model client", () => {
  const none: Record<string, unknown> = {
    "an unknown finish reason": { ...ending, content: [said], finishReason: "bored" },
    "a profile that is not a string": { ...ending, content: [said], profile: 5 },
    "a payload without a JSON form": {
      ...ending,
      content: [{ ...said, provider: "own", payload: 5n }]
    },
    "a circular payload": { ...ending, content: [{ ...said, provider: "own", payload: cyclic }] },
    "a payload nested too deeply to be read back": {
      ...ending,
      content: [{ ...said, provider: "own", payload: deep(5000) }]
    },
    "a provider that is not a string": { ...ending, content: [{ ...said, provider: Symbol("s") }] },
    "a file without a source": { ...ending, content: [{ _tag: "file", mediaType: "image/png" }] },
    "a file that refers to a content of the store": {
      ...ending,
      content: [{ _tag: "file", mediaType: "image/png", source: { _tag: "stored", ...content } }]
    },
    "a text with the reference of a whole text": { ...ending, content: [{ ...said, whole: content }] },
    "a part that throws when read": { ...ending, content: [untouchable({ ...said })] },
    "a list of parts that throws": { ...ending, content: untouchable([said]) },
    "usage that throws": { ...ending, content: [said], usage: untouchable({}) },
    "an answer that throws": untouchable({ ...ending, content: [said] })
  }
  for (const [what, response] of Object.entries(none)) {
    test(
      `fails the run without another request when it is invalid: ${what}`,
      Effect.gen(function* () {
        const { asked, runtime: make } = answering(response)
        const runtime = yield* make
        const { error } = expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
        assert.strictEqual(error._tag, "ModelFailed")
        assert.include(error.message, "mend the client")
        const { runId } = expect(yield* runPromptStored(runtime, { prompt: "go" }), "error")
        assert.strictEqual(asked.times, 2)
        assert.deepStrictEqual(yield* recover([runtime]), [])
        assert.strictEqual((yield* loadState(runId)).status, "error")
      })
    )
  }

  const odd: Record<string, readonly [unknown, ReadonlyArray<unknown>]> = {
    "unknown fields": [{ ...said, cost: 5n, then: () => {} }, [said]],
    "undefined fields": [{ ...said, provider: undefined, payload: undefined }, [said]],
    "a file": [
      { _tag: "file", mediaType: "image/png", source: { _tag: "url", url: "x" }, extra: Symbol("s") },
      [{ _tag: "file", mediaType: "image/png", source: { _tag: "url", url: "x" } }]
    ]
  }
  for (const [what, [part, expected]] of Object.entries(odd)) {
    test(
      `is stored without its unknown or undefined fields: ${what}`,
      Effect.gen(function* () {
        const runtime = yield* answering({ ...ending, content: [part] }).runtime
        const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
        const { runId } = expect(yield* runPromptStored(runtime, { prompt: "go" }), "completed")
        for (const run of [throughJson(state), yield* loadState(runId)]) {
          assert.deepStrictEqual<unknown>(messages(run).at(-1)?.content, expected)
        }
      })
    )
  }

  const counts: ReadonlyArray<readonly [number, number]> = [
    [2 ** 53 + 2, most],
    [Number.POSITIVE_INFINITY, most],
    [Number.NaN, 0],
    [-1, 0],
    [1.5, 2]
  ]
  for (const [given, kept] of counts) {
    test(
      `counts as ${kept} tokens when it reports ${given}`,
      Effect.gen(function* () {
        const { asked, runtime: make } = answering({
          content: [said],
          finishReason: "stop",
          usage: { inputTokens: given, outputTokens: given, cacheWriteTokens: given, costUsd: given }
        })
        const runtime = yield* make
        const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
        assert.strictEqual(throughJson(state).usage.inputTokens, kept)
        const { runId } = expect(yield* runPromptStored(runtime, { prompt: "go" }), "completed")
        assert.strictEqual((yield* loadState(runId)).usage.outputTokens, kept)
        assert.strictEqual(asked.times, 2)
      })
    )
  }
})

/** A client that streams these parts; with `below`, only to the sub-agent. */
const streaming = (parts: ReadonlyArray<unknown>, below: boolean) => {
  const asked = { streams: 0, wholes: 0 }
  const lead = ScriptedModel.make(({ turn }) =>
    turn === 1 ? { calls: [{ tool: "a", arguments: { prompt: "go" } }] } : "done"
  ).client
  const client = {
    stream: (request: ModelRequest) => {
      if (below && request.agentPath.length === 1) return lead.stream(request)
      asked.streams += 1
      return Stream.fromIterable(parts)
    },
    complete: (request: ModelRequest) => {
      asked.wholes += 1
      return lead.complete(request)
    }
  } as unknown as ModelClient["Service"]
  const agent = Agent.make("a")
  const runtime = Runtime.make({ agent: below ? Agent.make("lead", { subAgents: [agent] }) : agent })
  return { asked, runtime: Effect.provideService(runtime, ModelClient, client) }
}

for (const below of [false, true]) {
  describe(`the stream of a model client${below ? " to a sub-agent" : ""}`, () => {
    const delta = { _tag: "text-delta", delta: "hello" }
    const finish = { _tag: "finish", ...ending }
    const replay = (payload: unknown, provider: unknown = "own") => [
      delta,
      { _tag: "text-end", provider, payload },
      finish
    ]
    const none: Record<string, ReadonlyArray<unknown>> = {
      "a payload without a JSON form": replay(5n),
      "a payload that is a function": replay(() => 1),
      "a circular payload": replay(cyclic),
      "a payload nested too deeply to be read back": replay(deep(5000)),
      "a payload that throws": replay(untouchable({})),
      "a provider that is not a string": replay(1, Symbol("s")),
      "a call whose arguments throw": [
        { _tag: "tool-call", providerCallId: "1", name: "t", arguments: untouchable({}) },
        finish
      ],
      "a part that throws when read": [untouchable({ ...delta }), finish],
      "a finish part that throws": [delta, untouchable({ ...finish })],
      "usage that throws": [delta, { ...finish, usage: untouchable({}) }],
      "an invalid finish reason": [delta, { ...finish, finishReason: 5n }]
    }
    for (const [what, parts] of Object.entries(none)) {
      test(
        `fails the run without another request when it is invalid: ${what}`,
        Effect.gen(function* () {
          const { asked, runtime: make } = streaming(parts, below)
          const runtime = yield* make
          const alone = yield* runPrompt(runtime, { prompt: "go" })
          const stored = yield* runPromptStored(runtime, { prompt: "go" })
          for (const result of [alone, stored]) {
            if (!below) {
              const { error } = expect(result, "error")
              assert.include(["ModelFailed", "RunDefect"], error._tag)
              assert.include(error.message, "client")
            } else {
              const { state } = expect(result, "completed")
              assert.include(JSON.stringify(messages(state)), "a failed. ")
            }
            assert.isTrue(Result.isSuccess(RunStateCodec.decode(RunStateCodec.encode(result.state))))
          }
          assert.deepStrictEqual(asked, { streams: 2, wholes: 0 })
          assert.deepStrictEqual(yield* recover([runtime]), [])
          assert.strictEqual((yield* loadState(stored.runId)).status, stored.status)
        })
      )
    }

    test(
      "counts as Number.MAX_SAFE_INTEGER tokens when it reports 2^53 + 2",
      Effect.gen(function* () {
        const tokens = 2 ** 53 + 2
        const parts = [delta, { ...finish, usage: { inputTokens: tokens, outputTokens: tokens } }]
        const { asked, runtime: make } = streaming(parts, below)
        const runtime = yield* make
        const { runId } = expect(yield* runPromptStored(runtime, { prompt: "go" }), "completed")
        assert.strictEqual((yield* loadState(runId)).usage.outputTokens, most)
        assert.deepStrictEqual([asked.streams, yield* recover([runtime])], [1, []])
      })
    )

    test(
      "is stored and read back with lone surrogates in its text",
      Effect.gen(function* () {
        const parts = [{ ...delta, delta: "a\ud800b" }, { ...delta, delta: "\udfff" }, finish]
        const { asked, runtime: make } = streaming(parts, below)
        const runtime = yield* make
        const { runId, state } = expect(yield* runPromptStored(runtime, { prompt: "go" }), "completed")
        const loaded = yield* loadState(runId)
        assert.deepStrictEqual(messages(loaded), messages(state))
        assert.deepStrictEqual(messages(throughJson(state)), messages(state))
        assert.deepStrictEqual([asked.streams, yield* recover([runtime])], [1, []])
      })
    )
  })
}

describe("the usage of a run and its session", () => {
  it.effect("stays a finite number that can be stored when it overflows", () =>
    Effect.gen(function* () {
      const huge = { inputTokens: most, outputTokens: most, costUsd: 1e308 }
      const { runtime } = yield* bind(Agent.make("a"), [
        { text: "one", usage: huge },
        { text: "two", usage: huge }
      ])
      const first = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      const { state } = expect(yield* runPrompt(runtime, { state: first.state, prompt: "on" }), "completed")
      assert.isTrue(Result.isSuccess(RunStateCodec.decode(RunStateCodec.encode(state))))
      assert.strictEqual(state.sessionUsage.inputTokens, most)
      assert.strictEqual(state.sessionUsage.costUsd, Number.MAX_VALUE)
    })
  )

  it.effect("exceeds a budget when a client reports more than the greatest safe integer", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a", { limits: { maxTokens: 1000 }, tools: [] }), [
        { calls: [{ tool: "none" }], usage: { inputTokens: 2 ** 60 } },
        "unheard"
      ])
      const { error } = expect(yield* runPrompt(runtime, { prompt: "go" }), "error")
      assert.strictEqual(error._tag, "BudgetExceeded")
    })
  )
})
