import { assert, describe, it } from "@effect/vitest"
import * as Agent from "../../src/agent/Agent.ts"
import { approve, supply } from "../../src/promise/decisions.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { isAgentDefinitionError, isDecisionMalformed, isLimitsInvalid } from "../../src/promise/guards.ts"
import * as RunStore from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"

const open = (
  options: Partial<Tool.ToolOptions<unknown, unknown>> = {},
  usage: { readonly inputTokens?: number } = {}
) => {
  const deploy = Tool.make("deploy", { handler: () => "deployed", ...(options as {}) })
  const model = ScriptedModel.make(({ turn }) =>
    turn === 1 ? { calls: [{ tool: "deploy" }], usage } : { text: "done", usage }
  )
  return Fermata.make({
    agents: [Agent.make("ops", { tools: [deploy as Tool.Tool] })],
    model: model.client,
    store: RunStore.layerMemory
  })
}

const rejected = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => assert.fail("It was not refused."),
    (error: unknown) => error
  )

describe("a held run", () => {
  it("is not harmed by limits that are none: they are refused, and it goes on", async () => {
    await using fermata = await open()
    const run = await fermata.runPrompt("ops", "go")
    if (run.status !== "interrupted") return assert.fail(run.status)
    const error = await rejected(fermata.resume(run.runId, { limits: { maxTurns: Number.NaN } }))
    assert.isTrue(isLimitsInvalid(error), String(error))
    await fermata.decide(run.interruptions[0]!, approve())
    assert.strictEqual((await fermata.resume(run.runId)).status, "completed")
  })

  it("refuses a decision about no request", async () => {
    await using fermata = await open()
    const run = await fermata.runPrompt("ops", "go")
    for (const none of [undefined, null, {}]) {
      const error = await rejected(fermata.decide(none as never, approve()))
      assert.isTrue(isDecisionMalformed(error), String(error))
    }
    assert.strictEqual(run.status, "interrupted")
  })

  it("refuses a decision that is nested too deep, and stays open", async () => {
    await using fermata = await open()
    const run = await fermata.runPrompt("ops", "go")
    if (run.status !== "interrupted") return assert.fail(run.status)
    let deep: Array<never> | ReadonlyArray<unknown> = []
    for (let i = 0; i < 20_000; i++) deep = [deep]
    const error = await rejected(fermata.decide(run.interruptions[0]!, supply(deep as never)))
    assert.isTrue(isDecisionMalformed(error), String(error))
    assert.strictEqual((await fermata.pending()).length, 1)
  })

  it("can be read whatever a tool says about its risk", async () => {
    await using fermata = await open({ risk: (() => 5) as never })
    const run = await fermata.runPrompt("ops", "go")
    assert.strictEqual((await fermata.state(run.runId)).status, "held")
  })

  it("can be read, and knows that the call happened, whatever its handler returns", async () => {
    await using fermata = await open({ handler: () => Tool.content([{ _tag: "x" } as never]) })
    const run = await fermata.runPrompt("ops", "go")
    if (run.status !== "interrupted") return assert.fail(run.status)
    await fermata.decide(run.interruptions[0]!, approve())
    assert.strictEqual((await fermata.resume(run.runId)).status, "completed")
    assert.strictEqual((await fermata.state(run.runId)).status, "completed")
  })

  it("can be read whatever a provider reports as usage", async () => {
    await using fermata = await open({}, { inputTokens: Number.NaN })
    const run = await fermata.runPrompt("ops", "go")
    assert.strictEqual((await fermata.state(run.runId)).usage.inputTokens, 0)
  })

  it("ends the watching of events that lie beyond its end", async () => {
    await using fermata = await open()
    const run = await fermata.runPrompt("ops", "go")
    for await (const _ of fermata.events(run.runId, { from: 1_000_000 }))
      assert.fail("There is no such event.")
  })
})

describe("Fermata.make", () => {
  it("refuses two agents that answer to one name", async () => {
    const twice = Fermata.make({
      agents: [Agent.make("ops"), Agent.make("dev", { aliases: ["ops"] })],
      model: ScriptedModel.make([]).client,
      store: RunStore.layerMemory
    })
    assert.isTrue(isAgentDefinitionError(await rejected(twice)))
  })
})

describe("cancel", () => {
  it("stops a run of this process at once, also one whose approval rule never answers", async () => {
    await using fermata = await open({ needsApproval: () => new Promise<boolean>(() => {}) })
    const begun = Promise.withResolvers<string>()
    const run = fermata.runPrompt("ops", "go", {
      onUpdate: (update) => {
        if (update._tag === "event" && update.event._tag === "model.answered") begun.resolve(update.runId)
      }
    })
    await fermata.cancel(await begun.promise, "enough")
    const end = await run
    assert.strictEqual(end.status === "cancelled" && end.reason, "enough")
  })

  it("is not in the way of a watcher that fails later", async () => {
    await using fermata = await open()
    const run = await fermata.runPrompt("ops", "go", {
      onUpdate: () => Promise.reject(new Error("later")) as never
    })
    assert.strictEqual(run.status, "interrupted")
  })
})
