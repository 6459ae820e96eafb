import type { Decision } from "@fermata/sdk/domain"
import { type Fermata, pending, wait, waitTool } from "@fermata/sdk/promise"
import { Hold, Tool } from "@fermata/sdk/tool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
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
    const checked = Tool.make("d", { success: Schema.String, handler: () => wait({ for: "1 day" }) })
    expect(checked).type.toBe<Tool.Tool>()
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

describe("pending", () => {
  it("takes a token and one expiry", () => {
    expect(pending).type.toBeCallableWith()
    expect(pending).type.toBeCallableWith({ token: "job", expiresIn: "1 day", reason: "it renders" })
    expect(pending).type.toBeCallableWith({ expiresAt: new Date() })
    expect(pending).type.not.toBeCallableWith({ expiresIn: "1 day", expiresAt: 1 })
    expect(pending).type.not.toBeCallableWith({ token: 7 })
  })
})

declare const fermata: Fermata.Fermata

describe("complete", () => {
  it("takes either a result or a failure", () => {
    expect(fermata.complete("job", { result: { frames: 12 } })).type.toBe<Promise<Decision.Decision>>()
    expect(fermata.complete).type.toBeCallableWith(
      "job",
      { failure: "no" },
      { by: "farm", waitFor: "1 second" }
    )
    expect(fermata.complete).type.not.toBeCallableWith("job", {})
    expect(fermata.complete).type.not.toBeCallableWith("job", { result: 1, failure: "no" })
    expect(fermata.complete).type.not.toBeCallableWith("job", { result: () => 1 })
  })
})
