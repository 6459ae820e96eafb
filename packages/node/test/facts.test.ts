import { SqliteStore } from "@fermata/node"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { factsSuite } from "../../sdk/test/scenario/factsSuite.ts"
import { stored } from "../../sdk/test/scenario/Mode.ts"
import { temporaryFile } from "./temporaryStore.ts"

factsSuite(
  stored("SQLite", Layer.unwrap(Effect.map(temporaryFile, (filename) => SqliteStore.layer({ filename }))))
)
