/**
 * The approval callback and a person decide the same request.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import type { RuntimeOptions } from "../../src/agent/Runtime.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { approve, bind, call, deny, expect, probe, results } from "../helpers/Fixture.ts"

type Callback = NonNullable<RuntimeOptions<never, undefined>["approvalCallback"]>

/** An agent whose callback waits for `answer`. */
const asking = Effect.gen(function* () {
  const asked = yield* Deferred.make<Interruption>()
  const answer = yield* Deferred.make<DecisionInput | undefined>()
  const write = probe("write")
  const approvalCallback: Callback = (request) =>
    Effect.andThen(Deferred.succeed(asked, request), Deferred.await(answer))
  const { runtime } = yield* bind(
    Agent.make("a", { tools: [write.tool] }),
    [{ calls: [call("write", "1")] }, "done"],
    { approvalCallback }
  )
  return { answer, asked, runtime, write }
})

const stored = <A, E>(body: Effect.Effect<A, E, RunStore>) => Effect.provide(body, Layer.fresh(layerMemory))

describe("a decision made while the approval callback is asked", () => {
  it.effect("takes effect at once, while the callback still runs", () =>
    stored(
      Effect.gen(function* () {
        const { asked, runtime, write } = yield* asking
        const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go" }))
        const request = yield* Deferred.await(asked)
        yield* decideStored([runtime], deny(request, { message: "no" }))
        const { state } = expect(yield* Fiber.join(running), "completed")
        assert.deepStrictEqual(results(state), ["write denied: no"])
        assert.deepStrictEqual(write.ran, [])
      })
    )
  )

  it.effect("wins over a later answer of the callback that the run sees first", () =>
    stored(
      Effect.gen(function* () {
        const { answer, asked, runtime, write } = yield* asking
        const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go" }))
        const request = yield* Deferred.await(asked)
        // Directly in the store, as another process would.
        const store = yield* RunStore
        yield* Effect.all([
          store.decide(deny(request, { message: "no" })),
          Deferred.succeed(answer, approve(request, { by: "callback" }))
        ])
        const { state } = expect(yield* Fiber.join(running), "completed")
        assert.deepStrictEqual(results(state), ["write denied: no"])
        assert.deepStrictEqual(write.ran, [])
        assert.strictEqual(state.requests[0]?.decision?.by, "ann")
      })
    )
  )

  it.effect("wins over the callback's later answer in a run without a store", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { answer, asked, runtime, write } = yield* asking
        const handle = yield* dispatchPrompt(runtime, { prompt: "go" })
        const request = yield* Deferred.await(asked)
        yield* Effect.all([
          handle.decide(deny(request, { message: "no" })),
          Deferred.succeed(answer, approve(request, { by: "callback" }))
        ])
        const { state } = expect(yield* handle.done, "completed")
        assert.deepStrictEqual(results(state), ["write denied: no"])
        assert.deepStrictEqual(write.ran, [])
      })
    )
  )

  it.effect("is rejected with AlreadyDecided when the callback was first", () =>
    stored(
      Effect.gen(function* () {
        const { answer, asked, runtime, write } = yield* asking
        const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go" }))
        const request = yield* Deferred.await(asked)
        yield* Deferred.succeed(answer, approve(request, { by: "callback" }))
        const { state } = expect(yield* Fiber.join(running), "completed")
        assert.deepStrictEqual(results(state), ["write completed: write:1"])
        const late = yield* Effect.flip(decideStored([runtime], deny(request)))
        assert.strictEqual(late._tag, "AlreadyDecided")
        assert.deepStrictEqual(write.ran, ["1"])
      })
    )
  )
})
