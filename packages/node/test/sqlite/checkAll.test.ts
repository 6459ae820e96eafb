import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SqliteStore } from "@fermata/node"
import { onTestFinished } from "vitest"
import { checkAllSuite } from "../../../sdk/test/promise/checkAllSuite.ts"
import { foreign } from "./fixtures.ts"

checkAllSuite("SQLite", async () => {
  const directory = mkdtempSync(join(tmpdir(), "fermata-check-all-"))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  const filename = join(directory, "runs.db")
  return {
    store: SqliteStore.layer({ filename }),
    execute: async (statement) => foreign(filename, (database) => database.exec(statement))
  }
})
