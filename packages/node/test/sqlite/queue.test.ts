import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SqliteStore } from "@fermata/node"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { queueSuite } from "../../../sdk/test/dispatch/queueSuite.ts"

const directory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "fermata-queue-"))),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
)

queueSuite(
  "SQLite",
  Layer.unwrap(Effect.map(directory, (folder) => SqliteStore.layer({ filename: join(folder, "runs.db") })))
)
