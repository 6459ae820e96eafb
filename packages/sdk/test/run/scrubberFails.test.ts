import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Agent from "../../src/agent/Agent.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import type { DataSchema } from "../../src/tool/DataSchema.ts"
import { Scrubber, withheld } from "../../src/tool/Scrubber.ts"
import {
  approve,
  bind,
  call,
  expect,
  only,
  probe,
  results,
  throughJson,
  transcript
} from "../helpers/Fixture.ts"
import { thrown } from "../helpers/Hostile.ts"

const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(title, () => Effect.provide(body, Layer.fresh(layerMemory)))

/** A scrubber that fails on every text with this word. */
const failingOn = (word: string, fail: () => unknown): Scrubber => {
  const clean = (text: string) => (text.includes(word) ? (fail() as string) : text)
  return { scrub: clean, redact: clean }
}

const secret = "hunter2"

const failures: Record<string, () => unknown> = {
  ...Object.fromEntries(
    Object.entries(thrown).map(([what, make]) => [
      `throws ${what}`,
      () => {
        throw make()
      }
    ])
  ),
  "returns nothing": () => undefined,
  "returns a number": () => 5
}

describe("a scrubber that fails", () => {
  for (const [how, fail] of Object.entries(failures)) {
    const scrubbing = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
      Effect.provideService(effect, Scrubber, failingOn(secret, fail))

    test(
      `withholds the text and lets the run complete: it ${how}`,
      Effect.gen(function* () {
        const tell = probe("tell", { needsApproval: false, handler: () => `it is ${secret}` })
        const throwing = probe("throw", {
          needsApproval: false,
          handler: (): string => {
            throw new Error(`no ${secret}`)
          }
        })
        const { runtime } = yield* scrubbing(
          bind(Agent.make("a", { tools: [tell.tool, throwing.tool] }), [
            { text: `Well, ${secret}.`, calls: [call("tell", "1"), call("throw", "2")] },
            `It is ${secret}.`
          ])
        )
        const { state } = expect(yield* runPrompt(runtime, { prompt: `It is ${secret}, go` }), "completed")
        assert.notInclude(JSON.stringify(throughJson(state)), secret)
        assert.deepStrictEqual(transcript(state), [
          `user: ${withheld}`,
          `assistant: ${withheld}(tell, throw)`,
          `tool: ${withheld}`,
          "tool: throw failed: " + withheld,
          `assistant: ${withheld}`
        ])
      })
    )

    test(
      `fails the call instead of running it with changed arguments: it ${how}`,
      Effect.gen(function* () {
        const parameters = Schema.Record(Schema.String, Schema.Unknown) as unknown as DataSchema<{
          id: string
        }>
        const { ran, tool } = probe("act", { needsApproval: false, parameters })
        // The second secret shows only after the arguments are decoded.
        for (const argumentsText of [
          `{"id":"${secret}"}`,
          `{"id":"hunter\\u0032"}`,
          `{"id":"1","hunter\\u0032":1}`
        ]) {
          const { runtime } = yield* scrubbing(
            bind(Agent.make("a", { tools: [tool] }), [{ calls: [{ tool: "act", argumentsText }] }, "done"])
          )
          const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
          assert.strictEqual(results(state)[0]?.startsWith("act failed"), true)
        }
        assert.deepStrictEqual(ran, [])
      })
    )

    test(
      `fails the call whose facts it would have to withhold: it ${how}`,
      Effect.gen(function* () {
        const { ran, tool } = probe("act", { facts: () => ({ price: secret }) })
        const { runtime } = yield* scrubbing(
          bind(Agent.make("a", { tools: [tool] }), [{ calls: [call("act", "1")] }, "done"])
        )
        const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
        assert.deepStrictEqual(results(state), [
          "act failed: The facts of act cannot be read: the scrubber failed on them. act has not run."
        ])
        assert.deepStrictEqual(ran, [])
      })
    )

    test(
      `rejects a decision instead of changing its text: it ${how}`,
      Effect.gen(function* () {
        const { ran, tool } = probe("act")
        const { runtime } = yield* scrubbing(
          bind(Agent.make("a", { tools: [tool] }), [{ calls: [call("act", "1")] }, "done"])
        )
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        const request = only(held, "approval")
        for (const said of [{ note: secret }, { arguments: { id: secret } }]) {
          const refused = yield* Effect.flip(decideStored([runtime], approve(request, said)))
          assert.strictEqual(refused._tag, "DecisionMalformed")
        }
        yield* decideStored([runtime], approve(request))
        expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
        assert.deepStrictEqual(ran, ["1"])
      })
    )

    test(
      `withholds a message to a stored run and the reason of a cancellation: it ${how}`,
      Effect.gen(function* () {
        const store = yield* RunStore
        const { runtime } = yield* scrubbing(
          bind(Agent.make("a", { tools: [probe("act").tool] }), [{ calls: [call("act", "1")] }])
        )
        const { runId } = yield* runPromptStored(runtime, { prompt: "go" })
        yield* scrubbing(sendMessage(runId, `It is ${secret}`))
        assert.notInclude(JSON.stringify(yield* store.messages(runId)), secret)
        yield* scrubbing(cancelRun(runId, `It was ${secret}`))
        assert.strictEqual((yield* loadState(runId)).cancelled?.reason, withheld)
      })
    )
  }
})
