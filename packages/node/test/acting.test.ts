import * as Effect from "effect/Effect"
import * as SqliteStore from "../src/SqliteStore.ts"
import { acting } from "./acting.ts"
import { temporaryFile } from "./temporaryStore.ts"

acting(
  "SQLite",
  Effect.map(temporaryFile, (filename) => SqliteStore.layer({ filename }))
)
