import { layerMemory } from "../../src/store/RunStore.ts"
import { factsSuite } from "./factsSuite.ts"
import { stored, unstored } from "./Mode.ts"

factsSuite(unstored)
factsSuite(stored("memory", layerMemory))
