import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { checkAllSuite } from "./checkAllSuite.ts"

checkAllSuite("the memory store", async () => ({
  store: Layer.succeed(RunStore, await Effect.runPromise(Effect.provide(RunStore, layerMemory)))
}))
