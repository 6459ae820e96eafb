import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { bind, expect } from "../helpers/Fixture.ts"

const parameters = {
  type: "object",
  properties: { to: { type: "string", pattern: "^[a-z]+$" }, amount: { type: "integer", minimum: 1 } },
  required: ["to", "amount"],
  additionalProperties: false
}

/** The results of a tool with these parameters, called with each of the arguments. */
const results = (parameters: object, all: ReadonlyArray<object>) =>
  Effect.gen(function* () {
    const ran: Array<unknown> = []
    const pay = Tool.make("pay", {
      parameters: parameters as {},
      needsApproval: false,
      handler: (args: { readonly amount: number }) => {
        ran.push(args)
        return "paid"
      }
    })
    const script = [{ calls: all.map((args) => ({ tool: "pay", arguments: args as {} })) }, "Done."]
    const { model, runtime } = yield* bind(Agent.make("ops", { tools: [pay] }), script)
    expect(yield* runPrompt(runtime, { prompt: "Pay." }), "completed")
    return { ran, shown: model.requests[0]?.tools[0], last: model.requests[1]?.messages }
  })

describe("a tool whose parameters are a JSON Schema", () => {
  it.effect("shows it to the model, and runs with arguments that fit it alone", () =>
    Effect.gen(function* () {
      const good = { to: "ana", amount: 3 }
      const { ran, shown } = yield* results(parameters, [
        good,
        { to: "ana", amount: "3" },
        { to: "Ana 1", amount: 3 },
        { to: "ana", amount: 0 },
        { amount: 3 }
      ])
      assert.deepStrictEqual(shown?.parameters, parameters)
      assert.deepStrictEqual(ran, [good])
    })
  )

  it.effect("describes a top-level anyOf in words, and checks it", () =>
    Effect.gen(function* () {
      const either = {
        type: "object",
        description: "Whom to pay.",
        properties: { amount: { type: "integer" }, to: { type: "string" }, iban: { type: "string" } },
        anyOf: [{ required: ["to"] }, { required: ["iban"] }]
      }
      const { ran, shown } = yield* results(either, [{ amount: 1 }, { amount: 1, iban: "x" }])
      assert.isUndefined(shown?.parameters["anyOf"])
      assert.include(String(shown?.parameters["description"]), "Whom to pay. The arguments also have to fit")
      assert.deepStrictEqual(ran, [{ amount: 1, iban: "x" }])
    })
  )

  it.effect("is refused if the schema cannot be checked", () =>
    Effect.gen(function* () {
      const broken = { type: "object", properties: { to: { type: "string", pattern: "(" } } }
      const pay = Tool.make("pay", { parameters: broken, handler: () => "paid" })
      const error = yield* Effect.flip(bind(Agent.make("ops", { tools: [pay] }), []))
      assert.strictEqual(error._tag, "ToolDefinitionError")
      assert.include(error.message, "Fermata cannot check this JSON Schema")
    })
  )
})

describe("an agent whose output is a JSON Schema", () => {
  it.effect("completes with an answer that fits it", () =>
    Effect.gen(function* () {
      const output = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] }
      const agent = Agent.make("ops", { output: output as never })
      const { model, runtime } = yield* bind(agent, ['{ "n": "3" }', '{ "n": 3 }'])
      const run = expect(yield* runPrompt(runtime, { prompt: "Count." }), "completed")
      assert.deepStrictEqual<unknown>(run.output, { n: 3 })
      assert.deepStrictEqual(model.requests[0]?.output?.schema, output)
      assert.lengthOf(model.requests, 2)
    })
  )
})
