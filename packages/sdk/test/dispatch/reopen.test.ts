import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import * as Conductor from "../../src/dispatch/Conductor.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import { dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RequestId } from "../../src/domain/Id.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import { approvalOf, approve, bind, call, deny, only, probe } from "../helpers/Fixture.ts"

describe("a run with a denied call", () => {
  for (const isStored of [false, true]) {
    for (const by of ["handle", "conductor"] as const) {
      it.effect(
        `asks about the next equal call once its ${by} has reopened the request, ${isStored ? "stored" : "without a store"}`,
        () =>
          Effect.gen(function* () {
            const write = probe("write")
            const { model, runtime } = yield* bind(Agent.make("keeper", { tools: [write.tool] }), [
              { calls: [call("write", "1"), call("write", "2")] },
              { calls: [call("write", "1")] },
              "done"
            ])
            const conductor = yield* Conductor.make()
            const [dispatch, dispatchStored] =
              by === "handle"
                ? [dispatchPrompt, dispatchPromptStored]
                : [conductor.dispatch, conductor.dispatchStored]
            const handle = yield* (isStored ? dispatchStored : dispatch)(runtime, { prompt: "go" })
            const { reopen } = { conductor, handle }[by]
            const held = yield* handle.wait
            const [first, second] = [approvalOf(held, "1"), approvalOf(held, "2")]
            yield* handle.decide(deny(first))
            yield* reopen(first.requestId, { by: "ben" })
            yield* reopen(first.requestId, { by: "cleo" })
            const unknown = yield* Effect.flip(reopen("other.r1" as RequestId, { by: "ben" }))
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
  }
})
