import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import { dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RequestId } from "../../src/domain/Id.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import { approvalOf, approve, bind, call, deny, only, probe } from "../helpers/Fixture.ts"

describe("the handle of a run with a denied call", () => {
  for (const dispatch of [dispatchPrompt, dispatchPromptStored]) {
    it.effect(
      `reopens the request once, so that the run asks about the next equal call: ${dispatch.name}`,
      () =>
        Effect.gen(function* () {
          const write = probe("write")
          const { model, runtime } = yield* bind(Agent.make("keeper", { tools: [write.tool] }), [
            { calls: [call("write", "1"), call("write", "2")] },
            { calls: [call("write", "1")] },
            "done"
          ])
          const handle = yield* dispatch(runtime, { prompt: "go" })
          const held = yield* handle.wait
          const [first, second] = [approvalOf(held, "1"), approvalOf(held, "2")]
          yield* handle.decide(deny(first))
          yield* handle.reopen(first.requestId, { by: "ben" })
          yield* handle.reopen(first.requestId, { by: "cleo" })
          const unknown = yield* Effect.flip(handle.reopen("other.r1" as RequestId, { by: "ben" }))
          assert.strictEqual(unknown._tag, "RequestNotFound")
          yield* handle.decide(approve(second))
          const asked = yield* handle.wait
          assert.strictEqual(only(asked, "approval").digest, first.digest)
          assert.deepStrictEqual(write.ran, ["2"])
          const heard = JSON.stringify(model.requests[1]?.messages)
          assert.deepStrictEqual(heard.match(/\w+ reopened the/g), ["ben reopened the"])
        }).pipe(Effect.scoped, Effect.provide(layerMemory))
    )
  }
})
