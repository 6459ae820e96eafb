import { assert, describe, it } from "@effect/vitest"
import { agent, createFermata, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import { temporaryFile } from "../temporaryStore.ts"
import { foreign, run, started, withStore } from "./fixtures.ts"

/** Claims all free runs as an earlier version does, which stores no length of a lease. */
const claimAsBefore = (filename: string, ttlMs: number) =>
  foreign(filename, (database) =>
    database.exec(`UPDATE fermata_runs SET owner = 'earlier', epoch = epoch + 1, claim = 'its own',
      lease_until = cast(unixepoch('subsec') * 1000 as integer) + ${ttlMs}
      WHERE lease_until IS NULL OR lease_until <= cast(unixepoch('subsec') * 1000 as integer)`)
  )

/** Sets the clock of this machine back, as far as the leases in the file show it. */
const setBack = (filename: string, ms: number) =>
  foreign(filename, (database) => database.exec(`UPDATE fermata_runs SET lease_until = lease_until + ${ms}`))

const thirtySevenMinutes = 37 * 60_000

describe("a lease in a SQLite store", () => {
  it.live("of a process that died ends when the clock is set back: recover takes its runs up at once", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const look = tool("look", { safety: "readOnly", handler: () => "seen" })
      const model = ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [{ tool: "look" }] } : "done"))
      const open = () =>
        createFermata({ agents: [agent("a", { tools: [look] })], model: model.client, store: filename })
      const ids = Array.from({ length: 8 }, (_, index) => `left-${index}`)
      yield* Effect.promise(async () => {
        const fermata = await open()
        for (const runId of ids) await fermata.runPrompt("a", "go", { runId })
        await fermata.close()
      })
      // The state after a kill at work: leases of the dead process, and journals that are cut short.
      foreign(filename, (database) =>
        database.exec(`DELETE FROM fermata_journal WHERE sequence > 0; DELETE FROM fermata_checkpoints;
          UPDATE fermata_runs SET status = 'running', owner = 'dead', lease_ms = 15000, lease_epoch = epoch,
            revision = (SELECT sum(count) FROM fermata_journal AS entry WHERE entry.run_id = fermata_runs.run_id),
            lease_until = cast(unixepoch('subsec') * 1000 as integer) + 15000`)
      )
      yield* Effect.promise(async () => {
        const fermata = await open()
        assert.deepStrictEqual(await fermata.recover(), [])
        assert.strictEqual(
          (await fermata.runs()).every(({ lease }) => lease?.owner === "dead"),
          true
        )
        setBack(filename, thirtySevenMinutes)
        assert.deepStrictEqual((await fermata.recover()).map(({ runId }) => String(runId)).toSorted(), ids)
        assert.isTrue((await fermata.runs()).every(({ status }) => status === "completed"))
        await fermata.close()
      })
    })
  )

  it.live.each([1000, thirtySevenMinutes])(
    "is kept while the clock is set back by %i ms: the body's result is recorded, and nothing is in doubt",
    (ms) =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        let bodies = 0
        const pay = tool("pay", {
          needsApproval: false,
          handler: () => {
            bodies += 1
            setBack(filename, ms)
            return "paid"
          }
        })
        const model = ScriptedModel.make([{ calls: [{ tool: "pay" }] }, "done"])
        yield* Effect.promise(async () => {
          const fermata = await createFermata({
            agents: [agent("a", { tools: [pay] })],
            model: model.client,
            store: filename
          })
          const result = await fermata.runPrompt("a", "go", { runId: "r" })
          assert.deepStrictEqual([result.status, bodies], ["completed", 1])
          assert.deepStrictEqual([await fermata.pending(), await fermata.recover()], [[], []])
          await fermata.close()
        })
      })
  )

  it.effect("of an earlier version is judged by its end alone, also after a lease of this version", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          yield* store.release(yield* started(store, run(1)))
          yield* store.release(yield* store.claim({ runId: run(1), owner: "me", ttl: 400 }))
          claimAsBefore(filename, 15_000)
          for (const clock of ["as it was", "set back"]) {
            const busy = yield* Effect.flip(store.claim({ runId: run(1), owner: "me", ttl: "15 seconds" }))
            assert.strictEqual(busy._tag, "RunBusy", clock)
            assert.strictEqual((yield* store.head(run(1))).lease?.owner, "earlier", clock)
            setBack(filename, thirtySevenMinutes)
          }
          setBack(filename, -10 * thirtySevenMinutes)
          const lease = yield* store.claim({ runId: run(1), owner: "me", ttl: "15 seconds" })
          assert.strictEqual((yield* store.head(run(1))).lease?.until, lease.until)
        })
      )
    })
  )

  it.effect("of this version is respected by an earlier version", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          yield* started(store, run(1))
          claimAsBefore(filename, 15_000)
          assert.strictEqual((yield* store.head(run(1))).lease?.owner, "test")
        })
      )
    })
  )
})
