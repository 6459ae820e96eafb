/**
 * @title A conductor: three agents on one folder; one is held, the others continue
 *
 * Three agents work on a folder of this repository at the same time: one counts, one lists the sources, one wants to write a report.
 * The writer is held while the others complete. There is one inbox and one budget; a decision resumes the writer. Scripted model.
 */
import assert from "node:assert/strict"
import * as Fs from "node:fs/promises"
import * as Path from "node:path"
import { agent, approve, createFermata, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const folder = import.meta.dirname
const sources = async () => (await Fs.readdir(folder)).filter((name) => name.endsWith(".ts"))

const count = tool("count_lines", {
  safety: "readOnly",
  handler: async () => {
    let lines = 0
    for (const name of await sources())
      lines += (await Fs.readFile(Path.join(folder, name), "utf8")).split("\n").length
    return lines
  }
})
const search = tool("list_sources", { safety: "readOnly", handler: sources })
const write = tool("write_report", {
  risk: "Writes a file.",
  preview: () => "report.md: one line",
  handler: async () => {
    await Fs.writeFile("report.md", "All is well.\n")
    return "written"
  }
})

const usage = { inputTokens: 100, outputTokens: 10, costUsd: 0.01 }
const uses: { readonly [agent: string]: string } = {
  counter: "count_lines",
  searcher: "list_sources",
  writer: "write_report"
}
const model = ScriptedModel.make(({ agentPath, turn }) => {
  const [who = ""] = agentPath
  return turn === 1 ? { calls: [{ tool: uses[who]! }], usage } : { text: `${who} is done.`, usage }
})

export const main = async () => {
  await using fermata = await createFermata({
    agents: [
      agent("counter", { tools: [count] }),
      agent("searcher", { tools: [search] }),
      agent("writer", { tools: [write] })
    ],
    model: model.client
  })
  await using conductor = await fermata.conductor({ concurrency: 3, limits: { maxCostUsd: 1 } })
  const [counter, searcher, writer] = await Promise.all(
    ["counter", "searcher", "writer"].map((who) =>
      conductor.dispatch(who, "Look after the folder.", { name: `folder/${who}` })
    )
  )

  // Two of the runs complete while the third is held.
  const ended = await conductor.all([counter!, searcher!])
  assert(ended.every(({ status }) => status === "completed"))
  await writer!.wait()
  const [entry] = conductor.inbox()
  assert(entry?.name === "folder/writer" && entry.request._tag === "approval")
  console.log(
    `${entry.name} wants ${entry.request.tool} (${entry.request.preview}); ${(await writer!.explain()).text}`
  )

  await conductor.decide(entry, approve(), { by: "ana" })
  const [done] = await conductor.all([writer!])
  assert(done?.status === "completed")
  assert.equal(await Fs.readFile("report.md", "utf8"), "All is well.\n")
  assert.equal(conductor.spending().spent.cost.toFixed(2), "0.06")
  console.log(done.text)
}

if (import.meta.main) await main()
