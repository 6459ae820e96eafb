import { Tool, type ToolContext, type WebAccess } from "@fermata/sdk/tool"
import type * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { describe, expect, it } from "tstyche"

describe("the context of a handler", () => {
  it("has its target, a guarded client, and the policy", () => {
    Tool.make("work", {
      handler: (_, { http, output, policy, target }) => {
        expect(target).type.toBe<ToolContext.ToolTarget>()
        expect(http).type.toBe<Effect.Effect<HttpClient.HttpClient, WebAccess.WebUnavailable, Scope.Scope>>()
        expect(policy.judge("pay")).type.toBe<Effect.Effect<ToolContext.CallJudgement>>()
        expect(output).type.toBeCallableWith("text")
        expect(output).type.toBeCallableWith({ stream: "stderr" as const, chunk: "text" })
        expect(output).type.not.toBeCallableWith({ stream: "stdin" as const, chunk: "text" })
      }
    })
  })
})

describe("needsApproval", () => {
  it("takes a boolean, a reason why each call is asked about, or a function that returns one of them", () => {
    const parameters = Schema.Struct({ path: Schema.String })
    expect(Tool.make).type.toBeCallableWith("a", {
      handler: () => 1,
      needsApproval: { always: "it deploys" }
    })
    expect(Tool.make).type.toBeCallableWith("a", {
      parameters,
      handler: () => 1,
      needsApproval: ({ path }: { readonly path: string }) => (path === "x" ? { always: "x" } : false)
    })
    expect(Tool.make).type.not.toBeCallableWith("a", { handler: () => 1, needsApproval: { allways: "x" } })
  })
})
