import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import type { Tool } from "../../src/tool/Tool.ts"
import { ToolFailure } from "../../src/tool/ToolError.ts"
import {
  assertValid,
  bind,
  call,
  expect,
  only,
  probe,
  results,
  safe,
  throughJson
} from "../helpers/Fixture.ts"

const never = () => Effect.never
const start = (tool: Tool, limits = {}) =>
  Effect.gen(function* () {
    const { runtime, model } = yield* bind(Agent.make("a", { tools: [tool], limits }), [
      { calls: [call(tool.name, "1")] },
      "done"
    ])
    const fiber = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }), { startImmediately: true })
    return { fiber, model }
  })

describe("a model call", () => {
  it.effect("falls back once to a whole answer after its timeout, and then fails the run", () =>
    Effect.gen(function* () {
      const { runtime, model } = yield* bind(Agent.make("a"), [{ hang: true }, { hang: true }, "done"])
      const fiber = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }))
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual(model.requests.length, 2)
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("10 minutes")
      const { error, state } = expect(yield* Fiber.join(fiber), "error")
      assert.deepInclude({ ...error }, { _tag: "ModelFailed", reason: "TimedOut", isRetryable: true })
      expect(yield* runPrompt(runtime, { state: throughJson(state) }), "completed")
    })
  )

  it.effect("has the run's modelTimeoutMs", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a", { limits: { modelTimeoutMs: 1000 } }), [
        { text: "late", delay: "999 millis" }
      ])
      const fiber = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }))
      yield* TestClock.adjust("999 millis")
      expect(yield* Fiber.join(fiber), "completed")
    })
  )
})

describe("a tool's function about a call", () => {
  const hanging = {
    promise: () => new Promise<never>(() => {}),
    effect: never
  }
  for (const [what, hang] of Object.entries(hanging)) {
    for (const part of ["needsApproval", "risk", "preview"] as const) {
      it.effect(
        `times out like the call, and the request is opened without its answer: ${part}, a ${what}`,
        () =>
          Effect.gen(function* () {
            for (const [limits, own] of [
              [{}, { timeout: "5 seconds" }],
              [{ toolTimeoutMs: 5000 }, {}],
              [{ maxWallMs: 5000 }, {}]
            ] as const) {
              const write = probe("write", { ...own, [part]: hang })
              const { fiber } = yield* start(write.tool, limits)
              yield* TestClock.adjust("4999 millis")
              assert.isUndefined(fiber.pollUnsafe())
              yield* TestClock.adjust("1 millis")
              const request = only(yield* Fiber.join(fiber), "approval")
              assert.notProperty(request, part)
              assert.deepStrictEqual(write.ran, [])
            }
          })
      )
    }
  }
})

describe("a change of the wall clock", () => {
  it.effect("does not change the timeout of a call", () =>
    Effect.gen(function* () {
      for (const jump of [-3_600_000, 3_600_000]) {
        const clock = yield* Clock.Clock
        let offset = 0
        const set: Clock.Clock = {
          ...clock,
          currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + offset
        }
        const fiber = yield* Effect.provideService(
          Effect.map(
            start(safe("read", { handler: never, timeout: "5 seconds" }).tool),
            ({ fiber }) => fiber
          ),
          Clock.Clock,
          set
        )
        offset = jump
        yield* TestClock.adjust("4999 millis")
        assert.isUndefined(fiber.pollUnsafe())
        yield* TestClock.adjust("1 millis")
        const { state } = expect(yield* Fiber.join(fiber), "completed")
        assert.deepStrictEqual(results(state), [
          "read failed: read failed: read did not finish within 5000 ms."
        ])
      }
    })
  )
})

describe("a result at the moment of the timeout", () => {
  it.effect("is the only result of its call or is dropped, and the results keep the order of the calls", () =>
    Effect.gen(function* () {
      for (const toolConcurrency of [1, 2, 9]) {
        // Around one second; every other handler never ends.
        const delays = [999, 1000, 1001, 1000, 999, 1001]
        const tools = delays.map((ms, index) => {
          const slept = Effect.as(Effect.sleep(ms), `after ${ms}`)
          return safe(`t${index}`, {
            timeout: "1 second",
            handler: (): Effect.Effect<string> => (index % 2 === 0 ? slept : Effect.never)
          })
        })
        const hang = safe("hang", { timeout: "1 second", handler: () => new Promise<string>(() => {}) })
        const all = [...tools, hang]
        const { runtime } = yield* bind(
          Agent.make("a", { tools: all.map(({ tool }) => tool), limits: { toolConcurrency } }),
          [{ calls: all.map(({ tool }, index) => call(tool.name, String(index))) }, "done"],
          { cancelGrace: 0 }
        )
        const fiber = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }))
        while (fiber.pollUnsafe() === undefined) {
          yield* TestClock.adjust("1 second")
          yield* Effect.promise(() => new Promise((done) => setImmediate(done)))
        }
        const { state } = expect(yield* Fiber.join(fiber), "completed")
        const found = results(state)
        assert.strictEqual(found.length, all.length)
        found.forEach((result, index) => {
          const ms = delays[index]
          const late = `${all[index]!.tool.name} failed`
          const early = `t${index} completed: after ${ms}`
          assert.isTrue(result.startsWith(late) || result === early, result)
          if (index % 2 === 0 && ms === 999) assert.strictEqual(result, early)
          if (index % 2 === 0 && ms === 1001) assert.isTrue(result.startsWith(late))
        })
        assertValid(state)
      }
    })
  )
})

describe("a tool call that exceeds its timeout", () => {
  it.effect("fails with a result that says whether it may have taken effect", () =>
    Effect.gen(function* () {
      const { fiber } = yield* start(
        probe("write", { handler: never, needsApproval: false, timeout: "5 seconds" }).tool
      )
      yield* TestClock.adjust("5 seconds")
      const { state } = expect(yield* Fiber.join(fiber), "completed")
      assert.deepStrictEqual(results(state), [
        "write failed: write failed: write did not finish within 5000 ms; it may have taken effect all the same."
      ])
      assertValid(state)
    })
  )

  it.effect("fails after the run's toolTimeoutMs when its tool has no timeout", () =>
    Effect.gen(function* () {
      const { fiber } = yield* start(safe("read", { handler: never }).tool, { toolTimeoutMs: 2000 })
      yield* TestClock.adjust("1999 millis")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      const { state } = expect(yield* Fiber.join(fiber), "completed")
      assert.deepStrictEqual(results(state), [
        "read failed: read failed: read did not finish within 2000 ms."
      ])
    })
  )

  it.effect("does not stop its siblings", () =>
    Effect.gen(function* () {
      const slow = safe("slow", { handler: never, timeout: "1 second" })
      const quick = safe("quick", { handler: () => Effect.as(Effect.sleep("2 seconds"), "fine") })
      const { runtime } = yield* bind(Agent.make("a", { tools: [slow.tool, quick.tool] }), [
        { calls: [call("slow", "1"), call("quick", "2")] },
        "done"
      ])
      const fiber = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }))
      yield* TestClock.adjust("2 seconds")
      const { state } = yield* Fiber.join(fiber)
      assert.strictEqual(results(state)[1], "quick completed: fine")
    })
  )

  it.effect("has its signal aborted, and keeps a result within the grace period", () =>
    Effect.gen(function* () {
      const { tool } = safe("read", {
        timeout: "1 second",
        handler: (_, { signal }) =>
          new Promise<string>((resolve) => signal.addEventListener("abort", () => resolve("half a page")))
      })
      const { fiber } = yield* start(tool)
      yield* TestClock.adjust("1 second")
      const { state } = expect(yield* Fiber.join(fiber), "completed")
      assert.deepStrictEqual(results(state), ["read completed: half a page"])
    })
  )

  it.effect("is abandoned after the grace period when it ignores its signal", () =>
    Effect.gen(function* () {
      const { tool } = safe("read", { timeout: "1 second", handler: () => new Promise<string>(() => {}) })
      const { fiber } = yield* start(tool)
      yield* TestClock.adjust("1 second")
      yield* TestClock.adjust("2 seconds")
      const { state } = expect(yield* Fiber.join(fiber), "completed")
      assert.include(results(state)[0], "did not finish within 1000 ms")
    })
  )
})

describe("a retry policy", () => {
  const failing = (times: number) => {
    let left = times
    return () =>
      Effect.suspend(() =>
        left-- > 0 ? Effect.fail(new ToolFailure({ description: "try again" })) : Effect.succeed("at last")
      )
  }

  it.effect("repeats a read-only or idempotent body with the same idempotency key", () =>
    Effect.gen(function* () {
      const retry = Schedule.max([Schedule.spaced("1 second"), Schedule.recurs(3)])
      for (const options of [
        { safety: "readOnly" } as const,
        { idempotent: true, needsApproval: false } as const
      ]) {
        const { tool, ran, contexts } = probe("fetch", { ...options, retry, handler: failing(2) })
        const { fiber } = yield* start(tool)
        yield* TestClock.adjust("2 seconds")
        const { state } = expect(yield* Fiber.join(fiber), "completed")
        assert.deepStrictEqual(results(state), ["fetch completed: at last"])
        assert.strictEqual(ran.length, 3)
        assert.strictEqual(new Set(contexts.map(({ idempotencyKey }) => idempotencyKey)).size, 1)
      }
    })
  )

  it.effect("times each attempt separately, and repeats an attempt that timed out", () =>
    Effect.gen(function* () {
      for (const hang of [() => Effect.never, () => new Promise<string>(() => {})]) {
        let tries = 0
        const { tool, contexts } = safe("fetch", {
          timeout: "1 second",
          retry: Schedule.recurs(3),
          handler: (): unknown => (++tries < 3 ? hang() : "at last")
        })
        const { runtime } = yield* bind(
          Agent.make("a", { tools: [tool] }),
          [{ calls: [call("fetch", "1")] }, "done"],
          { cancelGrace: 0 }
        )
        const signals: Array<AbortSignal> = []
        const fiber = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }))
        while (fiber.pollUnsafe() === undefined) {
          yield* TestClock.adjust("1 second")
          yield* Effect.promise(() => new Promise((done) => setImmediate(done)))
        }
        signals.push(...contexts.map(({ signal }) => signal))
        const { state } = expect(yield* Fiber.join(fiber), "completed")
        assert.deepStrictEqual(results(state), ["fetch completed: at last"])
        assert.deepStrictEqual(
          signals.map(({ aborted }) => aborted),
          [true, true, false]
        )
      }
    })
  )

  it.effect("does not begin while an earlier attempt with side effects goes on after its timeout", () =>
    Effect.gen(function* () {
      const busy = () => Effect.uninterruptible(Effect.sleep("1 hour"))
      for (const wait of [busy, () => new Promise<string>(() => {})]) {
        const retry = Schedule.recurs(3)
        const charge = probe("charge", {
          needsApproval: false,
          idempotent: true,
          timeout: "1 second",
          retry,
          handler: (): unknown => wait()
        })
        const { fiber } = yield* start(charge.tool)
        yield* TestClock.adjust("10 seconds")
        const { state } = expect(yield* Fiber.join(fiber), "completed")
        assert.strictEqual(charge.ran.length, 1)
        assert.deepStrictEqual(results(state), [
          "charge failed: charge failed: charge did not finish within 1000 ms; it may have taken effect all the same."
        ])
      }
    })
  )

  it.effect("begins after an earlier attempt with side effects has stopped at its timeout", () =>
    Effect.gen(function* () {
      let running = 0
      let most = 0
      const charge = probe("charge", {
        needsApproval: false,
        idempotent: true,
        timeout: "1 second",
        retry: Schedule.recurs(2),
        handler: () => {
          running += 1
          most = Math.max(most, running)
          const stopping = Effect.andThen(
            Effect.sleep("10 millis"),
            Effect.sync(() => (running -= 1))
          )
          return Effect.ensuring(Effect.never, stopping)
        }
      })
      const { fiber } = yield* start(charge.tool)
      yield* TestClock.adjust("10 seconds")
      const { state } = expect(yield* Fiber.join(fiber), "completed")
      assert.strictEqual(charge.ran.length, 3)
      assert.strictEqual(most, 1)
      assert.include(results(state)[0], "may have taken effect")
    })
  )

  it.effect("gives up at the end of its schedule", () =>
    Effect.gen(function* () {
      const { tool, ran } = safe("fetch", { retry: Schedule.recurs(2), handler: failing(9) })
      const { fiber } = yield* start(tool)
      const { state } = expect(yield* Fiber.join(fiber), "completed")
      assert.deepStrictEqual(results(state), ["fetch failed: fetch failed: try again"])
      assert.strictEqual(ran.length, 3)
    })
  )

  it.effect("is absent by default: a body runs once", () =>
    Effect.gen(function* () {
      const { tool, ran } = safe("fetch", { handler: failing(1) })
      const { fiber } = yield* start(tool)
      assert.deepStrictEqual(results((yield* Fiber.join(fiber)).state), [
        "fetch failed: fetch failed: try again"
      ])
      assert.strictEqual(ran.length, 1)
    })
  )
})
