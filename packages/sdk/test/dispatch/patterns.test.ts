import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import * as Conductor from "../../src/dispatch/Conductor.ts"
import { mapReduce, pipeline } from "../../src/dispatch/patterns.ts"
import { textOf } from "../../src/domain/Message.ts"
import { InvalidRequest } from "../../src/model/ModelError.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { expect, rebind } from "../helpers/Fixture.ts"

/** An agent that answers `name(prompt)`, and fails on the prompt `fail`. */
const wrapping = (name: string) =>
  Effect.map(
    rebind(
      Agent.make(name),
      ScriptedModel.make(({ messages }) => {
        const prompt = textOf(messages[0]?.role === "user" ? messages[0].content : [])
        return prompt === "fail" ? { error: new InvalidRequest({ description: "no" }) } : `${name}(${prompt})`
      })
    ),
    ({ runtime }) => runtime
  )

describe("pipeline", () => {
  it.effect("passes each agent's answer to the next one", () =>
    Effect.gen(function* () {
      const conductor = yield* Conductor.make()
      const result = yield* pipeline(conductor, "x", [
        { runtime: yield* wrapping("a") },
        { runtime: yield* wrapping("b"), prompt: ({ text }) => `${text}!`, name: "second" },
        { runtime: yield* wrapping("c") }
      ])
      assert.strictEqual(expect(result, "completed").text, "c(b(a(x)!))")
    })
  )

  it.effect("stops at the first run that does not complete", () =>
    Effect.gen(function* () {
      const conductor = yield* Conductor.make()
      const runtime = yield* wrapping("a")
      const result = yield* pipeline(conductor, "x", [
        { runtime },
        { runtime, prompt: () => "fail" },
        { runtime }
      ])
      expect(result, "error")
      assert.strictEqual(conductor.spending().spent.runs, 2)
    })
  )
})

describe("mapReduce", () => {
  it.effect("passes all results to one agent, in the order of the prompts", () =>
    Effect.gen(function* () {
      const conductor = yield* Conductor.make({ concurrency: 2 })
      const result = yield* mapReduce(conductor, {
        map: { runtime: yield* wrapping("map"), prompts: ["1", "fail", "3"] },
        reduce: {
          runtime: yield* wrapping("reduce"),
          prompt: (results) =>
            results.map((each) => (each.status === "completed" ? each.text : each.status)).join(", ")
        }
      })
      assert.strictEqual(expect(result, "completed").text, "reduce(map(1), error, map(3))")
    })
  )
})
