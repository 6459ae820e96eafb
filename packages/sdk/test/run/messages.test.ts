import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import * as Worker from "../../src/durable/Worker.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as RunChecker from "../../src/testing/RunChecker.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, bind, call, expect, only, probe, rebind, transcript } from "../helpers/Fixture.ts"

const inOneStore = <A, E, R>(body: Effect.Effect<A, E, R>) => Effect.provide(body, Layer.fresh(layerMemory))

const runId = "run" as RunId

/** Asserts that the checker finds no fault and that every acknowledged message is kept once. */
const assertKept = Effect.fnUntraced(function* (
  messages: NonNullable<RunChecker.Acknowledged["messages"]> = []
) {
  const store = yield* RunStore
  const heads = yield* store.list({ limit: 1000 })
  const journals = yield* Effect.forEach(heads, (head) =>
    Effect.map(store.events(head.runId), (events) => ({ ...head, events }))
  )
  const waiting = yield* Effect.forEach(heads, ({ runId }) =>
    Effect.map(store.messages(runId), (messages) => messages.map((message) => ({ runId, message })))
  )
  const inbox = { open: yield* store.pending({ limit: 1000 }), undelivered: [], messages: waiting.flat() }
  assert.deepStrictEqual(RunChecker.check({ journals, inbox, acknowledged: { messages } }), [])
})

/** The ids of the queued messages in the journal. */
const taken = (runId: RunId) =>
  Effect.gen(function* () {
    const ids: Array<string> = []
    for (const wrapped of yield* (yield* RunStore).events(runId)) {
      const { event } = unwrap(wrapped)
      if (event._tag === "message.queued" && event.messageId !== undefined) ids.push(event.messageId)
    }
    return ids
  })

describe("a message to a stored run", () => {
  it.effect("is delivered with the next turn of the process that drives it", () =>
    inOneStore(
      Effect.gen(function* () {
        const begun = yield* Deferred.make<void>()
        const go = yield* Deferred.make<void>()
        const slow = probe("slow", {
          needsApproval: false,
          handler: () =>
            Effect.as(Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(go)), "slow")
        })
        const { model, runtime } = yield* bind(Agent.make("a", { tools: [slow.tool] }), [
          { calls: [call("slow", "1")] },
          "Seen.",
          "Well."
        ])
        const driven = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }))
        yield* Deferred.await(begun)
        // Another process, with only the store.
        const receipt = yield* sendMessage(runId, "Faster, please.", { messageId: "m1" })
        yield* sendMessage(runId, "Faster, please.", { messageId: "m1" })
        yield* Deferred.succeed(go, undefined)
        const done = expect(yield* Fiber.join(driven), "completed")
        const said = transcript(done.state).filter((line) => line === "user: Faster, please.")
        assert.strictEqual(said.length, 1)
        assert.include(JSON.stringify(model.requests.at(-1)), "Faster, please.")
        assert.deepStrictEqual(yield* taken(runId), ["m1"])
        yield* assertKept([{ runId, message: receipt }])
      })
    )
  )

  it.effect("that arrives with the last answer is answered", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const { runtime } = yield* bind(Agent.make("a"), ["First.", "Second."])
        const done = yield* runPromptStored(
          runtime,
          { prompt: "go", runId },
          {
            onUpdate: (update) => {
              if (
                update._tag === "event" &&
                update.event._tag === "model.answered" &&
                update.revision === 2
              ) {
                Effect.runSync(
                  store.send(runId, { messageId: "m1", content: [{ _tag: "text", text: "And?" }] })
                )
              }
            }
          }
        )
        assert.deepStrictEqual(transcript(expect(done, "completed").state), [
          "user: go",
          "assistant: First.",
          "user: And?",
          "assistant: Second."
        ])
      })
    )
  )

  it.effect("that is held is queued behind the open calls, and the run stays held", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const write = probe("write")
        const agent = () => Agent.make("a", { tools: [write.tool] })
        const { model, runtime } = yield* bind(agent(), [{ calls: [call("write", "1")] }, "Done."])
        const held = yield* runPromptStored(runtime, { prompt: "go", runId })
        const receipt = yield* sendMessage(runId, "One thing more.")
        const { runtime: other } = yield* rebind(agent(), model)
        const [found] = yield* recover([other])
        assert.deepStrictEqual([found?.reason, found?.status], ["message", "held"])
        assert.deepStrictEqual([yield* store.ready(), yield* store.messages(runId)], [[], []])
        assert.deepStrictEqual(yield* recover([other]), [])
        yield* assertKept([{ runId, message: receipt }])
        const decisions = [approve(only(held, "approval"))]
        const done = expect(yield* runPromptStored(runtime, { runId, decisions }), "completed")
        assert.deepStrictEqual(transcript(done.state), [
          "user: go",
          "assistant: (write)",
          "tool: write:1",
          "user: One thing more.",
          "assistant: Done."
        ])
      })
    )
  )

  it.effect("survives the death of the run's owner", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const write = probe("write")
        const agent = () => Agent.make("a", { tools: [write.tool] })
        const { model, runtime } = yield* bind(agent(), [{ calls: [call("write", "1")] }, "Done."])
        const held = yield* runPromptStored(runtime, { prompt: "go", runId })
        yield* store.decide(approve(only(held, "approval")))
        // A process that claims the run and dies.
        yield* store.claim({ runId, owner: "dead", ttl: 0 })
        yield* sendMessage(runId, "One thing more.", { messageId: "m1" })
        const { runtime: other } = yield* rebind(agent(), model)
        const [found] = yield* recover([other])
        assert.strictEqual(found?.status, "completed")
        assert.include(transcript(yield* loadState(runId)), "user: One thing more.")
        assert.deepStrictEqual(yield* taken(runId), ["m1"])
      })
    )
  )

  const rounds = 500
  it.live(`is delivered once when it races the park of its run: ${rounds} of ${rounds}`, () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const agent = () => Agent.make("a", { tools: [probe("write").tool] })
        const model = ScriptedModel.make(() => ({ calls: [call("write", "1")] }))
        const { runtime: starter } = yield* rebind(agent(), model)
        const owners = yield* Effect.all([rebind(agent(), model), rebind(agent(), model)])
        const [first, second] = owners.map(({ runtime }) => runtime)
        // The workers rely on notifications: they practically never poll.
        const workers = yield* Effect.forEach([first!, second!], (runtime) =>
          Effect.forkChild(Worker.run([runtime], { pollInterval: "10 minutes" }))
        )
        const acknowledged = yield* Effect.forEach(
          Array.from({ length: rounds }, (_, index) => `run_${index}` as RunId),
          (runId) =>
            Effect.gen(function* () {
              const created = yield* Deferred.make<void>()
              const options = { onUpdate: () => void Effect.runSync(Deferred.succeed(created, undefined)) }
              const driven = yield* Effect.forkChild(
                runPromptStored(starter, { prompt: "go", runId }, options)
              )
              yield* Deferred.await(created)
              for (let steps = yield* Random.nextIntBetween(0, 60); steps > 0; steps -= 1)
                yield* Effect.yieldNow
              const message = yield* sendMessage(runId, "hello", { messageId: "m1" })
              yield* Fiber.join(driven)
              return { runId, message }
            }),
          { concurrency: 20 }
        )
        for (const { runId } of acknowledged) {
          yield* Effect.repeat(Effect.andThen(Effect.yieldNow, store.messages(runId)), {
            until: (waiting) => waiting.length === 0
          })
        }
        yield* Effect.forEach(workers, Fiber.interrupt)
        for (const { runId } of acknowledged) assert.deepStrictEqual(yield* taken(runId), ["m1"])
        yield* assertKept(acknowledged)
      })
    )
  )
})
