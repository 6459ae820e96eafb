import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { RunId, SessionId, ToolCallId } from "../../src/domain/Id.ts"
import { collect } from "../../src/model/ModelClient.ts"
import { ProviderFault } from "../../src/model/ModelError.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import * as RecordedModel from "../../src/testing/RecordedModel.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

/** Recordings in memory. */
const shelf = () => {
  const kept: { text: string | undefined; writes: number } = { text: undefined, writes: 0 }
  const recordings: RecordedModel.Recordings = {
    read: Effect.sync(() => kept.text),
    write: (text) =>
      Effect.sync(() => {
        kept.text = text
        kept.writes += 1
      })
  }
  return { kept, recordings }
}

/** A history with one call, in a run of this name. */
const asked = (run: string, prompt = "How warm is it?", at = 0): ModelRequest => ({
  runId: run as RunId,
  sessionId: `${run}.session` as SessionId,
  agentPath: ["agent"],
  turn: 2,
  instructions: "Be brief.",
  messages: [
    { role: "user", sequence: 0, at, content: [{ _tag: "text", text: prompt }] },
    {
      role: "assistant",
      sequence: 1,
      at,
      content: [
        {
          _tag: "toolCall",
          callId: `${run}.t1.1` as ToolCallId,
          providerCallId: "call_0",
          name: "weather",
          arguments: ""
        }
      ]
    },
    {
      role: "tool",
      sequence: 2,
      at,
      callId: `${run}.t1.1` as ToolCallId,
      providerCallId: "call_0",
      name: "weather",
      outcome: "completed",
      content: [{ _tag: "text", text: "20" }]
    }
  ],
  tools: []
})

describe("RecordedModel", () => {
  it.effect("replays its recordings in the same parts to any run with the same request", () =>
    Effect.gen(function* () {
      const { kept, recordings } = shelf()
      const model = ScriptedModel.make([{ text: "It is warm.", chunkSize: 4 }, { text: "It is cold." }])
      const recording = RecordedModel.make({ recordings, record: model.client })
      const live = yield* Stream.runCollect(recording.stream(asked("first")))
      yield* recording.complete(asked("first", "And at night?"))
      assert.strictEqual(kept.writes, 2)

      const replaying = RecordedModel.make({ recordings })
      assert.deepStrictEqual(yield* Stream.runCollect(replaying.stream(asked("second", undefined, 99))), live)
      const night = yield* replaying.complete(asked("third", "And at night?"))
      assert.deepStrictEqual(night.content, [{ _tag: "text", text: "It is cold." }])
      const streamed = yield* collect(replaying.stream(asked("third", "And at night?")))
      assert.deepStrictEqual(streamed, night)
    })
  )

  it.effect("asks the model only for requests without a recording", () =>
    Effect.gen(function* () {
      const { recordings } = shelf()
      const model = ScriptedModel.make(["Warm.", "Cold."])
      const client = RecordedModel.make({ recordings, record: model.client })
      yield* client.complete(asked("run"))
      yield* RecordedModel.make({ recordings, record: model.client }).complete(asked("run"))
      assert.strictEqual(model.requests.length, 1)
      yield* client.complete(asked("run", "And at night?"))
      assert.strictEqual(model.requests.length, 2)
    })
  )

  it.effect("fails with InvalidRequest for a request without a recording, and says how to record it", () =>
    Effect.gen(function* () {
      const { recordings } = shelf()
      const model = ScriptedModel.make(["Warm."])
      yield* RecordedModel.make({ recordings, record: model.client }).complete(asked("run"))
      const client = RecordedModel.make({ recordings })
      const { sessionId: _, ...same } = asked("run")
      for (const request of [
        asked("run", "Another question"),
        { ...asked("run"), instructions: "Be long." },
        { ...asked("run"), profile: "other" },
        { ...asked("run"), tools: [{ name: "t", description: "", parameters: {} }] },
        { ...asked("run"), messages: same.messages.slice(0, 1) }
      ]) {
        for (const call of [client.complete(request), collect(client.stream(request))]) {
          const error = yield* Effect.flip(call)
          assert.strictEqual(error.reason._tag, "InvalidRequest")
          assert.include(error.message, "Run once with `record`")
        }
      }
    })
  )

  it.effect("does not record failures or partial answers", () =>
    Effect.gen(function* () {
      const { kept, recordings } = shelf()
      const error = new ProviderFault({ description: "busy" })
      const model = ScriptedModel.make([{ error }, { text: "half", error, failAfter: 1 }, "Whole."])
      const client = RecordedModel.make({ recordings, record: model.client })
      yield* Effect.flip(client.complete(asked("run")))
      yield* Effect.flip(collect(client.stream(asked("run"))))
      assert.strictEqual(kept.writes, 0)
      yield* collect(client.stream(asked("run")))
      assert.strictEqual(kept.writes, 1)
    })
  )

  it.effect("does not record an answer that was not read to the end", () =>
    Effect.gen(function* () {
      const { kept, recordings } = shelf()
      const model = ScriptedModel.make([
        { text: "It is warm.", chunkSize: 1 },
        { text: "no end", cut: true }
      ])
      const client = RecordedModel.make({ recordings, record: model.client })
      yield* Stream.runDrain(Stream.take(client.stream(asked("run")), 2))
      yield* Effect.flip(collect(client.stream(asked("run"))))
      assert.strictEqual(kept.writes, 0)
    })
  )

  it.effect("refuses a text without recordings", () =>
    Effect.gen(function* () {
      for (const text of ["", "{}", "no", '{"version":2,"recordings":{}}', "null"]) {
        const recordings = { read: Effect.succeed(text), write: () => Effect.void }
        const error = yield* Effect.flip(RecordedModel.make({ recordings }).complete(asked("run")))
        assert.include(error.message, "does not contain recordings")
      }
    })
  )
})
