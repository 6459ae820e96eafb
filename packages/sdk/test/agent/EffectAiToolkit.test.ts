import { assert, describe, it } from "@effect/vitest"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as AiTool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import { fromToolkit, toToolkit } from "../../src/agent/EffectAiToolkit.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Hold from "../../src/tool/Hold.ts"
import * as Secrets from "../../src/tool/Secrets.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { approve, expect, only, results } from "../helpers/Fixture.ts"

class NoStock extends Schema.TaggedError<NoStock>()("NoStock", { item: Schema.String }) {}

const Ship = AiTool.make("ship", {
  description: "Ships an item",
  parameters: Schema.Struct({ item: Schema.String, count: Schema.NumberFromString }),
  success: Schema.Struct({ at: Schema.DateFromString, count: Schema.Finite }),
  failure: NoStock
})
const Look = AiTool.make("look", { success: Schema.String }).annotate(AiTool.Readonly, true)
const Shout = AiTool.dynamic("shout", {
  parameters: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  success: Schema.String,
  needsApproval: (params: any) => params.text.length > 3
})
const toolkit = Toolkit.make(Ship, Look, Shout)
const shipped: Array<unknown> = []
const handlers = toolkit.toLayer({
  ship: ({ count, item }) =>
    item === "none"
      ? Effect.fail(new NoStock({ item }))
      : Effect.sync(() => {
          shipped.push(count)
          return { at: new Date(0), count }
        }),
  look: (_, { preliminary }) => Effect.as(preliminary("looking"), "a lamp"),
  shout: ({ text }: any) => Effect.succeed(String(text).toUpperCase())
})

const runtimeOf = (
  script: ReadonlyArray<ScriptedModel.Script>,
  overrides: Parameters<typeof fromToolkit<typeof toolkit.tools>>[1] = {}
) =>
  Effect.gen(function* () {
    const model = ScriptedModel.make(script)
    const runtime = yield* Runtime.make({
      agent: Agent.make("a", { tools: fromToolkit(toolkit, overrides) })
    }).pipe(Effect.provide(Layer.merge(handlers, model.layer)))
    return { model, runtime }
  })

const call = (tool: string, args: Record<string, string>, id = tool) => ({ tool, id, arguments: args })

describe("fromToolkit", () => {
  it.effect("resolves a reference to a secret for the toolkit's handler, if the options state its name", () =>
    Effect.gen(function* () {
      const script = [{ calls: [call("shout", { text: "secret://token" })] }, "done"] as const
      for (const [secrets, text] of [
        [["token"], "V4LUE-TOOLKIT-81"],
        [undefined, "SECRET://TOKEN"]
      ] as const) {
        const overrides = { shout: { needsApproval: false, ...(secrets === undefined ? {} : { secrets }) } }
        const { runtime } = yield* runtimeOf(script, overrides)
        const done = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
        assert.deepStrictEqual(results(done.state), [`shout completed: ${text}`])
      }
    }).pipe(Effect.provide(Secrets.layerMemory({ token: "v4lue-toolkit-81" })))
  )

  it.effect(
    "holds a call, and then runs the toolkit's handler with decoded parameters and encodes its result",
    () =>
      Effect.gen(function* () {
        const { model, runtime } = yield* runtimeOf([
          { calls: [call("ship", { item: "lamp", count: "2" })] },
          "done"
        ])
        const held = yield* runPrompt(runtime, { prompt: "go" })
        assert.deepInclude(model.requests[0]?.tools[0], { name: "ship", description: "Ships an item" })
        assert.deepStrictEqual(shipped, [])
        const done = expect(
          yield* runPrompt(runtime, { state: held.state, decisions: [approve(only(held, "approval"))] }),
          "completed"
        )
        assert.deepStrictEqual(shipped.splice(0), [2])
        assert.deepStrictEqual(results(done.state), [
          'ship completed: {"at":"1970-01-01T00:00:00.000Z","count":2}'
        ])
      })
  )

  it.effect("runs a tool with the annotation Readonly at once, and publishes its preliminary results", () =>
    Effect.gen(function* () {
      const { runtime } = yield* runtimeOf([{ calls: [call("look", {})] }, "done"])
      const updates: Array<RunUpdate> = []
      const done = yield* runPrompt(runtime, { prompt: "go" }, { onUpdate: (update) => updates.push(update) })
      assert.deepStrictEqual(results(expect(done, "completed").state), ["look completed: a lamp"])
      assert.deepStrictEqual(
        updates.flatMap((update) => (update._tag === "output" ? [update.chunk] : [])),
        ["looking"]
      )
    })
  )

  it.effect("asks the rule of a dynamic tool, and takes its JSON Schema", () =>
    Effect.gen(function* () {
      const { runtime } = yield* runtimeOf([
        { calls: [call("shout", { text: "ho" }, "1"), call("shout", { text: "hello" }, "2")] },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      assert.deepInclude(only(held, "approval"), { arguments: { text: "hello" } })
      const decisions = [approve(only(held, "approval"))]
      const done = expect(yield* runPrompt(runtime, { state: held.state, decisions }), "completed")
      assert.deepStrictEqual(results(done.state), ["shout completed: HO", "shout completed: HELLO"])
    })
  )

  it.effect("shows the model the fields of a typed failure, and takes further options", () =>
    Effect.gen(function* () {
      const { runtime } = yield* runtimeOf(
        [{ calls: [call("ship", { item: "none", count: "1" })] }, "done"],
        {
          ship: { needsApproval: false, maxResultLength: 500 }
        }
      )
      const done = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.include(results(done.state)[0], '{"_tag":"NoStock","item":"none"}')
    })
  )

  it("refuses a tool that a provider defines", () => {
    const search = AiTool.providerDefined({
      id: "x.search",
      customName: "Search",
      providerName: "search"
    } as any)({} as never)
    assert.throws(() => fromToolkit(Toolkit.make(search as any)), /the provider defines it/)
  })

  it("refuses options of a tool that the toolkit does not have, and names the nearest one", () => {
    const misspelt = { shipp: { needsApproval: true } } as {}
    assert.throws(() => fromToolkit(toolkit, misspelt), /"shipp".*did you mean "ship"/)
  })
})

class Payments extends Context.Service<Payments, { readonly pay: (id: string) => Effect.Effect<string> }>()(
  "test/Payments"
) {}

const pay = Tool.make("pay", {
  parameters: Schema.Struct({ id: Schema.String }),
  success: Schema.Struct({ receipt: Schema.String, at: Schema.DateFromString }),
  needsApproval: ({ id }) => id !== "small",
  context: Schema.Struct({ tenant: Schema.String }),
  handler: ({ id }, { context, output }) =>
    Effect.gen(function* () {
      output("paying")
      if (id === "broken") return yield* new NoStock({ item: id })
      const receipt = yield* (yield* Payments).pay(`${context.tenant}/${id}`)
      return { receipt, at: new Date(0) }
    })
})
const streaming = Tool.make("streaming", {
  safety: "readOnly",
  handler: async function* () {
    yield { progress: "half" }
    yield { result: "whole" }
  }
})

describe("toToolkit", () => {
  const made = toToolkit([pay, streaming], { context: { tenant: "acme" } }).pipe(
    Effect.provideService(Payments, { pay: (id) => Effect.succeed(`receipt of ${id}`) })
  )
  const handled = (name: string, params: unknown) =>
    Effect.gen(function* () {
      const stream = yield* (yield* made).handle(name, params as never, "call-1")
      return yield* Stream.runCollect(stream)
    })

  it.effect("runs the handler with its services and the context, and encodes its result", () =>
    Effect.gen(function* () {
      const last = (yield* handled("pay", { id: "A" })).at(-1)
      assert.deepInclude(last, {
        isFailure: false,
        encodedResult: { receipt: "receipt of acme/A", at: "1970-01-01T00:00:00.000Z" }
      })
      const streamed = yield* handled("streaming", {})
      assert.deepStrictEqual(
        streamed.map(({ encodedResult }) => encodedResult),
        [{ progress: "half" }, "whole"]
      )
    })
  )

  it.effect("returns failures and arguments that do not fit as text", () =>
    Effect.gen(function* () {
      const failed = (yield* handled("pay", { id: "broken" })).at(-1)
      assert.deepInclude(failed, { isFailure: true })
      assert.include(String(failed?.result), '{"_tag":"NoStock","item":"broken"}')
      const unfit = (yield* handled("pay", {})).at(-1)
      assert.isTrue(unfit?.isFailure)
      assert.include(String(unfit?.result), "id")
    })
  )

  it.effect("has a LanguageModel ask before it runs a call that needs approval", () =>
    Effect.gen(function* () {
      let asked = ""
      const model = yield* LanguageModel.make({
        generateText: ({ prompt }) =>
          Effect.sync(() => {
            asked = JSON.stringify(prompt)
            return [
              { type: "tool-call", id: "c1", name: "pay", params: { id: "large" } },
              { type: "tool-call", id: "c2", name: "pay", params: { id: "small" } },
              {
                type: "finish",
                reason: "tool-calls",
                usage: {
                  inputTokens: { total: 1, uncached: 1, cacheRead: 0, cacheWrite: 0 },
                  outputTokens: { total: 1, text: 1, reasoning: 0 }
                }
              }
            ] as any
          }),
        streamText: () => Stream.empty
      })
      const response = yield* model.generateText({ prompt: "pay", toolkit: made as never })
      const parts = (response as any).content.map((part: any) => [part.type, part.toolCallId ?? part.id])
      assert.deepInclude(parts, ["tool-approval-request", "c1"])
      assert.notDeepInclude(parts, ["tool-result", "c1"])
      assert.deepInclude(parts, ["tool-result", "c2"])
      assert.include(asked, "pay")
    })
  )

  it.effect("refuses a context that a tool does not accept, and ask_user", () =>
    Effect.gen(function* () {
      const refused = yield* Effect.flip(toToolkit([pay]).pipe(Effect.provideService(Payments, {} as never)))
      assert.include(refused.message, "it does not accept the context")
      assert.include((yield* Effect.flip(toToolkit([Tool.askUser]))).message, "only a run can ask a user")
      const misspelt = { contxt: { tenant: "acme" } } as {}
      assert.include((yield* Effect.flip(toToolkit([], misspelt))).message, 'did you mean "context"')
    })
  )

  it.effect("requires approval for a call whose rule fails, or whose arguments do not fit", () =>
    Effect.gen(function* () {
      const broken = Tool.make("broken", {
        parameters: Schema.Struct({ id: Schema.String }),
        needsApproval: ({ id }) => id === "throw" && Effect.fail("no rule"),
        handler: () => "ran"
      })
      const { tools } = yield* toToolkit([broken])
      const { needsApproval } = tools["broken"]!
      const asks = (args: object) =>
        (needsApproval as (args: unknown, context: unknown) => Effect.Effect<boolean>)(args, {})
      const given = [{ id: "throw" }, {}, { id: "fine" }]
      assert.deepStrictEqual(yield* Effect.forEach(given, asks), [true, true, false])
    })
  )

  it.effect("fails the call of a tool that returns a hold, which only a run can wait for", () =>
    Effect.gen(function* () {
      const snooze = Tool.make("snooze", { handler: () => Hold.wait({ for: "1 day" }) })
      const render = Tool.make("render", {
        handler: async function* () {
          yield { result: Hold.pending() }
        }
      })
      const made = yield* toToolkit([snooze, render])
      for (const name of ["snooze", "render"]) {
        const [failed] = yield* Stream.runCollect(yield* made.handle(name, {}))
        assert.deepInclude(failed, { isFailure: true })
        assert.include(String(failed?.result), "Its result comes later")
      }
    })
  )
})

describe("the success schema of a tool", () => {
  const resultOf = (tool: Tool.Tool) =>
    Effect.gen(function* () {
      const model = ScriptedModel.make([{ calls: [{ tool: tool.name }] }, "done"])
      const runtime = yield* Effect.provide(
        Runtime.make({ agent: Agent.make("a", { tools: [tool] }) }),
        model.layer
      )
      return results(expect(yield* runPrompt(runtime, { prompt: "go" }), "completed").state)[0]
    })
  const success = Schema.Struct({ at: Schema.DateFromString })

  it.effect("encodes the result, without the fields that it does not have", () =>
    Effect.gen(function* () {
      const handler = () => ({ at: new Date(0), secret: "no" })
      const tool = Tool.make("t", { safety: "readOnly", success, handler })
      assert.strictEqual(yield* resultOf(tool), 't completed: {"at":"1970-01-01T00:00:00.000Z"}')
    })
  )

  it.effect("fails a call whose result it does not encode, and leaves parts as they are", () =>
    Effect.gen(function* () {
      const wrong = Tool.make("t", { safety: "readOnly", success, handler: () => ({ at: "noon" }) as never })
      assert.include(yield* resultOf(wrong), "t ran, but its result cannot be shown")
      const parts = Tool.make("t", {
        safety: "readOnly",
        success,
        handler: () => Tool.content([{ _tag: "text", text: "as it is" }])
      })
      assert.strictEqual(yield* resultOf(parts), "t completed: as it is")
    })
  )
})
