import type { Configuration } from "@fermata/sdk/agent/RuntimeHooks"
import { agent, Fermata, tool } from "@fermata/sdk/promise"
import { Tool } from "@fermata/sdk/tool"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import { describe, expect, it } from "tstyche"

class Payments extends Context.Service<
  Payments,
  { readonly charge: (amount: number) => Effect.Effect<string> }
>()("typetest/Payments") {}

const charge = Tool.make("charge", { handler: () => Payments.use((payments) => payments.charge(1)) })
const free = tool("free", { handler: () => "" })
declare const options: Fermata.FermataOptions
declare const fermata: Fermata.Fermata

describe("Fermata.make", () => {
  it("takes an extension whose tools need no services", () => {
    expect(Fermata.make).type.toBeCallableWith({
      ...options,
      extensions: [{ name: "x", tools: () => [free] }]
    })
    expect(Fermata.make).type.not.toBeCallableWith({
      ...options,
      extensions: [{ name: "x", tools: () => [charge] }]
    })
  })
  it("takes a function of the context that returns a context, a promise, or that it is too large", () => {
    const made = Fermata.make({
      ...options,
      contextPolicy: ({ instructions, messages }) => ({ instructions, messages: messages.slice(-5) })
    })
    expect(made).type.toBe<Promise<Fermata.Fermata>>()
    expect(Fermata.make).type.toBeCallableWith({
      ...options,
      contextPolicy: async () => ({ _tag: "ContextTooLarge", tokens: 2, limit: 1 }) as const
    })
    expect(Fermata.make).type.not.toBeCallableWith({ ...options, contextPolicy: () => [] })
  })
})

describe("Fermata.reconfigure", () => {
  it("takes settings, agents and tools that need no services", () => {
    expect(fermata.reconfigure({ agent: "a", profile: "plan", mode: "m", tools: [free] })).type.toBe<
      Promise<Readonly<Record<string, Configuration>>>
    >()
    expect(fermata.reconfigure).type.toBeCallableWith({ agents: [agent("a")] })
    expect(fermata.reconfigure).type.not.toBeCallableWith({ tools: [charge] })
    expect(fermata.reconfigure).type.not.toBeCallableWith({ profil: "plan" })
  })
})
