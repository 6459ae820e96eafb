import { spawnSync } from "node:child_process"
import { startPostgres } from "./postgres.ts"
const pg = await startPostgres()
const r = spawnSync("vitest", ["run", "--config", "vitest.workspace.ts", "--project", "postgres"], { env: { ...process.env, FERMATA_TEST_PG_URL: pg.url }, encoding: "utf8" })
console.log((r.stdout + r.stderr).split("\n").filter((l) => /×|Tests|Duration|AssertionError/.test(l)).join("\n"))
await pg.close()
