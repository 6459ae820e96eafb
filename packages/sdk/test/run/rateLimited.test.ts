/** Runs whose model calls wait for a rate limit. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import { RunId } from "../../src/domain/Id.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { Guards } from "../../src/model/internal/http/guarded.ts"
import * as ModelBridge from "../../src/model/ModelBridge.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { expect } from "../helpers/Fixture.ts"

const runId = RunId.make("r")

/** A runtime whose model takes one request per minute. `waits` ends when the second request waits for its turn. */
const limited = Effect.gen(function* () {
  const waits = yield* Deferred.make<void>()
  const model = ScriptedModel.make(() => "done")
  const guarded = ModelBridge.guarded(model.client, { server: "s", rateLimit: { requestsPerMinute: 1 } })
  const client: typeof guarded = {
    ...guarded,
    stream: (request) =>
      guarded.stream({
        ...request,
        "~waits": (stop) => {
          const over = request["~waits"]?.(stop)
          if (model.requests.length > 0) Deferred.doneUnsafe(waits, Effect.void)
          return (hasTurn) => over?.(hasTurn)
        }
      })
  }
  const runtime = yield* Effect.provideService(Runtime.make({ agent: Agent.make("a") }), ModelClient, client)
  return { model, runtime, waits: Deferred.await(waits) }
})

const alone = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(
    Effect.provideService(Guards, { windows: new Map(), breakers: new Map() }),
    Effect.provide(Layer.fresh(layerMemory))
  )

describe("a run that waits for its turn under a rate limit", () => {
  it.effect("is suspended at once, without the drain time, and completes later", () =>
    alone(
      Effect.gen(function* () {
        const { model, runtime, waits } = yield* limited
        yield* runPrompt(runtime, { prompt: "first" })
        const suspension = { soon: Cancellation.make(), now: Cancellation.make() }
        const running = yield* Effect.forkChild(
          Effect.flip(runPromptStored(runtime, { prompt: "go", runId }, { suspension })),
          { startImmediately: true }
        )
        yield* waits
        suspension.soon.cancel("The program is being closed.")
        assert.strictEqual((yield* Fiber.join(running))._tag, "RunSuspended")
        assert.lengthOf(model.requests, 1)
        assert.deepInclude(yield* Effect.flatMap(RunStore, (store) => store.head(runId)), {
          status: "running"
        })
        const recovering = yield* Effect.forkChild(recover([runtime]), { startImmediately: true })
        yield* TestClock.adjust("1 minute")
        assert.deepInclude((yield* Fiber.join(recovering))[0], { runId, status: "completed" })
      })
    )
  )

  it.effect("fails with an error that names the rate limit if the wait exceeds modelTimeoutMs", () =>
    alone(
      Effect.gen(function* () {
        const { model, runtime, waits } = yield* limited
        yield* runPrompt(runtime, { prompt: "first" })
        const running = yield* Effect.forkChild(
          runPrompt(runtime, { prompt: "go", limits: { modelTimeoutMs: 5000 } }),
          { startImmediately: true }
        )
        yield* waits
        yield* TestClock.adjust("5 seconds")
        const { error } = expect(yield* Fiber.join(running), "error")
        assert.include(error.message, "waited for its turn under the rate limit")
        assert.include(error.message, "5000 ms")
        assert.lengthOf(model.requests, 1)
      })
    )
  )

  it.effect("is cancelled without a request", () =>
    alone(
      Effect.gen(function* () {
        const { model, runtime, waits } = yield* limited
        yield* runPrompt(runtime, { prompt: "first" })
        const cancellation = Cancellation.make()
        const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }, { cancellation }), {
          startImmediately: true
        })
        yield* waits
        cancellation.cancel("enough")
        assert.strictEqual(expect(yield* Fiber.join(running), "cancelled").reason, "enough")
        assert.lengthOf(model.requests, 1)
      })
    )
  )
})
