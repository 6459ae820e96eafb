/**
 * An agent that charges a card and writes every charge to a file, as an effect outside the store. The model is a function of the
 * request, so that any number of runs can go on in any number of processes.
 */
import * as Fs from "node:fs"
import { agent, type Fermata, createFermata, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Schema from "effect/Schema"

/** A Fermata on a file, with the agent `cashier`. Charges are appended to `log`, one idempotency key a line. */
export const openCashier = (options: {
  readonly store: string
  readonly log: string
  readonly owner: string
}): Promise<Fermata.Fermata> => {
  const charge = tool("charge_card", {
    parameters: Schema.Struct({ customer: Schema.String }),
    handler: ({ customer }, { idempotencyKey }) => {
      // O_APPEND writes whole lines from any process.
      Fs.appendFileSync(options.log, `${idempotencyKey}\n`)
      return `charged ${customer}`
    }
  })
  const lookUp = tool("look_up", { safety: "readOnly", handler: () => "found" })
  const model = ScriptedModel.make(({ messages, turn }) =>
    turn === 1
      ? {
          calls: [
            { tool: "look_up" },
            { tool: "charge_card", arguments: { customer: String(messages[0]?.sequence) } }
          ]
        }
      : "The card is charged."
  )
  return createFermata({
    agents: [agent("cashier", { tools: [lookUp, charge] })],
    model: model.client,
    store: options.store,
    owner: options.owner,
    by: options.owner
  })
}
