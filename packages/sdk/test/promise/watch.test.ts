import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { makeWatch } from "../../src/promise/internal/events.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { bind, call, probe } from "../helpers/Fixture.ts"

/** A token that counts its listeners. */
const counting = () => {
  const closed = Cancellation.make()
  let listeners = 0
  const onCancel: typeof closed.onCancel = (listener) => {
    const stop = closed.onCancel(listener)
    listeners += 1
    return () => {
      listeners -= 1
      stop()
    }
  }
  return { closed: { reason: closed.reason, onCancel } as typeof closed, listeners: () => listeners }
}

describe("a watcher that was left", () => {
  it.live("keeps no listener of its Fermata", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      const { runtime } = yield* bind(Agent.make("a", { tools: [probe("pay").tool] }), [
        { calls: [call("pay", "1")] }
      ])
      const { runId } = yield* runPromptStored(runtime, { prompt: "go" })
      const { closed, listeners } = counting()
      const { events } = makeWatch({
        store,
        closed,
        fork: Effect.runForkWith(yield* Effect.context<never>())
      })
      yield* Effect.promise(async () => {
        for (let reader = 0; reader < 20; reader += 1) {
          for await (const _ of events(runId, { until: "end" })) break
        }
      })
      assert.strictEqual(listeners(), 0)
    }).pipe(Effect.provide(layerMemory))
  )
})
