import { agent, createFermata, type Fermata, type Storeless } from "@fermata/node"
import type { ModelClient } from "@fermata/sdk/model"
import { describe, expect, it } from "tstyche"

declare const model: ModelClient.ModelClient["Service"]
const agents = [agent("a")]

describe("createFermata", () => {
  it("makes a Fermata, or one without a store", () => {
    expect(createFermata({ agents, model })).type.toBe<Promise<Fermata.Fermata>>()
    expect(createFermata({ agents, model, store: "runs.db" })).type.toBe<Promise<Fermata.Fermata>>()
    expect(createFermata({ agents, model, store: false })).type.toBe<Promise<Storeless.Storeless>>()
  })
  it("takes no options of leases without a store", () => {
    expect(createFermata).type.not.toBeCallableWith({ agents, model, store: false, leaseTtl: 1000 })
    expect(createFermata).type.not.toBeCallableWith({ agents, model, store: true })
  })
})
