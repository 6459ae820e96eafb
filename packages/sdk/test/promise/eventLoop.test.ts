import { layerMemory } from "../../src/store/RunStore.ts"
import { eventLoopSuite } from "./eventLoopSuite.ts"

eventLoopSuite("the memory store", layerMemory)
