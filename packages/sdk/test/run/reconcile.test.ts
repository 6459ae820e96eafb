import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import { evolveAll } from "../../src/domain/evolve.ts"
import type { RunState } from "../../src/domain/RunState.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import type { Reconciled } from "../../src/tool/ToolOptions.ts"
import {
  approve,
  bind,
  call,
  events,
  expect,
  only,
  probe,
  rebind,
  results,
  watch
} from "../helpers/Fixture.ts"

type Options = NonNullable<Parameters<typeof probe>[1]>

/** The state left by a process that was killed while a body ran, and a runtime that resumes it. */
const killed = (options: Options) =>
  Effect.gen(function* () {
    const { updates, onUpdate } = watch()
    let state: RunState | undefined
    const started = yield* Deferred.make<void>()
    const dying = probe("pay", {
      needsApproval: false,
      ...options,
      handler: () => {
        state = evolveAll(undefined, events(updates))
        return Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
      }
    })
    const first = yield* bind(Agent.make("a", { tools: [dying.tool] }), [
      { calls: [call("pay", "1")] },
      "done"
    ])
    const fiber = yield* Effect.forkChild(runPrompt(first.runtime, { prompt: "go" }, { onUpdate }))
    yield* Deferred.await(started)
    assert.strictEqual(state?.calls[0]?.status, "started")
    yield* Fiber.interrupt(fiber)
    const pay = probe("pay", { needsApproval: false, ...options })
    const { runtime } = yield* rebind(Agent.make("a", { tools: [pay.tool] }), first.model)
    return { runtime, state: state!, pay, dying }
  })

describe("a call started by a process that has died", () => {
  it.effect("is repeated with its idempotency key when it is read-only or idempotent", () =>
    Effect.gen(function* () {
      for (const options of [{ safety: "readOnly" } as const, { idempotent: true }]) {
        const { runtime, state, pay, dying } = yield* killed(options)
        const done = expect(yield* runPrompt(runtime, { state }), "completed")
        assert.deepStrictEqual(results(done.state), ["pay completed: pay:1"])
        assert.deepStrictEqual(pay.ran, ["1"])
        assert.strictEqual(pay.contexts[0]?.attempt, 2)
        assert.strictEqual(dying.contexts[0]?.attempt, 1)
        assert.strictEqual(pay.contexts[0]?.idempotencyKey, dying.contexts[0]?.idempotencyKey)
      }
    })
  )

  it.effect("gives its tool's `reconcile` the time of its start", () =>
    Effect.gen(function* () {
      yield* TestClock.adjust("5 seconds")
      let startedAt: number | undefined
      const { runtime, state } = yield* killed({
        reconcile: (_key, _args, context) => {
          startedAt = context.startedAt
          return { _tag: "happened", result: "paid" }
        }
      })
      yield* TestClock.adjust("1 hour")
      expect(yield* runPrompt(runtime, { state }), "completed")
      assert.strictEqual(startedAt, 5000)
    })
  )

  it.effect("opens an inDoubt request otherwise", () =>
    Effect.gen(function* () {
      const { runtime, state, pay } = yield* killed({})
      const request = only(yield* runPrompt(runtime, { state }), "inDoubt")
      assert.deepInclude(request, { tool: "pay", arguments: { id: "1" }, attempt: 1 })
      assert.strictEqual(request.idempotencyKey, state.calls[0]?.id)
      assert.deepStrictEqual(pay.ran, [])
    })
  )

  it.effect("takes the outcome that its tool's `reconcile` returns, or runs when it did not happen", () =>
    Effect.gen(function* () {
      const cases: ReadonlyArray<readonly [Reconciled, string, number]> = [
        [{ _tag: "happened", result: { receipt: 7 } }, 'pay completed: {"receipt":7}', 0],
        [{ _tag: "failed", message: "card declined" }, "pay failed: card declined", 0],
        [{ _tag: "notHappened" }, "pay completed: pay:1", 1]
      ]
      for (const [found, expected, times] of cases) {
        for (const wrap of [
          Effect.succeed<Reconciled>,
          async (found: Reconciled) => found,
          (found: Reconciled) => found
        ]) {
          const asked: Array<unknown> = []
          const { runtime, state, pay } = yield* killed({
            reconcile: (key, args) => {
              asked.push(key, args)
              return wrap(found)
            }
          })
          const done = expect(yield* runPrompt(runtime, { state }), "completed")
          assert.deepStrictEqual(results(done.state), [expected])
          assert.strictEqual(pay.ran.length, times)
          assert.deepStrictEqual(asked, [state.calls[0]?.id, { id: "1" }])
        }
      }
    })
  )

  it.effect("is in doubt when `reconcile` returns unknown, fails, hangs or returns an invalid answer", () =>
    Effect.gen(function* () {
      for (const reconcile of [
        (): Reconciled => ({ _tag: "unknown" }),
        (): Reconciled => {
          throw new Error("no")
        },
        () => Promise.reject(new Error("no")),
        () => Effect.die("no"),
        () => Effect.interrupt,
        () => new Promise<never>(() => {}),
        // Invalid answers of an untyped program.
        () => undefined as never,
        () => ({ _tag: "failed" }) as never,
        () => "happened" as never
      ]) {
        const { runtime, state, pay } = yield* killed({ reconcile })
        const running = yield* Effect.forkChild(runPrompt(runtime, { state }), { startImmediately: true })
        yield* TestClock.adjust("10 minutes")
        only(yield* Fiber.join(running), "inDoubt")
        assert.deepStrictEqual(pay.ran, [])
      }
    })
  )

  it.effect("is repeated, supplied with a result or failed by decision", () =>
    Effect.gen(function* () {
      const cases: ReadonlyArray<readonly [Record<string, unknown>, string, number]> = [
        [{ _tag: "retry" }, "pay completed: pay:1", 1],
        [{ _tag: "supply", result: "receipt 7" }, "pay supplied: receipt 7", 0],
        [{ _tag: "fail", message: "it bounced" }, "pay failed: it bounced", 0]
      ]
      for (const [body, expected, times] of cases) {
        const { runtime, state, pay, dying } = yield* killed({})
        const held = yield* runPrompt(runtime, { state })
        const request = only(held, "inDoubt")
        const decision = { ...body, requestId: request.requestId, by: "ann" } as unknown as DecisionInput
        const done = expect(
          yield* runPrompt(runtime, { state: held.state, decisions: [decision] }),
          "completed"
        )
        assert.deepStrictEqual(results(done.state), [expected])
        assert.strictEqual(pay.ran.length, times)
        if (times > 0) {
          assert.strictEqual(pay.contexts[0]?.attempt, 2)
          assert.strictEqual(pay.contexts[0]?.idempotencyKey, dying.contexts[0]?.idempotencyKey)
        }
      }
    })
  )

  it.effect("cannot be approved", () =>
    Effect.gen(function* () {
      const { runtime, state } = yield* killed({})
      const held = yield* runPrompt(runtime, { state })
      const error = yield* Effect.flip(
        runPrompt(runtime, { state: held.state, decisions: [approve(only(held, "inDoubt"))] })
      )
      assert.deepInclude({ ...error }, { _tag: "DecisionNotApplicable", kind: "inDoubt" })
    })
  )
})
