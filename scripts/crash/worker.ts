/**
 * A worker that starts runs, decides what is pending and drives what it can claim, until all runs of the campaign are over. It may
 * be killed at any moment. Its tools append what they do to a file, which is how the campaign knows what really happened.
 */
import * as Fs from "node:fs"
import { setImmediate } from "node:timers/promises"
import {
  agent,
  approve,
  createFermata,
  isAlreadyDecided,
  isLeaseLost,
  isRequestSuperseded,
  isRunBusy,
  isRunConflict,
  retry,
  supply,
  tool
} from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Schema from "effect/Schema"

const [store = "", log = "", runs = "0", owner = ""] = process.argv.slice(2)

const write = (line: string) => Fs.appendFileSync(log, `${line}\n`)
const happened = (key: string) => Fs.readFileSync(log, "utf8").includes(`done ${key}\n`)

const parameters = Schema.Struct({ amount: Schema.Number })
const effect = async (key: string) => {
  write(`start ${key}`)
  // The gaps are where a kill leaves doubt: before the effect, and between the effect and its record.
  for (let i = 0; i < 20; i++) await setImmediate()
  write(`done ${key}`)
  for (let i = 0; i < 20; i++) await setImmediate()
  return "done"
}
const tools = [
  tool("look", { safety: "readOnly", handler: async () => setImmediate("seen") }),
  tool("note", {
    parameters,
    needsApproval: false,
    handler: (_, { idempotencyKey }) => effect(idempotencyKey)
  }),
  tool("charge", { parameters, handler: (_, { idempotencyKey }) => effect(idempotencyKey) })
]
const model = ScriptedModel.make(({ turn }) => {
  if (turn === 1)
    return { calls: [{ tool: "look" }, { tool: "look" }, { tool: "note", arguments: { amount: 1 } }] }
  if (turn === 2) {
    return {
      calls: [
        { tool: "charge", arguments: { amount: 2 } },
        { tool: "look" },
        { tool: "charge", arguments: { amount: 3 } }
      ]
    }
  }
  return "All is booked."
})

await using fermata = await createFermata({
  agents: [agent("bookkeeper", { tools })],
  model: model.client,
  store,
  owner,
  by: owner,
  leaseTtl: "300 millis"
})
process.stdout.write("ready\n")

/** Somebody else was faster, or works on it: not this worker's turn. */
const isElsewhere = (error: unknown) =>
  isRunBusy(error) ||
  isRunConflict(error) ||
  isLeaseLost(error) ||
  isAlreadyDecided(error) ||
  isRequestSuperseded(error)

const attempt = async (work: () => Promise<unknown>): Promise<void> => {
  try {
    await work()
  } catch (error) {
    if (!isElsewhere(error)) throw error
  }
}

const known = new Set((await fermata.runs({ limit: 1000 })).map(({ runId }) => runId as string))
for (let i = 0; i < Number(runs); i++) {
  const runId = `crash-${i}`
  if (!known.has(runId)) await attempt(() => fermata.runPrompt("bookkeeper", `Book entry ${i}`, { runId }))
}
while (true) {
  for (const { request } of await fermata.pending({ limit: 1000 })) {
    if (request._tag === "inDoubt") {
      // Doubt is asked about; here the answer can be looked up.
      const answer = happened(request.idempotencyKey) ? supply("done") : retry()
      write(`doubt ${request.idempotencyKey}`)
      await attempt(() => fermata.decide(request, answer))
    } else {
      await attempt(() => fermata.decide(request, approve()))
    }
  }
  const open = (await fermata.runs({ limit: 1000 })).filter(
    ({ status }) => status === "running" || status === "held"
  )
  if (open.length === 0 && (await fermata.runs({ limit: 1000 })).length === Number(runs)) break
  for (const { runId } of open) await attempt(() => fermata.resume(runId))
}
process.stdout.write("over\n")
