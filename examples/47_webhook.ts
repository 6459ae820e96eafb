/**
 * @title A webhook: a tool starts work that ends elsewhere, and its result comes later
 *
 * The tool passes the idempotency key of its call to the other system, which sends it back with the result. No process waits meanwhile. The
 * webhook only records the result, and a worker continues the run. The model is scripted.
 */
import assert from "node:assert/strict"
import { agent, createFermata, isAlreadyDecided, isTokenNotFound, pending, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const model = ScriptedModel.make([{ calls: [{ tool: "render", arguments: {} }] }, "The film has 240 frames."])

/** The other system. It has started these jobs. */
const jobs: Array<string> = []

const open = (owner: string) => {
  const render = tool("render", {
    needsApproval: false,
    external: true,
    handler: (_, { idempotencyKey }) => {
      jobs.push(idempotencyKey)
      return pending({ expiresIn: "1 day", reason: "the farm renders" })
    }
  })
  return createFermata({ agents: [agent("studio", { tools: [render] })], model: model.client, owner })
}

/** A webhook: `request` has the token as the last part of its path, and the result as its body. */
const webhook = async (request: Request): Promise<Response> => {
  await using fermata = await open("the webhook")
  const token = decodeURIComponent(new URL(request.url).pathname.split("/").at(-1) ?? "")
  try {
    const { frames } = (await request.json()) as { readonly frames: number }
    await fermata.complete(token, { result: { frames } }, { waitFor: "1 second" })
    return new Response(null, { status: 204 })
  } catch (error) {
    // 503: the sender delivers again later, because the call may not be recorded yet.
    if (isTokenNotFound(error)) return new Response(error.message, { status: 503 })
    if (isAlreadyDecided(error)) return new Response(error.message, { status: 409 })
    throw error
  }
}

const deliver = (token: string, result: object) =>
  webhook(
    new Request(`https://example.com/done/${encodeURIComponent(token)}`, {
      method: "POST",
      body: JSON.stringify(result)
    })
  )

export const main = async () => {
  {
    await using starter = await open("the starter")
    const held = await starter.runPrompt("studio", "Render the film", { runId: "film" })
    assert(held.status === "interrupted" && held.interruptions[0]?._tag === "external")
    console.log((await starter.explain("film")).text)
  }

  const [token = ""] = jobs
  const statuses = [
    await deliver(token, { frames: 240 }),
    // The sender has not seen the response, and delivers again.
    await deliver(token, { frames: 240 }),
    await deliver(token, { frames: 12 }),
    await deliver("another job", { frames: 240 })
  ].map(({ status }) => status)
  assert.deepEqual(statuses, [204, 204, 409, 503])

  await using worker = await open("the worker")
  const [done] = await worker.recover()
  assert.equal(done?.status, "completed")
  const end = await worker.result("film")
  assert(end.status === "completed")
  console.log(end.text)
  assert.equal(jobs.length, 1)
}

if (import.meta.main) await main()
