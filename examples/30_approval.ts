/**
 * @title Approval: an edited call, and a second process that gets a typed error
 *
 * A refund needs approval. Ana approves it with a smaller amount; Ben decides a moment later and gets `AlreadyDecided`. Then both
 * resume the run: one succeeds, the other gets `RunBusy`, and the money moves once. Two Fermatas on one file stand for two processes
 * here; `npm start` uses real ones. The model is scripted.
 */
import assert from "node:assert/strict"
import { agent, approve, createFermata, isAlreadyDecided, isRunBusy, Schema, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

export const main = async () => {
  const moved: Array<string> = []
  const started = Promise.withResolvers<void>()
  const bank = Promise.withResolvers<void>()
  const refund = tool("refund", {
    description: "Pays money back to a customer",
    parameters: Schema.Struct({ customer: Schema.String, euros: Schema.Finite }),
    risk: ({ euros }) => `${euros} euros cannot be taken back`,
    handler: async ({ customer, euros }, { idempotencyKey }) => {
      started.resolve()
      await bank.promise
      moved.push(`${euros} to ${customer}, once for ${idempotencyKey}`)
      return `paid ${euros} euros back to ${customer}`
    }
  })
  const model = ScriptedModel.make(({ messages }) =>
    messages.at(-1)?.role === "tool"
      ? "The refund is on its way."
      : { calls: [{ tool: "refund", arguments: { customer: "Mr. Olsen", euros: 500 } }] }
  )
  const open = (owner: string) =>
    createFermata({ agents: [agent("support", { tools: [refund] })], model: model.client, owner, by: owner })
  await using ana = await open("ana")
  await using ben = await open("ben")

  const held = await ana.runPrompt("support", "Mr. Olsen wants his money back.")
  assert(held.status === "interrupted")
  assert.equal(moved.length, 0)

  // Every process sees the same list. The decision is bound to the arguments that the request showed.
  const [asked] = await ben.pending({ runId: held.runId })
  assert(asked?.request._tag === "approval")
  console.log(`${asked.agent} asks: ${asked.request.tool}`, asked.request.arguments, asked.request.risk)

  await ana.decide(asked, approve({ arguments: { customer: "Mr. Olsen", euros: 50 } }), {
    note: "see the terms"
  })
  await assert.rejects(ben.decide(asked, approve()), (error) => {
    assert(isAlreadyDecided(error))
    console.log(`ben: ${error.message}`)
    return error.by === "ana"
  })

  const won = ana.resume(held.runId)
  await started.promise
  await assert.rejects(ben.resume(held.runId), (error) => {
    assert(isRunBusy(error))
    console.log(`ben: ${error.message}`)
    return error.owner === "ana"
  })
  bank.resolve()
  const done = await won
  assert(done.status === "completed")

  // A later resume returns the result of the run, and no call runs.
  assert.equal((await ben.resume(held.runId)).status, "completed")
  assert.deepEqual(moved, [`50 to Mr. Olsen, once for ${held.runId}.t1.1`])
  console.log(moved, done.text)
}

if (import.meta.main) await main()
