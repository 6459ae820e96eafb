/**
 * @title Human in the loop in 20 lines, without a store
 *
 * `runPrompt` stores nothing: a held run is a JSON value. Keep it in your own file, row or queue, and pass it back with the decisions
 * to continue the run. Without a store nothing prevents two programs from continuing the same state. The model is scripted.
 */
import assert from "node:assert/strict"
import * as Fs from "node:fs"
import { agent, approve, runPrompt, RunState, RunStateCodec, Runtime, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"
import { Effect } from "effect"

const model = ScriptedModel.make([{ calls: [{ tool: "water_plants" }] }, "They had two litres."])
const water = tool("water_plants", { handler: () => "two litres" })

const start = Effect.gen(function* () {
  const runtime = yield* Runtime.make({ agent: agent("gardener", { tools: [water] }) })
  const run = yield* runPrompt(runtime, { prompt: "The plants look dry." })
  if (run.status === "interrupted") Fs.writeFileSync("run.json", RunStateCodec.encode(run.state))
})

const resume = Effect.gen(function* () {
  const runtime = yield* Runtime.make({ agent: agent("gardener", { tools: [water] }) })
  const state = yield* Effect.fromResult(RunStateCodec.decode(Fs.readFileSync("run.json", "utf8")))
  const decisions = RunState.interruptions(state).map(({ requestId }) => ({
    ...approve(),
    requestId,
    by: "ana"
  }))
  return yield* runPrompt(runtime, { state, decisions })
})

export const main = async () => {
  await Effect.runPromise(Effect.provide(start, model.layer))
  console.log(`${Fs.statSync("run.json").size} bytes`)
  const run = await Effect.runPromise(Effect.provide(resume, model.layer))
  assert(run.status === "completed")
  console.log(run.text)
}

if (import.meta.main) await main()
