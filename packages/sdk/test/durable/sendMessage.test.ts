import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { text } from "../../src/domain/Message.ts"
import { exportRun, importRun } from "../../src/durable/archive.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as Scrubber from "../../src/tool/Scrubber.ts"
import { bind, call, expect, probe } from "../helpers/Fixture.ts"

const inOneStore = <A, E>(body: Effect.Effect<A, E, RunStore>) =>
  Effect.provide(body, Layer.fresh(layerMemory))

const token = `ghp_${"a1B2".repeat(9)}`
const runId = "run" as RunId

/** A run held on an approval. */
const held = Effect.gen(function* () {
  const { runtime } = yield* bind(Agent.make("a", { tools: [probe("write").tool] }), [
    { calls: [call("write", "1")] }
  ])
  expect(yield* runPromptStored(runtime, { prompt: "go", runId }), "interrupted")
})

describe("sendMessage", () => {
  it.effect("stores the message until the run takes it, and returns its id", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        yield* held
        const { messageId } = yield* sendMessage(runId, "One thing more.")
        const file = { _tag: "file", mediaType: "text/plain", source: { _tag: "url", url: "a:b" } } as const
        const receipt = yield* sendMessage(runId, [text("See this:"), file], { messageId: "mine" })
        assert.deepStrictEqual(receipt, { messageId: "mine", at: 0 })
        assert.deepStrictEqual(yield* store.messages(runId), [
          { messageId, content: [text("One thing more.")], at: 0 },
          { messageId: "mine", content: [text("See this:"), file], at: 0 }
        ])
        assert.deepStrictEqual(
          (yield* store.ready()).map(({ reason }) => reason),
          ["message"]
        )
      })
    )
  )

  it.effect("stores a message once per id", () =>
    inOneStore(
      Effect.gen(function* () {
        yield* held
        const sends = Array.from({ length: 10 }, () => sendMessage(runId, "go on", { messageId: "click" }))
        const receipts = yield* Effect.all(sends, { concurrency: "unbounded" })
        assert.strictEqual(new Set(receipts.map((receipt) => JSON.stringify(receipt))).size, 1)
        assert.strictEqual((yield* (yield* RunStore).messages(runId)).length, 1)
        const other = yield* Effect.flip(sendMessage(runId, "stop", { messageId: "click" }))
        assert.strictEqual(other._tag, "MessageInvalid")
        assert.include(other.message, "another message, with other content: give it an id of its own")
      })
    )
  )

  it.effect("redacts secrets in text but not in bytes, and refuses a secret as an id", () =>
    inOneStore(
      Effect.gen(function* () {
        yield* held
        const base64 = "bXkgc2VjcmV0"
        const source = { _tag: "bytes", base64 } as const
        yield* sendMessage(
          runId,
          [text(`Use ${token} in /home/me`), { _tag: "file", mediaType: "image/png", source, name: token }],
          { messageId: "b5e1f8a0-93c2-4f0e-8a4b-0d2f6f9e7a11" }
        )
        const [message] = yield* (yield* RunStore).messages(runId)
        const content = JSON.stringify(message?.content)
        assert.notInclude(content, token)
        assert.include(content, "/home/me")
        assert.include(content, base64)
        const refused = yield* Effect.flip(sendMessage(runId, "hello", { messageId: token }))
        assert.strictEqual(refused._tag, "MessageInvalid")
        assert.notInclude(refused.message, token)
      }).pipe(Effect.provideService(Scrubber.Scrubber, Scrubber.make()))
    )
  )

  it.effect("refuses an empty message, an invalid id, and an unknown or ended run", () =>
    inOneStore(
      Effect.gen(function* () {
        const tagOf = (...given: Parameters<typeof sendMessage>) =>
          Effect.map(Effect.flip(sendMessage(...given)), ({ _tag }) => _tag)
        assert.strictEqual(yield* tagOf(runId, "hello"), "RunNotFound")
        yield* held
        assert.strictEqual(yield* tagOf(runId, " "), "EmptyPrompt")
        assert.strictEqual(yield* tagOf(runId, []), "EmptyPrompt")
        assert.strictEqual(yield* tagOf(runId, [{ _tag: "text" }] as never), "EmptyPrompt")
        assert.strictEqual(yield* tagOf(runId, "hello", { messageId: "" }), "MessageInvalid")
        yield* cancelRun(runId, "enough")
        const over = yield* Effect.flip(sendMessage(runId, "hello"))
        assert.strictEqual(
          over.message,
          "The run run is cancelled: start a new run in its session with a prompt."
        )
        assert.deepStrictEqual(yield* (yield* RunStore).messages(runId), [])
      })
    )
  )

  it.effect("leaves the message in an archive until the run has taken it", () =>
    Effect.gen(function* () {
      const archive = yield* inOneStore(
        Effect.gen(function* () {
          yield* held
          yield* sendMessage(runId, `With ${token}.`, { messageId: "m1" })
          return JSON.parse(JSON.stringify(yield* exportRun(runId)))
        })
      )
      yield* inOneStore(
        Effect.gen(function* () {
          const store = yield* RunStore
          yield* importRun(archive)
          assert.deepStrictEqual(
            (yield* store.ready()).map(({ reason }) => reason),
            ["message"]
          )
          assert.strictEqual(
            (yield* sendMessage(runId, `With ${token}.`, { messageId: "m1" })).messageId,
            "m1"
          )
          assert.deepStrictEqual((yield* exportRun(runId)).messages, archive.messages)
        })
      )
      const { messages: _, ...before } = archive
      yield* inOneStore(
        Effect.gen(function* () {
          yield* importRun(before)
          assert.deepStrictEqual(yield* (yield* RunStore).messages(runId), [])
        })
      )
      const wrong = { ...archive, messages: [{ ...archive.messages[0], messageId: "two words" }] }
      const error = yield* Effect.flip(inOneStore(importRun(wrong)))
      assert.strictEqual(error._tag, "ArchiveInvalid")
    }).pipe(Effect.provideService(Scrubber.Scrubber, Scrubber.make()))
  )
})
