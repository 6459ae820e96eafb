/**
 * A message to a sub-agent that ends before the run reads its mail.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as RunChecker from "../../src/testing/RunChecker.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { assertValid, expect, rebind, transcript } from "../helpers/Fixture.ts"

const runId = "run" as RunId
const child = "run.t1.1" as RunId

/** A lead and its sub-agent, in a store in which `before` runs right before the commit of the sub-agent's end. */
const ending = Effect.fnUntraced(function* (
  background: boolean,
  before: Effect.Effect<unknown, unknown, RunStore>
) {
  const store = yield* RunStore
  const lead = Agent.make("lead", { subAgents: [Agent.make("helper")], delegation: "delegate" })
  const model = ScriptedModel.make(({ agentPath, turn }) => {
    if (agentPath.length > 1) return "helped"
    return turn === 1
      ? { calls: [{ tool: "delegate", arguments: { agent: "helper", prompt: "do", background } }] }
      : `answer ${turn}`
  })
  const { runtime } = yield* rebind(lead, model)
  let isDone = false
  const watched: RunStore["Service"] = {
    ...store,
    append: (options) => {
      const isEnd = options.events.some((wrapped) => {
        const { event, path } = unwrap(wrapped)
        return path.length > 0 && event._tag === "run.completed"
      })
      if (isDone || !isEnd) return store.append(options)
      isDone = true
      return Effect.andThen(
        Effect.orDie(Effect.provideService(before, RunStore, store)),
        store.append(options)
      )
    }
  }
  const running = runPromptStored(runtime, { prompt: "go", runId })
  const { state } = expect(yield* Effect.provideService(running, RunStore, watched), "completed")
  assert.isTrue(isDone)
  const head = yield* store.head(runId)
  const journal = { ...head, events: yield* store.events(runId) }
  assert.deepStrictEqual(RunChecker.check({ journals: [journal] }), [])
  assert.deepStrictEqual(yield* store.messages(runId), [])
  assertValid(state)
  return { model, state }
})

for (const background of [true, false]) {
  describe(`${background ? "a background" : "an attached"} sub-agent that ends before it reads its mail`, () => {
    it.effect("leaves the message to its lead, and a repeated send is acknowledged", () =>
      Effect.gen(function* () {
        const send = sendMessage(child, "also this", { messageId: "m1" })
        const { state } = yield* ending(background, send)
        assert.include(
          transcript(state),
          `user: This message was for the agent ${child}, whose run had ended:\n\nalso this`
        )
        assert.strictEqual((yield* send).messageId, "m1")
        const other = yield* Effect.flip(sendMessage(child, "more", { messageId: "m1" }))
        assert.strictEqual(other._tag, "MessageInvalid")
        const late = yield* Effect.flip(sendMessage(child, "more", { messageId: "m2" }))
        assert.strictEqual(late._tag, "RunEnded")
      }).pipe(Effect.provide(Layer.fresh(layerMemory)))
    )

    it.effect("stays completed after a late cancellation, and its lead gets no message about that", () =>
      Effect.gen(function* () {
        const { model, state } = yield* ending(background, cancelRun(child, "not needed"))
        const told = transcript(state).filter((line) => line.startsWith("user: "))
        const hasEnded = `user: The agent helper (${child}) has finished:\n\nhelped`
        assert.deepStrictEqual(told, background ? ["user: go", hasEnded] : ["user: go"])
        assert.lengthOf(model.requests, 3)
      }).pipe(Effect.provide(Layer.fresh(layerMemory)))
    )
  })
}
