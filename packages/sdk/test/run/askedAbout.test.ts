/**
 * Calls that need approval, counted in events: a library that runs one without approval judges it again before its body, for ever. The
 * run is cancelled then, so that the test fails.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"

describe("a call that needs approval", () => {
  it.effect("holds its run on one request, within 20 events", () =>
    Effect.gen(function* () {
      const pay = Tool.make("pay", { handler: () => "paid" })
      const runtime = yield* Runtime.make({ agent: Agent.make("clerk", { tools: [pay] }) })
      const cancellation = Cancellation.make()
      let events = 0
      const result = yield* runPrompt(
        runtime,
        { prompt: "Pay." },
        {
          cancellation,
          onUpdate: ({ _tag }) => {
            if (_tag === "event" && (events += 1) === 20) cancellation.cancel("It came to no request.")
          }
        }
      )
      if (result.status !== "interrupted") return assert.fail(`${result.status} after ${events} events`)
      assert.deepStrictEqual(
        result.interruptions.map(({ _tag }) => _tag),
        ["approval"]
      )
    }).pipe(Effect.provide(ScriptedModel.make(() => ({ calls: [{ tool: "pay" }] })).layer))
  )
})
