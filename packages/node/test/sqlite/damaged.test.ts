import { statSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { agent, approve, createFermata, type Fermata, isRunStoreError, tool } from "@fermata/node"
import type { Id } from "@fermata/sdk"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as SqliteStore from "../../src/SqliteStore.ts"
import { temporaryFile } from "../temporaryStore.ts"
import { foreign } from "./fixtures.ts"

/** Three runs that are held on an approval, `bad` between the others; then the damage, and a program over what is left. */
const after = (
  damage: string,
  body: (fermata: Fermata.Fermata, ran: ReadonlyArray<string>, filename: string) => Promise<void>
) =>
  Effect.gen(function* () {
    const filename = yield* temporaryFile
    yield* Effect.promise(async () => {
      const ran: Array<string> = []
      const pay = tool("pay", {
        handler: (_, { runId }) => {
          ran.push(runId)
          return "paid"
        }
      })
      const open = () =>
        createFermata({
          agents: [agent("clerk", { tools: [pay] })],
          model: ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [{ tool: "pay" }] } : "Done."))
            .client,
          store: filename
        })
      {
        await using fermata = await open()
        for (const runId of ["first", "bad", "last"]) await fermata.runPrompt("clerk", "pay", { runId })
      }
      foreign(filename, (database) => database.exec(damage))
      await using fermata = await open()
      await body(fermata, ran, filename)
    })
  })

/** The sentence of what is refused because it cannot be read. */
const unreadable = async (what: Promise<unknown>): Promise<string> => {
  const error = await what.then(
    () => assert.fail("it did not fail"),
    (error: unknown) => error
  )
  if (!isRunStoreError(error)) return assert.fail(String(error))
  assert.strictEqual(error.reason._tag, "StoreUnreadable")
  return error.message
}

const events = async (fermata: Fermata.Fermata, runId: string) => {
  for await (const _ of fermata.events(runId));
}

const ids = (runs: ReadonlyArray<{ readonly runId: string }>) => runs.map(({ runId }) => runId).toSorted()

const entry = (columns: string) =>
  `The store cannot be read: the entry of the run bad is damaged (${columns}), or was written by a newer version of Fermata: update, restore the store from a backup, or remove the run.`

describe("a store with a damaged row", () => {
  for (const [column, value] of [
    ["status", "'asleep'"],
    ["session_id", "'not an id'"],
    ["created_at", "'yesterday'"],
    ["updated_at", "-1"],
    ["revision", "9223372036854775807"],
    ["parent_run_id", "'first'"]
  ] as const) {
    it.effect(`lists the other runs, and says which one it leaves out: ${column} is ${value}`, () =>
      after(
        `UPDATE fermata_runs SET ${column} = ${value} WHERE run_id = 'bad'`,
        async (fermata, ran, filename) => {
          assert.deepStrictEqual(ids(await fermata.runs()), ["first", "last"])
          assert.deepStrictEqual(ids(await fermata.runs({ limit: 2 })), ["first", "last"])
          const [newest] = await fermata.runs({ limit: 1 })
          assert.deepStrictEqual(ids(await fermata.runs({ limit: 1, after: newest!.runId })), ["first"])
          const damaged = (await fermata.damagedRuns()).filter(({ problem }) => problem.includes("entry"))
          assert.deepStrictEqual(ids(damaged), ["bad"])
          assert.isFalse((await Effect.runPromise(SqliteStore.check({ filename }))).ok)
          const named = column === "parent_run_id" ? "parent_revision" : column
          for (const refused of [
            fermata.state("bad"),
            fermata.explain("bad"),
            fermata.resume("bad"),
            fermata.exportRun("bad")
          ]) {
            assert.strictEqual(await unreadable(refused), entry(named))
          }
          for (const runId of ["first", "last"]) await fermata.decide(`${runId}.r1`, approve())
          await fermata.recover()
          assert.deepStrictEqual(ran.toSorted(), ["first", "last"])
          await fermata.remove("bad")
          assert.deepStrictEqual(await fermata.damagedRuns(), [])
        }
      )
    )
  }

  it.effect("ends reading a run that builds on itself, by way of others or not, and lets it be removed", () =>
    after(
      "UPDATE fermata_runs SET parent_run_id = 'bad', parent_revision = revision WHERE run_id = 'bad'",
      async (fermata, _, filename) => {
        for (const read of [
          fermata.state("bad"),
          fermata.resume("bad"),
          fermata.explain("bad"),
          fermata.exportRun("bad")
        ]) {
          assert.include(await unreadable(read), "the journal of bad")
        }
        foreign(filename, (database) =>
          database.exec(
            `UPDATE fermata_runs SET parent_revision = revision,
              parent_run_id = CASE run_id WHEN 'bad' THEN 'first' ELSE 'bad' END WHERE run_id IN ('first', 'bad')`
          )
        )
        assert.include(await unreadable(fermata.state("bad")), "the journal of bad")
        assert.include(await unreadable(fermata.state("first")), "the journal of first")
        assert.strictEqual((await fermata.state("last")).status, "held")
        const { problems } = await Effect.runPromise(SqliteStore.check({ filename }))
        for (const runId of ["bad", "first"]) {
          assert.include(problems, `The run ${runId} builds on itself: restore a backup, or remove the run.`)
        }
        await fermata.remove("bad")
        await fermata.remove("first")
        assert.deepStrictEqual(ids(await fermata.runs()), ["last"])
        assert.isTrue((await Effect.runPromise(SqliteStore.check({ filename }))).ok)
      }
    )
  )

  it.effect("does not wait for events that are not there, and gives none that the run does not have", () =>
    after("DELETE FROM fermata_journal WHERE run_id = 'bad'", async (fermata) => {
      assert.include(await unreadable(events(fermata, "bad")), "the journal of bad has a gap")
      await events(fermata, "first")
    })
  )

  it.effect("does not take a journal that is longer than its run for a run at an earlier moment", () =>
    after("UPDATE fermata_runs SET revision = revision - 1 WHERE run_id = 'bad'", async (fermata, ran) => {
      for (const read of [fermata.state("bad"), fermata.resume("bad"), events(fermata, "bad")]) {
        assert.include(await unreadable(read), "the journal of bad has a gap")
      }
      assert.deepStrictEqual(ran, [])
    })
  )

  for (const [what, damage] of [
    ["is decided without a decision", "status = 'decided'"],
    ["is in the journal without a decision", "status = 'journaled'"],
    [
      "has the decision on another request",
      `status = 'decided', decision = '{"_tag":"approve","requestId":"first.r1","by":"eve","at":1}'`
    ],
    ["is open and decided", `decision = '{"_tag":"approve","requestId":"bad.r1","by":"eve","at":1}'`],
    ["expires at another time than it says", "expires_at = 1, on_expiry = 'deny'"],
    ["belongs to another run than it says", "run_id = 'last'"]
  ] as const) {
    it.effect(`refuses what is decided about a request that ${what}, and goes on with the others`, () =>
      after(
        `UPDATE fermata_requests SET ${damage} WHERE request_id = 'bad.r1'`,
        async (fermata, ran, filename) => {
          assert.include(
            await unreadable(fermata.decide("bad.r1", approve())),
            "the request bad.r1 of the run"
          )
          assert.deepStrictEqual(
            (await fermata.pending()).map(({ request }) => request.requestId as string),
            ["first.r1", "last.r1"]
          )
          const { size } = statSync(filename)
          const controller = new AbortController()
          const working = fermata.work({ signal: controller.signal, pollInterval: 50 })
          for (const runId of ["first", "last"]) {
            await fermata.decide(`${runId}.r1`, approve())
            if (!damage.startsWith("run_id") || runId === "first") {
              for await (const _ of fermata.events(runId, { until: "end" }));
            }
          }
          controller.abort()
          await working
          assert.notInclude(ran, "bad")
          assert.isBelow(statSync(filename).size - size, 200_000)
          assert.include((await fermata.damagedRuns())[0]?.problem, "the request bad.r1 of the run")
        }
      )
    )
  }

  it.effect("leaves requests that cannot be read out of the inbox, and fills its pages", () =>
    after("UPDATE fermata_requests SET request = '{}' WHERE request_id = 'bad.r1'", async (fermata) => {
      const shown = async (filter: Parameters<typeof fermata.pending>[0]) =>
        (await fermata.pending(filter)).map(({ request }) => request.requestId as string)
      assert.deepStrictEqual(await shown({ limit: 2 }), ["first.r1", "last.r1"])
      assert.deepStrictEqual(await shown({ limit: 1, after: "first.r1" as Id.RequestId }), ["last.r1"])
      assert.deepStrictEqual(ids(await fermata.damagedRuns()), ["bad"])
    })
  )
})
