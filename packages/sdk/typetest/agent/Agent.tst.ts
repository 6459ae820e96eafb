import { Agent, type ModelClient, type RunResult, Runtime, runPrompt, Tool } from "@fermata/sdk"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
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
  it("gives the handler the decoded arguments of an Effect Schema", () => {
    Tool.make("t", {
      parameters: Schema.Struct({ n: Schema.NumberFromString, tag: Schema.optionalKey(Schema.String) }),
      handler: (args) => {
        expect(args.n).type.toBe<number>()
        expect(args.tag).type.toBe<string | undefined>()
      }
    })
  })
  it("gives the handler the decoded arguments of a Standard Schema", () => {
    Tool.make("t", {
      parameters: z.object({ n: z.coerce.number() }),
      handler: (args) => {
        expect(args.n).type.toBe<number>()
      }
    })
  })
  it("knows the services that an Effect handler needs", () => {
    expect(charge).type.toBe<Tool.Tool<Payments>>()
    expect(Tool.make("t", { handler: async () => 1 })).type.toBe<Tool.Tool<never>>()
  })
})

describe("Agent.make", () => {
  const clerk = Agent.make("clerk", { tools: [charge, send], output: Schema.Struct({ ok: Schema.Boolean }) })
  it("adds up the services of its tools", () => {
    expect(clerk).type.toBe<Agent.Agent<Payments | Mail, { readonly ok: boolean }>>()
  })
  it("asks for them, and for a model, when it is bound", () => {
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
  it("types the output of a completed run, which is a union on status", () => {
    const run = (runtime: Runtime.Runtime<{ readonly ok: boolean }>) => runPrompt(runtime, { prompt: "go" })
    expect<Effect.Success<ReturnType<typeof run>>>().type.toBe<
      RunResult.RunResult<{ readonly ok: boolean }>
    >()
    expect<RunResult.RunResult["status"]>().type.toBe<"completed" | "interrupted" | "cancelled" | "error">()
  })
})
