/**
 * @title Human in the loop in 20 lines, without a store
 *
 * With `store: false` nothing is stored: the state of a held run is a JSON value. Keep it in your own file, row or queue, and pass it back
 * with the decisions to continue the run. Without a store nothing prevents two programs from continuing the same state. The model is
 * scripted.
 */
import assert from "node:assert/strict"
import * as Fs from "node:fs"
import { agent, approve, createFermata, RunState, RunStateCodec, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const model = ScriptedModel.make([{ calls: [{ tool: "water_plants" }] }, "They had two litres."]).client
const water = tool("water_plants", { handler: () => "two litres" })
const open = () => createFermata({ agents: [agent("gardener", { tools: [water] })], model, store: false })

const start = async () => {
  await using fermata = await open()
  const run = await fermata.runPrompt("gardener", "The plants look dry.")
  if (run.status === "interrupted") Fs.writeFileSync("run.json", RunStateCodec.encode(run.state))
}

const resume = async () => {
  await using fermata = await open()
  const text = Fs.readFileSync("run.json", "utf8")
  const requests = RunState.interruptions(JSON.parse(text))
  const decisions = requests.map((request) => ({ request, decision: approve(), by: "ana" }))
  return fermata.resume(text, { decisions })
}

export const main = async () => {
  await start()
  console.log(`${Fs.statSync("run.json").size} bytes`)
  const run = await resume()
  assert(run.status === "completed")
  console.log(run.text)
}

if (import.meta.main) await main()
