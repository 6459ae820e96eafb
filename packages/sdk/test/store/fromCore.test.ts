import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Struct from "effect/Struct"
import { fromCore, layerMemory, RunStore } from "../../src/store/RunStore.ts"
import type { Derived } from "../../src/store/RunStorePort.ts"
import { suite } from "../../src/testing/RunStoreContract.ts"

const derived = {
  head: true,
  events: true,
  decisions: true,
  messages: true,
  latest: true,
  sessions: true,
  damaged: true,
  changes: true,
  prune: true
} satisfies Record<Derived, true>

const layer = Layer.effect(
  RunStore,
  Effect.map(RunStore, (store) => fromCore(Struct.omit(store, Struct.keys(derived))))
).pipe(Layer.provide(Layer.fresh(layerMemory)))

suite({ assert, describe, it })("derived from its core", layer)
