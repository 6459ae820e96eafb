/**
 * The server that all tests of this folder use: started once, before the first of them.
 */
import type { TestProject } from "vitest/node"
import { openPostgres } from "../../../../scripts/internal/postgres.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** Of a database that the tests may fill with schemas of their own. */
    readonly postgresUrl: string
  }
}

export default async (project: TestProject) => {
  const server = await openPostgres()
  project.provide("postgresUrl", await server.database(`fermata_test_${process.pid}`))
  return server.close
}
