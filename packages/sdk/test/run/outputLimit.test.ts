import { assert, describe, it } from "@effect/vitest"
import * as z from "zod"
import * as Agent from "../../src/agent/Agent.ts"
import { topUp } from "../../src/promise/decisions.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

const open = (answers: ReadonlyArray<ScriptedModel.Script>, maxTurns = 2) =>
  Fermata.make({
    agents: [Agent.make("count", { output: z.object({ n: z.number() }), limits: { maxTurns } })],
    model: ScriptedModel.make(answers).client,
    store: layerMemory
  })

describe("a limit request of a run whose answers do not fit its output schema", () => {
  it("says why the last answer was rejected, also in the inbox and in the explanation", async () => {
    await using fermata = await open(["three", '{ "n": "three" }', '{ "n": 3 }'])
    const held = await fermata.runPrompt("count", "How many?")
    const request = held.status === "interrupted" ? held.interruptions[0] : undefined
    if (request?._tag !== "limit") return assert.fail(held.status)
    assert.match(request.reason ?? "", /^The answer does not fit the required form: n: .*number/)
    assert.deepStrictEqual((await fermata.pending())[0]?.request, request)
    assert.include((await fermata.explain(held.runId)).text, request.reason!)
    await fermata.decide(request, topUp(3))
    const run = await fermata.resume(held.runId)
    assert.deepStrictEqual<unknown>(run.status === "completed" ? run.output : run.status, { n: 3 })
  })

  it("has no reason if no answer was rejected", async () => {
    await using fermata = await open(["three"], 0)
    const held = await fermata.runPrompt("count", "How many?")
    if (held.status !== "interrupted") return assert.fail(held.status)
    assert.notProperty(held.interruptions[0], "reason")
  })
})
