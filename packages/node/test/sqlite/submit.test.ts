import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SqliteStore } from "@fermata/node"
import { onTestFinished } from "vitest"
import { submitSuite } from "../../../sdk/test/promise/submitSuite.ts"

submitSuite("SQLite", async () => {
  const directory = mkdtempSync(join(tmpdir(), "fermata-submit-"))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  return SqliteStore.layer({ filename: join(directory, "runs.db") })
})
