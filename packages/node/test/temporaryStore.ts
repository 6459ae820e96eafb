/**
 * Directories that are removed when their test ends.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"

/** An empty directory. */
export const temporaryDirectory = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "fermata-store-"))),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
)

/** The name of a file that does not exist yet, in a directory of its own. */
export const temporaryFile = Effect.map(temporaryDirectory, (directory) => join(directory, "runs.db"))
