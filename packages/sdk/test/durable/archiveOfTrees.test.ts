import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { archiveOfTrees } from "./archiveOfTreesSuite.ts"

const memory = Effect.provide(RunStore, Layer.fresh(layerMemory))

archiveOfTrees("in memory", { from: memory, to: memory, stories: 20 })
