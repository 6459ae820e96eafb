import { layerMemory } from "../../src/store/RunStore.ts"
import { stored, unstored } from "./Mode.ts"
import { repeatedSuite } from "./repeatedSuite.ts"

repeatedSuite(unstored)
repeatedSuite(stored("memory", layerMemory))
