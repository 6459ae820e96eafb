/**
 * A process that closes on a signal. Argument: `run` has a background run that hangs in its model; `stuck` never closes; `broken`
 * fails to close; `serve` has a server with an open response, which ends later; `unread` has one whose client does not read it. Prints
 * `ready`, and the tag of the run's error.
 */
import { createServer } from "node:http"
import { type AddressInfo, connect } from "node:net"
import { agent, closeOnSignal, createFermata } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"

const [what, database] = process.argv.slice(2)

if (what === "run") {
  const fermata = await createFermata({
    agents: [agent("a")],
    model: ScriptedModel.make(() => ({ hang: true })).client,
    store: database!,
    drainTimeout: 100
  })
  const handle = await fermata.dispatch("a", "go", { runId: "run-1" })
  handle.done().catch((error: { readonly _tag: string }) => console.log(error._tag))
  closeOnSignal([fermata])
} else if (what === "stuck") closeOnSignal([{ close: () => new Promise(() => {}) }], { timeoutMs: 300 })
else if (what === "serve") {
  const server = createServer((_, response) => {
    response.write("first")
    process.once("SIGTERM", () => setImmediate(() => response.end("last")))
  })
  server.on("close", () => console.log("the server has ended"))
  server.listen(0, async () => {
    await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    closeOnSignal([server])
    console.log("ready")
  })
} else if (what === "unread") {
  const server = createServer((_, response) => {
    response.write(new Uint8Array(50_000_000), () => response.end())
  })
  server.listen(0, () => {
    const client = connect((server.address() as AddressInfo).port, "127.0.0.1")
    client.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    client.once("readable", () => {
      closeOnSignal([server], { timeoutMs: 2000 })
      console.log("ready")
    })
  })
} else closeOnSignal([{ close: () => Promise.reject(new Error("no")) }])

setInterval(() => {}, 1000)
if (what !== "serve" && what !== "unread") console.log("ready")
