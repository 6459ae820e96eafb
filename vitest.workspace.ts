/**
 * The one test configuration: a project per package, each running its `test/**\/*.test.ts`. Workspace packages resolve to
 * their sources through the `@fermata/source` condition, so tests need no build.
 */
import { defineConfig } from "vitest/config"

const conditions = ["@fermata/source"]

const project = (name: string) => ({
  // A project inherits the conditions below (`extends`), so `@fermata/*` means the sources everywhere.
  extends: true as const,
  test: { name, root: `packages/${name}`, include: ["test/**/*.test.ts"] }
})

export default defineConfig({
  resolve: { conditions: [...conditions, "module", "node", "development|production"] },
  ssr: { resolve: { conditions: [...conditions, "module", "node", "development|production"] } },
  test: { projects: [project("sdk"), project("node")], passWithNoTests: true }
})
