import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Agent from "../../src/agent/Agent.ts"
import { turn } from "../../src/agent/internal/eventLoop.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { bind, bindCreated, call, expect, probe, safe } from "../helpers/Fixture.ts"

/** Records the warnings of a program. */
const recording = () => {
  const logs: Array<string> = []
  const logger = Logger.make(({ cause, message }) => {
    logs.push(`${String(message)} ${Cause.pretty(cause).split("\n")[0]}`)
  })
  return {
    logs,
    logged: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.provide(effect, Logger.layer([logger]))
  }
}

const fail = (): never => {
  throw new Error("boom")
}

const bound = (options: Parameters<typeof bindCreated>[2] = {}) =>
  bindCreated(
    Agent.make("a", { tools: [safe().tool] }),
    [{ calls: [call("safe", "1"), call("safe", "2")] }, { text: "a long answer", chunkSize: 1 }, "again"],
    options
  )

const warning = (code: string) => `The ${code} of a failed. Its next failures are not logged. Error: boom`

describe("a callback that fails each time", () => {
  const subscribers = { throws: fail, rejects: () => Promise.reject(new Error("boom")) }
  for (const [how, onUpdate] of Object.entries(subscribers)) {
    it.effect(`such as an onUpdate that ${how} is warned about once in each run`, () =>
      Effect.gen(function* () {
        const { logged, logs } = recording()
        const { runtime } = yield* bound()
        const first = yield* logged(runPrompt(runtime, { prompt: "go" }, { onUpdate }))
        expect(first, "completed")
        yield* turn
        assert.deepStrictEqual(logs, [warning("onUpdate")])
        yield* logged(runPrompt(runtime, { state: first.state, prompt: "go on" }, { onUpdate }))
        yield* turn
        assert.deepStrictEqual(logs, [warning("onUpdate"), warning("onUpdate")])
      })
    )
  }

  it.effect("such as the onUpdate of a dispatched run is warned about once", () =>
    Effect.gen(function* () {
      const { logged, logs } = recording()
      const { runtime } = yield* bound()
      const handle = yield* logged(dispatchPrompt(runtime, { prompt: "go" }, { onUpdate: fail }))
      expect(yield* handle.wait, "completed")
      assert.deepStrictEqual(logs, [warning("onUpdate")])
    }).pipe(Effect.scoped)
  )

  it.effect("such as a hook is warned about once for each hook", () =>
    Effect.gen(function* () {
      const { logged, logs } = recording()
      const { runtime } = yield* bound({
        hooks: {
          onToolCall: () => Effect.die(new Error("boom")),
          onTurn: fail,
          onModelCall: async () => fail()
        }
      })
      expect(yield* logged(runPrompt(runtime, { prompt: "go" })), "completed")
      yield* turn
      assert.sameMembers(logs, [warning("onToolCall"), warning("onTurn"), warning("onModelCall")])
    })
  )

  it.effect("such as the approval callback is warned about once, and every request stays open", () =>
    Effect.gen(function* () {
      const { logged, logs } = recording()
      const { runtime } = yield* bind(
        Agent.make("a", { tools: [probe("pay").tool] }),
        [{ calls: [call("pay", "1"), call("pay", "2"), call("pay", "3")] }],
        { approvalCallback: fail }
      )
      const { interruptions } = expect(yield* logged(runPrompt(runtime, { prompt: "go" })), "interrupted")
      assert.lengthOf(interruptions, 3)
      assert.deepStrictEqual(logs, [warning("approvalCallback")])
    })
  )

  const statements: Record<string, readonly [facts: () => unknown, why: string]> = {
    "that throw": [fail, "boom"],
    "that reject": [() => Promise.reject(new Error("boom")), "boom"],
    "that are not JSON": [() => new Date(0), "they are not JSON"]
  }
  for (const [what, [facts, why]] of Object.entries(statements)) {
    it.effect(`such as facts ${what} is warned about once for each call`, () =>
      Effect.gen(function* () {
        const { logged, logs } = recording()
        const { tool } = probe("pay", { facts: facts as never })
        const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [
          { calls: [call("pay", "1"), call("pay", "2")] },
          "done"
        ])
        expect(yield* logged(runPrompt(runtime, { prompt: "go" })), "completed")
        yield* turn
        const warned = `The facts of pay failed. Error: ${why}`
        assert.deepStrictEqual(logs, [warned, warned])
      })
    )
  }

  const answers: Record<string, readonly [answer: unknown, why: string]> = {
    "without a principal": [{ _tag: "approve" }, "by"],
    "that is no decision": ["approve", "decision"],
    "that is null": [null, "decision"],
    "with an unknown key": [{ _tag: "approve", by: "bot", args: {} }, "args"],
    "about another request": [{ _tag: "approve", by: "bot", requestId: "run.r9" }, "a request other than"]
  }
  for (const [what, [answer, why]] of Object.entries(answers)) {
    it.effect(
      `such as an approval callback with an answer ${what} is warned about, and its request stays open`,
      () =>
        Effect.gen(function* () {
          const { logged, logs } = recording()
          const { runtime } = yield* bind(
            Agent.make("a", { tools: [probe("write").tool] }),
            [{ calls: [call("write", "1"), call("write", "2")] }],
            { approvalCallback: () => answer as never }
          )
          const held = expect(yield* logged(runPrompt(runtime, { prompt: "go" })), "interrupted")
          assert.strictEqual(held.interruptions.length, 2)
          assert.strictEqual(logs.length, 1)
          assert.include(
            logs[0],
            "The approvalCallback of a failed. Its next failures are not logged. DecisionMalformed"
          )
          assert.include(logs[0], why)
        })
    )
  }
})
