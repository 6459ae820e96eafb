import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import * as Effect from "effect/Effect"
import { assert, it, onTestFinished } from "vitest"
import { sourceFlags } from "../../../../scripts/internal/sourceFlags.ts"
import { emptySchema } from "./database.ts"

it("the web service of example 35 and its worker share a Postgres database", async () => {
  const { url } = await Effect.runPromise(emptySchema)
  const cwd = mkdtempSync(join(tmpdir(), "fermata-service-"))
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
  const example = join(import.meta.dirname, "../../../../examples/35_web-service.ts")
  const child = spawn(process.execPath, [...sourceFlags, example], {
    cwd,
    env: { ...process.env, STORE: url }
  })
  const [output, problems, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "exit")
  ])
  assert.strictEqual(code, 0, problems)
  assert.include(output, "status: 'completed'")
})
