import { existsSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import { agent, createFermata, History, type Id } from "@fermata/node"
import { loadState } from "@fermata/sdk/durable"
import { RunStore } from "@fermata/sdk/store"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as SqliteStore from "../../src/SqliteStore.ts"
import { readLive } from "../locks.ts"
import { temporaryDirectory, temporaryFile } from "../temporaryStore.ts"
import { foreign, withStore } from "./fixtures.ts"

const secret = "the-canary-sings"

/** How often the secret occurs in the files on the disk. */
const traces = (filename: string): number =>
  ["", "-wal", "-journal"]
    .map((suffix) => `${filename}${suffix}`)
    .filter((path) => existsSync(path))
    .reduce((sum, path) => sum + readLive(path).split(secret).length - 1, 0)

/** A session with so many exchanges, each with the secret; the runs, oldest first. */
const converse = (filename: string, exchanges: number) =>
  Effect.promise(async () => {
    await using fermata = await createFermata({
      agents: [agent("a")],
      model: ScriptedModel.make(({ messages }) => `${messages.length} ${"answer ".repeat(20)}`).client,
      store: filename
    })
    const runs: Array<string> = []
    for (let index = 0; index < exchanges; index += 1) {
      const said = await fermata.runPrompt("a", `${secret} ${index}`, { sessionId: "talk" })
      runs.push(said.runId)
    }
    return runs as ReadonlyArray<string> as ReadonlyArray<Id.RunId>
  })

describe("SqliteStore, with checkpoints", () => {
  it.effect("passes the check, as does its backup", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const copy = `${yield* temporaryDirectory}/copy.db`
      yield* converse(filename, 140)
      yield* SqliteStore.backup({ filename, to: copy })
      for (const name of [filename, copy]) {
        assert.deepStrictEqual((yield* SqliteStore.check({ filename: name })).problems, [])
        foreign(name, (database) => {
          const [row] = database.prepare("SELECT count(*) AS count FROM fermata_checkpoints").all()
          assert.strictEqual(row?.["count"], 2)
        })
      }
    })
  )

  for (const [what, damage, problem] of [
    [
      "differs from its journal",
      `UPDATE fermata_chunks SET messages = replace(messages, '${secret} 3"', '${secret} 4"') WHERE place = 0`,
      "differs from its journal"
    ],
    ["cannot be read", "UPDATE fermata_checkpoints SET state = '{'", "cannot be read, and is not used"],
    ["has no chunks", "DELETE FROM fermata_chunks WHERE place = 0", "cannot be read, and is not used"],
    [
      "belongs to no run",
      "UPDATE fermata_checkpoints SET run_id = 'absent'; UPDATE fermata_chunks SET run_id = 'absent'",
      "There is a checkpoint of absent, but no such run"
    ],
    ["has no table", "DROP TABLE fermata_chunks", "Tables are missing (fermata_chunks)"]
  ] as const) {
    it.effect(`reports a checkpoint that ${what} in a check`, () =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        yield* converse(filename, 70)
        foreign(filename, (database) => database.exec(damage))
        const { ok, problems } = yield* SqliteStore.check({ filename })
        assert.isFalse(ok)
        assert.include(problems[0], problem)
      })
    )
  }

  for (const damage of [
    "checkpoints SET revision = revision - 1",
    "checkpoints SET revision = -1",
    "checkpoints SET revision = 1.5",
    "checkpoints SET chunks = 1e10",
    "checkpoints SET base_run_id = run_id, base_chunks = 1",
    "checkpoints SET state = x'00ff'",
    "chunks SET messages = '[]'",
    "chunks SET place = place + 1 WHERE place = 1"
  ]) {
    it.effect(`folds the journal when a checkpoint is damaged: ${damage}`, () =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        yield* converse(filename, 68)
        foreign(filename, (database) => database.exec(`UPDATE fermata_${damage}`))
        const [runId] = yield* converse(filename, 1)
        const { history } = yield* withStore(filename, (store) =>
          Effect.provideService(loadState(runId!), RunStore.RunStore, store)
        )
        assert.strictEqual(History.size(history), 2 * 69)
        assert.include(JSON.stringify(History.last(history)), "137 answer")
      })
    )
  }

  it.effect("leaves no text of removed runs in checkpoints", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const runs = yield* converse(filename, 140)
      const text = () => traces(filename)
      // All of the journals, and most of the checkpoints: a text that continues on another page is not found.
      assert.isAbove(text(), 140 + 100)
      yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          // The newest first: each builds on the one before.
          for (const runId of runs.toReversed()) yield* store.remove(runId)
          assert.strictEqual(text(), 0)
        })
      )
      foreign(filename, (database) => {
        for (const table of ["fermata_checkpoints", "fermata_chunks"]) {
          assert.deepStrictEqual(database.prepare(`SELECT * FROM ${table}`).all(), [])
        }
      })
    })
  )

  it.effect("prunes checkpoints with their runs", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* converse(filename, 70)
      yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          assert.strictEqual(yield* store.prune({ endedBefore: Number.MAX_SAFE_INTEGER }), 70)
          assert.strictEqual(traces(filename), 0)
        })
      )
    })
  )
})
