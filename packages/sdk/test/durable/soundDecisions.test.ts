import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import type { Decision } from "../../src/domain/Decision.ts"
import type { RequestId } from "../../src/domain/Id.ts"
import type { RunState } from "../../src/domain/RunState.ts"
import { requireSoundDecisions } from "../../src/durable/internal/soundDecisions.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { approve, bind, call, only, probe } from "../helpers/Fixture.ts"

describe("a pending decision in a store", () => {
  it.effect("is folded into its run, or fails the drive when it is impossible", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a", { tools: [probe("write").tool] }), [
        { calls: [call("write", "1")] }
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const given = { ...approve(only(held, "approval")), at: 1 } as Decision
      const recorded = (more: object): RunState => ({
        ...held.state,
        requests: held.state.requests.map((record) => ({ ...record, ...more }))
      })
      const said = (state: RunState, decision: Decision) =>
        Effect.match(requireSoundDecisions(state, [decision]), {
          onFailure: ({ message, reason }) => (reason._tag === "StoreUnreadable" ? message : reason._tag),
          onSuccess: () => "sound"
        })
      assert.strictEqual(yield* said(held.state, given), "sound")
      for (const [state, decision, why] of [
        [recorded({ decision: given }), given, "which its journal has decided already"],
        [recorded({ superseded: { reason: "x" } }), given, "which the run has withdrawn"],
        [held.state, { ...given, digest: "other" }, "which it does not fit"],
        [held.state, { ...given, requestId: `${held.runId}.r9` as RequestId }, "which the run never asked"]
      ] as const) {
        const message = yield* said(state, decision)
        assert.include(message, why)
        assert.include(message, "restore the store from a backup, or remove the run")
        // An ended run stays ended.
        assert.strictEqual(yield* said({ ...state, status: "cancelled" }, decision), "sound")
      }
    })
  )
})
