import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { checkResume } from "../../src/run/checkResume.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, type RunStore } from "../../src/store/RunStore.ts"
import type { DataSchema } from "../../src/tool/DataSchema.ts"
import { approve, bind, call, expect, only, probe, results } from "../helpers/Fixture.ts"

const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
  it.effect(title, () => Effect.provide(body, Layer.fresh(layerMemory)))

/** A Standard Schema that answers the first `answers` times and then never. */
const standard = (answers: number): DataSchema<any> => {
  let left = answers
  return {
    "~standard": {
      version: 1,
      vendor: "own",
      validate: (value: unknown) => (left-- > 0 ? { value } : new Promise(() => {})),
      jsonSchema: { input: () => ({ type: "object" }), output: () => ({ type: "object" }) }
    }
  } as unknown as DataSchema<any>
}

/** An Effect Schema that answers the first `answers` times and then never, uninterruptibly. */
const effectful = (answers: number): DataSchema<any> => {
  let left = answers
  const decode = (value: string) =>
    left-- > 0 ? Effect.succeed(value) : Effect.uninterruptible(Effect.never)
  const text = Schema.String.pipe(
    Schema.decodeTo(Schema.String, {
      decode: SchemaGetter.transformEffect(decode),
      encode: SchemaGetter.passthrough()
    })
  )
  return Schema.Struct({ id: text }) as unknown as DataSchema<any>
}

const schemas = { "a Standard Schema": standard, "an Effect Schema": effectful }

/** Runs the effect while the tool's timeout and grace period pass. */
const inTime = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(effect, { startImmediately: true })
    yield* TestClock.adjust("100 millis")
    return yield* Fiber.join(fiber)
  })

const timeout = "100 millis"

for (const [kind, never] of Object.entries(schemas)) {
  describe(`${kind} that never answers`, () => {
    test(
      "fails the call after the tool's timeout, and its body has not run",
      Effect.gen(function* () {
        const { ran, tool } = probe("act", { needsApproval: false, timeout, parameters: never(0) })
        const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [
          { calls: [call("act", "1")] },
          "done"
        ])
        const { state } = expect(yield* inTime(runPrompt(runtime, { prompt: "go" })), "completed")
        assert.deepStrictEqual(results(state), [
          "act failed: act does not take these arguments: its schema did not answer within 100 ms"
        ])
        assert.deepStrictEqual(ran, [])
      })
    )

    test(
      "fails the call after the run's toolTimeoutMs when the tool has no timeout",
      Effect.gen(function* () {
        const { tool } = probe("act", { needsApproval: false, parameters: never(0) })
        const agent = Agent.make("a", { tools: [tool], limits: { toolTimeoutMs: 100 } })
        const { runtime } = yield* bind(agent, [{ calls: [call("act", "1")] }, "done"])
        const { state } = expect(yield* inTime(runPrompt(runtime, { prompt: "go" })), "completed")
        assert.include(results(state)[0], "within 100 ms")
      })
    )

    test(
      "rejects edited arguments, and the request stays open",
      Effect.gen(function* () {
        const { tool } = probe("act", { timeout, parameters: never(1) })
        const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [{ calls: [call("act", "1")] }])
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        const edited = approve(only(held, "approval"), { arguments: { id: "2" } })
        const { digest: _, ...decision } = edited as typeof edited & { readonly digest?: string }
        const error = yield* Effect.flip(inTime(decideStored([runtime], decision as typeof edited)))
        assert.strictEqual(error._tag, "EditedArgumentsInvalid")
        assert.include(error.message, "within 100 ms")
        only(yield* runPromptStored(runtime, { runId: held.runId }).pipe(inTime), "approval")
      })
    )

    test(
      "blocks neither checkResume nor the resume of an approved call, which needs approval again",
      Effect.gen(function* () {
        const { ran, tool } = probe("act", { timeout, parameters: never(1) })
        const agent = Agent.make("a", { tools: [tool] })
        const { runtime } = yield* bind(agent, [{ calls: [call("act", "1")] }, "done"])
        const held = expect(yield* runPromptStored(runtime, { prompt: "go" }), "interrupted")
        const { blocking } = yield* inTime(checkResume(held.state, [agent]))
        assert.isAtMost(blocking.length, 1)
        yield* decideStored([runtime], approve(held.interruptions[0]!))
        const resumed = yield* Effect.forkChild(runPromptStored(runtime, { runId: held.runId }), {
          startImmediately: true
        })
        yield* TestClock.adjust("1 second")
        assert.isDefined(resumed.pollUnsafe())
        const again = only(yield* Fiber.join(resumed), "approval")
        assert.strictEqual(again.reason, "The arguments do not fit: its schema did not answer within 100 ms")
        assert.deepStrictEqual(ran, [])
      })
    )

    test(
      "rejects a structured output after toolTimeoutMs",
      Effect.gen(function* () {
        const agent = Agent.make("a", { output: never(0), limits: { maxTurns: 1, toolTimeoutMs: 100 } })
        const { runtime } = yield* bind(agent, ['{ "id": "1" }'])
        const { error } = expect(yield* inTime(runPrompt(runtime, { prompt: "go" })), "error")
        assert.strictEqual(error._tag, "BudgetExceeded")
      })
    )
  })
}
