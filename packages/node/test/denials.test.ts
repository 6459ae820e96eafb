import { SqliteStore } from "@fermata/node"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { denialSuite } from "../../sdk/test/scenario/denialSuite.ts"
import { stored } from "../../sdk/test/scenario/Mode.ts"
import { temporaryFile } from "./temporaryStore.ts"

denialSuite(
  stored("SQLite", Layer.unwrap(Effect.map(temporaryFile, (filename) => SqliteStore.layer({ filename }))))
)
