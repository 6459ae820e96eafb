import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { RunStoreError, StorageFull } from "../../src/store/RunStoreError.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { call, rebind, safe } from "../helpers/Fixture.ts"
import { delegate, runId } from "../helpers/Team.ts"

const full = new RunStoreError({ operation: "append", reason: new StorageFull({ detail: "0 bytes free" }) })

/** A lead whose model never answers, above a middle agent that waits for a leaf, which reads. */
const scripts: Readonly<Record<string, ReadonlyArray<ScriptedModel.ScriptedAnswer | string>>> = {
  lead: [{ calls: [delegate("middle")] }, { hang: true }],
  middle: [{ calls: [delegate("leaf", false)] }],
  leaf: [{ calls: [call("look", "1")] }]
}

describe("a sub-agent whose commit fails", () => {
  it.live("fails the run at once while the lead's model call hangs, and does not start again", () =>
    Effect.gen(function* () {
      const look = safe("look")
      const taken = new Map<string, number>()
      const model = ScriptedModel.make(({ agentPath }: ModelRequest) => {
        const name = agentPath.at(-1) ?? ""
        const index = taken.get(name) ?? 0
        taken.set(name, index + 1)
        return scripts[name]?.[index] ?? "done"
      })
      const leaf = Agent.make("leaf", { tools: [look.tool] })
      const middle = Agent.make("middle", { subAgents: [leaf], delegation: "delegate" })
      const lead = Agent.make("lead", { subAgents: [middle], delegation: "delegate" })
      const { runtime } = yield* rebind(lead, model)
      const store = yield* RunStore
      let refused = 0
      const broken = RunStore.of({
        ...store,
        append: (options) => {
          const isRead = options.events.some((event) => unwrap(event).event._tag === "tool.started")
          if (!isRead && refused === 0) return store.append(options)
          refused += 1
          // Ends a loop that would retry for ever.
          return refused > 100 ? Effect.interrupt : Effect.fail(full)
        }
      })
      const error = yield* Effect.flip(
        Effect.provideService(runPromptStored(runtime, { prompt: "go", runId }), RunStore, broken)
      )
      assert.strictEqual(error._tag, "RunStoreError")
      assert.isBelow(refused, 10)
      assert.deepStrictEqual(look.ran, [])
    }).pipe(Effect.provide(Layer.fresh(layerMemory)))
  )
})
