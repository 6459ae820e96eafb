import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import * as Conductor from "../../src/dispatch/Conductor.ts"
import { dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import { RunId } from "../../src/domain/Id.ts"
import { type Message, textOf } from "../../src/domain/Message.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { submitPrompt } from "../../src/durable/submitPrompt.ts"
import * as Worker from "../../src/durable/Worker.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { call, probe, rebind } from "../helpers/Fixture.ts"

const runId = RunId.make("run-1")
const isPrompt = (message: Message | undefined, prompt: string): boolean =>
  message?.role === "user" && textOf(message.content) === prompt
const input = { prompt: "go", runId }

/** A run in the middle of a tool's body, in a store whose appends wait once it is slowed down. */
const working = Effect.gen(function* () {
  const store = yield* RunStore
  const begun = yield* Deferred.make<void>()
  const finish = yield* Deferred.make<void>()
  const appending = yield* Deferred.make<void>()
  const fast = yield* Deferred.make<void>()
  const ended = yield* Deferred.make<void>()
  let isSlow = false
  const slow = RunStore.of({
    ...store,
    append: (options) =>
      isSlow
        ? Effect.andThen(
            Effect.andThen(Deferred.succeed(appending, undefined), Deferred.await(fast)),
            store.append(options)
          )
        : store.append(options),
    release: (lease) => Effect.ensuring(store.release(lease), Deferred.succeed(ended, undefined))
  })
  const write = probe("write", {
    needsApproval: false,
    handler: () =>
      Effect.as(Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(finish)), "written")
  })
  const agent = Agent.make("a", { tools: [write.tool] })
  const model = ScriptedModel.make(({ messages }) =>
    isPrompt(messages.at(-1), "go") ? { calls: [call("write", "1")] } : "done"
  )
  const bound = Effect.map(rebind(agent, model), ({ runtime }) => runtime)
  return {
    slow,
    write,
    bound,
    begun: Deferred.await(begun),
    /** Slows the store down, and waits until the run writes the result of its body. */
    slowDown: Effect.suspend(() => {
      isSlow = true
      return Effect.andThen(Deferred.succeed(finish, undefined), Deferred.await(appending))
    }),
    speedUp: Effect.andThen(Deferred.succeed(fast, undefined), Deferred.await(ended))
  }
})

/** The functions that drive a stored run. */
const doors: Record<string, (runtime: Runtime) => Effect.Effect<unknown, unknown, RunStore | Scope.Scope>> = {
  runPromptStored: (runtime) => runPromptStored(runtime, input),
  forkRun: (runtime) =>
    Effect.flatMap(runPromptStored(runtime, { prompt: "first" }), ({ runId: original }) =>
      forkRun(runtime, { runId: original, prompt: "go", newRunId: runId })
    ),
  recover: (runtime) => Effect.andThen(submitPrompt(runtime, input), recover([runtime])),
  "Worker.run": (runtime) => Effect.andThen(submitPrompt(runtime, input), Worker.run([runtime])),
  dispatchPromptStored: (runtime) => Effect.flatMap(dispatchPromptStored(runtime, input), ({ done }) => done),
  "Conductor.dispatchStored": (runtime) =>
    Effect.flatMap(Conductor.make(), (conductor) =>
      Effect.flatMap(conductor.dispatchStored(runtime, input), ({ done }) => done)
    )
}

describe("a runtime that is closed while its store is slow", () => {
  for (const [name, door] of Object.entries(doors)) {
    it.effect(`suspends a run of ${name}, and another process completes it`, () =>
      Effect.gen(function* () {
        const store = yield* RunStore
        const { begun, bound, slow, slowDown, speedUp, write } = yield* working
        const runtime = yield* bound
        const scope = yield* Scope.make()
        const driving = yield* Effect.forkDetach(
          door(runtime).pipe(Effect.provideService(RunStore, slow), Effect.provideService(Scope.Scope, scope))
        )
        yield* begun
        yield* slowDown
        const closing = yield* Effect.forkChild(runtime.close("completed"), { startImmediately: true })
        yield* TestClock.adjust("5 seconds")
        yield* Fiber.join(closing)
        yield* speedUp
        yield* Scope.close(scope, Exit.void)
        yield* Fiber.interrupt(driving)
        const events = yield* store.events(runId)
        assert.notInclude(
          events.map(({ _tag }) => _tag),
          "run.cancelled"
        )
        const head = yield* store.head(runId)
        assert.strictEqual(head.status, "running")
        assert.isUndefined(head.lease)
        const [recovered] = yield* recover([yield* bound])
        assert.deepInclude(recovered, { runId, status: "completed" })
        assert.deepStrictEqual(write.ran, ["1"])
      }).pipe(Effect.provide(Layer.fresh(layerMemory)))
    )
  }
})
