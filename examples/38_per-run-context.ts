/**
 * @title Per-run context: the tenant and the user of a run, in every process
 *
 * The caller gives a context, which is stored with the run. The tool and the agent declare the schema of what they read of it. A worker
 * that releases the run later, on another day or machine, passes the same context to the handler. The model never receives it. The model is
 * scripted.
 */
import assert from "node:assert/strict"
import { agent, approve, createFermata, isContextInvalid, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"
import { z } from "zod"

const Caller = z.object({
  tenant: z.string(),
  user: z.object({ id: z.string(), plan: z.enum(["free", "pro"]) })
})

const refunds: Array<string> = []
const model = ScriptedModel.make([{ calls: [{ tool: "refund", arguments: { order: "A-17" } }] }, "Refunded."])

/** The program of the service and of the worker: one definition, no tenant in it. */
const open = (owner: string) => {
  const refund = tool("refund", {
    context: Caller,
    parameters: z.object({ order: z.string() }),
    needsApproval: (_, { context }) => context.user.plan === "free",
    preview: ({ order }, { context }) => `${order} of ${context.tenant}`,
    handler: ({ order }, { context }) => {
      refunds.push(`${context.tenant}/${order} by ${owner}`)
      return "done"
    }
  })
  const support = agent("support", {
    context: Caller,
    instructions: ({ context }) => `You help the customers of ${context.tenant}.`,
    tools: [refund]
  })
  return createFermata({ agents: [support], model: model.client, owner })
}

export const main = async () => {
  const context = { tenant: "acme", user: { id: "u_7", plan: "free" } }
  {
    await using service = await open("the service")
    const refused = await service.submit("support", "Refund A-17", { context: {} }).catch((error) => error)
    assert(isContextInvalid(refused))
    console.log(refused.message)
    const held = await service.runPrompt("support", "Refund A-17", { runId: "r-1", context })
    assert(held.status === "interrupted")
    const [request] = held.interruptions
    assert(request?._tag === "approval" && request.preview === "A-17 of acme")
    await service.decide(request, approve(), { by: "ana" })
  }
  await using worker = await open("the worker")
  const done = await worker.resume("r-1")
  assert.equal(done.status, "completed")
  assert.deepEqual(refunds, ["acme/A-17 by the worker"])

  const seen = model.requests.map(({ instructions }) => instructions)
  assert.deepEqual(new Set(seen), new Set(["You help the customers of acme."]))
  console.log(refunds.join())
}

if (import.meta.main) await main()
