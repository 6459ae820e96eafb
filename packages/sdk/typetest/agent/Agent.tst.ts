import {
  Agent,
  type ModelClient,
  type RunContext,
  type RunResult,
  Runtime,
  runPrompt,
  Tool
} from "@fermata/sdk"
import { fromToolkit } from "@fermata/sdk/toolkit"
import * as AiTool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { describe, expect, it } from "tstyche"
import { z } from "zod"

class Payments extends Context.Service<
  Payments,
  { readonly charge: (amount: number) => Effect.Effect<string> }
>()("test/Payments") {}
class Mail extends Context.Service<Mail, { readonly send: (to: string) => Effect.Effect<void> }>()(
  "test/Mail"
) {}

const charge = Tool.make("charge", {
  parameters: Schema.Struct({ amount: Schema.Number }),
  handler: ({ amount }) => Payments.use((payments) => payments.charge(amount))
})
const send = Tool.make("send", {
  parameters: z.object({ to: z.string() }),
  handler: ({ to }) => Mail.use((mail) => mail.send(to))
})

describe("Tool.make", () => {
  it("takes durations and an effect for the expiry of its requests", () => {
    expect(Tool.make).type.toBeCallableWith("t", {
      handler: () => "",
      approval: { expiresIn: "3 days", onExpiry: "deny", warnBefore: "2 hours" }
    })
    expect(Tool.make).type.not.toBeCallableWith("t", {
      handler: () => "",
      approval: { expiresIn: "3 days", warnBefore: "soon" }
    })
  })
  it("passes the handler the decoded arguments of an Effect Schema", () => {
    Tool.make("t", {
      parameters: Schema.Struct({ n: Schema.NumberFromString, tag: Schema.optionalKey(Schema.String) }),
      handler: (args) => {
        expect(args.n).type.toBe<number>()
        expect(args.tag).type.toBe<string | undefined>()
      }
    })
  })
  it("passes the handler the decoded arguments of a Standard Schema", () => {
    Tool.make("t", {
      parameters: z.object({ n: z.coerce.number() }),
      handler: (args) => {
        expect(args.n).type.toBe<number>()
      }
    })
  })
  it("passes the callbacks the context of the run as its schema decodes it, or as JSON", () => {
    const context = Schema.Struct({ tenant: Schema.String, since: Schema.DateFromString })
    Tool.make("t", {
      context,
      handler: (_, call) =>
        expect(call.context).type.toBe<{ readonly tenant: string; readonly since: Date }>(),
      needsApproval: (_, { context }) => context.tenant === "acme",
      reconcile: (_key, _args, { context }) => ({ _tag: "failed", message: context.tenant }),
      risk: (_, { context }) => context.tenant,
      facts: (_, { context }) => ({ tenant: context.tenant }),
      preview: (_, { context }) => context.tenant
    })
    Tool.make("t", {
      context: z.object({ tenant: z.string() }),
      handler: (_, { context }) => expect(context).type.toBe<{ tenant: string }>()
    })
    Tool.make("t", { handler: (_, { context }) => expect(context).type.toBe<RunContext.RunContext>() })
    Agent.make("a", { context, instructions: ({ context }) => context.tenant })
    Agent.make("a", {
      instructions: ({ context }) => {
        expect(context).type.toBe<RunContext.RunContext>()
        return ""
      }
    })
  })
  it("accepts a handler whose result its success schema encodes, and marks another one", () => {
    const success = Schema.Struct({ at: Schema.DateFromString, note: Schema.optionalKey(Schema.String) })
    const at = new Date(0)
    expect(Tool.make("t", { success, handler: () => ({ at }) })).type.toBe<Tool.Tool<never>>()
    expect(Tool.make("t", { success, handler: async () => ({ at, more: 1 }) })).type.toBe<Tool.Tool<never>>()
    expect(Tool.make("t", { success, handler: () => Effect.succeed({ at }) })).type.toBe<Tool.Tool<never>>()
    expect(
      Tool.make("t", {
        success,
        handler: async function* () {
          yield { progress: "half" }
          yield { result: { at } }
        }
      })
    ).type.toBe<Tool.Tool<never>>()
    expect(Tool.make("t", { success: Schema.String, handler: () => 1 })).type.toBe<
      Tool.Tool<Tool.NotOfSuccess<string>>
    >()
  })
  it("infers the services of its handler", () => {
    expect(charge).type.toBe<Tool.Tool<Payments>>()
    expect(Tool.make("t", { handler: async () => 1 })).type.toBe<Tool.Tool<never>>()
  })
  it("infers the services of each callback", () => {
    const paying = () => Payments.use((payments) => payments.charge(1))
    const mailing = () => Mail.use((mail) => mail.send("ann"))
    const handler = () => ""
    expect(Tool.make("t", { handler, needsApproval: () => Effect.as(paying(), true) })).type.toBe<
      Tool.Tool<Payments>
    >()
    expect(Tool.make("t", { handler, risk: paying, preview: () => Effect.as(mailing(), "") })).type.toBe<
      Tool.Tool<Payments | Mail>
    >()
    const reconcile = () => Effect.as(mailing(), { _tag: "notHappened" } as const)
    expect(Tool.make("t", { handler, reconcile })).type.toBe<Tool.Tool<Mail>>()
    const facts = () => Effect.as(mailing(), { price: 100 })
    expect(Tool.make("t", { handler, facts })).type.toBe<Tool.Tool<Mail>>()
    expect(Tool.make).type.not.toBeCallableWith("t", { handler, facts: () => new Date(0) })
  })
  it("infers the services of a handler that streams", () => {
    const paying = Payments.use((payments) => Effect.map(payments.charge(1), (result) => ({ result })))
    expect(Tool.make("t", { handler: () => Stream.fromEffect(paying) })).type.toBe<Tool.Tool<Payments>>()
    expect(
      Tool.make("t", {
        handler: () => Mail.use((mail) => Effect.as(mail.send("ann"), Stream.fromEffect(paying)))
      })
    ).type.toBe<Tool.Tool<Payments | Mail>>()
    expect(
      Tool.make("t", {
        parameters: z.object({ to: z.string() }),
        handler: async function* ({ to }, { signal }) {
          yield { output: `${to} ${signal.aborted}` }
          yield { progress: "half" }
          yield { result: { sent: true } }
        }
      })
    ).type.toBe<Tool.Tool<never>>()
  })
  it("refuses, where its agent is bound, a handler that streams something else", () => {
    const misspelt = Tool.make("t", {
      handler: async function* () {
        yield { outptu: "x" }
        yield { result: 1 }
      }
    })
    expect(misspelt).type.not.toBeAssignableTo<Tool.Tool<never>>()
    expect(Tool.make("t", { handler: () => Stream.make("x") })).type.not.toBeAssignableTo<Tool.Tool<never>>()
    const returned = Tool.make("t", {
      handler: async function* () {
        yield { output: "x" }
        return "done"
      }
    })
    expect(returned).type.not.toBeAssignableTo<Tool.Tool<never>>()
  })
  it("checks the result of a generator that is annotated", () => {
    const report = async function* (): AsyncGenerator<Tool.StreamItem<{ readonly files: number }>> {
      yield { output: "x" }
      yield { result: { files: 1 } }
    }
    expect(Tool.make("t", { handler: report })).type.toBe<Tool.Tool<never>>()
    expect<Tool.StreamItem<number>>().type.not.toBeAssignableFrom({ result: "text" })
  })
  it("requires no scope from its caller", () => {
    const acquire = Effect.acquireRelease(Effect.succeed("file"), () => Effect.void)
    expect(Tool.make("t", { handler: () => acquire })).type.toBe<Tool.Tool<never>>()
    expect(
      Tool.make("t", {
        handler: () => Effect.andThen(acquire, Payments),
        needsApproval: () => Effect.as(acquire, true),
        risk: () => acquire,
        preview: () => Effect.andThen(acquire, Effect.as(Mail, "")),
        reconcile: () => Effect.as(acquire, { _tag: "unknown" } as const)
      })
    ).type.toBe<Tool.Tool<Payments | Mail>>()
  })
})

describe("Agent.make", () => {
  const clerk = Agent.make("clerk", { tools: [charge, send], output: Schema.Struct({ ok: Schema.Boolean }) })
  it("requires the services of its tools", () => {
    expect(clerk).type.toBe<Agent.Agent<Payments | Mail, { readonly ok: boolean }>>()
  })
  it("requires the services of its instructions, sub-agents and handoffs", () => {
    const paying = Agent.make("paying", { tools: [charge] })
    const mailing = Agent.make("mailing", { tools: [send] })
    expect(Agent.make("a", { subAgents: [paying, mailing] })).type.toBe<Agent.Agent<Payments | Mail>>()
    expect(Agent.make("a", { handoffs: [paying, mailing] })).type.toBe<Agent.Agent<Payments | Mail>>()
    expect(Agent.make("a", { handoffs: () => [paying], subAgents: [mailing] })).type.toBe<
      Agent.Agent<Payments | Mail>
    >()
    expect(Agent.make("a", { instructions: () => Effect.as(Mail, "") })).type.toBe<Agent.Agent<Mail>>()
    expect(
      Agent.make("a", { instructions: () => Effect.acquireRelease(Effect.succeed(""), () => Effect.void) })
    ).type.toBe<Agent.Agent>()
    expect(Agent.make("a", { subAgents: [Agent.make("b", { handoffs: [paying] })] })).type.toBe<
      Agent.Agent<Payments>
    >()
  })
  it("accepts agents that hand over to each other, with a declared type", () => {
    const desk: Agent.Agent<Payments> = Agent.make("desk", { handoffs: () => [billing] })
    const billing: Agent.Agent<Payments> = Agent.make("billing", { tools: [charge], handoffs: () => [desk] })
    expect(desk).type.not.toBeAssignableTo<Agent.Agent>()
  })
  it("requires these services and a model when it is bound", () => {
    expect(Runtime.make({ agent: clerk })).type.toBeAssignableTo<
      Effect.Effect<
        Runtime.Runtime<{ readonly ok: boolean }>,
        unknown,
        Payments | Mail | ModelClient.ModelClient
      >
    >()
    expect(Runtime.make({ agent: clerk })).type.not.toBeAssignableTo<
      Effect.Effect<unknown, unknown, ModelClient.ModelClient>
    >()
  })
  it("types a run's output, and the result is a union on status", () => {
    const run = (runtime: Runtime.Runtime<{ readonly ok: boolean }>) => runPrompt(runtime, { prompt: "go" })
    expect<Effect.Success<ReturnType<typeof run>>>().type.toBe<
      RunResult.RunResult<{ readonly ok: boolean }>
    >()
    expect<RunResult.RunResult["status"]>().type.toBe<"completed" | "interrupted" | "cancelled" | "error">()
  })
})

describe("fromToolkit", () => {
  const Look = AiTool.make("look", {
    parameters: Schema.Struct({ at: Schema.String }),
    success: Schema.String
  })
  const toolkit = Toolkit.make(Look.addDependency(Mail))
  it("needs the handlers of the toolkit and the dependencies of its tools", () => {
    expect(fromToolkit(toolkit)).type.toBe<ReadonlyArray<Tool.Tool<AiTool.Handler<"look"> | Mail>>>()
  })
  it("types the arguments of further options, and refuses tools that the toolkit does not have", () => {
    fromToolkit(toolkit, {
      look: {
        preview: (args) => {
          expect(args).type.toBe<{ readonly at: string }>()
          return ""
        }
      }
    })
    expect(fromToolkit).type.not.toBeCallableWith(toolkit, { listen: {} })
  })
})
