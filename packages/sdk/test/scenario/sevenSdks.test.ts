/**
 * One script, which was also given to six other SDKs: a turn with two gated calls and a free one. Each test is a situation in which some
 * of them ran a tool twice, lost a result or asked the model with an open call.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import { evolveAll } from "../../src/domain/evolve.ts"
import type { RequestId } from "../../src/domain/Id.ts"
import * as RunStateCodec from "../../src/domain/RunStateCodec.ts"
import { open, seal } from "../../src/domain/Seal.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import {
  approvalOf,
  approve,
  assertValid,
  bind,
  call,
  deny,
  events,
  expect,
  only,
  probe,
  type Probe,
  rebind,
  results,
  safe as readOnly,
  transcript,
  watch
} from "../helpers/Fixture.ts"
import { type Mode, stored, unstored } from "./Mode.ts"

const turn = { calls: [call("danger", "c1"), call("danger", "c2"), call("safe", "c3")] }

const setUp = (
  mode: Mode,
  { danger = probe("danger"), safe = readOnly() }: { readonly danger?: Probe; readonly safe?: Probe } = {}
) =>
  Effect.gen(function* () {
    const agent = Agent.make("keeper", { tools: [danger.tool, safe.tool] })
    const { runtime, model } = yield* bind(agent, [turn, "done"], { owner: "one" })
    return { agent, runtime, model, danger, safe }
  })

const held = (mode: Mode) =>
  Effect.gen(function* () {
    const made = yield* setUp(mode)
    const result = yield* mode.start(made.runtime, "go")
    return { ...made, result, c1: approvalOf(result, "c1"), c2: approvalOf(result, "c2") }
  })

const script = (mode: Mode) => {
  const test = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
    it.effect(title, () => Effect.provide(body, Layer.fresh(mode.layer)))

  describe(`a turn with two gated calls and a free one, ${mode.name}`, () => {
    test(
      "runs the free call once, before the approvals",
      Effect.gen(function* () {
        const { runtime, result, safe, c1, c2 } = yield* held(mode)
        assert.deepStrictEqual(safe.ran, ["c3"])
        const half = yield* mode.resume(runtime, result, { decisions: [approve(c1)] })
        const again = yield* mode.resume(runtime, half)
        expect(yield* mode.resume(runtime, again, { decisions: [approve(c2)] }), "completed")
        assert.deepStrictEqual(safe.ran, ["c3"])
      })
    )

    test(
      "requests both approvals together",
      Effect.gen(function* () {
        const { result } = yield* held(mode)
        const { interruptions } = expect(result, "interrupted")
        assert.deepStrictEqual(
          interruptions.map((request) => [request._tag, "arguments" in request && request.arguments]),
          [
            ["approval", { id: "c1" }],
            ["approval", { id: "c2" }]
          ]
        )
      })
    )

    test(
      "runs only c1 after its approval, and is held on c2 without a model request",
      Effect.gen(function* () {
        const { runtime, result, danger, model, c1, c2 } = yield* held(mode)
        const half = yield* mode.resume(runtime, result, { decisions: [approve(c1)] })
        assert.strictEqual(only(half, "approval").requestId, c2.requestId)
        assert.deepStrictEqual(danger.ran, ["c1"])
        assert.strictEqual(model.requests.length, 1)
      })
    )

    test(
      "has the message of a denial as the result of c2, and runs c1 once",
      Effect.gen(function* () {
        const { runtime, result, danger, c1, c2 } = yield* held(mode)
        const half = yield* mode.resume(runtime, result, { decisions: [approve(c1)] })
        const done = yield* mode.resume(runtime, half, {
          decisions: [deny(c2, { message: "nope, too risky" })]
        })
        assert.deepStrictEqual(results(expect(done, "completed").state), [
          "danger completed: danger:c1",
          "danger denied: nope, too risky",
          "safe completed: safe:c3"
        ])
        assert.deepStrictEqual(danger.ran, ["c1"])
      })
    )

    test(
      "refuses a changed sealed state, and a decision with another digest",
      Effect.gen(function* () {
        const { runtime, result, danger, c1 } = yield* held(mode)
        const key = { id: "k", secret: Redacted.make("a secret of more than 32 characters") }
        const sealed = yield* seal(result.state, key)
        const edited = RunStateCodec.encode(result.state).replaceAll('"c1"', '"c9"')
        const forged = [
          ...sealed.split(".").slice(0, 2),
          btoa(edited).replaceAll("=", ""),
          sealed.split(".")[3]
        ].join(".")
        assert.strictEqual((yield* Effect.flip(open(forged, [key])))._tag, "SealBroken")
        // A decision with another digest than that of the arguments is refused.
        const decisions = [approve(c1, { digest: "f".repeat(64) })]
        const error = yield* Effect.flip(mode.resume(runtime, result, { decisions }))
        assert.strictEqual(error._tag, "ArgumentsChanged")
        assert.deepStrictEqual(danger.ran, [])
      })
    )

    test(
      "refuses an approval with an unknown request id",
      Effect.gen(function* () {
        const { runtime, result, danger, c1 } = yield* held(mode)
        const requestId = `${result.runId}.r7` as RequestId
        const error = yield* Effect.flip(
          mode.resume(runtime, result, { decisions: [{ ...approve(c1), requestId }] })
        )
        assert.strictEqual(error._tag, "RequestNotFound")
        assert.deepStrictEqual(danger.ran, [])
      })
    )

    test(
      "queues a prompt until both calls are decided, and keeps its history valid",
      Effect.gen(function* () {
        const { runtime, result, model, c1, c2 } = yield* held(mode)
        const queued = yield* mode.resume(runtime, result, { prompt: "are you there?" })
        assert.strictEqual(expect(queued, "interrupted").interruptions.length, 2)
        assert.strictEqual(model.requests.length, 1)
        const done = yield* mode.resume(runtime, queued, { decisions: [approve(c1), approve(c2)] })
        assert.deepStrictEqual(transcript(expect(done, "completed").state).slice(-2), [
          "user: are you there?",
          "assistant: done"
        ])
        assertValid(done.state)
      })
    )

    test(
      "reports the state of each call when it is cancelled in a tool, and aborts the tool's signal",
      Effect.gen(function* () {
        const begun = yield* Deferred.make<void>()
        const danger = probe("danger", {
          handler: ({ id }, { signal }) =>
            id === "c1"
              ? "danger:c1"
              : new Promise<string>((_, reject) => {
                  signal.addEventListener("abort", () => reject(signal.reason as Error))
                  Deferred.doneUnsafe(begun, Effect.void)
                })
        })
        const { runtime } = yield* setUp(mode, { danger })
        const result = yield* mode.start(runtime, "go")
        const token = Cancellation.make()
        const decisions = [approve(approvalOf(result, "c1")), approve(approvalOf(result, "c2"))]
        const fiber = yield* Effect.forkChild(
          mode.resume(runtime, result, { decisions }, { cancellation: token })
        )
        yield* Deferred.await(begun)
        token.cancel("stop!")
        const { calls, state, reason } = expect(yield* Fiber.join(fiber), "cancelled")
        assert.strictEqual(reason, "stop!")
        assert.deepStrictEqual(
          calls.map(({ tool, state }) => [tool, state]),
          [
            ["danger", "finished"],
            ["danger", "inDoubt"],
            ["safe", "finished"]
          ]
        )
        assert.isTrue(danger.contexts[1]?.signal.aborted)
        assert.strictEqual(results(state)[0], "danger completed: danger:c1")
        assertValid(state)
      })
    )

    test(
      "runs a finished call once when its sibling throws",
      Effect.gen(function* () {
        const danger = probe("danger", {
          handler: ({ id }) => {
            if (id === "c2") throw new Error("boom")
            return `danger:${id}`
          }
        })
        const { runtime, safe } = yield* setUp(mode, { danger })
        const result = yield* mode.start(runtime, "go")
        const decisions = [approve(approvalOf(result, "c1")), approve(approvalOf(result, "c2"))]
        const done = yield* mode.resume(runtime, result, { decisions })
        assert.deepStrictEqual(results(expect(done, "completed").state), [
          "danger completed: danger:c1",
          "danger failed: danger failed: boom",
          "safe completed: safe:c3"
        ])
        assert.deepStrictEqual([danger.ran, safe.ran], [["c1", "c2"], ["c3"]])
      })
    )

    test(
      "fails with AgentNotFound or ToolUnavailable when the agent is renamed or the tool removed, and stays held",
      Effect.gen(function* () {
        const { runtime, result, danger, safe, model, c1, c2 } = yield* held(mode)
        const decisions = [approve(c1), approve(c2)]
        const { runtime: renamed } = yield* rebind(Agent.make("warden", { tools: [danger.tool] }), model)
        const agentGone = yield* Effect.flip(mode.resume(renamed, result))
        assert.deepInclude({ ...agentGone }, { _tag: "AgentNotFound", agent: "keeper" })
        const { runtime: without } = yield* rebind(Agent.make("keeper", { tools: [safe.tool] }), model)
        const toolGone = yield* Effect.flip(mode.resume(without, result, { decisions }))
        assert.deepInclude({ ...toolGone }, { _tag: "ToolUnavailable", tool: "danger", reason: "missing" })
        assert.strictEqual(model.requests.length, 1)
        assert.deepStrictEqual(danger.ran, [])
        if (mode.isStored) {
          // The decisions wait in the store for a program that has the tool.
          const store = yield* RunStore
          assert.strictEqual((yield* store.head(result.runId)).status, "held")
          assert.strictEqual((yield* store.decisions(result.runId)).length, 2)
        }
        const done = yield* mode.resume(runtime, result, mode.isStored ? {} : { decisions })
        expect(done, "completed")
        assert.deepStrictEqual(danger.ran, ["c1", "c2"])
      })
    )

    test(
      "finds a renamed agent and a renamed tool by their aliases",
      Effect.gen(function* () {
        const { result, model, c1, c2 } = yield* held(mode)
        const risky = probe("risky", { aliases: ["danger"] })
        const agent = Agent.make("warden", { aliases: ["keeper"], tools: [risky.tool] })
        const { runtime } = yield* rebind(agent, model)
        expect(yield* mode.resume(runtime, result, { decisions: [approve(c1), approve(c2)] }), "completed")
        assert.deepStrictEqual(risky.ran, ["c1", "c2"])
      })
    )

    test(
      "has a state of less than 4,500 bytes",
      Effect.gen(function* () {
        const { result } = yield* held(mode)
        const bytes = new TextEncoder().encode(RunStateCodec.encode(result.state)).length
        assert.isBelow(bytes, 4500, `the state has ${bytes} bytes`)
        assert.isTrue(Result.isSuccess(RunStateCodec.decode(RunStateCodec.encode(result.state))))
      })
    )
  })
}

script(unstored)
script(stored("memory", layerMemory))

describe("a turn with two gated calls and a free one", () => {
  const memory = stored("memory", layerMemory)
  const inStore = (title: string, body: Effect.Effect<void, unknown, RunStore>) =>
    it.effect(title, () => Effect.provide(body, Layer.fresh(layerMemory)))

  inStore(
    "fails with ArgumentsChanged when arguments were edited in an unsealed state",
    Effect.gen(function* () {
      const { runtime, result, danger, c1 } = yield* held(unstored)
      const text = RunStateCodec.encode(result.state)
      const read = (edited: string) => Result.getOrThrow(RunStateCodec.decode(edited))
      const other = yield* setUp(unstored)
      const otherRun = yield* unstored.start(other.runtime, "go")
      const swap = (state: string) =>
        state.replaceAll('"id":"c1"', '"id":"c9"').replaceAll('\\"c1\\"', '\\"c9\\"')
      const onlyTheCall = { ...result.state, calls: read(swap(text)).calls }
      const digestToo = read(swap(text).replaceAll(c1.digest, approvalOf(otherRun, "c2").digest))
      for (const state of [onlyTheCall, read(swap(text)), digestToo]) {
        const decisions = [approve(c1)]
        const error = yield* Effect.flip(unstored.resume(runtime, { ...result, state }, { decisions }))
        assert.strictEqual(error._tag, "ArgumentsChanged")
      }
      assert.deepStrictEqual(danger.ran, [])
    })
  )

  inStore(
    "returns a held state without a store",
    Effect.gen(function* () {
      const { result, danger } = yield* held(unstored)
      assert.strictEqual(expect(result, "interrupted").state.status, "held")
      assert.deepStrictEqual(danger.ran, [])
    })
  )

  inStore(
    "runs each gated call once when two workers resume it at once, which complete it or get RunBusy",
    Effect.gen(function* () {
      const danger = probe("danger", { handler: ({ id }) => Effect.as(Effect.yieldNow, `danger:${id}`) })
      const { agent, runtime, model, safe } = yield* setUp(memory, { danger })
      const { runtime: other } = yield* rebind(agent, model, { owner: "two" })
      const result = yield* memory.start(runtime, "go")
      const store = yield* RunStore
      yield* store.decide(approve(approvalOf(result, "c1")))
      yield* store.decide(approve(approvalOf(result, "c2")))
      const outcomes = yield* Effect.forEach(
        [runtime, other, runtime, other],
        (runtime) => Effect.result(memory.resume(runtime, result)),
        { concurrency: "unbounded" }
      )
      const statuses = outcomes.map((outcome) =>
        Result.isSuccess(outcome) ? outcome.success.status : outcome.failure._tag
      )
      assert.strictEqual(statuses.filter((status) => status === "completed").length >= 1, true)
      assert.isTrue(
        statuses.every((status) => status === "completed" || status === "RunBusy"),
        statuses.join()
      )
      assert.deepStrictEqual([danger.ran, safe.ran], [["c1", "c2"], ["c3"]])
      assert.strictEqual(model.requests.length, 2)
    })
  )

  inStore(
    "runs each gated call once when a second worker resumes it later, and gives that worker the result",
    Effect.gen(function* () {
      const { agent, runtime, model, danger, result, c1, c2 } = yield* held(memory)
      const { runtime: other } = yield* rebind(agent, model, { owner: "two" })
      const decisions = [approve(c1), approve(c2)]
      expect(yield* memory.resume(runtime, result, { decisions }), "completed")
      const late = yield* Effect.flip(memory.resume(other, result, { decisions }))
      assert.strictEqual(late._tag, "AlreadyDecided")
      assert.strictEqual(expect(yield* memory.resume(other, result), "completed").text, "done")
      assert.deepStrictEqual(danger.ran, ["c1", "c2"])
    })
  )

  inStore(
    "does not run the first gated call again after a stop between the two",
    Effect.gen(function* () {
      const { updates, onUpdate } = watch()
      const { runtime, result, danger, c1, c2 } = yield* held(unstored)
      yield* unstored.resume(runtime, result, { decisions: [approve(c1), approve(c2)] }, { onUpdate })
      // A killed process leaves everything up to the record of c1.
      const all = events(updates)
      const upTo = all.findIndex(({ _tag }) => _tag === "tool.completed")
      const state = evolveAll(result.state, all.slice(0, upTo + 1))!
      assert.deepStrictEqual(danger.ran, ["c1", "c2"])
      danger.ran.length = 0
      const { runtime: again } = yield* bind(
        Agent.make("keeper", { tools: [danger.tool, readOnly().tool] }),
        ["done"]
      )
      expect(yield* unstored.resume(again, { ...result, state }), "completed")
      assert.deepStrictEqual(danger.ran, ["c2"])
    })
  )
})
