/**
 * The check of a whole store before a deploy, over one kind of store.
 */
import { assert, describe, it } from "@effect/vitest"
import type * as Layer from "effect/Layer"
import { deny } from "../../src/promise/decisions.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { isFermataClosed } from "../../src/promise/guards.ts"
import type { RunStore } from "../../src/store/RunStore.ts"
import type { RunStoreError } from "../../src/store/RunStoreError.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

/** A store that Fermatas share, and a function that executes a statement in it. */
export interface CheckedStore {
  readonly store: Layer.Layer<RunStore, RunStoreError>
  readonly execute?: (statement: string) => Promise<void>
}

const pay = tool("pay", { handler: () => "paid" })

const open = (store: CheckedStore["store"], agents: Fermata.FermataOptions["agents"]) =>
  Fermata.make({
    agents,
    model: ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [{ tool: "pay" }] } : "done")).client,
    store,
    by: "ann"
  })

const blockedIn = async (fermata: Fermata.Fermata) => {
  const found: Array<string> = []
  for await (const { blocking, runId } of fermata.checkAll()) {
    found.push(`${runId}: ${blocking.map(({ _tag }) => _tag).join()}`)
  }
  return found.sort()
}

export const checkAllSuite = (name: string, opened: () => Promise<CheckedStore>) =>
  describe(`checkAll with ${name}`, () => {
    it("lists the runs that a new version of the program could not resume, and no other", async () => {
      const { store } = await opened()
      await using before = await open(store, [
        agent("clerk", { tools: [pay] }),
        agent("auditor"),
        agent("cashier", { tools: [pay] })
      ])
      await before.runPrompt("clerk", "pay", { runId: "a" })
      await before.runPrompt("clerk", "pay", { runId: "denied" })
      await before.runPrompt("cashier", "pay", { runId: "c" })
      const [request] = await before.pending({ runId: "denied" })
      await before.decide(request!, deny())
      await before.submit("auditor", "go", { runId: "submitted" })
      assert.deepStrictEqual(await blockedIn(before), [])
      await using after = await open(store, [agent("clerk"), agent("cashier", { tools: [pay] })])
      assert.deepStrictEqual(await blockedIn(after), ["a: ToolUnavailable", "submitted: AgentNotFound"])
      const others: Array<string> = []
      for await (const { text } of after.checkAll({ otherAgents: ["auditor"] })) others.push(text)
      assert.match(others.join(), /^The run a of clerk \(held\): The run a waits to call pay, which/)
    })

    it("lists every run of several pages once", async () => {
      const { store } = await opened()
      await using before = await open(store, [agent("clerk", { tools: [pay] })])
      for (let index = 0; index < 205; index++) await before.submit("clerk", "pay", { runId: `r${index}` })
      await using after = await open(store, [agent("auditor")])
      const found = await blockedIn(after)
      assert.strictEqual(found.length, 205)
      assert.strictEqual(new Set(found).size, 205)
    })

    it("lists a run that is damaged", async () => {
      const { execute, store } = await opened()
      if (execute === undefined) return
      await using fermata = await open(store, [agent("clerk", { tools: [pay] })])
      for (const runId of ["a", "b", "c", "ended"]) await fermata.runPrompt("clerk", "pay", { runId })
      await fermata.cancel("ended")
      await execute("UPDATE fermata_runs SET status = 'asleep' WHERE run_id = 'a'")
      await execute("UPDATE fermata_journal SET events = '[' WHERE run_id = 'b'")
      await execute("UPDATE fermata_requests SET status = 'decided' WHERE run_id = 'ended'")
      assert.deepStrictEqual(await blockedIn(fermata), ["a: RunStoreError", "b: RunStoreError"])
    })

    it("rejects after the Fermata was closed", async () => {
      const { store } = await opened()
      const fermata = await open(store, [agent("clerk")])
      await fermata.close()
      const error = await blockedIn(fermata).catch((error: unknown) => error)
      assert.isTrue(isFermataClosed(error))
    })
  })
