/**
 * @title Cancel: a result with a report on every call
 *
 * A cancelled run returns a result, which reports for each call whether it finished, did not start, was aborted without effect, or
 * was aborted with an unknown effect (`inDoubt`). The next prompt continues the session. The model is scripted.
 */
import assert from "node:assert/strict"
import { agent, createFermata, isRequestSuperseded, approve, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

export const main = async () => {
  const printing = Promise.withResolvers<void>()
  const free = { needsApproval: false }
  const check = tool("check_paper", { safety: "readOnly", handler: () => "500 sheets" })
  const print = tool("print", {
    ...free,
    handler: (_, { signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(new Error("stopped after some pages")))
        printing.resolve()
      })
  })
  const bind = tool("bind_pages", { ...free, handler: () => "bound" })
  const model = ScriptedModel.make([
    { calls: [{ tool: "check_paper" }, { tool: "print" }, { tool: "bind_pages" }] },
    "Some pages were printed; I do not know how many. Nothing was bound.",
    { calls: [{ tool: "mail" }] }
  ])
  const mail = tool("mail", { handler: () => "sent" })
  await using fermata = await createFermata({
    agents: [agent("office", { tools: [check, print, bind, mail] })],
    model: model.client
  })

  // Any `AbortSignal` works; `fermata.cancel(runId)` does the same from any process.
  const controller = new AbortController()
  const running = fermata.runPrompt("office", "Print and bind the report.", { signal: controller.signal })
  await printing.promise
  controller.abort(new Error("wrong report"))
  const run = await running
  assert(run.status === "cancelled")
  assert.equal(run.reason, "wrong report")
  const reports = run.calls.map((call) => `${call.tool}: ${call.state}`)
  assert.deepEqual(reports, ["check_paper: finished", "print: inDoubt", "bind_pages: notStarted"])
  console.log(run.reason, reports)

  // The results of the calls contain the same report for the model, so the history stays valid.
  const next = await fermata.runPrompt("office", "What happened?", { sessionId: run.sessionId })
  assert(next.status === "completed")
  console.log(next.text)

  // Cancelling a held run ends it, and its requests can no longer be decided.
  const held = await fermata.runPrompt("office", "Then mail it.")
  assert(held.status === "interrupted" && held.interruptions[0])
  await fermata.cancel(held.runId, "sent by hand")
  assert.deepEqual(await fermata.pending({ runId: held.runId }), [])
  await assert.rejects(fermata.decide(held.interruptions[0], approve()), (error) => {
    assert(isRequestSuperseded(error))
    console.log(error.message)
    return true
  })
}

if (import.meta.main) await main()
