import { SqliteStore } from "@fermata/node"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { runContextSuite } from "../../sdk/test/durable/runContextSuite.ts"
import { temporaryFile } from "./temporaryStore.ts"

runContextSuite(
  "SQLite",
  Layer.unwrap(Effect.map(temporaryFile, (filename) => SqliteStore.layer({ filename })))
)
