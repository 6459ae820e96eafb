import { layerMemory } from "../../src/store/RunStore.ts"
import { denialSuite } from "./denialSuite.ts"
import { stored, unstored } from "./Mode.ts"

denialSuite(unstored)
denialSuite(stored("memory", layerMemory))
