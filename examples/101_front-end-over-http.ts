/**
 * @title A front end over HTTP: the front end of example 100 in another process, by the typed client
 *
 * One process has the agents and serves them on 127.0.0.1. The front end is a process of its own: it knows the address and the token, and its
 * code is that of example 100. It stops the server's runtime with `Shutdown`. Scripted model.
 */
import assert from "node:assert/strict"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { agent, createFermata, tool } from "@fermata/node"
import { connectFermata, serveHttp } from "@fermata/node/http"
import { ScriptedModel } from "@fermata/node/testing"
import * as z from "zod"
import { frontEnd, script } from "./alternate-front-end/frontEnd.ts"

const pay = tool("pay", {
  parameters: z.object({ amount: z.number() }),
  handler: (_, { output }) => {
    output({ stream: "stdout", chunk: "transferring\n" })
    return "paid"
  }
})

const server = async () => {
  const calls = [20, 500].map((amount) => ({ tool: "pay", arguments: { amount } }))
  const { client: model } = ScriptedModel.make([{ calls }, "The small one is paid."])
  await using fermata = await createFermata({
    agents: [agent("clerk", { tools: [pay] })],
    model,
    store: ":memory:"
  })
  await using plane = await fermata.controlPlane()
  await using serving = await serveHttp(fermata, { plane })
  process.stdout.write(`${JSON.stringify({ url: serving.url, token: serving.token })}\n`)
  for await (const { event } of plane.events()) if (event._tag === "lifecycle.stopped") break
}

export const main = async () => {
  const args = [...process.execArgv, import.meta.filename, "server"]
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] })
  const exit = once(child, "exit")
  const [line] = await once(child.stdout.setEncoding("utf8"), "data")

  await using client = await connectFermata(JSON.parse(line))
  const screen = frontEnd(client)
  await script(client, [{ _tag: "SubmitPrompt", prompt: "Pay both invoices" }, { _tag: "Shutdown" }])
  const lines = await screen
  console.log(lines.join("\n"))
  assert.deepEqual(lines, [
    "> Pay both invoices",
    "pay 20?",
    "pay 500?",
    "[1/2] running pay",
    "stdout: transferring",
    "The small one is paid."
  ])
  assert.deepEqual(await exit, [0, null])
}

if (import.meta.main) await (process.argv[2] === "server" ? server() : main())
