import { assert, describe, it } from "@effect/vitest"
import { textOf } from "../../src/domain/Message.ts"
import { messages } from "../../src/domain/RunState.ts"
import { approve } from "../../src/promise/decisions.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { isRevisionNotFound, isRunEnded, isSessionTaken } from "../../src/promise/guards.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

const open = (script: ReadonlyArray<ScriptedModel.Script>) => {
  const pay = tool("pay", { handler: () => "paid" })
  const model = ScriptedModel.make(script)
  return Fermata.make({ agents: [agent("clerk", { tools: [pay] })], model: model.client, store: layerMemory })
}

const rejects = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => assert.fail("it did not reject"),
    (error: unknown) => error
  )

const texts = (state: Awaited<ReturnType<Fermata.Fermata["state"]>>): ReadonlyArray<string> =>
  messages(state).map((message) => `${message.role}: ${textOf(message.content)}`)

const toPay = { calls: [{ tool: "pay" }] }

describe("a Fermata", () => {
  it("stores a message to a held run once per id, and the run reads it when it resumes", async () => {
    await using fermata = await open([toPay, "Both done."])
    const { runId } = await fermata.runPrompt("clerk", "Pay")
    const first = await fermata.send(runId, "And write to Ana", { messageId: "mail-7" })
    assert.deepStrictEqual(await fermata.send(runId, "And write to Ana", { messageId: "mail-7" }), first)
    assert.include((await fermata.explain(runId)).text, "A message waits to be read.")
    const [request] = await fermata.pending({ runId })
    await fermata.decide(request!, approve())
    const done = await fermata.resume(runId)
    assert.deepStrictEqual(texts(done.state).slice(-3), [
      "tool: paid",
      "user: And write to Ana",
      "assistant: Both done."
    ])
    assert.isTrue(isRunEnded(await rejects(fermata.send(runId, "too late"))))
  })

  it("forks a run from an earlier revision without running its calls", async () => {
    await using fermata = await open([toPay, "Paid.", "Then not."])
    const { runId } = await fermata.runPrompt("clerk", "Pay", { sessionId: "original" })
    const [request] = await fermata.pending({ runId })
    await fermata.decide(request!, approve())
    await fermata.resume(runId)
    const points = await fermata.rewindPoints(runId)
    const beginning = points[0]!
    const fork = await fermata.fork(runId, "What would you do?", { revision: beginning.revision })
    assert.notStrictEqual(fork.sessionId, "original")
    assert.strictEqual(fork.status === "completed" ? fork.text : fork.status, "Then not.")
    assert.deepStrictEqual(texts(await fermata.state(runId)).at(-1), "assistant: Paid.")
    assert.isTrue(isRevisionNotFound(await rejects(fermata.fork(runId, "x", { revision: 999 }))))
    assert.isTrue(isSessionTaken(await rejects(fermata.fork(runId, "x", { sessionId: "original" }))))
  })
})
