import { wait, waitTool } from "@fermata/sdk/promise"
import { Hold, Tool } from "@fermata/sdk/tool"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "tstyche"

describe("wait", () => {
  it("takes either a time or a duration", () => {
    expect(wait).type.toBeCallableWith({ for: "2 hours", reason: "the build runs" })
    expect(wait).type.toBeCallableWith({ until: new Date() })
    expect(wait).type.not.toBeCallableWith({})
    expect(wait).type.not.toBeCallableWith({ for: "2 hours", until: 1 })
    expect(wait).type.not.toBeCallableWith({ for: "a while" })
  })
  it("is the result of a handler, of its promise or of its effect, and needs no service", () => {
    const plain = Tool.make("a", { handler: () => wait({ for: "1 day" }) })
    const promise = Tool.make("b", { handler: async () => wait({ for: "1 day" }) })
    const effect = Tool.make("c", { handler: () => Effect.sync(() => Hold.wait({ for: "1 day" })) })
    expect(plain).type.toBe<Tool.Tool>()
    expect(promise).type.toBe<Tool.Tool>()
    expect(effect).type.toBe<Tool.Tool>()
  })
})

describe("waitTool", () => {
  it("is a tool that needs no service", () => {
    expect(waitTool({ max: "1 day" })).type.toBe<Tool.Tool>()
    expect(waitTool()).type.toBe<Tool.Tool>()
  })
})
