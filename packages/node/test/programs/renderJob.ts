/**
 * A program whose tool starts a job that ends elsewhere, and the webhook of that job. `start` runs the agent; with `die`, the process is
 * killed after the job has started and before the call is recorded. `complete` delivers a result when it reads a line from its input, and
 * is killed right after the acknowledgement.
 */
import * as Fs from "node:fs"
import { agent, createFermata, pending, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"

/** A Fermata on a file. Started jobs are appended to `log`, one token a line. */
export const openStudio = (store: string, log: string, dies = false) => {
  const render = tool("render", {
    needsApproval: false,
    external: true,
    handler: (_, { idempotencyKey }) => {
      Fs.appendFileSync(log, `${idempotencyKey}\n`)
      if (dies) process.kill(process.pid, "SIGKILL")
      return pending()
    }
  })
  const model = ScriptedModel.make(({ messages }) => {
    const result = messages.findLast(({ role }) => role === "tool")
    return result === undefined ? { calls: [{ tool: "render" }] } : JSON.stringify(result.content)
  })
  return createFermata({
    agents: [agent("studio", { tools: [render] })],
    model: model.client,
    store,
    leaseTtl: "1 second"
  })
}

const main = async ([mode = "", store = "", log = "", ...rest]: ReadonlyArray<string>) => {
  const fermata = await openStudio(store, log, rest[0] === "die")
  if (mode === "start") {
    await fermata.runPrompt("studio", "Render the film", { runId: "film" })
    await fermata.close()
    return
  }
  const [token = "", result = ""] = rest
  process.stdin.once("data", () => {
    void fermata
      .complete(token, { result })
      .then(
        () => Fs.writeSync(1, "taken\n"),
        (error: { readonly _tag?: string }) => Fs.writeSync(1, `${error._tag ?? String(error)}\n`)
      )
      .finally(() => process.kill(process.pid, "SIGKILL"))
  })
  Fs.writeSync(1, "ready\n")
}

if (import.meta.main) await main(process.argv.slice(2))
