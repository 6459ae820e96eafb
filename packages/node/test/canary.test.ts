/**
 * Secrets of a program, seeded wherever a run can meet them, are in nothing that the run writes or emits.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { RunStore } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import { sourceFlags } from "../../../scripts/internal/sourceFlags.ts"
import { found, playThrough } from "./canaries.ts"
import { cores, environment } from "./programs/leakingRun.ts"
import { temporaryDirectory } from "./temporaryStore.ts"

/** The names of the files with a piece of a secret, and the size of all files. */
const search = (directory: string) => {
  const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile()
  )
  const contents = files.map(({ name, parentPath }) => [name, readFileSync(join(parentPath, name))] as const)
  return {
    names: contents.map(([name]) => name),
    leaking: contents.flatMap(([name, bytes]) => found(bytes).map((piece) => `${name}: ${piece}`)),
    text: contents.map(([, bytes]) => bytes.toString("latin1")).join("\n")
  }
}

describe("a secret of a program", () => {
  it("is found by the search of this test, in every encoding", () => {
    for (const core of Object.values(cores))
      for (const form of [
        `"${core}"`,
        Buffer.from(`me:${core}`).toString("base64"),
        Buffer.from(`ab${core}`).toString("base64url"),
        Buffer.from(core).toString("hex")
      ])
        assert.isNotEmpty(found(Buffer.from(`... ${form} ...`)))
  })

  it.live(
    "is in no byte of a SQLite store, its archives, logs, spans and events, also when the process is killed",
    () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const begin = (half: string) => {
          const program = join(import.meta.dirname, "programs/leakingRun.ts")
          const child = spawn(process.execPath, [...sourceFlags, "--no-warnings", program, half, directory], {
            env: environment,
            stdio: ["ignore", "pipe", "pipe"]
          })
          const printed: Array<Buffer> = []
          child.stdout.on("data", (bytes) => printed.push(bytes))
          child.stderr.on("data", (bytes) => printed.push(bytes))
          return { child, printed: () => Buffer.concat(printed) }
        }
        const first = begin("start")
        yield* Effect.promise(() => once(first.child.stdout, "data"))
        first.child.kill("SIGKILL")
        yield* Effect.promise(() => once(first.child, "close"))
        assert.strictEqual(first.printed().toString(), "ready\n")
        const killed = search(directory)
        assert.includeMembers(killed.names, ["runs.db", "runs.db-wal"])
        assert.deepStrictEqual(killed.leaking, [])
        const second = begin("finish")
        yield* Effect.promise(() => once(second.child, "close"))
        assert.strictEqual(second.printed().toString(), "")
        const ended = search(directory)
        assert.deepStrictEqual(ended.leaking, [])
        for (const place of [
          "update",
          "result",
          "log",
          "span",
          "archive",
          "state",
          "explanation",
          "hook onToolCall"
        ])
          assert.include(ended.names, `${place}.log`)
        for (const type of ["app-token", "vault-key", "obtained"])
          assert.include(ended.text, `[REDACTED:${type}]`)
      })
  )

  it.live("is in nothing that a run in memory keeps or emits", () =>
    Effect.gen(function* () {
      for (const bytes of yield* playThrough) {
        assert.include(bytes.toString(), "[REDACTED:app-token]")
        assert.deepStrictEqual(found(bytes), [])
      }
    }).pipe(Effect.provide(RunStore.layerMemory))
  )
})
