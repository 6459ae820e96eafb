import { RunStore } from "@fermata/sdk/store"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { repeats } from "../../../../scripts/internal/effort.ts"
import { archiveOfTrees } from "../../../sdk/test/durable/archiveOfTreesSuite.ts"
import * as SqliteStore from "../../src/SqliteStore.ts"
import { temporaryFile } from "../temporaryStore.ts"

const memory = Effect.provide(RunStore.RunStore, Layer.fresh(RunStore.layerMemory))

const sqlite = Effect.gen(function* () {
  const filename = yield* temporaryFile
  const layer = SqliteStore.layer({ filename, synchronous: "normal" })
  return Context.get(yield* Layer.build(Layer.fresh(layer)), RunStore.RunStore)
})

archiveOfTrees("from SQLite into memory", { from: sqlite, to: memory, stories: repeats(3) })
archiveOfTrees("from memory into SQLite", { from: memory, to: sqlite, stories: repeats(3) })
