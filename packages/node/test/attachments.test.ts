import { SqliteStore } from "@fermata/node"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { attachmentsSuite } from "../../sdk/test/durable/attachmentsSuite.ts"
import { temporaryFile } from "./temporaryStore.ts"

attachmentsSuite(
  "SQLite",
  Layer.unwrap(Effect.map(temporaryFile, (filename) => SqliteStore.layer({ filename })))
)
