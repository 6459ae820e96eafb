/**
 * Runs whose process is killed while they are held in a sandbox.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { assert, describe, it } from "vitest"
import { sourceFlags } from "../../../../scripts/internal/sourceFlags.ts"
import { expireLeases } from "../expireLeases.ts"
import { withoutBubblewrap } from "./bubblewrap.ts"
import { describeProcess, processesWith } from "./processes.ts"

const program = join(import.meta.dirname, "../programs/sandboxedShell.ts")

const start = (...args: ReadonlyArray<string>) =>
  spawn(process.execPath, [...sourceFlags, program, ...args], {
    stdio: ["ignore", "pipe", "inherit"]
  })

const outputOf = async (child: ReturnType<typeof start>): Promise<string> => {
  let output = ""
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text))
  await once(child, "close")
  return output
}

/** Holds a run in its first process, which is killed. */
const killedWhileHeld = async (
  body: (place: { readonly store: string; readonly workdir: string }) => Promise<void>
) => {
  const top = realpathSync(mkdtempSync(join(tmpdir(), "fermata-killed-")))
  const [store, workdir, text] = [join(top, "runs.db"), join(top, "work"), basename(top)]
  mkdirSync(workdir)
  const first = start("hold", store, workdir, text)
  try {
    const [line] = await once(first.stdout.setEncoding("utf8"), "data")
    assert.strictEqual(line, "held\n")
    // The program itself, and its command in the background.
    assert.isAbove(processesWith(text).length, 1, JSON.stringify(processesWith(text).map(describeProcess)))
    first.kill("SIGKILL")
    await once(first, "exit")
    // The wall ends with the process that made it.
    expireLeases(store)
    while (processesWith(text).length > 0) await new Promise((resolve) => setTimeout(resolve, 10))
    await body({ store, workdir })
  } finally {
    first.kill("SIGKILL")
    rmSync(top, { recursive: true, force: true })
  }
}

describe.skipIf(withoutBubblewrap !== undefined)(
  "a run that is held in a confined sandbox",
  { timeout: 120_000 },
  () => {
    it("attaches to it again after its process was killed, and leaves no process behind", () =>
      killedWhileHeld(async ({ store, workdir }) => {
        const [status, text, sandbox] = JSON.parse(await outputOf(start("resume", store, workdir)))
        assert.strictEqual(status, "completed")
        assert.include(text, "confined to the working directory, without network: before the kill\\nwalled")
        assert.deepEqual(sandbox, { backend: "bubblewrap", id: "work", workdir })
        assert.strictEqual(readFileSync(join(workdir, "note"), "utf8"), "before the kill\n")
      }))

    it("stays held if the directory of its sandbox is gone", () =>
      killedWhileHeld(async ({ store, workdir }) => {
        rmSync(workdir, { recursive: true })
        const [status, missing] = JSON.parse(await outputOf(start("resume", store, workdir)))
        assert.strictEqual(status, "interrupted")
        assert.deepInclude(missing[0], { _tag: "ToolUnavailable", reason: "sandboxLost" })
      }))
  }
)
