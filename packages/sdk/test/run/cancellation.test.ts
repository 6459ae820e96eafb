import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import { TestClock } from "effect/testing"
import { z } from "zod"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import { turn } from "../../src/agent/internal/eventLoop.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import type { RunResult } from "../../src/run/RunResult.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as Tool from "../../src/tool/Tool.ts"
import {
  approvalOf,
  assertValid,
  approve,
  bind,
  call,
  events,
  expect,
  probe,
  results,
  safe,
  throughJson,
  watch
} from "../helpers/Fixture.ts"

const open = { needsApproval: false }

/** Starts a run and cancels it once `begun` completes. */
const cancelWhen = (
  runtime: Runtime<any>,
  begun: Deferred.Deferred<void>,
  onUpdate?: (update: RunUpdate) => void
): Effect.Effect<Extract<RunResult, { readonly status: "cancelled" }>> =>
  Effect.gen(function* () {
    const token = Cancellation.make()
    const fiber = yield* Effect.forkChild(
      runPrompt(
        runtime,
        { prompt: "go" },
        { cancellation: token, ...(onUpdate === undefined ? {} : { onUpdate }) }
      )
    )
    yield* Deferred.await(begun)
    token.cancel("the user changed her mind")
    // Handlers that heed the signal end within the grace period.
    yield* turn
    yield* TestClock.adjust("2 seconds")
    const result = expect(yield* Effect.orDie(Fiber.join(fiber)), "cancelled")
    assert.strictEqual(result.reason, "the user changed her mind")
    assertValid(result.state)
    return result
  })

const states = (result: {
  readonly calls: ReadonlyArray<{ readonly tool: string; readonly state: string }>
}) => result.calls.map(({ tool, state }) => `${tool} ${state}`)

const running = (tool: Tool.Tool) =>
  bind(Agent.make("a", { tools: [tool] }), [{ calls: [call(tool.name, "1")] }, "done"])

describe("a cancelled run", () => {
  it.effect("starts no model call when it was cancelled before its start", () =>
    Effect.gen(function* () {
      const { runtime, model } = yield* bind(Agent.make("a"), ["x"])
      const token = Cancellation.make()
      token.cancel("never mind")
      const { updates, onUpdate } = watch()
      const result = yield* runPrompt(runtime, { prompt: "go" }, { cancellation: token, onUpdate })
      assert.strictEqual(expect(result, "cancelled").reason, "never mind")
      assert.strictEqual(model.requests.length, 0)
      assert.deepStrictEqual(
        events(updates).map(({ _tag }) => _tag),
        ["run.started", "run.cancelled"]
      )
    })
  )

  it.effect("interrupts a model call, and keeps nothing of its answer", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const { runtime } = yield* bind(Agent.make("a"), [
        () => {
          Deferred.doneUnsafe(begun, Effect.void)
          return { hang: true }
        }
      ])
      const { state, calls } = yield* cancelWhen(runtime, begun)
      assert.deepStrictEqual(calls, [])
      assert.strictEqual(state.history.tail.length, 1)
    })
  )

  it.effect(
    "interrupts a tool's effect: a side effect is in doubt, a read or an idempotent call is aborted",
    () =>
      Effect.gen(function* () {
        for (const [options, expected] of [
          [open, "work inDoubt"],
          [{ ...open, idempotent: true }, "work aborted"],
          [{ safety: "readOnly" }, "work aborted"]
        ] as const) {
          const begun = yield* Deferred.make<void>()
          let interrupted = false
          let aborted = false
          const { tool } = probe("work", {
            ...options,
            handler: (_, { signal }) => {
              signal.addEventListener("abort", () => (aborted = true))
              return Effect.onInterrupt(
                Effect.andThen(Deferred.succeed(begun, undefined), Effect.never),
                () =>
                  Effect.sync(() => {
                    interrupted = true
                  })
              )
            }
          })
          const { runtime } = yield* running(tool)
          const result = yield* cancelWhen(runtime, begun)
          assert.deepStrictEqual(states(result), [expected])
          assert.isTrue(interrupted && aborted)
          assert.include(results(result.state)[0], "work cancelled: This call was stopped")
        }
      })
  )

  it.effect("aborts the signal of an async handler, with the reason", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const { tool, contexts } = safe("work", {
        handler: (_, { signal }) =>
          new Promise<string>((_, reject) => {
            signal.addEventListener("abort", () => reject(signal.reason as Error))
            Deferred.doneUnsafe(begun, Effect.void)
          })
      })
      const { runtime } = yield* running(tool)
      const result = yield* cancelWhen(runtime, begun)
      assert.deepStrictEqual(states(result), ["work aborted"])
      assert.deepInclude(contexts[0]?.signal.reason as Error, { message: "the user changed her mind" })
    })
  )

  it.effect("abandons an async handler that ignores its signal beyond the grace period", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const { tool } = probe("work", {
        ...open,
        handler: () => {
          Deferred.doneUnsafe(begun, Effect.void)
          return new Promise<string>(() => {})
        }
      })
      const { runtime } = yield* running(tool)
      const result = yield* cancelWhen(runtime, begun)
      assert.deepStrictEqual(states(result), ["work inDoubt"])
      assert.deepStrictEqual(results(result.state), [
        "work cancelled: This call was stopped while it ran; it is not known whether it took effect."
      ])
    })
  )

  for (const [what, options] of Object.entries({
    "an async handler": open,
    "a retried async handler": { ...open, idempotent: true, retry: Schedule.recurs(1) }
  })) {
    it.effect(`keeps the result of ${what} that finishes within the grace period`, () =>
      Effect.gen(function* () {
        const begun = yield* Deferred.make<void>()
        const { ran, tool } = probe("work", {
          ...options,
          handler: (_, { signal }) =>
            new Promise<string>((resolve) => {
              signal.addEventListener("abort", () => resolve("just made it"))
              Deferred.doneUnsafe(begun, Effect.void)
            })
        })
        const { runtime } = yield* running(tool)
        const result = yield* cancelWhen(runtime, begun)
        assert.deepStrictEqual(states(result), ["work finished"])
        assert.deepStrictEqual(results(result.state), ["work completed: just made it"])
        assert.deepStrictEqual(ran, ["1"])
      })
    )
  }

  it.effect("reports the outcome of each call of the turn", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const quick = safe("quick")
      const slow = safe("slow", {
        handler: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
      })
      const write = probe("write", open)
      const { runtime } = yield* bind(Agent.make("a", { tools: [quick.tool, slow.tool, write.tool] }), [
        { calls: [call("write", "0"), call("quick", "1"), call("slow", "2"), call("write", "3")] }
      ])
      const { updates, onUpdate } = watch()
      const result = yield* cancelWhen(runtime, begun, onUpdate)
      assert.deepStrictEqual(states(result), [
        "write finished",
        "quick finished",
        "slow aborted",
        "write notStarted"
      ])
      assert.deepStrictEqual(
        results(result.state).map((text) => text.split(":")[0]),
        ["write completed", "quick completed", "slow cancelled", "write cancelled"]
      )
      assert.deepStrictEqual(write.ran, ["0"])
      assert.strictEqual(events(updates).filter(({ _tag }) => _tag === "run.cancelled").length, 1)
      assert.strictEqual(events(updates).at(-1)?._tag, "run.cancelled")
    })
  )

  it.effect("reports the outcomes of its sub-agents' calls", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const write = probe("write", {
        ...open,
        handler: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
      })
      const child = Agent.make("child", { tools: [write.tool] })
      const { runtime } = yield* bind(Agent.make("parent", { subAgents: [child] }), [
        { calls: [{ tool: "child", arguments: { prompt: "do" } }] },
        { calls: [call("write", "1")] }
      ])
      assert.deepStrictEqual(states(yield* cancelWhen(runtime, begun)), ["child inDoubt", "write inDoubt"])
    })
  )

  it.effect("can be continued with a new prompt on a valid history", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const { tool } = probe("work", {
        ...open,
        handler: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
      })
      const { runtime, model } = yield* running(tool)
      const { state } = yield* cancelWhen(runtime, begun)
      const done = expect(
        yield* runPrompt(runtime, { state: throughJson(state), prompt: "again" }),
        "completed"
      )
      assertValid(done.state)
      assert.strictEqual(model.requests[1]?.messages.length, 4)
      assert.strictEqual((yield* Effect.flip(runPrompt(runtime, { state })))._tag, "RunEnded")
    })
  )

  it.effect("supersedes its open requests", () =>
    Effect.gen(function* () {
      const gated = probe("gated")
      const begun = yield* Deferred.make<void>()
      const slow = safe("slow", {
        handler: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [gated.tool, slow.tool] }), [
        { calls: [call("gated", "1"), call("slow", "2")] }
      ])
      const { state } = yield* cancelWhen(runtime, begun)
      const [record] = state.requests
      const error = yield* Effect.flip(
        runPrompt(runtime, { state, prompt: "x", decisions: [approve(record!.request)] })
      )
      assert.strictEqual(error._tag, "RequestSuperseded")
    })
  )
})

describe("a run that waits for user code that never returns", () => {
  const never = () => new Promise<never>(() => {})
  const { tool } = probe("work", open)
  /** A schema that never answers for the nth value. */
  const unsure = (begun: () => void, nth: number) => {
    let asked = 0
    return z.object({ id: z.string() }).refine(() => {
      if (++asked < nth) return true
      begun()
      return never()
    })
  }
  const waiting: Record<string, (begun: () => void) => ReturnType<typeof running>> = {
    "its instructions": (begun) =>
      bind(
        Agent.make("a", {
          instructions: () => {
            begun()
            return never()
          }
        }),
        ["x"]
      ),
    "the approval rule of a call": (begun) =>
      running(
        probe("work", {
          needsApproval: () => {
            begun()
            return never()
          }
        }).tool
      ),
    "the schema of its arguments": (begun) =>
      running(Tool.make("work", { description: "Works", parameters: unsure(begun, 1), handler: () => "" })),
    "the schema of its arguments before the body runs": (begun) =>
      running(
        Tool.make("work", {
          ...open,
          description: "Works",
          // A date is not JSON, so it is decoded again for the body.
          parameters: unsure(begun, 2).transform(({ id }) => ({ id, at: new Date(0) })),
          handler: () => ""
        })
      ),
    "the schema of its output": (begun) =>
      bind(Agent.make("a", { output: unsure(begun, 1) }) as never, ['{"id":"1"}']),
    "the approval callback": (begun) =>
      bind(Agent.make("a", { tools: [probe("gated").tool] }), [{ calls: [call("gated", "1")] }], {
        approvalCallback: () => {
          begun()
          return never()
        }
      }),
    "an async tool": (begun) =>
      running(
        probe("work", {
          ...open,
          handler: () => {
            begun()
            return never()
          }
        }).tool
      ),
    "an effect of a tool": (begun) =>
      running(
        probe("work", {
          ...open,
          handler: () =>
            Effect.suspend(() => {
              begun()
              return Effect.never
            })
        }).tool
      )
  }
  for (const [what, make] of Object.entries(waiting)) {
    it.effect(`ends when it is cancelled: ${what}`, () =>
      Effect.gen(function* () {
        const begun = yield* Deferred.make<void>()
        const { runtime } = yield* make(() => Deferred.doneUnsafe(begun, Effect.void))
        yield* cancelWhen(runtime, begun)
      })
    )
  }

  it.effect("ends when a tool cancels it before waiting, and starts no other tool", () =>
    Effect.gen(function* () {
      for (const toolConcurrency of [1, 2]) {
        const cancellation = Cancellation.make()
        const stop = safe("stop", {
          handler: () => {
            cancellation.cancel("by a tool")
            return never()
          }
        })
        const other = safe("other")
        const { runtime } = yield* bind(
          Agent.make("a", { tools: [stop.tool, other.tool, tool], limits: { toolConcurrency } }),
          [{ calls: [call("stop", "1"), call("other", "2"), call("work", "3")] }]
        )
        const fiber = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }, { cancellation }))
        yield* turn
        yield* TestClock.adjust("2 seconds")
        const result = yield* Fiber.join(fiber)
        assert.deepStrictEqual(states(expect(result, "cancelled")), [
          "stop aborted",
          "other notStarted",
          "work notStarted"
        ])
        assert.deepStrictEqual(other.ran, [])
        assertValid(result.state)
      }
    })
  )
})

describe("interrupting the fiber that runs a prompt", () => {
  it.effect("cancels the run", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const { tool } = safe("work", {
        handler: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
      })
      const { runtime } = yield* running(tool)
      const { updates, onUpdate } = watch()
      const fiber = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }, { onUpdate }))
      yield* Deferred.await(begun)
      yield* Fiber.interrupt(fiber)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
      const last = events(updates).at(-1)
      assert.deepInclude(last, { _tag: "run.cancelled", reason: "The program interrupted the run." })
      assert.deepStrictEqual(last?._tag === "run.cancelled" && states(last), ["work aborted"])
    })
  )
})

/** A signal that counts its listeners. */
const counted = () => {
  const controller = new AbortController()
  const { signal } = controller
  const listeners = new Set<unknown>()
  const add = signal.addEventListener.bind(signal)
  const remove = signal.removeEventListener.bind(signal)
  signal.addEventListener = (...[type, listener, options]: Parameters<typeof add>) => {
    listeners.add(listener)
    add(type, listener, options)
  }
  signal.removeEventListener = (...[type, listener, options]: Parameters<typeof remove>) => {
    listeners.delete(listener)
    remove(type, listener, options)
  }
  return {
    signal,
    abort: (reason: string) => controller.abort(new Error(reason)),
    listening: () => listeners.size
  }
}

describe("a cancellation token", () => {
  it("keeps the first reason and notifies each listener once", () => {
    const token = Cancellation.make()
    const told: Array<string> = []
    token.onCancel((reason) => told.push(reason))
    const stop = token.onCancel(() => told.push("not me"))
    stop()
    token.cancel("first")
    token.cancel("second")
    assert.strictEqual(token.reason(), "first")
    token.onCancel((reason) => told.push(`late ${reason}`))
    assert.deepStrictEqual(told, ["first", "late first"])
  })

  it("notifies its child after a listener throws, and skips a listener that was removed", () => {
    const token = Cancellation.make()
    const told: Array<string> = []
    token.onCancel(() => {
      told.push("first")
      stop()
      throw new Error("a listener")
    })
    const stop = token.onCancel(() => told.push("not any more"))
    const child = Cancellation.make(token)
    assert.throws(() => token.cancel("enough"), "a listener")
    assert.deepStrictEqual(told, ["first"])
    assert.strictEqual(child.reason(), "enough")
  })

  it("is cancelled with its parent, and does not cancel it", () => {
    const parent = Cancellation.make()
    const [one, two] = [Cancellation.make(parent), Cancellation.make(parent)]
    one.cancel("one")
    assert.isUndefined(parent.reason())
    parent.cancel("all")
    assert.deepStrictEqual([one.reason(), two.reason()], ["one", "all"])
    assert.strictEqual(Cancellation.make(parent).reason(), "all")
  })

  it("converts to an AbortSignal and from one", () => {
    const token = Cancellation.make()
    const signal = token.signal()
    token.cancel("why")
    assert.isTrue(signal.aborted)
    assert.strictEqual((signal.reason as Error).message, "why")
    const late = Cancellation.make(token).signal()
    assert.isTrue(late.aborted)
    const controller = new AbortController()
    const linked = Cancellation.fromSignal(controller.signal)
    controller.abort(new Error("closed"))
    assert.strictEqual(linked.reason(), "closed")
    assert.strictEqual(Cancellation.fromSignal(AbortSignal.abort()).reason() !== undefined, true)
  })

  it("listens to its source signal only while it has listeners of its own", () => {
    const { abort, listening, signal } = counted()
    const token = Cancellation.fromSignal(signal)
    assert.strictEqual(listening(), 0)
    const told: Array<string> = []
    const stop = token.onCancel((reason) => told.push(reason))
    const child = Cancellation.make(token)
    assert.strictEqual(listening(), 1)
    child.release()
    assert.strictEqual(listening(), 1)
    stop()
    stop()
    assert.strictEqual(listening(), 0)
    token.onCancel((reason) => told.push(`again ${reason}`))
    abort("closed")
    assert.deepStrictEqual(told, ["again closed"])
    assert.strictEqual(Cancellation.make(token).reason(), "closed")
    assert.strictEqual(listening(), 0)
  })

  it("reports the abort of its source without a listener, and has a signal of its own", () => {
    const { abort, listening, signal } = counted()
    const [token, other, own] = [1, 2, 3].map(() => Cancellation.fromSignal(signal))
    const derived = own!.signal()
    assert.isFalse(derived.aborted)
    other!.onCancel(() => {})
    other!.cancel("by hand")
    assert.strictEqual(listening(), 1)
    assert.isFalse(signal.aborted)
    abort("closed")
    assert.deepStrictEqual(
      [token!.reason(), other!.reason(), (derived.reason as Error).message],
      ["closed", "by hand", "closed"]
    )
    const released = counted()
    const late = Cancellation.fromSignal(released.signal)
    late.signal()
    late.release()
    assert.strictEqual(released.listening(), 0)
  })

  it.effect("leaves no listener on a signal that outlives its runs", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { listening, signal } = counted()
        const cancellation = Cancellation.fromSignal(signal)
        const gated = probe("gated")
        const agent = Agent.make("a", { tools: [gated.tool] })
        const script = () => ["done", { calls: [call("gated", "1")] }, "done", "done"]
        const { runtime } = yield* bind(agent, [...script(), ...script()])
        expect(yield* runPrompt(runtime, { prompt: "go" }, { cancellation }), "completed")
        const held = yield* runPrompt(runtime, { prompt: "go" }, { cancellation })
        const decisions = [approve(approvalOf(held, "1"))]
        assert.strictEqual(listening(), 0)
        expect(yield* runPrompt(runtime, { state: held.state, decisions }, { cancellation }), "completed")
        const handle = yield* dispatchPrompt(runtime, { prompt: "go" }, { cancellation })
        expect(yield* handle.done, "completed")
        assert.strictEqual(listening(), 0)
        yield* Effect.gen(function* () {
          const { runId } = yield* runPromptStored(runtime, { prompt: "go" }, { cancellation })
          yield* Effect.exit(runPromptStored(runtime, { prompt: "go", runId }, { cancellation }))
          yield* Effect.exit(forkRun(runtime, { runId, prompt: " " }, { cancellation }))
        }).pipe(Effect.provide(Layer.fresh(layerMemory)))
        assert.strictEqual(listening(), 0)
      })
    )
  )

  it.effect("in the context cancels the runs started there", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a"), ["x"])
      const token = Cancellation.make()
      token.cancel("closing time")
      const result = yield* Effect.provideService(
        runPrompt(runtime, { prompt: "go" }),
        Cancellation.CancellationToken,
        token
      )
      assert.strictEqual(expect(result, "cancelled").reason, "closing time")
    })
  )

  it.effect("does not affect a held run", () =>
    Effect.gen(function* () {
      const token = Cancellation.make()
      const gated = probe("gated")
      const { runtime } = yield* bind(Agent.make("a", { tools: [gated.tool] }), [
        { calls: [call("gated", "1")] },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" }, { cancellation: token })
      token.cancel("later")
      expect(
        yield* runPrompt(runtime, { state: held.state, decisions: [approve(approvalOf(held, "1"))] }),
        "completed"
      )
    })
  )
})
