import { assert, describe, it } from "@effect/vitest"
import { agent, approve, createFermata, type Fermata, isRunStoreError, tool } from "@fermata/node"
import type { Id } from "@fermata/sdk"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { emptySchema, withSql } from "./database.ts"

/** Rows to damage, the damage, and the part of the run that cannot be read afterwards. */
const damages: ReadonlyArray<
  readonly [table: string, damage: string, where: string, unreadable: "run" | "request" | "grant" | "nothing"]
> = [
  ["runs", "SET status = 'asleep'", "run_id = 'bad2'", "run"],
  ["runs", "SET session_id = 'not an id'", "run_id = 'bad2'", "run"],
  ["runs", "SET parent_run_id = 'absent'", "run_id = 'bad2'", "run"],
  ["runs", "SET parent_run_id = 'bad2', parent_revision = revision", "run_id = 'bad2'", "run"],
  ["runs", "SET revision = 9223372036854775807", "run_id = 'bad2'", "run"],
  ["runs", "SET revision = revision - 1", "run_id = 'bad2'", "run"],
  ["runs", "SET created_at = -1", "run_id = 'bad2'", "run"],
  ["runs", "SET updated_at = 9223372036854775807", "run_id = 'bad2'", "run"],
  ["journal", "SET events = left(events, 40)", "run_id = 'bad2'", "run"],
  ["journal", "SET version = 99", "run_id = 'bad2'", "run"],
  ["journal", "SET count = -1", "run_id = 'bad2'", "run"],
  ["journal", "SET sequence = sequence + 7", "run_id = 'bad2'", "run"],
  ["journal", "", "run_id = 'bad2'", "run"],
  ["requests", "SET request = '{}'", "run_id = 'bad2'", "request"],
  ["requests", "SET status = 'decided'", "run_id = 'bad2'", "request"],
  ["requests", 'SET decision = \'{"_tag":"approve"}\'', "run_id = 'bad2'", "request"],
  ["requests", "SET expires_at = 1", "run_id = 'bad2'", "request"],
  ["messages", "SET content = '[{}]'", "run_id = 'bad2'", "run"],
  ["grants", "SET data = left(data, 40)", "run_id = 'bad1'", "grant"],
  ["grants", "SET revoked_at = 7", "run_id = 'bad1'", "grant"],
  ["grants", "SET tool = 'another'", "run_id = 'bad1'", "grant"],
  ["checkpoints", "SET state = '{'", "run_id = 'bad1'", "nothing"],
  ["chunks", "", "run_id = 'bad1'", "nothing"]
]

const isUnreadable = (what: Promise<unknown>): Promise<boolean> =>
  what.then(
    () => false,
    (error: unknown) => {
      if (!isRunStoreError(error)) throw error
      assert.strictEqual(error.reason._tag, "StoreUnreadable")
      return true
    }
  )

const all = async (updates: AsyncIterable<unknown>) => {
  for await (const _ of updates);
}

describe("a damaged row in Postgres", () => {
  it.live("fails its own run alone, with StoreUnreadable", () =>
    Effect.gen(function* () {
      const { url } = yield* emptySchema
      const execute = (...statements: ReadonlyArray<string>) =>
        Effect.runPromise(
          withSql(url, (sql) => Effect.forEach(statements, (text) => sql.unsafe(text), { discard: true }))
        )
      const ran: Array<string> = []
      yield* Effect.promise(async () => {
        const pay = tool("pay", {
          handler: (_, { callId }) => {
            ran.push(callId)
            return "paid"
          }
        })
        await using fermata: Fermata.Fermata = await createFermata({
          agents: [agent("clerk", { tools: [pay] })],
          model: ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [{ tool: "pay" }] } : "Done."))
            .client,
          store: Layer.merge(PostgresStore.layer({ url }), Logger.layer([]))
        })
        for (const sessionId of ["bad", "good"]) {
          await fermata.runPrompt("clerk", "pay", { runId: `${sessionId}1`, sessionId })
          await fermata.decide(
            `${sessionId}1.r1`,
            approve({ grant: { scope: "session", arguments: { amount: { _tag: "equals", value: 1 } } } })
          )
          await fermata.resume(`${sessionId}1`)
          await fermata.runPrompt("clerk", "pay", { runId: `${sessionId}2`, sessionId })
          await fermata.send(`${sessionId}2`, "And be quick.", { messageId: "m1" })
        }
        const done = ran.length
        for (const [name, damage, where, unreadable] of damages) {
          const table = `fermata_${name}`
          const what = `${table} ${damage || "loses a row"}`
          await execute(
            `CREATE TABLE saved AS SELECT * FROM ${table}`,
            damage === "" ? `DELETE FROM ${table} WHERE ${where}` : `UPDATE ${table} ${damage} WHERE ${where}`
          )
          const heads = (await fermata.runs()).map(({ runId }) => runId as string)
          const shown = (await fermata.pending()).map(({ runId }) => runId as string)
          const grants = (await fermata.grants()).map(({ runId }) => runId as string)
          assert.includeMembers(heads, ["good1", "good2"], what)
          assert.include(shown, "good2", what)
          assert.include(grants, "good1", what)
          assert.strictEqual((await fermata.state("good2")).status, "held", what)
          const read = {
            run: () => fermata.state("bad2"),
            request: () => fermata.decide("bad2.r1", approve()),
            grant: () => fermata.grants({ runId: "bad1" as Id.RunId }),
            nothing: () => fermata.state("bad2")
          }
          assert.strictEqual(await isUnreadable(read[unreadable]()), unreadable !== "nothing", what)
          const found = (await fermata.damagedRuns({ journals: true })).map(({ runId }) => runId)
          assert.strictEqual(found.includes("bad2"), unreadable === "run" || unreadable === "request", what)
          assert.isFalse(found.includes("good2"), what)
          await isUnreadable(fermata.explain("bad2"))
          await isUnreadable(fermata.exportRun("bad2"))
          await isUnreadable(all(fermata.events("bad2")))
          await execute(
            `DELETE FROM ${table}`,
            `INSERT INTO ${table} SELECT * FROM saved`,
            "DROP TABLE saved"
          )
        }
        assert.lengthOf(ran, done)
        for (const sessionId of ["bad", "good"]) await fermata.decide(`${sessionId}2.r1`, approve())
        await fermata.recover()
        assert.deepStrictEqual(ran.slice(done).toSorted(), ["bad2.t1.1", "good2.t1.1"])
      })
    })
  )
})
