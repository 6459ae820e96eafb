/**
 * @title A rehearsal: prove that your agent never pays twice, wherever a process crashes
 *
 * The agent runs once without a fault, and then once for every point at which its process can crash: before and after each model call,
 * each tool and each store operation; then for every pair of points. Time is virtual, so nothing waits. The same scenario with a tool
 * that wrongly declares itself idempotent shows a failure. The model is scripted.
 */
import assert from "node:assert/strict"
import { agent, approve, Schema, tool } from "@fermata/node"
import { Rehearsal, rehearseEveryCrash, ScriptedModel } from "@fermata/node/testing"
import type { RehearsalSetup, Scenario } from "@fermata/node/testing"

/** The agent as a program defines it; its payment function is a parameter. */
const cashier = (pay: (euros: number, key: string) => Promise<void>, idempotent: boolean) =>
  agent("cashier", {
    tools: [
      tool("refund", {
        parameters: Schema.Struct({ order: Schema.Finite, euros: Schema.Finite }),
        idempotent,
        handler: async ({ euros }, { idempotencyKey }) => {
          await pay(euros, idempotencyKey)
          return `refunded ${euros} euros`
        }
      })
    ]
  })

const model = () =>
  ScriptedModel.make([
    { calls: [{ tool: "refund", arguments: { order: 7, euros: 50 } }] },
    "The money is on its way."
  ]).client

const scenario: Scenario = async (rehearsal) => {
  const held = await rehearsal.run("Refund order 7")
  assert(held.status === "interrupted")
  const done = await rehearsal.decide(held.interruptions[0]!, approve())
  assert.equal(done.status, "completed")
}

export const main = async () => {
  // A bank that moves money at each request. The tool declares no safety, so a call in doubt opens a request.
  const honest: RehearsalSetup = (effects) => ({
    agents: [cashier((_, key) => effects.record("money moved", key), false)],
    model: model()
  })
  const reports = await rehearseEveryCrash(honest, scenario, { crashes: 2 })
  Rehearsal.assertSafe(reports)
  console.log(`${reports.length} rehearsals with crashes: the money moved once in each of them`)

  // The same bank, with a tool that declares itself idempotent.
  const lying: RehearsalSetup = (effects) => ({
    agents: [cashier((_, key) => effects.record("money moved", key), true)],
    model: model()
  })
  const found = await rehearseEveryCrash(lying, scenario)
  assert.throws(
    () => Rehearsal.assertSafe(found),
    (error) => {
      assert(error instanceof Rehearsal.EffectRepeated)
      console.log(error.message)
      return error.crashes[0] === "after-effect:money moved#1"
    }
  )

  // A bank that recognizes the idempotency key makes the declaration true.
  const careful: RehearsalSetup = (effects) => ({
    agents: [cashier(async (_, key) => void (await effects.once("money moved", key)), true)],
    model: model()
  })
  Rehearsal.assertSafe(await rehearseEveryCrash(careful, scenario))
}

if (import.meta.main) await main()
