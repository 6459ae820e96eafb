import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { repeats } from "../../../../scripts/internal/effort.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { archiveOfTrees } from "./archiveOfTreesSuite.ts"

const memory = Effect.provide(RunStore, Layer.fresh(layerMemory))

archiveOfTrees("in memory", { from: memory, to: memory, stories: repeats(8) })
