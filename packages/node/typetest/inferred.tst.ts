import { agent, createFermata, tool } from "@fermata/node"
import type * as Node from "@fermata/node"
import type { ModelClient } from "@fermata/sdk/model"
import { describe, expect, it } from "tstyche"

declare const model: ModelClient.ModelClient["Service"]
const pay = tool("pay", { handler: () => "paid" })
const clerk = agent("clerk", { tools: [pay] })

describe("the types that a program infers", () => {
  it("are direct exports, so that declarations can name them without hoisting", () => {
    expect(pay).type.toBe<Node.ToolType>()
    expect(clerk).type.toBe<Node.AgentType>()
    expect(createFermata({ agents: [clerk], model })).type.toBe<Promise<Node.FermataType>>()
    expect(createFermata({ agents: [clerk], model, store: false })).type.toBe<Promise<Node.StorelessType>>()
  })
})
