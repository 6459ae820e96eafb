import { Agent, createRuntime, reconfigureRuntime, Runtime, RuntimeExtension } from "@fermata/sdk/agent"
import type { ModelClient } from "@fermata/sdk/model"
import { Tool } from "@fermata/sdk/tool"
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { describe, expect, it } from "tstyche"

class Payments extends Context.Service<
  Payments,
  { readonly charge: (amount: number) => Effect.Effect<string> }
>()("typetest/Payments") {}
class Mail extends Context.Service<Mail, { readonly send: (to: string) => Effect.Effect<void> }>()(
  "typetest/Mail"
) {}
class Clerk extends Context.Service<Clerk, { readonly wake: Effect.Effect<void> }>()("typetest/Clerk") {}

const charge = Tool.make("charge", { handler: () => Payments.use((payments) => payments.charge(1)) })
const send = Tool.make("send", { handler: () => Mail.use((mail) => mail.send("ann")) })
const free = Tool.make("free", { handler: () => "" })
const clerk = Agent.make("clerk", { tools: [charge], output: Schema.Struct({ ok: Schema.Boolean }) })
const plain = Agent.make("plain", { tools: [free] })

type Needs<T> = T extends Effect.Effect<unknown, unknown, infer R> ? R : never

describe("Runtime.Service", () => {
  class Desk extends Runtime.Service<Desk>()("typetest/Desk", {
    agent: clerk,
    extensions: [RuntimeExtension.make("mail", { tools: () => [send] })]
  }) {}
  it("provides the class, with the output of its agent, and requires the services of the options", () => {
    expect<Layer.Success<typeof Desk.layer>>().type.toBe<Desk>()
    expect<Layer.Services<typeof Desk.layer>>().type.toBe<Payments | Mail | ModelClient.ModelClient>()
    expect<Effect.Success<typeof Desk>>().type.toBe<Runtime.Runtime<{ readonly ok: boolean }>>()
    expect<Needs<typeof Desk>>().type.toBe<Desk>()
  })
  it("takes each setting as a Config", () => {
    const layer = Desk.layerConfig({ model: Config.String("MODEL"), interactive: Config.Boolean("ASK") })
    expect<Layer.Success<typeof layer>>().type.toBe<Desk>()
    expect(Desk.layerConfig).type.not.toBeCallableWith({ model: Config.Int("MODEL") })
  })
})

describe("createRuntime", () => {
  it("requires a model, a scope and the services of the agent's tools", () => {
    const runtime = createRuntime({ agent: clerk, profiles: [{ name: "plan" }], leaseTtl: "1 minute" })
    expect<Needs<typeof runtime>>().type.toBe<Payments | ModelClient.ModelClient | Scope.Scope>()
    expect<Effect.Success<typeof runtime>>().type.toBe<Runtime.Runtime<{ readonly ok: boolean }>>()
    const bare = createRuntime({ agent: plain })
    expect<Needs<typeof bare>>().type.toBe<ModelClient.ModelClient | Scope.Scope>()
  })
  it("requires the services of each extension's tools and onStart", () => {
    const runtime = createRuntime({
      agent: plain,
      extensions: [
        RuntimeExtension.make("mail", { tools: (context) => (context.mode === "plan" ? [] : [send, free]) }),
        RuntimeExtension.make("clerk", {
          onStart: (context) => Clerk.use(({ wake }) => (context.mode, wake))
        }),
        { name: "charge", tools: () => [charge] }
      ]
    })
    expect<Needs<typeof runtime>>().type.toBe<
      Mail | Clerk | Payments | ModelClient.ModelClient | Scope.Scope
    >()
  })
  it("accepts an extension without requirements", () => {
    const runtime = createRuntime({
      agent: plain,
      extensions: [{ name: "notes", tools: ({ profile }) => (profile.name === "plan" ? [] : [free]) }]
    })
    expect<Needs<typeof runtime>>().type.toBe<ModelClient.ModelClient | Scope.Scope>()
  })
  it("requires the services of handoffs and of the approval callback", () => {
    const runtime = createRuntime({
      agent: Agent.make("desk", { handoffs: [clerk] }),
      approvalCallback: () => Clerk.use(({ wake }) => Effect.as(wake, undefined))
    })
    expect<Needs<typeof runtime>>().type.toBe<Payments | Clerk | ModelClient.ModelClient | Scope.Scope>()
    const bound = Runtime.make({
      agent: Agent.make("desk", { tools: [send] }),
      approvalCallback: () => Effect.as(Clerk, undefined)
    })
    expect<Needs<typeof bound>>().type.toBe<Mail | Clerk | ModelClient.ModelClient>()
  })
  it("requires the services of its hooks, and refuses unknown or invalid hooks", () => {
    const runtime = createRuntime({
      agent: plain,
      hooks: {
        onToolCall: ({ tool }) => Mail.use((mail) => mail.send(tool)),
        onRunEnd: async () => {},
        onTurn: (turn) => [turn.turn].length
      }
    })
    expect<Needs<typeof runtime>>().type.toBe<Mail | ModelClient.ModelClient | Scope.Scope>()
    expect(createRuntime).type.not.toBeCallableWith({ agent: plain, hooks: { onToolCal: () => {} } })
    expect(createRuntime).type.not.toBeCallableWith({ agent: plain, hooks: { onToolCall: 1 } })
  })
  it("refuses unknown and invalid options", () => {
    expect(createRuntime).type.not.toBeCallableWith({ agent: plain, leaseTTL: "1 minute" })
    expect(createRuntime).type.not.toBeCallableWith({ agent: plain, interactive: "yes" })
    expect(createRuntime).type.not.toBeCallableWith({})
  })
})

describe("RuntimeExtension.make", () => {
  it("infers the services from the results of its functions", () => {
    expect(
      RuntimeExtension.make("all", {
        tools: () => [charge, send],
        onClose: () => Clerk.use(({ wake }) => wake)
      })
    ).type.toBe<RuntimeExtension.RuntimeExtension<Payments | Mail | Clerk>>()
    expect(RuntimeExtension.make("none", { onStart: async () => {} })).type.toBe<
      RuntimeExtension.RuntimeExtension<never>
    >()
  })
})

describe("reconfigureRuntime", () => {
  it("requires the services of the new tools", () => {
    const runtime = {} as Runtime.Runtime
    const swapped = reconfigureRuntime(runtime, { tools: [charge, send] })
    expect<Needs<typeof swapped>>().type.toBe<Payments | Mail>()
    const switched = reconfigureRuntime(runtime, { profile: "plan", model: "large", mode: "act" })
    expect<Needs<typeof switched>>().type.toBe<never>()
    expect(reconfigureRuntime).type.not.toBeCallableWith(runtime, { profil: "plan" })
  })
})
