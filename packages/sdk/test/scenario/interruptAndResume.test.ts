import { layerMemory } from "../../src/store/RunStore.ts"
import { interruptSuite } from "./interruptSuite.ts"
import { stored, unstored } from "./Mode.ts"

interruptSuite(unstored)
interruptSuite(stored("memory", layerMemory))
