import { assert, describe, it } from "@effect/vitest"
import { layerMemory } from "../../src/store/RunStore.ts"
import { suite } from "../../src/testing/RunStoreContract.ts"

suite({ assert, describe, it })("memory", layerMemory)
