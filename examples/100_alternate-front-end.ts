/**
 * @title Another front end: prompts, approvals, cancellation and models by commands and events alone
 *
 * A front end knows two things: `submit` and `events`. This one (`alternate-front-end/frontEnd.ts`) prints lines instead of a screen,
 * approves payments below 100 and cancels what takes too long. Scripted model.
 */
import assert from "node:assert/strict"
import { agent, createFermata, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"
import * as z from "zod"
import { frontEnd, script } from "./alternate-front-end/frontEnd.ts"

export const main = async () => {
  const pay = tool("pay", {
    parameters: z.object({ amount: z.number() }),
    handler: (_, { output }) => {
      output({ stream: "stdout", chunk: "transferring\n" })
      return "paid"
    }
  })
  const sleep = tool("sleep", { safety: "readOnly", handler: () => new Promise(() => {}) })
  const model = ScriptedModel.make([
    {
      calls: [
        { tool: "pay", arguments: { amount: 20 } },
        { tool: "pay", arguments: { amount: 500 } }
      ]
    },
    "The small one is paid.",
    { calls: [{ tool: "sleep" }] },
    "Hello from the large model."
  ])
  await using fermata = await createFermata({
    agents: [agent("clerk", { tools: [pay, sleep] })],
    model: model.client,
    store: ":memory:",
    cancelGrace: 0
  })
  await using plane = await fermata.controlPlane()
  const screen = frontEnd(plane)
  await script(plane, [
    { _tag: "SubmitPrompt", prompt: "Pay both invoices" },
    { _tag: "SubmitPrompt", prompt: "Sleep" },
    { _tag: "SwitchModel", profile: "large" },
    { _tag: "SubmitPrompt", prompt: "Hello" },
    { _tag: "Shutdown" }
  ])
  const lines = await screen
  console.log(lines.join("\n"))
  assert.deepEqual(lines, [
    "> Pay both invoices",
    "pay 20?",
    "pay 500?",
    "[1/2] running pay",
    "stdout: transferring",
    "The small one is paid.",
    "> Sleep",
    "[1/1] running sleep",
    "cancelled: It takes too long.",
    "model: large",
    "> Hello",
    "Hello from the large model."
  ])
}

if (import.meta.main) await main()
