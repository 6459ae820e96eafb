/**
 * @title A timer: the run waits for a time, and no process waits with it
 *
 * The program that starts the run exits. A worker of another program continues the run at its time. The model is scripted.
 */
import assert from "node:assert/strict"
import { agent, createFermata, tool, wait, waitTool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const model = ScriptedModel.make([
  { calls: [{ tool: "deploy", arguments: {} }] },
  { calls: [{ tool: "wait", arguments: { for: "200 millis", reason: "the caches fill" } }] },
  "The deployment is healthy."
])

const open = (owner: string) => {
  // The handler has done its work. Its call gets its result when the wait is over.
  const deploy = tool("deploy", {
    needsApproval: false,
    handler: () => wait({ for: "200 millis", reason: "the deployment takes that long" })
  })
  const operator = agent("operator", { tools: [deploy, waitTool({ max: "1 day" })] })
  return createFermata({ agents: [operator], model: model.client, owner })
}

export const main = async () => {
  {
    await using starter = await open("the starter")
    const held = await starter.runPrompt("operator", "Deploy, and look at it later", { runId: "deploy-7" })
    assert(held.status === "interrupted" && held.interruptions[0]?._tag === "timer")
    console.log((await starter.explain("deploy-7")).text)
  }

  await using worker = await open("the worker")
  const stop = new AbortController()
  await worker.work({
    signal: stop.signal,
    onTakenUp: ({ status }) => {
      console.log(`The run is ${status}.`)
      if (status === "completed") stop.abort()
    }
  })
  const end = await worker.result("deploy-7")
  assert(end.status === "completed" && end.text === "The deployment is healthy.")
}

if (import.meta.main) await main()
