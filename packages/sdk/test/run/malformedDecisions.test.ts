import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import { decodeDecision } from "../../src/run/internal/decisions.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"

const malformed: ReadonlyArray<unknown> = [
  null,
  {},
  { _tag: "approve" },
  { _tag: "approve", requestId: "run_1.r1" },
  { _tag: "approve", requestId: 3, by: "ada" },
  { _tag: "approve", requestId: "no id", by: "ada" },
  { _tag: "approve", requestId: "run_1.r1", by: "" },
  { _tag: "topUp", requestId: "run_1.r1", by: "ada", limit: "x" },
  { _tag: "supply", requestId: "run_1.r1", by: "ada", result: new Date(0) }
]

describe("a malformed decision", () => {
  it.effect("is refused with the same message with a store and without one", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      const clock = yield* Clock.Clock
      for (const given of malformed as ReadonlyArray<DecisionInput>) {
        const inStore = yield* Effect.flip(store.decide(given))
        const inState = yield* Effect.flip(decodeDecision(given, clock))
        assert.strictEqual(inStore._tag, "DecisionMalformed")
        assert.strictEqual(inState.message, inStore.message)
      }
    }).pipe(Effect.provide(layerMemory))
  )
})
