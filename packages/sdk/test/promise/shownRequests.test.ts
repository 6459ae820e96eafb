/**
 * Requests that come back from a browser with a decision: an approval counts only for what the request showed.
 */
import { assert, describe, it } from "@effect/vitest"
import type { Interruption } from "../../src/domain/Interruption.ts"
import { approve, deny, supply } from "../../src/promise/decisions.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import * as Storeless from "../../src/promise/Storeless.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

const made = () => {
  const paid: Array<unknown> = []
  const pay = tool("pay", {
    parameters: { type: "object", properties: { euros: { type: "number" } }, additionalProperties: false },
    handler: (given) => paid.push(given)
  })
  const model = ScriptedModel.make(({ turn }) =>
    turn === 1 ? { calls: [{ tool: "pay", arguments: { euros: 500, to: ["ann"] } }] } : "done"
  ).client
  return { paid, agents: [agent("clerk", { tools: [pay] })], model }
}

/** A request as a browser sends it back. */
type Sent = Record<string, any>

const sent = (request: unknown, change: (request: Sent) => unknown = (request) => request) =>
  change(JSON.parse(JSON.stringify(request)) as Sent) as Interruption

const without = (key: string) => (request: Sent) => {
  const { [key]: _, ...rest } = request
  return rest
}

const nested = JSON.parse("[".repeat(5000) + "]".repeat(5000)) as unknown

const changes: ReadonlyArray<readonly [string, (request: Sent) => unknown, string]> = [
  ["other arguments", (r) => ({ ...r, arguments: { ...r["arguments"], euros: 50 } }), "ArgumentsChanged"],
  ["more arguments", (r) => ({ ...r, arguments: { ...r["arguments"], x: 1 } }), "ArgumentsChanged"],
  ["another digest", (r) => ({ ...r, digest: "0".repeat(64) }), "ArgumentsChanged"],
  ["another tool", (r) => ({ ...r, tool: "show" }), "ArgumentsChanged"],
  ["another safety", (r) => ({ ...r, safety: "readOnly" }), "ArgumentsChanged"],
  ["no arguments", without("arguments"), "DecisionMalformed"],
  ["no digest", without("digest"), "DecisionMalformed"],
  ["a digest that is no text", (r) => ({ ...r, digest: 5 }), "DecisionMalformed"],
  ["no kind", without("_tag"), "DecisionMalformed"],
  ["another kind", (r) => ({ ...r, _tag: "question" }), "DecisionMalformed"],
  ["an unknown kind", (r) => ({ ...r, _tag: "Approval" }), "DecisionMalformed"],
  ["nothing but its id", (r) => ({ requestId: r["requestId"] }), "DecisionMalformed"],
  ["arguments nested 5,000 levels deep", (r) => ({ ...r, arguments: nested }), "DecisionMalformed"]
]

const refusal = (asked: () => unknown): Promise<any> =>
  Promise.resolve()
    .then(asked)
    .then(
      () => assert.fail("it was taken"),
      (error: unknown) => error
    )

describe("a request that comes back with a decision", () => {
  for (const [what, change, code] of changes) {
    it(`is refused with ${what}, and decides nothing`, async () => {
      const { paid, ...options } = made()
      await using fermata = await Fermata.make({ ...options, store: layerMemory })
      const conductor = await fermata.conductor()
      const handle = await conductor.dispatch("clerk", "go", { runId: "run" })
      await handle.wait()
      const [pending] = await fermata.pending()
      const request = sent(pending!.request, change)
      for (const ask of [
        () => fermata.decide(request, approve()),
        () => fermata.decide({ ...pending!, request }, approve()),
        () => fermata.decide(request, deny()),
        () => fermata.decide(request, supply("paid")),
        () => fermata.decideAll([{ request, decision: approve() }]),
        () => fermata.resume("run", { decisions: [{ request, decision: approve() }] as never }),
        () => handle.decide(request, approve()),
        () => conductor.decide(request, approve())
      ]) {
        assert.strictEqual((await refusal(ask)).code, code)
      }
      assert.lengthOf(await fermata.pending(), 1)
      await fermata.decide(sent(pending!.request), approve())
      await handle.done()
      assert.deepStrictEqual(paid, [{ euros: 500, to: ["ann"] }])
    })

    it(`is refused with ${what} without a store, too`, async () => {
      const { paid, ...options } = made()
      await using fermata = await Storeless.make(options)
      const handle = await fermata.dispatch("clerk", "go")
      await handle.wait()
      const [open] = handle.interruptions()
      assert.strictEqual((await refusal(() => handle.decide(sent(open, change), approve()))).code, code)
      await handle.decide(sent(open), approve())
      await handle.done()
      assert.lengthOf(paid, 1)
    })
  }

  it("is taken with its keys in another order, with more keys, and as an element of the inbox", async () => {
    const { paid, ...options } = made()
    await using fermata = await Fermata.make({ ...options, store: layerMemory })
    await fermata.runPrompt("clerk", "go", { runId: "run" })
    const [pending] = await fermata.pending()
    const turned = (r: Sent) => ({ selected: true, ...Object.fromEntries(Object.entries(r).toReversed()) })
    const shown = { ...pending!, request: sent(pending!.request, turned) }
    const decision = { ...approve({ arguments: { euros: 50 } }), note: "half", idempotencyKey: "k" }
    const { idempotencyKey, note } = await fermata.decide(shown, decision, { note: "a tenth" })
    assert.deepStrictEqual([note, idempotencyKey], ["a tenth", "k"])
    await fermata.resume("run")
    assert.deepStrictEqual(paid, [{ euros: 50 }])
  })
})
