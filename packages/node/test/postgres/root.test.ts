import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { startPostgres } from "../../../../scripts/internal/postgres.ts"
import { bundledPrograms } from "../../../../scripts/internal/postgresPrograms.ts"

// Only root switches to another user, who may be refused where root may enter.
describe.skipIf(process.getuid?.() !== 0)("A Postgres of the tests, started by root", () => {
  it("runs when its programs and TMPDIR lie in a folder that only root may enter", async () => {
    const folder = Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-root-"))
    const before = process.env["TMPDIR"]
    try {
      Fs.chmodSync(folder, 0o700)
      const { initdb, postgres } = await bundledPrograms()
      const installed = Path.join(Path.dirname(postgres), "..")
      Fs.cpSync(installed, Path.join(folder, "native"), { recursive: true, verbatimSymlinks: true })
      const moved = (program: string) => Path.join(folder, "native", Path.relative(installed, program))
      process.env["TMPDIR"] = folder
      const server = await startPostgres({
        programs: { initdb: moved(initdb), postgres: moved(postgres) }
      })
      try {
        assert.include(await server.database("ledger"), "/ledger")
      } finally {
        await server.close()
      }
      assert.deepStrictEqual(Fs.readdirSync(folder), ["native"])
    } finally {
      if (before === undefined) delete process.env["TMPDIR"]
      else process.env["TMPDIR"] = before
      Fs.rmSync(folder, { recursive: true, force: true })
    }
  })
})
