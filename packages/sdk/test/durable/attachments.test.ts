import { layerMemory } from "../../src/store/RunStore.ts"
import { attachmentsSuite } from "./attachmentsSuite.ts"

attachmentsSuite("memory", layerMemory)
