/**
 * The next prompt of a session whose last run was cancelled or failed, in every way to pass a run on.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import { messages } from "../../src/domain/RunState.ts"
import { explain } from "../../src/durable/explain.ts"
import { InvalidRequest } from "../../src/model/ModelError.ts"
import { assertValid, bind, call, events, expect, safe, transcript } from "../helpers/Fixture.ts"
import type { Mode } from "./Mode.ts"

const failing = { error: new InvalidRequest({ description: "The model is down." }) }

/** A response of which two words are streamed. */
const cut = { text: "Roses are red, violets", chunkSize: 10, hangAfter: 1 }

const note = "user: The run was cancelled while you were answering. Your last answer is incomplete."

export const repeatedSuite = (mode: Mode) => {
  /** Starts a prompt and cancels its run after so many parts of a response. */
  const cancelled = Effect.fnUntraced(function* (
    start: (options: {
      readonly cancellation: Cancellation.CancellationToken
      readonly onUpdate: (update: RunUpdate) => void
    }) => ReturnType<Mode["start"]>,
    parts: number
  ) {
    const cancellation = Cancellation.make()
    const updates: Array<RunUpdate> = []
    const streamed = yield* Deferred.make<void>()
    let seen = 0
    const onUpdate = (update: RunUpdate) => {
      updates.push(update)
      if (update._tag === "delta" && (seen += 1) === parts) Deferred.doneUnsafe(streamed, Effect.void)
    }
    const running = yield* Effect.forkChild(start({ cancellation, onUpdate }))
    yield* Deferred.await(streamed)
    cancellation.cancel("enough")
    return { result: expect(yield* Fiber.join(running), "cancelled"), updates }
  })

  describe(`a prompt whose run was cancelled, ${mode.name}`, () => {
    it.effect("leaves what the model had said in the session, marked as cut", () =>
      Effect.gen(function* () {
        const { model, runtime } = yield* bind(Agent.make("a"), [cut, "Sure."])
        const { result, updates } = yield* cancelled((options) => mode.start(runtime, "A poem", options), 1)
        assert.deepStrictEqual(transcript(result.state), ["user: A poem", "assistant: Roses are ", note])
        assert.deepInclude(messages(result.state)[1], { role: "assistant", cut: true })
        assert.deepInclude(events(updates).at(-1), {
          _tag: "run.cancelled",
          said: [{ _tag: "text", text: "Roses are " }]
        })
        const next = expect(yield* mode.resume(runtime, result, { prompt: "Go on" }), "completed")
        assert.deepStrictEqual(transcript(next.state), [
          "user: A poem",
          "assistant: Roses are ",
          note,
          "user: Go on",
          "assistant: Sure."
        ])
        assert.deepStrictEqual(model.requests[1]?.messages, messages(next.state).slice(0, -1))
        assert.isTrue(messages(next.state).some((message) => message.role === "assistant" && message.cut))
        assertValid(next.state)
      }).pipe(Effect.provide(mode.layer))
    )

    it.effect("leaves nothing of reasoning, of calls and of blank text", () =>
      Effect.gen(function* () {
        const { runtime } = yield* bind(Agent.make("a", { tools: [safe().tool] }), [
          { reasoning: "hm", text: " \n", calls: [call("safe", "1")], hangAfter: 4 }
        ])
        const { result } = yield* cancelled((options) => mode.start(runtime, "go", options), 4)
        assert.deepStrictEqual(transcript(result.state), ["user: go"])
      }).pipe(Effect.provide(mode.layer))
    )

    it.effect("leaves no secret and no data of the provider in what the model had said", () =>
      Effect.gen(function* () {
        const secret = `ghp_${"a".repeat(36)}`
        const { runtime } = yield* bind(Agent.make("a"), [
          {
            content: [
              { _tag: "text", text: `key ${secret} `, provider: "p", payload: { id: 1 } },
              { _tag: "text", text: "and more" },
              // A client may be written without types.
              { _tag: "file" } as never
            ],
            hangAfter: 4
          }
        ])
        const { result } = yield* cancelled((options) => mode.start(runtime, "go", options), 4)
        assert.deepInclude(messages(result.state)[1], {
          content: [
            { _tag: "text", text: "key [REDACTED:github-token] " },
            { _tag: "text", text: "and more" }
          ]
        })
      }).pipe(Effect.provide(mode.layer))
    )

    if (mode.isStored) {
      it.effect("is described with the length of the answer that was cut", () =>
        Effect.gen(function* () {
          const { runtime } = yield* bind(Agent.make("a"), [cut, { reasoning: "hm ", hangAfter: 1 }])
          const { result } = yield* cancelled((options) => mode.start(runtime, "A poem", options), 1)
          assert.strictEqual(
            (yield* explain(result.runId)).text,
            `The run ${result.runId} of a was cancelled: enough. Its answer was cut after 10 characters.`
          )
          const { result: next } = yield* cancelled(
            (options) => mode.resume(runtime, result, { prompt: "Go on" }, options),
            1
          )
          assert.strictEqual(
            (yield* explain(next.runId)).text,
            `The run ${next.runId} of a was cancelled: enough.`
          )
        }).pipe(Effect.provide(mode.layer))
      )
    }
  })

  describe(`a prompt whose run ended before the model answered, ${mode.name}`, () => {
    it.effect("is sent once when it is repeated, however often it fails", () =>
      Effect.gen(function* () {
        const { model, runtime } = yield* bind(Agent.make("a"), ["Hello.", failing, failing, "It is noon."])
        const first = yield* mode.start(runtime, "Hi")
        const prompt = "What time is it?"
        const second = expect(yield* mode.resume(runtime, first, { prompt }), "error")
        const third = expect(yield* mode.resume(runtime, second, { prompt }), "error")
        const last = expect(yield* mode.resume(runtime, third, { prompt }), "completed")
        const expected = ["user: Hi", "assistant: Hello.", `user: ${prompt}`, "assistant: It is noon."]
        assert.deepStrictEqual(transcript(last.state), expected)
        assert.lengthOf(model.requests.at(-1)?.messages ?? [], 3)
        assert.notStrictEqual(last.runId, second.runId)
      }).pipe(Effect.provide(mode.layer))
    )

    it.effect("is sent once when it holds a secret that is removed", () =>
      Effect.gen(function* () {
        const { runtime } = yield* bind(Agent.make("a"), [failing, "No."])
        const prompt = `Is ghp_${"a".repeat(36)} valid?`
        const first = yield* mode.start(runtime, prompt)
        const second = expect(yield* mode.resume(runtime, first, { prompt }), "completed")
        assert.deepStrictEqual(transcript(second.state), [
          "user: Is [REDACTED:github-token] valid?",
          "assistant: No."
        ])
      }).pipe(Effect.provide(mode.layer))
    )

    it.effect("is sent once when it was cancelled before a word", () =>
      Effect.gen(function* () {
        const { runtime } = yield* bind(Agent.make("a"), [{ reasoning: "hm ", hangAfter: 1 }, "Yes."])
        const { result } = yield* cancelled((options) => mode.start(runtime, "Ready?", options), 1)
        const next = expect(yield* mode.resume(runtime, result, { prompt: "Ready?" }), "completed")
        assert.deepStrictEqual(transcript(next.state), ["user: Ready?", "assistant: Yes."])
      }).pipe(Effect.provide(mode.layer))
    )

    it.effect("stays when another prompt follows", () =>
      Effect.gen(function* () {
        const { runtime } = yield* bind(Agent.make("a"), [failing, "Yes."])
        const first = yield* mode.start(runtime, "Ready?")
        const second = expect(yield* mode.resume(runtime, first, { prompt: "Ready now?" }), "completed")
        assert.deepStrictEqual(transcript(second.state), [
          "user: Ready?",
          "user: Ready now?",
          "assistant: Yes."
        ])
      }).pipe(Effect.provide(mode.layer))
    )
  })

  describe(`a prompt that the model has answered, ${mode.name}`, () => {
    it.effect("is sent again when it is repeated", () =>
      Effect.gen(function* () {
        const { runtime } = yield* bind(Agent.make("a", { tools: [safe().tool] }), [
          { calls: [call("safe", "1")] },
          failing,
          "done"
        ])
        const first = expect(yield* mode.start(runtime, "go"), "error")
        const second = expect(yield* mode.resume(runtime, first, { prompt: "go" }), "completed")
        assert.deepStrictEqual(transcript(second.state), [
          "user: go",
          "assistant: (safe)",
          "tool: safe:1",
          "user: go",
          "assistant: done"
        ])
      }).pipe(Effect.provide(mode.layer))
    )
  })
}
