/**
 * A process that closes on a signal. Argument: `run` has a background run that hangs in its model; `stuck` never closes; `broken`
 * fails to close. Prints `ready`, and the tag of the run's error.
 */
import { agent, closeOnSignal, createFermata } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"

const [what, database] = process.argv.slice(2)

if (what === "run") {
  const fermata = await createFermata({
    agents: [agent("a")],
    model: ScriptedModel.make(() => ({ hang: true })).client,
    store: database!,
    drainTimeout: 100
  })
  const handle = await fermata.dispatch("a", "go", { runId: "run-1" })
  handle.done().catch((error: { readonly _tag: string }) => console.log(error._tag))
  closeOnSignal([fermata])
} else if (what === "stuck") closeOnSignal([{ close: () => new Promise(() => {}) }], { timeoutMs: 300 })
else closeOnSignal([{ close: () => Promise.reject(new Error("no")) }])

setInterval(() => {}, 1000)
console.log("ready")
