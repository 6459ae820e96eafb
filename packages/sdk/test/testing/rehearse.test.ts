import { assert, describe, it } from "@effect/vitest"
import * as Agent from "../../src/agent/Agent.ts"
import * as Rehearsal from "../../src/testing/Rehearsal.ts"
import {
  rehearse,
  rehearseEveryCrash,
  type RehearsalSetup,
  type Scenario
} from "../../src/testing/rehearse.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"

describe("rehearse", () => {
  /** Plain functions and promises. */
  const setup =
    (idempotent: boolean): RehearsalSetup =>
    (effects) => ({
      agents: [
        Agent.make("cashier", {
          tools: [
            Tool.make("refund", {
              idempotent,
              handler: async (_, { idempotencyKey }) => {
                await effects.record("money moved", idempotencyKey)
                return "refunded"
              }
            })
          ]
        })
      ],
      model: ScriptedModel.make([{ calls: [{ tool: "refund" }] }, "Done."]).client
    })

  const scenario: Scenario = async (rehearsal) => {
    const held = await rehearsal.run("Refund order 7")
    assert(held.status === "interrupted")
    const done = await rehearsal.decide(held.interruptions[0]!, { _tag: "approve" })
    assert.strictEqual(done.status, "completed")
  }

  it("rehearses every crash without Effect", async () => {
    const reports = await rehearseEveryCrash(setup(false), scenario)
    assert.isAbove(reports.length, 25)
    Rehearsal.assertSafe(reports)
    assert.throws(() =>
      Rehearsal.assertSafe({ ...reports[0]!, effects: [...reports[0]!.effects, ...reports[0]!.effects] })
    )
  })

  it("reports an effect that happened twice", async () => {
    const report = await rehearse(setup(true), async (rehearsal) => {
      await rehearsal.crashAt("after-tool:refund")
      await scenario(rehearsal)
    })
    assert.throws(() => Rehearsal.assertSafe(report), /happened 2 times for the call with the key run-1.t1.1/)
  })

  it("rejects with the error of the scenario", async () => {
    const error = await rehearse(setup(false), async () => {
      throw new Error("nothing to rehearse")
    }).catch((error: unknown) => error)
    assert.strictEqual((error as Error).message, "nothing to rehearse")
  })
})
