import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import { reconfigureRuntime } from "../../src/agent/reconfigureRuntime.ts"
import * as Conductor from "../../src/dispatch/Conductor.ts"
import type { SessionId } from "../../src/domain/Id.ts"
import { textOf } from "../../src/domain/Message.ts"
import { messages } from "../../src/domain/RunState.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { forSession } from "../../src/durable/forSession.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { submitPrompt } from "../../src/durable/submitPrompt.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import { bind, safe } from "../helpers/Fixture.ts"

const desk = Effect.gen(function* () {
  const { runtime } = yield* bind(Agent.make("desk"), ["one", "two", "three", "four"])
  return { runtime, bound: yield* forSession(runtime, "customer-7") }
})

describe("a runtime bound to a session", () => {
  it.effect("has the id and the state of the session, and continues it with each prompt", () =>
    Effect.gen(function* () {
      const { bound } = yield* desk
      assert.strictEqual(bound.sessionId, "customer-7")
      assert.isUndefined(yield* bound.session)
      yield* runPromptStored(bound, { prompt: "1" })
      const { runId } = yield* submitPrompt(bound, { prompt: "2" })
      yield* runPromptStored(bound, { runId })
      const session = yield* bound.session
      assert.deepStrictEqual(
        messages(session!).map(({ content }) => textOf(content)),
        ["1", "one", "2", "two"]
      )
      assert.strictEqual(session?.sessionUsage.turns, 2)
    }).pipe(Effect.provide(Layer.fresh(layerMemory)))
  )

  it.effect("continues the session also without a store and under a conductor", () =>
    Effect.gen(function* () {
      const { bound } = yield* desk
      const { state } = yield* runPrompt(bound, { prompt: "1" })
      assert.strictEqual(state.sessionId, "customer-7")
      const conductor = yield* Conductor.make()
      const handle = yield* conductor.dispatchStored(bound, { prompt: "2" })
      assert.strictEqual((yield* handle.wait).sessionId, "customer-7")
      const unstored = yield* conductor.dispatch(bound, { prompt: "3" })
      assert.strictEqual((yield* unstored.wait).sessionId, "customer-7")
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(layerMemory)))
  )

  it.effect("leaves the session to an input that names one, and to a fork", () =>
    Effect.gen(function* () {
      const { bound, runtime } = yield* desk
      const other = yield* runPromptStored(bound, { prompt: "1", sessionId: "other" as SessionId })
      assert.strictEqual(other.sessionId, "other")
      const first = yield* runPromptStored(bound, { prompt: "2" })
      const fork = yield* forkRun(bound, { runId: first.runId, prompt: "3" })
      assert.notInclude(["customer-7", "other"], fork.sessionId)
      assert.isUndefined(runtime.sessionId)
      assert.notStrictEqual((yield* runPromptStored(runtime, { prompt: "4" })).sessionId, "customer-7")
    }).pipe(Effect.provide(Layer.fresh(layerMemory)))
  )

  it.effect("is a view: a reconfiguration and a close of one are those of both", () =>
    Effect.gen(function* () {
      const { bound, runtime } = yield* desk
      yield* reconfigureRuntime(bound, { tools: [safe("read").tool] })
      assert.isTrue(runtime.bound.entries.has("read"))
      yield* runtime.close("completed")
      assert.strictEqual(bound.closed(), "completed")
      assert.strictEqual((yield* Effect.flip(runPrompt(bound, { prompt: "1" })))._tag, "RuntimeClosed")
    })
  )

  it.effect("needs a valid id", () =>
    Effect.gen(function* () {
      const { runtime } = yield* desk
      assert.strictEqual((yield* Effect.flip(forSession(runtime, "")))._tag, "IdInvalid")
    })
  )
})
