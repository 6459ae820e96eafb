/**
 * @title In doubt: a process dies inside a tool
 *
 * The child process charges a card and is killed before it can record the result. The parent finds the run with a started call of
 * unknown outcome. Fermata does not repeat the call and opens an `inDoubt` request. A tool with a `reconcile` callback determines the
 * outcome itself, without a request. The model is scripted.
 */
import assert from "node:assert/strict"
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as Fs from "node:fs"
import { agent, approve, createFermata, supply, tool } from "@fermata/node"
import { isDecisionNotApplicable, isRunBusy } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

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
  // The dead process owns the run's lease until it expires.
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

  // An `inDoubt` request accepts `retry`, `supply` or `fail`, not an approval.
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
