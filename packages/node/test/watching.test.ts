import { RunStore } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqliteStore from "../src/SqliteStore.ts"
import { temporaryFile } from "./temporaryStore.ts"
import { watching } from "./watching.ts"

const inMemory = Effect.map(Effect.provide(RunStore.RunStore, Layer.fresh(RunStore.layerMemory)), (store) =>
  Layer.succeed(RunStore.RunStore, store)
)

watching("memory", inMemory)
watching(
  "SQLite",
  Effect.map(temporaryFile, (filename) => SqliteStore.layer({ filename }))
)
