import { assert, describe, it } from "@effect/vitest"
import { RunStore } from "@fermata/sdk/store"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqliteStore from "../src/SqliteStore.ts"
import { race } from "./messageRace.ts"
import { temporaryFile } from "./temporaryStore.ts"

const rounds = 500

describe("a message that is sent while its run parks", () => {
  it.live(
    `enters the journal once in each of ${rounds} races between a driver, a sender and a listener`,
    () =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        const layer = SqliteStore.layer({ filename, synchronous: "normal" })
        const outcome = yield* race(
          Effect.map(Layer.build(Layer.fresh(layer)), Context.get(RunStore.RunStore)),
          rounds,
          25
        )
        // Both outcomes occurred.
        assert.isAbove(Math.min(outcome.driver, outcome.listener), 20, JSON.stringify(outcome))
      }).pipe(Effect.scoped),
    300_000
  )
})
