import { layerMemory } from "../../src/store/RunStore.ts"
import { queueSuite } from "./queueSuite.ts"

queueSuite("memory", layerMemory)
