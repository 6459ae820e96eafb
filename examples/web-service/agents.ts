/**
 * An agent whose run opens a request of each kind, for `35_web-service.ts`. The model is scripted; with a key it would be
 * `openAi({ model: "gpt-5.5" })`.
 */
import * as Fs from "node:fs"
import { agent, askUser, ModelError, Schema, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const refund = tool("refund", {
  parameters: Schema.Struct({ customer: Schema.String, euros: Schema.Finite }),
  risk: ({ euros }) => `${euros} euros cannot be taken back`,
  handler: ({ customer, euros }) => `paid ${euros} euros back to ${customer}`
})

/** The first attempt waits until its process is stopped, as if the post office did not answer. */
const sendLetter = tool("send_letter", {
  needsApproval: false,
  handler: async (_, { idempotencyKey, signal }) => {
    if (Fs.existsSync("letters.txt")) return "sent"
    Fs.writeFileSync("letters.txt", idempotencyKey)
    return new Promise<string>((_, reject) => signal.addEventListener("abort", reject))
  }
})

export const agents = [agent("clerk", { tools: [askUser, refund, sendLetter], limits: { maxTurns: 4 } })]

const login = new ModelError.LoginRequired({ description: "the login has expired", profile: "work" })
let isLoggedIn = false

export const model = ScriptedModel.make(({ turn }) => {
  if (turn === 1)
    return { calls: [{ tool: "ask_user", arguments: { question: "Which customer asks for money?" } }] }
  if (turn === 2) return { calls: [{ tool: "refund", arguments: { customer: "Mr. Olsen", euros: 500 } }] }
  if (turn === 3) return { calls: [{ tool: "send_letter" }] }
  if (turn === 4 && !isLoggedIn) {
    isLoggedIn = true // The next call finds the login that a person has renewed meanwhile.
    return { error: login }
  }
  return turn === 4 ? { calls: [{ tool: "send_letter" }] } : "Mr. Olsen has his money, and a letter."
}).client
