/**
 * Effects that ignore their interruption: they are abandoned after the grace period, as promises are.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import { createRuntime } from "../../src/agent/createRuntime.ts"
import { turn } from "../../src/agent/internal/eventLoop.ts"
import { graceMs } from "../../src/agent/internal/userCode.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import * as RuntimeExtension from "../../src/agent/RuntimeExtension.ts"
import { dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { isEnd } from "../helpers/Busy.ts"
import {
  assertValid,
  bind,
  call,
  events,
  expect,
  probe,
  rebind,
  results,
  safe,
  watch
} from "../helpers/Fixture.ts"

/** An uninterruptible effect, with a signal of its start and a way to end it. */
const stubborn = Effect.gen(function* () {
  const begun = yield* Deferred.make<void>()
  const over = yield* Deferred.make<void>()
  const ended = yield* Deferred.make<void>()
  const effect = Effect.uninterruptible(
    Deferred.succeed(begun, undefined).pipe(
      Effect.andThen(Deferred.await(over)),
      Effect.andThen(Deferred.succeed(ended, undefined)),
      Effect.as("too late")
    )
  )
  /** Ends the effect. */
  const end = Effect.andThen(Deferred.succeed(over, undefined), Deferred.await(ended))
  return { begun, effect, end }
})

const states = (calls: ReadonlyArray<{ readonly tool: string; readonly state: string }>) =>
  calls.map(({ tool, state }) => `${tool} ${state}`)

const cancelled =
  "work cancelled: This call was stopped while it ran; it is not known whether it took effect."

describe("a retried body", () => {
  const lateTries: Record<string, (late: Deferred.Deferred<string>) => unknown> = {
    "a promise": (late) => Effect.runPromise(Deferred.await(late)),
    "an effect": (late) => Effect.uninterruptible(Deferred.await(late))
  }
  for (const [what, wait] of Object.entries(lateTries)) {
    it.effect(`ignores the late result of an abandoned attempt: ${what}`, () =>
      Effect.gen(function* () {
        const late = yield* Deferred.make<string>()
        const again = yield* Deferred.make<void>()
        const second = yield* Deferred.make<never, Error>()
        let tries = 0
        const work = safe("work", {
          timeout: "1 second",
          retry: Schedule.recurs(1),
          handler: () => {
            tries += 1
            return tries === 1
              ? wait(late)
              : Effect.andThen(Deferred.succeed(again, undefined), Deferred.await(second))
          }
        })
        const { runtime } = yield* bind(Agent.make("a", { tools: [work.tool] }), [
          { calls: [call("work", "1")] },
          "done"
        ])
        const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }), {
          startImmediately: true
        })
        yield* TestClock.adjust("1 second")
        yield* TestClock.adjust("20 millis")
        yield* Deferred.await(again)
        yield* Deferred.succeed(late, "too late")
        yield* turn
        yield* Deferred.fail(second, new Error("broken"))
        const done = expect(yield* Fiber.join(running), "completed")
        assert.deepStrictEqual(results(done.state), ["work failed: work failed: broken"])
      })
    )
  }
})

describe("an uninterruptible effect of a tool", () => {
  it.effect("is abandoned when its run is cancelled, and publishes nothing afterwards", () =>
    Effect.gen(function* () {
      const { begun, effect, end } = yield* stubborn
      let tell: (message: string) => void = () => {}
      const { tool } = probe("work", {
        needsApproval: false,
        handler: (_, { progress }) => {
          tell = progress
          return effect
        }
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [{ calls: [call("work", "1")] }])
      const cancellation = Cancellation.make()
      const { onUpdate, updates } = watch()
      const running = yield* Effect.forkChild(
        runPrompt(runtime, { prompt: "go" }, { cancellation, onUpdate })
      )
      yield* Deferred.await(begun)
      cancellation.cancel("enough")
      yield* TestClock.adjust("2 seconds")
      const result = expect(yield* Fiber.join(running), "cancelled")
      assert.deepStrictEqual(states(result.calls), ["work inDoubt"])
      assert.deepStrictEqual(results(result.state), [cancelled])
      assertValid(result.state)
      const told = updates.length
      tell("still there")
      yield* end
      yield* Effect.yieldNow
      assert.strictEqual(updates.length, told)
      assert.deepStrictEqual(
        events(updates).filter(({ _tag }) => isEnd(_tag)),
        [events(updates).at(-1)]
      )
    })
  )

  it.effect("keeps its result when it finishes within the grace period", () =>
    Effect.gen(function* () {
      const { begun, effect, end } = yield* stubborn
      const { tool } = probe("work", { needsApproval: false, handler: () => effect })
      const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [{ calls: [call("work", "1")] }], {
        cancelGrace: "1 minute"
      })
      const cancellation = Cancellation.make()
      const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }, { cancellation }))
      yield* Deferred.await(begun)
      cancellation.cancel("enough")
      yield* end
      const result = expect(yield* Fiber.join(running), "cancelled")
      assert.deepStrictEqual(states(result.calls), ["work finished"])
      assert.deepStrictEqual(results(result.state), ["work completed: too late"])
    })
  )

  const regions: Readonly<Record<string, (work: Effect.Effect<string>) => unknown>> = {
    "the whole effect": Effect.uninterruptible,
    "the last step of an effect": (work) =>
      Effect.gen(function* () {
        yield* Effect.void
        return yield* Effect.uninterruptible(work)
      }),
    "an acquisition": (work) => Effect.scoped(Effect.acquireRelease(work, () => Effect.void)),
    "an effect of a promise": (work) => Promise.resolve(Effect.uninterruptible(work))
  }
  for (const [what, region] of Object.entries(regions)) {
    it.effect(
      `keeps its result when it finishes after the cancellation and within the grace period: ${what}`,
      () =>
        Effect.gen(function* () {
          const begun = yield* Deferred.make<void>()
          const over = yield* Deferred.make<string>()
          const work = Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(over))
          const { tool } = probe("work", { needsApproval: false, handler: () => region(work) as never })
          const { runtime } = yield* bind(
            Agent.make("a", { tools: [tool] }),
            [{ calls: [call("work", "1")] }],
            {
              cancelGrace: "1 minute"
            }
          )
          const cancellation = Cancellation.make()
          const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }, { cancellation }))
          yield* Deferred.await(begun)
          cancellation.cancel("enough")
          yield* TestClock.adjust("1 second")
          yield* Deferred.succeed(over, "charged")
          const result = expect(yield* Fiber.join(running), "cancelled")
          assert.deepStrictEqual(states(result.calls), ["work finished"])
          assert.deepStrictEqual(results(result.state), ["work completed: charged"])
        })
    )
  }

  it.effect("is interrupted after its region when it goes on", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const over = yield* Deferred.make<void>()
      const interrupted = yield* Deferred.make<void>()
      const { tool } = probe("work", {
        needsApproval: false,
        handler: () =>
          Deferred.succeed(begun, undefined).pipe(
            Effect.andThen(Deferred.await(over)),
            Effect.uninterruptible,
            Effect.andThen(Effect.onInterrupt(Effect.never, () => Deferred.succeed(interrupted, undefined)))
          )
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [{ calls: [call("work", "1")] }], {
        cancelGrace: "1 minute"
      })
      const cancellation = Cancellation.make()
      const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }, { cancellation }))
      yield* Deferred.await(begun)
      cancellation.cancel("enough")
      yield* TestClock.adjust("1 second")
      yield* Deferred.succeed(over, undefined)
      yield* turn
      yield* TestClock.adjust("1 second")
      yield* Deferred.await(interrupted)
      const result = expect(yield* Fiber.join(running), "cancelled")
      assert.deepStrictEqual(states(result.calls), ["work inDoubt"])
    })
  )

  it.effect("is abandoned after its timeout, and the run continues", () =>
    Effect.gen(function* () {
      for (const retry of [undefined, Schedule.recurs(0)]) {
        const { begun, effect, end } = yield* stubborn
        const { tool } = safe("work", {
          timeout: "1 second",
          handler: () => effect,
          ...(retry === undefined ? {} : { retry })
        })
        const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [
          { calls: [call("work", "1")] },
          "done"
        ])
        const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }))
        yield* Deferred.await(begun)
        yield* TestClock.adjust("1 second")
        yield* TestClock.adjust("2 seconds")
        const { state } = expect(yield* Fiber.join(running), "completed")
        yield* end
        assert.deepStrictEqual(results(state), [
          "work failed: work failed: work did not finish within 1000 ms."
        ])
      }
    })
  )

  it.effect("publishes nothing after its call has ended", () =>
    Effect.gen(function* () {
      const { begun, effect, end } = yield* stubborn
      let tell: (message: string) => void = () => {}
      const { tool } = safe("work", {
        timeout: "1 second",
        handler: (_, { output, progress }) => {
          tell = (message) => {
            progress(message)
            output(message)
          }
          tell("in time")
          return effect
        }
      })
      const { tool: other } = safe("other", { handler: () => tell("too late") })
      const { runtime } = yield* bind(Agent.make("a", { tools: [tool, other] }), [
        { calls: [call("work", "1")] },
        { calls: [call("other", "2")] },
        "done"
      ])
      const { onUpdate, updates } = watch()
      const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }, { onUpdate }))
      yield* Deferred.await(begun)
      yield* TestClock.adjust("1 second")
      yield* TestClock.adjust("2 seconds")
      expect(yield* Fiber.join(running), "completed")
      yield* end
      assert.deepStrictEqual(
        updates.flatMap((update) =>
          update._tag === "progress" ? [update.message] : update._tag === "output" ? [update.chunk] : []
        ),
        // The last word of an output is held until it is complete or the body has ended.
        ["in time", "in ", "time"]
      )
    })
  )

  it.live("has one result when it ends while a later call runs", () =>
    Effect.gen(function* () {
      const late = yield* Deferred.make<string>()
      const ended = yield* Deferred.make<void>()
      const slow = probe("slow", {
        needsApproval: false,
        timeout: "10 millis",
        handler: () =>
          Effect.uninterruptible(Effect.ensuring(Deferred.await(late), Deferred.succeed(ended, undefined)))
      })
      const next = probe("next", {
        needsApproval: false,
        handler: () =>
          Effect.gen(function* () {
            yield* Deferred.succeed(late, "late")
            yield* Deferred.await(ended)
            // The end of the body has been processed by now.
            yield* turn
            return "next"
          })
      })
      const { updates, onUpdate } = watch()
      const { runtime } = yield* bind(Agent.make("a", { tools: [slow.tool, next.tool] }), [
        { calls: [call("slow", "1")] },
        { calls: [call("next", "2")] },
        "done"
      ])
      const done = expect(yield* runPrompt(runtime, { prompt: "go" }, { onUpdate }), "completed")
      assert.deepStrictEqual(
        events(updates).flatMap((event) =>
          event._tag === "tool.completed" || event._tag === "tool.failed" ? [event._tag] : []
        ),
        ["tool.failed", "tool.completed"]
      )
      assert.lengthOf(results(done.state), 2)
    })
  )

  it("has a grace period of at most 2^31 - 1 milliseconds", () => {
    const graceOf = (cancelGrace: Duration.Input) => graceMs({ options: { cancelGrace } } as Runtime<any>)
    assert.strictEqual(graceOf("60 days"), 2 ** 31 - 1)
    assert.strictEqual(graceOf("1 day"), 86_400_000)
  })

  it.effect("does not keep a stored run with a sub-agent from ending, and adds no event afterwards", () =>
    Effect.gen(function* () {
      const { begun, effect, end } = yield* stubborn
      const { tool } = probe("work", { needsApproval: false, handler: () => effect })
      const child = Agent.make("child", { tools: [tool] })
      const { runtime } = yield* bind(Agent.make("lead", { subAgents: [child] }), [
        { calls: [{ tool: "child", arguments: { prompt: "do" } }] },
        { calls: [call("work", "1")] }
      ])
      const store = yield* RunStore
      const runId = "run" as RunId
      const handle = yield* dispatchPromptStored(runtime, { prompt: "go", runId })
      yield* Deferred.await(begun)
      const cancelling = yield* Effect.forkChild(handle.cancel("enough"))
      yield* turn
      yield* TestClock.adjust("2 seconds")
      const result = expect(yield* Fiber.join(cancelling), "cancelled")
      assert.deepStrictEqual(states(result.calls), ["child inDoubt", "work inDoubt"])
      const written = yield* store.events(runId)
      yield* end
      yield* Effect.yieldNow
      assert.deepStrictEqual(yield* store.events(runId), written)
      assert.strictEqual(written.filter(({ _tag }) => isEnd(_tag)).length, 1)
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(layerMemory)))
  )

  it.effect("does not keep a stored run from being suspended", () =>
    Effect.gen(function* () {
      const { begun, effect, end } = yield* stubborn
      const { tool } = probe("work", { needsApproval: false, handler: () => effect })
      const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [{ calls: [call("work", "1")] }])
      const suspension = { soon: Cancellation.make(), now: Cancellation.make() }
      const running = yield* Effect.forkChild(
        Effect.flip(runPromptStored(runtime, { prompt: "go" }, { suspension }))
      )
      yield* Deferred.await(begun)
      suspension.soon.cancel("closing")
      suspension.now.cancel("closing")
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual((yield* Fiber.join(running))._tag, "RunSuspended")
      yield* end
    }).pipe(Effect.provide(Layer.fresh(layerMemory)))
  )
})

describe("an uninterruptible effect of user code", () => {
  it.effect("in an approval rule ends with the timeout, and the call needs approval", () =>
    Effect.gen(function* () {
      const { begun, effect, end } = yield* stubborn
      const { tool } = probe("work", { timeout: "1 second", needsApproval: () => Effect.as(effect, true) })
      const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [{ calls: [call("work", "1")] }])
      const running = yield* Effect.forkChild(runPrompt(runtime, { prompt: "go" }))
      yield* Deferred.await(begun)
      yield* TestClock.adjust("1 second")
      yield* TestClock.adjust("2 seconds")
      expect(yield* Fiber.join(running), "interrupted")
      yield* end
    })
  )

  it.effect("in a model's stream publishes nothing after the end of the run", () =>
    Effect.gen(function* () {
      const { begun, effect, end } = yield* stubborn
      const model = ScriptedModel.make(["x"])
      const stream = Stream.fromEffect(Effect.as(effect, { _tag: "text-delta", text: "late" } as const))
      const { runtime } = yield* Effect.map(rebind(Agent.make("a"), model), ({ runtime }) => ({
        runtime: { ...runtime, model: { ...runtime.model, stream: () => stream as never } }
      }))
      const cancellation = Cancellation.make()
      const { onUpdate, updates } = watch()
      const running = yield* Effect.forkChild(
        runPrompt(runtime, { prompt: "go" }, { cancellation, onUpdate })
      )
      yield* Deferred.await(begun)
      cancellation.cancel("enough")
      yield* TestClock.adjust("2 seconds")
      expect(yield* Fiber.join(running), "cancelled")
      yield* end
      yield* Effect.yieldNow
      assert.deepStrictEqual(
        updates.filter(({ _tag }) => _tag === "delta"),
        []
      )
    })
  )

  it.effect("in an extension's onClose does not keep the other extensions from closing", () =>
    Effect.gen(function* () {
      const { begun, effect, end } = yield* stubborn
      const closed: Array<string> = []
      const first = RuntimeExtension.make("first", { onClose: () => void closed.push("first") })
      const second = RuntimeExtension.make("second", { onClose: () => Effect.asVoid(effect) })
      const runtime = yield* createRuntime({
        agent: Agent.make("a"),
        extensions: [first, second],
        cancelGrace: 20,
        closeTimeout: "1 second"
      }).pipe(Effect.provideService(ModelClient, ScriptedModel.make(["x"]).client))
      yield* runtime.start
      const closing = yield* Effect.forkChild(runtime.close("completed"))
      yield* Deferred.await(begun)
      yield* TestClock.adjust("1 second")
      yield* TestClock.adjust(20)
      yield* Fiber.join(closing)
      assert.deepStrictEqual(closed, ["first"])
      yield* end
    }).pipe(Effect.scoped)
  )
})
