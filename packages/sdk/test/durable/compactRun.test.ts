import { assert, describe, it } from "@effect/vitest"
import * as Agent from "../../src/agent/Agent.ts"
import { textOf } from "../../src/domain/Message.ts"
import { messages } from "../../src/domain/RunState.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import * as Tokenizer from "../../src/model/Tokenizer.ts"
import { approve } from "../../src/promise/decisions.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"

const isSummary = ({ messages, tools }: ModelRequest): boolean =>
  tools.length === 0 && textOf(messages[0]?.content ?? []).includes("record of the conversation")

const long = (index: number) => `Fact ${index}. ${"More words follow here. ".repeat(120)}`

const open = async (
  agents: ReadonlyArray<Agent.Agent<never, unknown>>,
  answer: (request: ModelRequest) => string | ScriptedModel.ScriptedAnswer = () => "Noted."
) => {
  const model = ScriptedModel.make((request) => (isSummary(request) ? "The facts." : answer(request)), {
    tokenizer: Tokenizer.estimate,
    contextTokens: 32_000
  })
  return {
    model,
    fermata: await Fermata.make({ agents, model: model.client, store: layerMemory, by: "ada" })
  }
}

const clerk = Agent.make("clerk", { instructions: "Take notes." })

const talk = async (fermata: Fermata.Fermata, from: number, to: number) => {
  let runId = ""
  for (let index = from; index < to; index += 1)
    runId = (await fermata.runPrompt("clerk", long(index), { sessionId: "desk" })).runId
  return runId
}

const lastOf = (model: ScriptedModel.ScriptedModel) =>
  model.requests.findLast((request) => !isSummary(request))!

describe("a compaction by command", () => {
  it("of a session that has ended its last run changes what the next run sees, and books its usage", async () => {
    const { fermata, model } = await open([clerk])
    const runId = await talk(fermata, 0, 14)
    const before = await fermata.state(runId)
    const plan = await fermata.compact("desk", { dryRun: true })
    assert.strictEqual(plan.plan?._tag, "Summarize")
    assert.isAbove(plan.cost?.inputTokens ?? 0, 1000)
    assert.strictEqual(model.requests.filter(isSummary).length, 0)
    assert.deepStrictEqual(await fermata.state(runId), before)

    const done = await fermata.compact("desk")
    assert.strictEqual(done.runId, runId)
    assert.deepStrictEqual(done.summary, { text: "The facts.", quality: "model" })
    assert.isBelow(done.after!.used, done.before.used)
    const after = await fermata.state(runId)
    assert.deepStrictEqual(after.history, before.history)
    assert.strictEqual(after.status, "completed")
    assert.strictEqual(after.usage.requests, before.usage.requests + 1)

    await talk(fermata, 14, 15)
    const request = lastOf(model)
    assert.include(textOf(request.messages[0]!.content), "The facts.")
    assert.isBelow(request.messages.length, 20)
    await fermata.close()
  })

  it("leaves a held call as it was, byte for byte, and the run goes on when it is approved", async () => {
    const ran: Array<unknown> = []
    const pay = Tool.make("pay", {
      handler: () => {
        ran.push("paid")
        return "paid"
      }
    })
    const payer = Agent.make("clerk", { instructions: "Take notes.", tools: [pay] })
    const { fermata, model } = await open([payer], ({ messages }) =>
      textOf(messages.findLast(({ role }) => role === "user")!.content).includes("Pay") &&
      messages.at(-1)?.role === "user"
        ? { text: "I pay.", calls: [{ tool: "pay", id: "call_9" }], reasoning: "hm" }
        : "Noted."
    )
    await talk(fermata, 0, 14)
    const held = await fermata.runPrompt("clerk", "Pay now.", { sessionId: "desk" })
    assert.strictEqual(held.status, "interrupted")
    const before = await fermata.state(held.runId)
    const done = await fermata.compact(held.runId)
    assert.strictEqual(done.summary?.quality, "model")
    const after = await fermata.state(held.runId)
    assert.deepStrictEqual(
      [after.calls, after.requests, after.history],
      [before.calls, before.requests, before.history]
    )
    const [request] = await fermata.pending()
    await fermata.decide(request!, approve())
    const end = await fermata.resume(held.runId)
    assert.strictEqual(end.status, "completed")
    assert.deepStrictEqual(ran, ["paid"])
    const answered = lastOf(model).messages
    assert.deepStrictEqual(
      answered.find(
        (message) => message.role === "assistant" && message.content.some(({ _tag }) => _tag === "toolCall")
      ),
      messages(before).at(-1)
    )
    await fermata.close()
  })

  it("is undone by a fork from before it", async () => {
    const { fermata, model } = await open([clerk])
    const runId = await talk(fermata, 0, 14)
    const { revision } = await fermata.state(runId)
    await fermata.compact(runId)
    assert.isAbove((await fermata.state(runId)).revision, revision)
    await fermata.fork(runId, "And now?", { revision })
    const full = lastOf(model)
    assert.strictEqual(full.messages.length, 29)
    await fermata.fork(runId, "And now?")
    assert.isBelow(lastOf(model).messages.length, 20)
    await fermata.close()
  })

  it("keeps pinned messages, until they are unpinned", async () => {
    const { fermata, model } = await open([clerk])
    const runId = await talk(fermata, 0, 14)
    await fermata.pin(runId, 0)
    await fermata.pin(runId, 0)
    await fermata.compact(runId)
    const last = await talk(fermata, 14, 15)
    assert.include(textOf(lastOf(model).messages[1]!.content), "Fact 0.")
    await fermata.pin(last, 4)
    await talk(fermata, 15, 16)
    assert.include(textOf(lastOf(model).messages[2]!.content), "Fact 2.")
    const refused = async (sequence: number) => {
      const error: unknown = await fermata.pin(last, sequence).catch((error: unknown) => error)
      assert.strictEqual((error as { readonly _tag: string })._tag, "MessageNotPinnable")
    }
    await refused(10_000)
    await refused(-1)
    await fermata.close()
  })

  it("reports that there is nothing to leave out, a missing id and a wrong option", async () => {
    const { fermata } = await open([clerk])
    const runId = await talk(fermata, 0, 1)
    const { plan, summary } = await fermata.compact(runId)
    assert.deepStrictEqual([plan, summary], [undefined, undefined])
    const tagOf = async (promise: Promise<unknown>) =>
      promise.then(
        () => "none",
        (error: { readonly _tag: string }) => error._tag
      )
    assert.strictEqual(await tagOf(fermata.compact("no-such-run")), "RunNotFound")
    assert.strictEqual(await tagOf(fermata.compact(runId, { dry: true } as never)), "OptionsInvalid")
    await fermata.close()
  })

  it("is described before it is due by explain", async () => {
    const { fermata } = await open([clerk])
    const runId = await talk(fermata, 0, 3)
    const { context, text } = await fermata.explain(runId)
    assert.strictEqual(context?.window, 32_000)
    assert.isAbove(context?.history ?? 0, 1000)
    assert.include(text, "Its context uses about")
    await fermata.close()
  })
})
