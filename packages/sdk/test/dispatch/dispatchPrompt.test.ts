import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import { reconfigureRuntime } from "../../src/agent/reconfigureRuntime.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { InvalidRequest } from "../../src/model/ModelError.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import {
  approvalOf,
  approve,
  assertValid,
  bind,
  call,
  expect,
  only,
  probe,
  rebind,
  results,
  safe,
  transcript
} from "../helpers/Fixture.ts"

const writes = (times = 1) =>
  Array.from({ length: times }, (_, i): ScriptedModel.Script => ({ calls: [call("write", `${i + 1}`)] }))

describe("dispatchPrompt", () => {
  it.effect("returns while the run works, and its handle waits for the result", () =>
    Effect.gen(function* () {
      const go = yield* Deferred.make<void>()
      const slow = safe("slow", { handler: () => Effect.as(Deferred.await(go), "slow") })
      const { runtime } = yield* bind(Agent.make("a", { tools: [slow.tool] }), [
        { calls: [call("slow", "1")] },
        "done"
      ])
      const handle = yield* dispatchPrompt(runtime, { prompt: "go", runId: "mine" as RunId })
      assert.strictEqual(handle.runId, "mine")
      assert.strictEqual(handle.status.current(), "running")
      yield* Deferred.succeed(go, undefined)
      const result = expect(yield* handle.done, "completed")
      assert.strictEqual(result.text, "done")
      assert.strictEqual(result.sessionId, handle.sessionId)
      assert.strictEqual(handle.status.current(), "completed")
      assert.strictEqual(yield* handle.done, result)
      assert.strictEqual(yield* handle.wait, result)
    })
  )

  it.effect("resumes a held run after each decision", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [...writes(2), "done"])
      const handle = yield* dispatchPrompt(runtime, { prompt: "go" })
      for (const id of ["1", "2"]) {
        const held = expect(yield* handle.wait, "interrupted")
        assert.strictEqual(handle.status.current(), "held")
        assert.deepStrictEqual(handle.interruptions(), held.interruptions)
        assert.strictEqual(JSON.stringify(approvalOf(held, id).arguments), JSON.stringify({ id }))
        yield* handle.decide(approve(held.interruptions[0]!))
      }
      const { state } = expect(yield* handle.done, "completed")
      assert.deepStrictEqual(write.ran, ["1", "2"])
      assertValid(state)
    })
  )

  it.effect("fails at once with an empty prompt or an invalid id", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a"), [])
      const tagOf = (...given: Parameters<typeof dispatchPrompt>) =>
        Effect.map(Effect.flip(dispatchPrompt(...given)), ({ _tag }) => _tag)
      assert.strictEqual(yield* tagOf(runtime, { prompt: " " }), "EmptyPrompt")
      assert.strictEqual(yield* tagOf(runtime, { prompt: "go", runId: "a b" as RunId }), "IdInvalid")
    })
  )

  it.effect("returns the failure of a run as a result that can be continued", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a"), [
        { error: new InvalidRequest({ description: "down" }) },
        "up again"
      ])
      const handle = yield* dispatchPrompt(runtime, { prompt: "go" })
      const failed = expect(yield* handle.done, "error")
      assert.strictEqual(handle.status.current(), "error")
      const again = yield* dispatchPrompt(runtime, { state: failed.state })
      assert.strictEqual(again.runId, handle.runId)
      assert.strictEqual(expect(yield* again.done, "completed").text, "up again")
    })
  )

  it.effect("continues a session under a run id that is known at once", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a"), ["one", "two"])
      const first = yield* dispatchPrompt(runtime, { prompt: "go" })
      const { state } = yield* first.done
      const second = yield* dispatchPrompt(runtime, { state, prompt: "on" })
      const result = expect(yield* second.done, "completed")
      assert.strictEqual(second.runId, result.runId)
      assert.notStrictEqual(second.runId, first.runId)
      assert.strictEqual(second.sessionId, first.sessionId)
      assert.deepStrictEqual(transcript(result.state), [
        "user: go",
        "assistant: one",
        "user: on",
        "assistant: two"
      ])
    })
  )

  it.effect("cancels a working or held run when its scope closes", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const { runtime } = yield* rebind(
        Agent.make("a", { tools: [write.tool] }),
        ScriptedModel.make(({ messages }) =>
          JSON.stringify(messages).includes("hang") ? { hang: true } : { calls: [call("write", "1")] }
        )
      )
      const scope = yield* Scope.make()
      const inScope = Effect.provideService(Scope.Scope, scope)
      const busy = yield* inScope(dispatchPrompt(runtime, { prompt: "hang" }))
      const held = yield* inScope(dispatchPrompt(runtime, { prompt: "write" }))
      expect(yield* held.wait, "interrupted")
      yield* Scope.close(scope, Exit.void)
      for (const handle of [busy, held]) {
        const { reason } = expect(yield* handle.done, "cancelled")
        assert.strictEqual(reason, "The scope that the run was dispatched under has closed.")
      }
      assert.deepStrictEqual(held.interruptions(), [])
      assert.deepStrictEqual(write.ran, [])
    })
  )
})

describe("dispatchPrompt in a closed scope or with a cancelled token", () => {
  it.effect("starts nothing in a closed scope", () =>
    Effect.gen(function* () {
      const { model, runtime } = yield* bind(Agent.make("a"), ["not asked"])
      for (const used of [false, true]) {
        const scope = yield* Scope.make()
        const inScope = Effect.provideService(Scope.Scope, scope)
        if (used) yield* (yield* inScope(dispatchPrompt(runtime, { prompt: "go" }))).done
        yield* Scope.close(scope, Exit.void)
        const exit = yield* Effect.exit(inScope(dispatchPrompt(runtime, { prompt: "go" })))
        assert.isTrue(Exit.hasInterrupts(exit))
      }
      assert.strictEqual(model.requests.length, 1)
    })
  )

  it.effect("ends at once with a cancelled token", () =>
    Effect.gen(function* () {
      const { model, runtime } = yield* bind(Agent.make("a"), ["not asked"])
      const cancellation = Cancellation.make()
      cancellation.cancel("too late")
      const handle = yield* dispatchPrompt(runtime, { prompt: "go" }, { cancellation })
      assert.strictEqual(expect(yield* handle.done, "cancelled").reason, "too late")
      assert.strictEqual(model.requests.length, 0)
    })
  )

  it.effect("keeps the state and the decision of a held run that cannot be resumed", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a", { tools: [probe("write").tool] }), writes())
      const handle = yield* dispatchPrompt(runtime, { prompt: "go" })
      const held = expect(yield* handle.wait, "interrupted")
      yield* reconfigureRuntime(runtime, { tools: [] })
      yield* handle.decide(approve(held.interruptions[0]!))
      const error = yield* Effect.flip(handle.done)
      assert.strictEqual(error._tag, "ToolUnavailable")
      assert.strictEqual(handle.status.current(), "error")
      const { runtime: mended } = yield* bind(Agent.make("a", { tools: [probe("write").tool] }), ["done"])
      const again = yield* dispatchPrompt(mended, {
        state: handle.state()!
      })
      expect(yield* again.done, "completed")
    })
  )
})

describe("AgentHandle.cancel", () => {
  it.effect("cancels a working run, aborts its tools' signals, and returns the result", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      let signal: AbortSignal | undefined
      const slow = safe("slow", {
        handler: (_, context) => {
          signal = context.signal
          return Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)
        }
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [slow.tool] }), [
        { calls: [call("slow", "1")] }
      ])
      const handle = yield* dispatchPrompt(runtime, { prompt: "go" })
      yield* Deferred.await(begun)
      const result = expect(yield* handle.cancel("enough"), "cancelled")
      assert.strictEqual(result.reason, "enough")
      assert.isTrue(signal?.aborted)
      assert.strictEqual(handle.status.current(), "cancelled")
      assert.strictEqual(yield* handle.cancel("again"), result)
      assert.strictEqual(yield* handle.done, result)
    })
  )

  it.effect("cancels a held run, whose calls never run", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), writes())
      const handle = yield* dispatchPrompt(runtime, { prompt: "go" })
      const request = only(yield* handle.wait, "approval")
      const result = expect(yield* handle.cancel("never mind"), "cancelled")
      assert.deepStrictEqual(
        result.calls.map(({ state }) => state),
        ["notStarted"]
      )
      const late = yield* Effect.flip(handle.decide(approve(request)))
      assert.strictEqual(late._tag, "RequestSuperseded")
      const ended = yield* Effect.flip(handle.send("hello?"))
      assert.strictEqual(ended._tag, "RunEnded")
      assert.deepStrictEqual(write.ran, [])
      assertValid(result.state)
    })
  )

  it.effect("does not change an ended run", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a"), ["done"])
      const handle = yield* dispatchPrompt(runtime, { prompt: "go" })
      const result = yield* handle.done
      assert.strictEqual(yield* handle.cancel("late"), result)
      assert.strictEqual(handle.status.current(), "completed")
    })
  )

  it.effect("resolves all waiters of the handle when the run's token is cancelled", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a"), [{ hang: true }])
      const cancellation = Cancellation.make()
      const handle = yield* dispatchPrompt(runtime, { prompt: "go" }, { cancellation })
      const waiting = yield* Effect.forkChild(Effect.all([handle.wait, handle.done, handle.done]))
      yield* Effect.yieldNow
      cancellation.cancel("from outside")
      for (const result of yield* Fiber.join(waiting)) {
        assert.strictEqual(expect(result, "cancelled").reason, "from outside")
      }
    })
  )
})

describe("AgentHandle.decide", () => {
  it.effect("accepts the first decision on a request, and rejects the second", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [...writes(), "done"])
      const handle = yield* dispatchPrompt(runtime, { prompt: "go" })
      const request = only(yield* handle.wait, "approval")
      const wrong = yield* Effect.flip(handle.decide({ ...approve(request), digest: "other" }))
      assert.strictEqual(wrong._tag, "ArgumentsChanged")
      assert.strictEqual(handle.status.current(), "held")
      const both = yield* Effect.all(
        [approve(request), { ...approve(request), by: "bob" }].map((decision) =>
          Effect.result(handle.decide(decision))
        ),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(
        both.map((result) => (result._tag === "Success" ? "taken" : result.failure._tag)).toSorted(),
        ["AlreadyDecided", "taken"]
      )
      expect(yield* handle.done, "completed")
      assert.deepStrictEqual(write.ran, ["1"])
    })
  )

  it.effect("is replaced by a denial when the request expires", () =>
    Effect.gen(function* () {
      const write = probe("write", { approval: { expiresIn: "90 days" } })
      const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [...writes(), "so be it"])
      const handle = yield* dispatchPrompt(runtime, { prompt: "go" })
      expect(yield* handle.wait, "interrupted")
      yield* TestClock.adjust("89 days")
      assert.strictEqual(handle.status.current(), "held")
      yield* TestClock.adjust("2 days")
      const { state } = expect(yield* handle.done, "completed")
      assert.match(results(state)[0] ?? "", /^write denied: Nobody decided before/)
    })
  )
})
