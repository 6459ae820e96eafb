import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import { runPrompt } from "../../src/agent/runPrompt.ts"
import { bind, call, events, expect, probe, results, watch } from "./Fixture.ts"

describe("a body that was left behind after its time and its grace", () => {
  it.live("has one result, whatever it comes to in the end", () =>
    Effect.gen(function* () {
      const late = yield* Deferred.make<string>()
      const ended = yield* Deferred.make<void>()
      const slow = probe("slow", {
        needsApproval: false,
        timeout: "10 millis",
        handler: () =>
          Effect.uninterruptible(Effect.ensuring(Deferred.await(late), Deferred.succeed(ended, undefined)))
      })
      const next = probe("next", {
        needsApproval: false,
        handler: () =>
          Effect.gen(function* () {
            yield* Deferred.succeed(late, "late")
            yield* Deferred.await(ended)
            // The end of the body is heard by now.
            yield* Effect.sleep(0)
            return "next"
          })
      })
      const { updates, onUpdate } = watch()
      const { runtime } = yield* bind(Agent.make("a", { tools: [slow.tool, next.tool] }), [
        { calls: [call("slow", "1")] },
        { calls: [call("next", "2")] },
        "done"
      ])
      const done = expect(yield* runPrompt(runtime, { prompt: "go" }, { onUpdate }), "completed")
      assert.deepStrictEqual(
        events(updates).flatMap((event) =>
          event._tag === "tool.completed" || event._tag === "tool.failed" ? [event._tag] : []
        ),
        ["tool.failed", "tool.completed"]
      )
      assert.lengthOf(results(done.state), 2)
    })
  )
})
