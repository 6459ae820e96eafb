import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { submitSuite } from "./submitSuite.ts"

submitSuite("memory", async () =>
  Layer.succeed(RunStore, await Effect.runPromise(Effect.provide(RunStore, layerMemory)))
)
