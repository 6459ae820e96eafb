/**
 * An MCP server over standard input and output, written without Effect, with the faults of real servers: it sends results that are too
 * large, logs to its standard output, sends invalid messages, and dies. Argument: a file that records each call as it takes effect.
 */
import { appendFileSync, readFileSync } from "node:fs"
import { createInterface } from "node:readline"

const [ledger = ""] = process.argv.slice(2)
const send = (message: object) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`)
const text = (value: string) => ({ content: [{ type: "text", text: value }] })
/** Answers to `pay`, which are sent when another call ends. */
const waiting: Array<() => void> = []
const answerWaiting = () => waiting.splice(0).forEach((answer) => answer())

const starts = () => readFileSync(ledger, "utf8").split("start").length - 1

const tools = (id: string | number): Record<string, () => void> => ({
  pay: () => waiting.push(() => send({ id, result: text("paid") })),
  fine: () => send({ id, result: text("fine") }),
  // The id comes after the result, which itself has members of that name.
  big: () => {
    const result = { ...text("x".repeat(30_000_000)), _meta: { id: 1, method: 'a}{\\"' } }
    process.stdout.write(`{"result":${JSON.stringify(result)},"jsonrpc":"2.0","id":${JSON.stringify(id)}}\n`)
    answerWaiting()
  },
  long: () => {
    send({ id, result: text("x".repeat(20_000)) })
    answerWaiting()
  },
  log: () => {
    process.stdout.write("the server logs a line\n\n")
    send({ id, result: text("logged") })
  },
  nonsense: () => process.stdout.write("{ this is no message\n"),
  die: () => process.exit(3),
  changed: () => send({ id, result: text("changed") })
})

appendFileSync(ledger, "start\n")
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line)
  if (method === "initialize") {
    const { protocolVersion } = params
    send({
      id,
      result: { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "odd", version: "1" } }
    })
  } else if (method === "tools/list") {
    const named = Object.keys(tools(id)).map((name) => ({
      name,
      inputSchema: { type: "object", properties: {} }
    }))
    // After a restart, one of the tools is another one.
    const properties = starts() > 1 ? { amount: { type: "integer" } } : {}
    send({
      id,
      result: {
        tools: [...named.slice(0, -1), { name: "changed", inputSchema: { type: "object", properties } }]
      }
    })
  } else if (method === "tools/call") {
    appendFileSync(ledger, `${params.name}\n`)
    tools(id)[params.name]?.()
  } else if (id !== undefined) send({ id, result: {} })
})
