import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "@effect/vitest"
import { agent, createFermata, type Fermata, SqliteStore } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"
import * as Effect from "effect/Effect"
import { readLive } from "../locks.ts"

const inDirectory = async (use: (filename: string) => Promise<void>) => {
  const directory = mkdtempSync(join(tmpdir(), "fermata-memory-"))
  try {
    await use(join(directory, "runs.db"))
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

const open = (store: string, options: Partial<Fermata.FermataOptions> = {}) =>
  createFermata({
    agents: [agent("clerk")],
    model: ScriptedModel.make(() => "Noted.").client,
    memory: true,
    ...options,
    store
  })

/** How often a text occurs in the files of a store. */
const traces = (filename: string, text: string): number =>
  ["", "-wal", "-journal"]
    .map((suffix) => `${filename}${suffix}`)
    .filter((path) => existsSync(path))
    .reduce((sum, path) => sum + readLive(path).split(text).length - 1, 0)

describe("memory in a SQLite file", () => {
  it("survives a reopen, and is found by another process's search", () =>
    inDirectory(async (filename) => {
      await using first = await open(filename)
      await using second = await open(filename)
      await first.runPrompt("clerk", "The harbor opens at six.", { sessionId: "s" })
      const scope = { session: "s" }
      assert.strictEqual((await second.memory.recall("harbor", { scope })).length, 2)
      await first.runPrompt("clerk", "The harbor closes at nine.", { sessionId: "s" })
      assert.strictEqual((await second.memory.recall("harbor", { scope })).length, 4)
      await first.close()
      await using third = await open(filename)
      assert.strictEqual((await third.memory.recall("harbor", { scope })).length, 4)
    }))

  it(
    "has what the journal has after the process was killed, and catches up with the rest",
    { timeout: 60_000 },
    () =>
      inDirectory(async (filename) => {
        const sessions = { s: 3, t: 7 }
        for (const [sessionId, prompts] of Object.entries(sessions)) {
          const program = new URL("../programs/rememberer.ts", import.meta.url).pathname
          const child = spawn(
            process.execPath,
            ["--conditions=@fermata/source", program, filename, sessionId],
            {
              stdio: ["ignore", "pipe", "inherit"]
            }
          )
          let seen = 0
          for await (const _ of createInterface(child.stdout)) if ((seen += 1) >= prompts) break
          child.kill("SIGKILL")
          if (child.exitCode === null && child.signalCode === null) await once(child, "exit")
        }
        await using fermata = await open(filename, { leaseTtl: "1 second" })
        const stop = new AbortController()
        const working = fermata.work({ pollInterval: "100 millis", signal: stop.signal })
        for (const [sessionId, prompts] of Object.entries(sessions)) {
          const [last] = await fermata.runs({ sessionId, limit: 1 })
          // All runs before the last one are in memory as a whole; of the last one, what was committed with an append.
          const items = await fermata.memory.list({ sessionId, limit: 1000 })
          assert.isAtLeast(items.length, 2 * prompts)
          for await (const _ of fermata.events(last!.runId, { until: "end" }));
          await fermata.runPrompt("clerk", "And now?", { sessionId })
          assert.deepStrictEqual((await fermata.memory.check({ sessionId })).problems, [])
          const all = await fermata.memory.list({ sessionId, limit: 1000 })
          assert.deepStrictEqual(
            all.map(({ sequence }) => sequence),
            all.map((_, index) => index)
          )
          assert.strictEqual(all.at(-2)?.text, "And now?")
        }
        stop.abort()
        await working
      })
  )

  it("leaves no text and no term of a removed session, and of what was forgotten, in the file and its log", () =>
    inDirectory(async (filename) => {
      await using fermata = await open(filename)
      const { runId } = await fermata.runPrompt("clerk", `The xylophonist ${"plays well ".repeat(300)}`, {
        sessionId: "s"
      })
      await fermata.runPrompt("clerk", "Another session.", { sessionId: "t" })
      const fact = await fermata.memory.remember({
        scope: { user: "anna" },
        text: "A quetzalcoatlus flew by."
      })
      const scope = { session: "s" }
      assert.strictEqual((await fermata.memory.recall("xylophonist", { scope })).length, 2)
      assert.isAbove(traces(filename, "xylophonist"), 1)
      await fermata.remove(runId)
      assert.strictEqual(traces(filename, "xylophonist"), 0)
      assert.strictEqual(await fermata.memory.forget(fact.id), 1)
      assert.strictEqual(traces(filename, "quetzalcoatlu"), 0)
      assert.strictEqual(await fermata.memory.forget("t/0"), 1)
      assert.strictEqual((await fermata.memory.list()).length, 1)
      await fermata.close()
      assert.strictEqual(traces(filename, "xylophonist") + traces(filename, "quetzalcoatlu"), 0)
      assert.isTrue((await Effect.runPromise(SqliteStore.check({ filename }))).ok)
    }))

  it("is deleted with a run that a program without memory removes", () =>
    inDirectory(async (filename) => {
      const fermata = await open(filename)
      const { runId } = await fermata.runPrompt("clerk", "The harbor opens at six.", { sessionId: "s" })
      await fermata.close()
      // As a version does that knows no memory: it deletes the rows that it knows.
      const database = new DatabaseSync(filename)
      database.prepare("DELETE FROM fermata_runs WHERE run_id = ?").run(runId)
      assert.deepStrictEqual(database.prepare("SELECT count(*) AS rows FROM fermata_memory").get(), {
        rows: 0
      })
      database.close()
    }))

  it("makes no tables in a store whose programs do not use it", () =>
    inDirectory(async (filename) => {
      const fermata = await open(filename, { memory: false })
      await fermata.runPrompt("clerk", "The harbor opens at six.", { sessionId: "s" })
      await fermata.close()
      const database = new DatabaseSync(filename)
      const tables = database
        .prepare("SELECT name FROM sqlite_schema WHERE name LIKE 'fermata_memory%'")
        .all()
      assert.deepStrictEqual(tables, [])
      database.close()
    }))

  it("refuses tables of a newer version, and runs go on without it", () =>
    inDirectory(async (filename) => {
      const first = await open(filename)
      await first.memory.remember("x")
      await first.close()
      const database = new DatabaseSync(filename)
      database.exec("INSERT INTO fermata_memory_schema (version, applied_at) VALUES (99, 0)")
      database.close()
      await using fermata = await open(filename)
      const error = await fermata.memory.list().catch((error: unknown) => error)
      assert.include(String(error), "newer version of Fermata")
      assert.strictEqual((await fermata.runPrompt("clerk", "Hello", { sessionId: "s" })).status, "completed")
    }))
})
