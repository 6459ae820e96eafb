import { SqliteStore } from "@fermata/node"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { stored } from "../../sdk/test/scenario/Mode.ts"
import { repeatedSuite } from "../../sdk/test/scenario/repeatedSuite.ts"
import { temporaryFile } from "./temporaryStore.ts"

repeatedSuite(
  stored("SQLite", Layer.unwrap(Effect.map(temporaryFile, (filename) => SqliteStore.layer({ filename }))))
)
