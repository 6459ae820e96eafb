/**
 * A process that serves a clerk over HTTP. Its arguments are the file of its store, the port, the token and a file in which each payment is a
 * line. It prints its address.
 */
import { appendFileSync } from "node:fs"
import { agent, closeOnSignal, createFermata, tool } from "@fermata/node"
import { serveHttp } from "@fermata/node/http"
import { ScriptedModel } from "@fermata/node/testing"

const [store, port, token, payments = ""] = process.argv.slice(2)
const pay = tool("pay", {
  handler: () => {
    appendFileSync(payments, "paid\n")
    return "paid"
  }
})
const { client: model } = ScriptedModel.make(({ turn }) =>
  turn % 2 === 1 ? { calls: [{ tool: "pay" }] } : "It is paid."
)
const fermata = await createFermata({
  agents: [agent("clerk", { tools: [pay] })],
  model,
  store,
  leaseTtl: "2 seconds"
})
const server = await serveHttp(fermata, { port: Number(port), ...(token === undefined ? {} : { token }) })
closeOnSignal([server, fermata])
process.stdout.write(`${server.url}\n`)
