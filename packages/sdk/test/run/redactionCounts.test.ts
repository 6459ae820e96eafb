/**
 * The count of the secrets that were removed from what runs write.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Agent from "../../src/agent/Agent.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as Scrubber from "../../src/tool/Scrubber.ts"
import { approve, bind, expect, only, probe, safe, watch } from "../helpers/Fixture.ts"
import { runId } from "../helpers/Team.ts"

const secret = "canary-5e55a1b2c3d4"
const token = `ghp_${"a1B2".repeat(9)}`

describe("the metric of redactions", () => {
  it.effect("counts by type what a run writes, not what is only published, logged or refused", () => {
    const registry: Metric.MetricRegistry = new Map()
    const counts = Effect.map(Metric.snapshot, (metrics) =>
      Object.fromEntries(
        metrics.map(({ attributes, id, state }) => [
          `${id} ${attributes?.["type"]}`,
          "count" in state && state.count
        ])
      )
    )
    return Effect.gen(function* () {
      const { onUpdate } = watch()
      const failing = safe("failing", {
        handler: () => {
          throw new Error(`refused ${secret}`, { cause: new Error(secret) })
        }
      })
      const write = probe("write", { handler: ({ id }) => `wrote ${id} with ${secret} and ${secret}` })
      const { runtime } = yield* bind(Agent.make("a", { tools: [failing.tool, write.tool] }), [
        { text: `it is ${secret}`, calls: [{ tool: "failing", arguments: { id: "1" } }] },
        { calls: [{ tool: "write", arguments: { id: secret } }] },
        "done"
      ])
      assert.deepStrictEqual(yield* counts, {})
      const held = yield* runPromptStored(runtime, { prompt: `use ${token}`, runId }, { onUpdate })
      // The prompt; the text, the failure and the arguments.
      const atHold = { "fermata.redactions github-token": 1, "fermata.redactions secret": 3 }
      assert.deepStrictEqual(yield* counts, atHold)
      yield* Effect.flip(runPromptStored(runtime, { prompt: "go", context: { key: secret } }))
      yield* Effect.flip(sendMessage(runId, "go", { messageId: secret }))
      assert.deepStrictEqual(yield* counts, atHold)
      yield* decideStored([runtime], approve(only(held, "approval"), { note: `because ${secret}` }))
      expect(yield* runPromptStored(runtime, { runId }, { onUpdate }), "completed")
      // The note, and the result.
      assert.deepStrictEqual(yield* counts, { ...atHold, "fermata.redactions secret": 6 })
    }).pipe(
      Effect.provideService(Metric.MetricRegistry, registry),
      Effect.provideService(Scrubber.Scrubber, Scrubber.make({ secrets: [secret] })),
      Effect.provide(Layer.fresh(layerMemory))
    )
  })
})
