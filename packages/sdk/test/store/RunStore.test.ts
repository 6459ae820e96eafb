import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { layerMemory } from "../../src/store/RunStore.ts"
import { suite } from "../../src/testing/RunStoreContract.ts"

suite({ assert, describe, it })("memory", layerMemory, {
  setBack: (milliseconds) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => TestClock.setTime(now - milliseconds))
})
