/**
 * The one test configuration: a project per package, each running the `*.test.ts` files under its `test/`, and one for the tests
 * that need a Postgres, which is started once for all of them. Workspace packages resolve to their sources through the
 * `@fermata/source` condition, so tests need no build.
 */
import { availableParallelism } from "node:os"
import { join } from "node:path"
import { defineConfig } from "vitest/config"

// Processes that tests start compile the sources once for all of them. The folder goes with the next `npm ci`.
process.env["NODE_COMPILE_CACHE"] ??= join(import.meta.dirname, "node_modules/.cache/node-compile")

// Naming conditions replaces Vite's own, so they are repeated after ours.
const resolve = { conditions: ["@fermata/source", "module", "node", "development|production"] }

const project = (name: string, setup: ReadonlyArray<string> = []) => ({
  // Inherits the conditions, so that `@fermata/*` means the sources everywhere.
  extends: true as const,
  test: {
    name,
    root: `packages/${name}`,
    setupFiles: [...setup],
    include: ["test/**/*.test.ts"],
    exclude: ["test/postgres/**", "node_modules/**"],
    // Generous, for machines that are busy: what hangs is found all the same.
    testTimeout: 300_000
  }
})

const postgres = {
  extends: true as const,
  test: {
    name: "postgres",
    root: "packages/node",
    include: ["test/postgres/**/*.test.ts"],
    globalSetup: join(import.meta.dirname, "packages/node/test/postgres/server.ts"),
    testTimeout: 300_000
  }
}

/** Keeps tests from opening a file that their process has locked. */
const lockGuard = join(import.meta.dirname, "packages/node/test/lockGuard.ts")

export default defineConfig({
  resolve,
  ssr: { resolve },
  test: {
    // One more than cores: stores wait for the disk and for other processes.
    maxWorkers: availableParallelism() + 1,
    // Files share the modules that a worker has loaded. Importing has no effects, and no test replaces a module.
    isolate: false,
    projects: [project("sdk"), project("node", [lockGuard]), project("ai-sdk"), postgres]
  }
})
