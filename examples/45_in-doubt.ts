/**
 * @title In doubt: the process died half-way through a tool
 *
 * The child process charges a card and is killed before it can write down that it did. The parent finds the run: the charge was
 * started, and nobody knows how it ended. It is not run again and not forgotten; somebody is asked. A tool that can find out by
 * itself says how in `reconcile`, and then nobody is asked. The model is scripted.
 */
import assert from "node:assert/strict"
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as Fs from "node:fs"
import { agent, approve, createFermata, supply, tool } from "@fermata/node"
import { isDecisionNotApplicable, isRunBusy } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"

const charge = tool("charge_card", {
  needsApproval: false,
  handler: (_, { idempotencyKey }) => {
    Fs.appendFileSync("charges.txt", `${idempotencyKey}\n`)
    process.kill(process.pid, "SIGKILL")
  }
})
const model = ScriptedModel.make(({ turn }) =>
  turn === 1 ? { calls: [{ tool: "charge_card" }] } : "The card was charged."
)
const open = () =>
  createFermata({
    agents: [agent("cashier", { tools: [charge] })],
    model: model.client,
    leaseTtl: "300 millis"
  })

const child = async () => {
  const fermata = await open()
  await fermata.runPrompt("cashier", "Charge the card.", { runId: "charge-1" })
}

export const main = async () => {
  const worker = spawn(process.execPath, [...process.execArgv, import.meta.filename, "child"])
  const [, signal] = await once(worker, "exit")
  assert.equal(signal, "SIGKILL")

  await using fermata = await open()
  // The dead process still holds the run, until its lease runs out.
  const recover = async () => {
    for (;;) {
      try {
        return await fermata.resume("charge-1")
      } catch (error) {
        if (!isRunBusy(error)) throw error
        await new Promise((resolve) => setTimeout(resolve, Math.max(error.until - Date.now(), 10)))
      }
    }
  }
  const held = await recover()
  assert(held.status === "interrupted")
  const [doubt] = held.interruptions
  assert(doubt?._tag === "inDoubt")
  console.log(
    `${doubt.tool} was started (attempt ${doubt.attempt}, key ${doubt.idempotencyKey}). Did it happen?`
  )

  // An approval is no answer to that: `retry`, `supply` or `fail` is.
  await assert.rejects(fermata.decide(doubt, approve()), isDecisionNotApplicable)
  const statement = Fs.readFileSync("charges.txt", "utf8").trim()
  assert.equal(statement, doubt.idempotencyKey)
  await fermata.decide(doubt, supply(`found on the card's statement: ${statement}`), { by: "ana" })

  const done = await fermata.resume("charge-1")
  assert(done.status === "completed")
  assert.equal(Fs.readFileSync("charges.txt", "utf8").trim().split("\n").length, 1)
  console.log(done.text)
}

if (import.meta.main) await (process.argv[2] === "child" ? child() : main())
