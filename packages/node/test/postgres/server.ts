/**
 * The server of all tests in this folder: started once, before the first of them.
 */
import type { TestProject } from "vitest/node"
import { openPostgres } from "../../../../scripts/internal/postgres.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** The URL of a database in which tests may create schemas. */
    readonly postgresUrl: string
  }
}

export default async (project: TestProject) => {
  const server = await openPostgres()
  project.provide("postgresUrl", await server.database(`fermata_test_${process.pid}`))
  return server.close
}
