/**
 * A process that works on the orders of a shop. Arguments: the database, and the log of effects. Each line of its input is the id of an
 * order to start, or an id and `again`. Prints `open`, and then a line for each order that is held, ended or failed.
 */
import * as Fs from "node:fs"
import { createInterface } from "node:readline"
import { agent, createFermata, type Fermata, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"

/** The effects in a log: the key of each call, and its tool. */
export const effectsIn = (log: string): ReadonlyArray<{ readonly key: string; readonly what: string }> =>
  Fs.readFileSync(log, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => ({ key: line.split(" ")[0]!, what: line.split(" ")[1]! }))

/** A shop on a store: it charges with approval, writes a mail, and has a bookkeeper who posts with approval. */
export const openShop = (store: string, log: string): Promise<Fermata.Fermata> => {
  const acting = (name: string, needsApproval: boolean) =>
    tool(name, {
      needsApproval,
      handler: (_, { idempotencyKey }) => {
        Fs.appendFileSync(log, `${idempotencyKey} ${name}\n`)
        return `${name}: done`
      }
    })
  const bookkeeper = agent("bookkeeper", { tools: [acting("post", true)] })
  const shop = agent("shop", {
    tools: [acting("charge", true), acting("mail", false)],
    subAgents: [bookkeeper]
  })
  const model = ScriptedModel.make(({ agentPath, turn }) => {
    if (agentPath.length > 1) return turn === 1 ? { calls: [{ tool: "post" }] } : "Posted."
    if (turn === 1) return { calls: [{ tool: "charge" }, { tool: "mail" }] }
    if (turn === 2) return { calls: [{ tool: "bookkeeper", arguments: { prompt: "Post it." } }] }
    return turn === 3 ? { calls: [{ tool: "mail" }] } : "The order is on its way."
  })
  return createFermata({ agents: [shop], model: model.client, store, by: "the shop" })
}

if (import.meta.main) {
  const [store = "", log = ""] = process.argv.slice(2)
  const shop = await openShop(store, log)
  const say = (line: string) => process.stdout.write(`${line}\n`)
  say("open")
  void shop.work({ onTakenUp: ({ runId, status }) => say(`${runId} ${status ?? "not taken up"}`) })
  for await (const line of createInterface({ input: process.stdin })) {
    const [runId = "", again] = line.split(" ")
    const mayRepeat = again === undefined ? {} : { mayRepeat: true }
    shop.runPrompt("shop", `Send ${runId}`, { runId, ...mayRepeat }).then(
      ({ status }) => say(`${runId} ${status}`),
      (error: Error) => say(`${runId} failed ${error.message}`)
    )
  }
}
