import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { SqliteStore } from "@fermata/node"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { interruptSuite } from "../../sdk/test/scenario/interruptSuite.ts"
import { stored } from "../../sdk/test/scenario/Mode.ts"

const temporaryFile = Effect.acquireRelease(
  Effect.sync(() => Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-scenario-"))),
  (folder) => Effect.sync(() => Fs.rmSync(folder, { recursive: true, force: true }))
).pipe(Effect.map((folder) => Path.join(folder, "runs.db")))

interruptSuite(
  stored("SQLite", Layer.unwrap(Effect.map(temporaryFile, (filename) => SqliteStore.layer({ filename }))))
)
