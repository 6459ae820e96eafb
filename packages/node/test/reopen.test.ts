import { agent, approve, createFermata, deny, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"
import { assert, describe, it } from "vitest"

describe("reopen", () => {
  it("lifts a denial through a Fermata, a conductor or the handle of a run, and refuses unknown options", async () => {
    for (const by of ["fermata", "conductor", "handle"] as const) {
      const ran: Array<string> = []
      const doing = (name: string) => tool(name, { handler: () => void ran.push(name) })
      const model = ScriptedModel.make([
        { calls: [{ tool: "deploy" }, { tool: "check" }] },
        { calls: [{ tool: "deploy" }] },
        "done"
      ])
      await using fermata = await createFermata({
        agents: [agent("ops", { tools: [doing("deploy"), doing("check")] })],
        model: model.client,
        store: ":memory:",
        by: "ana"
      })
      const conductor = await fermata.conductor()
      const handle = await (by === "conductor" ? conductor : fermata).dispatch("ops", "Deploy")
      const held = await handle.wait()
      if (held.status !== "interrupted") return assert.fail(held.status)
      const [denied, check] = held.interruptions
      await handle.decide(denied!, deny("not yet"))
      const { reopen } = { fermata, conductor, handle }[by]
      const refused = await reopen(denied!, { notes: "now" } as never).catch((error: unknown) => error)
      assert.include(String(refused), 'did you mean "note"')
      await reopen(denied!, { note: "The freeze is over." })
      await handle.decide(check!, approve())
      const asked = await handle.wait()
      if (asked.status !== "interrupted") return assert.fail(asked.status)
      assert.deepStrictEqual(ran, ["check"])
      await handle.decide(asked.interruptions[0]!, approve())
      assert.strictEqual((await handle.done()).status, "completed")
      assert.deepStrictEqual(ran, ["check", "deploy"])
    }
  })

  it("lifts a denial that the run has not taken yet, and removes secrets from its author and note", async () => {
    const key = `sk-proj-${"a1B2".repeat(12)}`
    const doing = (name: string) => tool(name, { handler: () => name })
    const calls = [{ tool: "deploy" }, { tool: "check" }]
    await using fermata = await createFermata({
      agents: [agent("ops", { tools: [doing("deploy"), doing("check")] })],
      model: ScriptedModel.make([{ calls }, "done"]).client,
      store: ":memory:"
    })
    const held = await fermata.runPrompt("ops", "Deploy", { runId: "run" })
    if (held.status !== "interrupted") return assert.fail(held.status)
    const [denied, check] = held.interruptions
    await fermata.decide(denied!, deny(), { by: "ana" })
    await fermata.reopen(denied!, { by: { id: key, kind: "person" }, note: key })
    assert.notInclude(JSON.stringify(await fermata.exportRun("run")), key)
    await fermata.decide(check!, approve(), { by: "ana" })
    await fermata.recover()
    const { requests } = await fermata.state("run")
    assert.deepInclude(requests[0]?.reopened, { by: "[REDACTED:openai-key]" })
  })
})
