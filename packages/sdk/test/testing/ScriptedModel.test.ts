import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import type { RunId, SessionId, ToolCallId } from "../../src/domain/Id.ts"
import type { Message } from "../../src/domain/Message.ts"
import { ProviderFault } from "../../src/model/ModelError.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

const request: ModelRequest = {
  runId: "run" as RunId,
  sessionId: "ses" as SessionId,
  agentPath: ["a"],
  turn: 1,
  instructions: "",
  messages: [],
  tools: []
}
const asked = (...messages: ReadonlyArray<Message>): ModelRequest => ({ ...request, messages })
const callId = "run.t1.1" as ToolCallId
const user: Message = { role: "user", sequence: 0, at: 0, content: [{ _tag: "text", text: "hi" }] }
const calling: Message = {
  role: "assistant",
  sequence: 1,
  at: 0,
  content: [{ _tag: "toolCall", callId, providerCallId: "c", name: "t", arguments: "{}" }]
}
const result: Message = {
  role: "tool",
  sequence: 2,
  at: 0,
  callId,
  providerCallId: "c",
  name: "t",
  outcome: "completed",
  content: []
}

describe("a scripted model", () => {
  it.effect("gives its answers in order, whole or in parts, and records its requests", () =>
    Effect.gen(function* () {
      const model = ScriptedModel.make([
        "one",
        { text: "abcdef", chunkSize: 4 },
        ({ turn }) => `turn ${turn}`
      ])
      assert.deepStrictEqual((yield* model.client.complete(request)).content, [{ _tag: "text", text: "one" }])
      const parts = yield* Stream.runCollect(model.client.stream(request))
      assert.deepStrictEqual(
        parts.map((part) => (part._tag === "text-delta" ? part.delta : part._tag)),
        ["abcd", "ef", "finish"]
      )
      assert.deepStrictEqual((yield* model.client.complete({ ...request, turn: 7 })).content, [
        { _tag: "text", text: "turn 7" }
      ])
      assert.strictEqual(model.requests.length, 3)
      assert.strictEqual(model.remaining(), 0)
    })
  )

  it.effect("fails a request after the last response of the script", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(ScriptedModel.make([]).client.complete(request))
      assert.include(error.message, "The script has 0 responses, and the model was called once more.")
    })
  )

  it.effect("uses the same call ids in every answer, as some providers do", () =>
    Effect.gen(function* () {
      const answer = { calls: [{ tool: "a" }, { tool: "b" }] }
      const { client } = ScriptedModel.make([answer, answer])
      for (let i = 0; i < 2; i++) {
        const { content } = yield* client.complete(request)
        assert.deepStrictEqual(
          content.map((part) => (part._tag === "toolCall" ? part.providerCallId : "")),
          ["call_0", "call_1"]
        )
      }
    })
  )

  it.effect("waits for the delay of an answer", () =>
    Effect.gen(function* () {
      const { client } = ScriptedModel.make([{ text: "late", delay: "1 minute" }])
      const fiber = yield* Effect.forkChild(client.complete(request), { startImmediately: true })
      yield* TestClock.adjust("59 seconds")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* Fiber.join(fiber)).finishReason, "stop")
    })
  )

  it.effect("fails before the first part, after some parts, or only when it streams", () =>
    Effect.gen(function* () {
      const error = new ProviderFault({ description: "down" })
      const { client } = ScriptedModel.make([
        { text: "x", error },
        { text: "abc", chunkSize: 1, error, failAfter: 2 },
        { text: "whole", error, errorOnlyStreaming: true }
      ])
      const seen: Array<string> = []
      const read = () =>
        Effect.flip(
          Stream.runForEach(client.stream(request), (part) => Effect.sync(() => seen.push(part._tag)))
        )
      assert.strictEqual((yield* read()).reason._tag, "ProviderFault")
      assert.deepStrictEqual(seen, [])
      yield* read()
      assert.deepStrictEqual(seen, ["text-delta", "text-delta"])
      yield* read()
      assert.deepStrictEqual((yield* client.complete(request)).content, [{ _tag: "text", text: "whole" }])
    })
  )

  it.effect("reports usage with an error where the script has it", () =>
    Effect.gen(function* () {
      const error = new ProviderFault({ description: "broke" })
      const model = ScriptedModel.make([{ error, usage: { inputTokens: 7 } }, { error }])
      const failed = yield* Effect.flip(Stream.runDrain(model.client.stream(request)))
      assert.deepStrictEqual(failed.usage, { inputTokens: 7, outputTokens: 0 })
      assert.isUndefined((yield* Effect.flip(model.client.complete(request))).usage)
    })
  )

  it.effect("refuses a history that a provider would refuse", () =>
    Effect.gen(function* () {
      const refused = (...messages: ReadonlyArray<Message>) =>
        Effect.map(
          Effect.flip(ScriptedModel.make(["x"]).client.complete(asked(...messages))),
          ({ message }) => message
        )
      assert.include(yield* refused(user, calling), "has no result")
      assert.include(yield* refused(user, calling, { ...user, sequence: 2 }), "has no result before")
      assert.include(yield* refused(user, { ...result, sequence: 1 }), "answers no open call")
      assert.include(
        yield* refused(user, calling, result, { ...result, sequence: 3 }),
        "answers no open call"
      )
      assert.include(yield* refused({ ...user, sequence: 3 }, calling), "sequence")
      assert.isUndefined(ScriptedModel.validateHistory([user, calling, result]))
    })
  )
})
