import { assert, describe, it } from "@effect/vitest"
import * as Agent from "../../src/agent/Agent.ts"
import { approve, supply } from "../../src/promise/decisions.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { isAgentDefinitionError, isDecisionMalformed, isLimitsInvalid } from "../../src/promise/guards.ts"
import * as RunStore from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { rejection } from "../helpers/rejection.ts"

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

describe("a held run", () => {
  it("rejects invalid limits, and can be resumed", async () => {
    await using fermata = await open()
    const run = await fermata.runPrompt("ops", "go")
    if (run.status !== "interrupted") return assert.fail(run.status)
    const error = await rejection(fermata.resume(run.runId, { limits: { maxTurns: Number.NaN } }))
    assert.isTrue(isLimitsInvalid(error), String(error))
    await fermata.decide(run.interruptions[0]!, approve())
    assert.strictEqual((await fermata.resume(run.runId)).status, "completed")
  })

  it("rejects a decision without a request", async () => {
    await using fermata = await open()
    const run = await fermata.runPrompt("ops", "go")
    for (const none of [undefined, null, {}]) {
      const error = await rejection(fermata.decide(none as never, approve()))
      assert.isTrue(isDecisionMalformed(error), String(error))
    }
    assert.strictEqual(run.status, "interrupted")
  })

  it("rejects a decision that nests too deeply, and its request stays open", async () => {
    await using fermata = await open()
    const run = await fermata.runPrompt("ops", "go")
    if (run.status !== "interrupted") return assert.fail(run.status)
    let deep: Array<never> | ReadonlyArray<unknown> = []
    for (let i = 0; i < 20_000; i++) deep = [deep]
    const decision = { _tag: "supply", result: deep as never } as const
    for (const decide of [
      () => fermata.decide(run.interruptions[0]!, decision),
      async () => supply(decision.result)
    ]) {
      const error = await rejection(decide())
      assert.isTrue(isDecisionMalformed(error), String(error))
    }
    assert.strictEqual((await fermata.pending()).length, 1)
  })

  it("can be read when a tool's risk is not text", async () => {
    await using fermata = await open({ risk: (() => 5) as never })
    const run = await fermata.runPrompt("ops", "go")
    assert.strictEqual((await fermata.state(run.runId)).status, "held")
  })

  it("can be resumed and read when its handler returns invalid content", async () => {
    await using fermata = await open({ handler: () => Tool.content([{ _tag: "x" } as never]) })
    const run = await fermata.runPrompt("ops", "go")
    if (run.status !== "interrupted") return assert.fail(run.status)
    await fermata.decide(run.interruptions[0]!, approve())
    assert.strictEqual((await fermata.resume(run.runId)).status, "completed")
    assert.strictEqual((await fermata.state(run.runId)).status, "completed")
  })

  it("can be read when the provider reports NaN as usage", async () => {
    await using fermata = await open({}, { inputTokens: Number.NaN })
    const run = await fermata.runPrompt("ops", "go")
    assert.strictEqual((await fermata.state(run.runId)).usage.inputTokens, 0)
  })

  it("ends a reader of events that starts beyond its end", async () => {
    await using fermata = await open()
    const run = await fermata.runPrompt("ops", "go")
    for await (const _ of fermata.events(run.runId, { from: 1_000_000 }))
      assert.fail("There is no such event.")
  })
})

describe("Fermata.make", () => {
  it("refuses two agents that share a name or an alias", async () => {
    const twice = Fermata.make({
      agents: [Agent.make("ops"), Agent.make("dev", { aliases: ["ops"] })],
      model: ScriptedModel.make([]).client,
      store: RunStore.layerMemory
    })
    assert.isTrue(isAgentDefinitionError(await rejection(twice)))
  })
})

describe("a run of a Fermata", () => {
  it("is cancelled at once when its approval rule never answers", async () => {
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

  it("is not failed by a subscriber that rejects later", async () => {
    await using fermata = await open()
    const run = await fermata.runPrompt("ops", "go", {
      onUpdate: () => Promise.reject(new Error("later")) as never
    })
    assert.strictEqual(run.status, "interrupted")
  })
})
