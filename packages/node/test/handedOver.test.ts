import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { agent, approve, createFermata, deny, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"
import { afterEach, assert, beforeEach, describe, it } from "vitest"

let folder: string

beforeEach(() => {
  folder = Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-handed-over-"))
})

afterEach(() => Fs.rmSync(folder, { recursive: true, force: true }))

const runId = "run-1"

const model = ScriptedModel.make(({ agentPath, turn }) => {
  if (agentPath.at(-1) === "publisher") return turn === 1 ? { calls: [{ tool: "publish" }] } : "It is out."
  if (agentPath.at(-1) === "billing") return "Billing here."
  return turn === 1
    ? { calls: [{ tool: "delegate", arguments: { agent: "publisher", prompt: "do", background: true } }] }
    : { calls: [{ tool: "transfer_to_billing" }] }
})

/** A desk that hands off to billing. Each has its own publisher, which records whose it is. */
const programs = (
  ran: Array<string>,
  { desks = true, billings = true }: { readonly desks?: boolean; readonly billings?: boolean } = {}
) => {
  const publisher = (whose: string) =>
    agent("publisher", { tools: [tool("publish", { handler: () => void ran.push(whose) })] })
  const billing = agent("billing", {
    subAgents: billings ? [publisher("billing's")] : [],
    delegation: "delegate"
  })
  const desk = agent("desk", {
    subAgents: desks ? [publisher("desk's")] : [],
    delegation: "delegate",
    handoffs: [billing]
  })
  return createFermata({ agents: [desk], model: model.client, store: Path.join(folder, "runs.db") })
}

describe("a background sub-agent whose lead has handed off, resumed by another program", () => {
  it("runs the body of its starter's definition after an approval, not that of the handoff's target", async () => {
    const ran: Array<string> = []
    {
      await using first = await programs(ran)
      const held = await first.runPrompt("desk", "go", { runId })
      assert.strictEqual(held.state.agent.name, "billing")
    }
    {
      await using second = await programs(ran)
      const [asked] = await second.pending()
      assert.deepStrictEqual(asked?.request.agentPath, ["desk", "publisher"])
      await second.decide(asked!, approve(), { by: "ana" })
    }
    await using third = await programs(ran)
    assert.strictEqual((await third.resume(runId)).status, "completed")
    assert.deepStrictEqual(ran, ["desk's"])
  })

  it("keeps its approval while its starter lacks the definition, and runs when that is back", async () => {
    const ran: Array<string> = []
    {
      await using first = await programs(ran)
      await first.runPrompt("desk", "go", { runId })
    }
    {
      await using without = await programs(ran, { desks: false })
      const [asked] = await without.pending()
      await without.decide(asked!, approve(), { by: "ana" })
      const refused: unknown = await without.resume(runId).then(
        () => assert.fail("it went on"),
        (error: unknown) => error
      )
      assert.include(String(refused), `"publisher", which is not among those of "desk", which started it`)
      assert.strictEqual((await without.explain(runId)).missing?.length, 1)
      assert.strictEqual((await without.checkResume(runId)).blocking.length, 1)
      assert.deepStrictEqual(
        (await without.recover()).map(({ error }) => error?._tag),
        ["AgentNotFound"]
      )
    }
    await using back = await programs(ran, { billings: false })
    assert.deepStrictEqual(
      (await back.recover()).map(({ status }) => status),
      ["completed"]
    )
    assert.deepStrictEqual(ran, ["desk's"])
  })

  it("ends without running when it is denied with stop, or cancelled, while its definition is missing", async () => {
    for (const end of ["deny", "cancel"] as const) {
      const ran: Array<string> = []
      const id = `${runId}-${end}`
      {
        await using first = await programs(ran)
        await first.runPrompt("desk", "go", { runId: id })
      }
      await using without = await programs(ran, { desks: false })
      const [asked] = await without.pending({ runId: id as never })
      if (end === "deny") await without.decide(asked!, deny("gone", { then: "stop" }), { by: "ana" })
      else {
        await without.cancel(asked!.request.runId, "gone")
        const late: unknown = await without.decide(asked!, approve()).catch((error: unknown) => error)
        assert.include(String(late), "is being cancelled")
      }
      assert.strictEqual((await without.resume(id)).status, "completed")
      assert.deepStrictEqual(ran, [])
    }
  })
})
