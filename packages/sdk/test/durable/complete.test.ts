/**
 * Calls that end elsewhere: a handler returns `Hold.pending`, and the result arrives by its token, once, from any process.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import { dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { messages } from "../../src/domain/RunState.ts"
import { exportRun, importRun } from "../../src/durable/archive.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { type Completion, completeStored } from "../../src/durable/completeStored.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { explain } from "../../src/durable/explain.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Hold from "../../src/tool/Hold.ts"
import * as Scrubber from "../../src/tool/Scrubber.ts"
import type * as Tool from "../../src/tool/Tool.ts"
import {
  assertValid,
  bind,
  call,
  expect,
  only,
  probe,
  rebind,
  results,
  throughJson
} from "../helpers/Fixture.ts"

const hour = 60 * 60 * 1000
const runId = "run" as RunId

const stored = <A, E>(body: Effect.Effect<A, E, RunStore>) => Effect.provide(body, Layer.fresh(layerMemory))

/** An agent that starts a job which ends elsewhere, and then pays. */
const rendering = (
  holds: Hold.PendingOptions = { token: "job" },
  options: Partial<Tool.ToolOptions<never, never>> = {},
  runtimeOptions: Parameters<typeof bind>[2] = {}
) =>
  Effect.gen(function* () {
    const render = probe("render", {
      ...options,
      needsApproval: false,
      handler: () => Hold.pending(holds)
    } as never)
    const pay = probe("pay", { needsApproval: false })
    const bound = yield* bind(
      Agent.make("a", { tools: [render.tool, pay.tool] }),
      [{ calls: [call("render", "1")] }, { calls: [call("pay", "2")] }, "done"],
      runtimeOptions as never
    )
    return { ...bound, render, pay }
  })

const noWait = { waitFor: 0 }

/** The call of a run whose process was killed inside the handler: the request that the next process opens. */
const doubtOf = Effect.fnUntraced(function* (runtime: Runtime) {
  const store = yield* RunStore
  yield* runPromptStored(runtime, { prompt: "go", runId })
  const { events, head } = yield* store.load(runId)
  const [first, ...rest] = events.slice(0, events.findIndex(({ _tag }) => _tag === "tool.started") + 1)
  yield* store.remove(runId)
  const { agent, sessionId } = head
  const left = { runId, sessionId, agent, status: "running", owner: "gone", ttl: 0 } as const
  yield* store.create({ ...left, events: [first!, ...rest] })
  yield* recover([runtime])
  return (yield* store.pending())[0]
})

const timed = { success: Schema.Struct({ at: Schema.DateTimeUtcFromString, frames: Schema.Number }) as never }
const at = "1970-01-01T00:00:00.000Z"

describe("a tool that returns Hold.pending", () => {
  it.effect("holds its run until the result arrives, which the model then reads as the tool's", () =>
    stored(
      Effect.gen(function* () {
        const { pay, render, runtime } = yield* rendering()
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        assert.deepInclude(only(held, "external"), { tool: "render", token: "job", arguments: { id: "1" } })
        assert.deepStrictEqual(yield* recover([runtime]), [])
        // The process that receives the webhook needs no agents.
        yield* completeStored([], "job", { result: { frames: 12 } })
        assert.deepStrictEqual(
          (yield* recover([runtime])).map(({ reason, status }) => [reason, status]),
          [["decided", "completed"]]
        )
        const state = yield* loadState(held.runId)
        assertValid(state)
        assert.deepStrictEqual(results(state), ['render completed: {"frames":12}', "pay completed: pay:2"])
        assert.deepStrictEqual([render.ran, pay.ran], [["1"], ["2"]])
      })
    )
  )

  it.effect("fails its call if the work has failed", () =>
    stored(
      Effect.gen(function* () {
        const { runtime } = yield* rendering()
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        yield* completeStored([runtime], "job", { failure: "The disk is full." })
        const done = expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
        assert.strictEqual(results(done.state)[0], "render failed: The disk is full.")
      })
    )
  )

  it.effect("takes its result once: a repetition gets the same receipt, and another result is refused", () =>
    stored(
      Effect.gen(function* () {
        const { runtime } = yield* rendering()
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        const all = yield* Effect.all(
          [1, 2, 3].map(() => completeStored([runtime], "job", { result: { frames: 12 } })),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(all, [all[0], all[0], all[0]])
        expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
        yield* TestClock.adjust(hour)
        assert.deepStrictEqual(yield* completeStored([runtime], "job", { result: { frames: 12 } }), all[0])
        for (const other of [{ result: { frames: 13 } }, { failure: "no" }] as const) {
          const refused = yield* Effect.flip(completeStored([runtime], "job", other))
          assert.deepInclude(refused, { _tag: "AlreadyDecided", by: "external" } as never)
        }
      })
    )
  )

  it.effect("waits for a token that is recorded after its result has arrived", () =>
    stored(
      Effect.gen(function* () {
        const { runtime } = yield* rendering()
        const early = yield* Effect.forkChild(completeStored([runtime], "job", { result: "done early" }), {
          startImmediately: true
        })
        yield* TestClock.adjust("3 seconds")
        assert.isUndefined(early.pollUnsafe())
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        yield* TestClock.adjust("1 second")
        assert.strictEqual((yield* Fiber.join(early)).requestId, only(held, "external").requestId)
        const done = expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
        assert.strictEqual(results(done.state)[0], "render completed: done early")
      })
    )
  )

  it.effect("refuses a token that no call has, after it has waited for it", () =>
    stored(
      Effect.gen(function* () {
        const refused = yield* Effect.forkChild(Effect.flip(completeStored([], "job", { result: 1 })), {
          startImmediately: true
        })
        yield* TestClock.adjust(4999)
        assert.isUndefined(refused.pollUnsafe())
        yield* TestClock.adjust(1)
        assert.deepInclude(yield* Fiber.join(refused), { _tag: "TokenNotFound", token: "job" } as never)
        const deep = JSON.parse("[".repeat(50_000) + "]".repeat(50_000)) as unknown
        for (const odd of [undefined, 7, null, "", {}, ["job"], deep, "j".repeat(513)]) {
          const error = yield* Effect.flip(completeStored([], odd as never, { result: 1 }, noWait))
          assert.deepInclude(error, { _tag: "OptionsInvalid", of: "complete" } as never)
        }
      })
    )
  )

  for (const [name, completion] of [
    ["neither a result nor a failure", {}],
    ["both", { result: 1, failure: "no" }],
    ["a result that is no JSON", { result: () => 1 }],
    ["a failure that is no text", { failure: 1 }],
    ["an unknown key", { result: 1, resutl: 2 }],
    ["nothing", undefined]
  ] as const) {
    it.effect(`refuses a completion with ${name}`, () =>
      stored(
        Effect.gen(function* () {
          const { runtime } = yield* rendering()
          yield* runPromptStored(runtime, { prompt: "go" })
          const refused = yield* Effect.flip(completeStored([runtime], "job", completion as Completion))
          assert.strictEqual(refused._tag, "OptionsInvalid")
          assert.strictEqual((yield* (yield* RunStore).pending()).length, 1)
        })
      )
    )
  }

  it.effect("has the idempotency key of its call as its token, unless it names one", () =>
    stored(
      Effect.gen(function* () {
        const { render, runtime } = yield* rendering({})
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        const key = render.contexts[0]!.idempotencyKey
        assert.strictEqual(only(held, "external").token, key)
        yield* completeStored([], key, { result: "rendered" })
        expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
      })
    )
  )

  it.effect("fails a call whose token another call has, and leaves that call its result", () =>
    stored(
      Effect.gen(function* () {
        const one = yield* rendering()
        const first = yield* runPromptStored(one.runtime, { prompt: "go" })
        const two = yield* rendering()
        const second = expect(yield* runPromptStored(two.runtime, { prompt: "go" }), "completed")
        assert.include(
          results(second.state)[0],
          'render failed: This call was started. Its result cannot arrive: another call has the token "job".'
        )
        const receipt = yield* completeStored([], "job", { result: "mine" })
        assert.deepStrictEqual(yield* completeStored([], "job", { result: "mine" }), receipt)
        const other = yield* Effect.flip(completeStored([], "job", { result: "other" }))
        assert.strictEqual(other._tag, "AlreadyDecided")
        const done = expect(yield* runPromptStored(one.runtime, { runId: first.runId }), "completed")
        assert.strictEqual(results(done.state)[0], "render completed: mine")
        assert.deepStrictEqual(yield* completeStored([], "job", { result: "mine" }), receipt)
      })
    )
  )

  it.effect(
    "gives a call in doubt its outcome by its idempotency key, if its tool says that its work ends elsewhere",
    () =>
      stored(
        Effect.gen(function* () {
          const token = `${runId}.t1.1`
          const { runtime } = yield* rendering({ token }, { external: true, ...timed })
          const { request } = (yield* doubtOf(runtime))!
          assert.deepInclude(request, { _tag: "inDoubt", token } as never)
          const unfit = yield* Effect.flip(completeStored([runtime], token, { result: "done" }, noWait))
          assert.strictEqual(unfit._tag, "SuppliedResultInvalid")
          yield* completeStored([runtime], token, { result: { at, frames: 240 } }, noWait)
          yield* recover([runtime])
          assert.strictEqual(
            results(yield* loadState(runId))[0],
            `render supplied: {"at":"${at}","frames":240}`
          )
        })
      )
  )

  it.effect("refuses a token for a call in doubt whose tool may never wait for a result", () =>
    stored(
      Effect.gen(function* () {
        const token = `${runId}.t1.1`
        const { runtime } = yield* rendering({ token })
        const { request } = (yield* doubtOf(runtime))!
        for (const runtimes of [[runtime], []]) {
          const refused = yield* Effect.flip(completeStored(runtimes, token, { result: "paid" }, noWait))
          assert.strictEqual(refused._tag, "TokenNotFound")
        }
        yield* decideStored([runtime], { _tag: "supply", requestId: request.requestId, by: "ann", result: 1 })
      })
    )
  )

  it.effect("is not found while its call is to run again by a decision, and takes its result then", () =>
    stored(
      Effect.gen(function* () {
        const store = yield* RunStore
        const token = `${runId}.t1.1`
        const { runtime } = yield* rendering({ token }, { external: true })
        const doubt = yield* doubtOf(runtime)
        yield* decideStored([runtime], { _tag: "retry", requestId: doubt!.request.requestId, by: "ann" })
        const early = yield* Effect.flip(completeStored([], token, { result: 240 }, noWait))
        assert.strictEqual(early._tag, "TokenNotFound")
        yield* recover([runtime])
        yield* completeStored([], token, { result: 240 }, noWait)
        yield* recover([runtime])
        assert.strictEqual((yield* store.head(runId)).status, "completed")
      })
    )
  )

  it.effect("fails its call if no result has come by its expiry, and refuses a later one", () =>
    stored(
      Effect.gen(function* () {
        const { runtime } = yield* rendering({ token: "job", expiresIn: "1 hour" })
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        yield* TestClock.adjust(hour)
        const late = yield* Effect.flip(completeStored([], "job", { result: 1 }))
        assert.deepInclude(late, { _tag: "AlreadyDecided", by: "expiry" } as never)
        assert.deepStrictEqual(
          (yield* recover([runtime])).map(({ status }) => status),
          ["completed"]
        )
        assert.strictEqual(
          results(yield* loadState(held.runId))[0],
          "render failed: This call was started, and its result did not come before 1970-01-01T01:00:00.000Z."
        )
      })
    )
  )

  it.effect("applies the tool's longest result and the scrubber to the result", () =>
    stored(
      Effect.gen(function* () {
        const { runtime } = yield* rendering({ token: "job" }, { maxResultLength: 20 })
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        const recorded = yield* completeStored([runtime], "job", { result: `hunter2 ${"x".repeat(100)}` })
        assert.notInclude(JSON.stringify(recorded), "hunter2")
        const done = expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
        const [result] = results(done.state)
        assert.include(result, "characters are missing here")
        assert.notInclude(JSON.stringify(messages(done.state)), "hunter2")
      }).pipe(Effect.provideService(Scrubber.Scrubber, Scrubber.make({ secrets: ["hunter2"] })))
    )
  )

  it.effect("refuses a result that does not fit the tool's success schema, and keeps its token open", () =>
    stored(
      Effect.gen(function* () {
        const { runtime } = yield* rendering({ token: "job" }, timed)
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        const { requestId } = only(held, "external")
        for (const [result, place] of [
          [{ at: "soon", frames: 240 }, '["at"]'],
          [{ at, frames: "240" }, '["frames"]'],
          [{ at }, '["frames"]'],
          ["done", "object"],
          [{ at, frames: 240, log: "x".repeat(3_000_000) }, "object"]
        ] as const) {
          const given = [
            completeStored([runtime], "job", { result }),
            decideStored([runtime], { _tag: "supply", requestId, by: "ann", result })
          ]
          // A person's result is not cut.
          for (const deliver of place === "object" ? given.slice(0, 1) : given) {
            const refused = yield* Effect.flip(deliver)
            assert.deepInclude(refused, { _tag: "SuppliedResultInvalid", requestId, tool: "render" } as never)
            assert.include(refused.message, place)
          }
        }
        assert.deepStrictEqual(yield* recover([runtime]), [])
        yield* completeStored([runtime], "job", { result: { at, frames: 240 } })
        const done = expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
        assert.strictEqual(results(done.state)[0], `render completed: {"at":"${at}","frames":240}`)
      })
    )
  )

  it.effect(
    "fails its call, whose model reads what does not fit, if a process without the tool has recorded it",
    () =>
      stored(
        Effect.gen(function* () {
          const { pay, runtime } = yield* rendering({ token: "job" }, timed)
          const held = yield* runPromptStored(runtime, { prompt: "go" })
          const { runtime: other } = yield* bind(Agent.make("a", { tools: [pay.tool] }), [])
          const recorded = yield* completeStored([other], "job", { result: { at, frames: "240" } })
          const done = expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
          assert.strictEqual(
            results(done.state)[0],
            'render failed: render ran, but its result cannot be shown: Expected a number\n  at ["frames"]. It may have taken effect.'
          )
          // The result is in the journal.
          const { events } = yield* (yield* RunStore).load(held.runId)
          const [decided] = events.filter(({ _tag }) => _tag === "request.decided")
          assert.deepInclude(decided, { decision: recorded } as never)
        })
      )
  )

  it.effect("refuses a result that does not fit in a run without a store, too", () =>
    Effect.gen(function* () {
      const { runtime } = yield* rendering({ token: "job" }, timed)
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const { requestId } = only(held, "external")
      const decisions = [{ _tag: "supply", requestId, by: "ann", result: "done" }] as const
      const refused = yield* Effect.flip(runPrompt(runtime, { state: held.state, decisions }))
      assert.strictEqual(refused._tag, "SuppliedResultInvalid")
    })
  )

  it.effect("is found by its token even if the scrubber would remove a part of it", () =>
    stored(
      Effect.gen(function* () {
        const { runtime } = yield* rendering({ token: "hunter2-job" })
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        yield* completeStored([runtime], "hunter2-job", { result: "rendered" }, noWait)
        expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
      }).pipe(Effect.provideService(Scrubber.Scrubber, Scrubber.make({ secrets: ["hunter2"] })))
    )
  )

  it.effect("cuts a result that no tool may have before it is stored", () =>
    stored(
      Effect.gen(function* () {
        const { runtime } = yield* rendering()
        yield* runPromptStored(runtime, { prompt: "go" })
        const recorded = yield* completeStored([], "job", { result: { text: "x".repeat(3_000_000) } })
        assert.isBelow(JSON.stringify(recorded).length, 1_100_000)
      })
    )
  )

  it.effect("removes a secret before it cuts a text, so that no half of it is stored", () =>
    stored(
      Effect.gen(function* () {
        const long = `${"x".repeat(499_996)}hunter2${"x".repeat(600_000)}`
        for (const completion of [{ result: long }, { result: { log: long } }, { failure: long }]) {
          const { runtime } = yield* rendering()
          const { runId } = yield* runPromptStored(runtime, { prompt: "go" })
          const recorded = yield* completeStored([], "job", completion)
          assert.include(JSON.stringify(recorded), "characters are missing here")
          assert.notInclude(JSON.stringify(recorded), "hun")
          yield* Effect.flatMap(RunStore, (store) => store.remove(runId))
        }
      }).pipe(Effect.provideService(Scrubber.Scrubber, Scrubber.make({ secrets: ["hunter2"] })))
    )
  )

  it.effect("never takes a result from outside for a hold", () =>
    stored(
      Effect.gen(function* () {
        const { runtime } = yield* rendering()
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        const result = {
          "@fermata/sdk/tool/Hold": "timer",
          "Symbol(@fermata/sdk/tool/Hold)": "timer",
          forMs: 1e9
        }
        yield* completeStored([], "job", { result })
        expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
      })
    )
  )

  it.effect("keeps its result if the run is cancelled before it has recorded it", () =>
    stored(
      Effect.gen(function* () {
        const { runtime } = yield* rendering()
        const held = yield* runPromptStored(runtime, { prompt: "go", runId })
        yield* completeStored([], "job", { result: "rendered" })
        yield* cancelRun(held.runId, "not needed")
        const state = yield* loadState(runId)
        assert.strictEqual(state.status, "cancelled")
        assert.deepStrictEqual(results(state), ["render completed: rendered"])
        assert.deepStrictEqual(
          state.cancelled?.calls.map(({ state }) => state),
          ["finished"]
        )
      })
    )
  )

  it.effect("refuses the result of a cancelled run, whose report says that the call was started", () =>
    stored(
      Effect.gen(function* () {
        const { runtime } = yield* rendering()
        yield* runPromptStored(runtime, { prompt: "go", runId })
        yield* cancelRun(runId, "not needed")
        assert.deepStrictEqual(
          (yield* loadState(runId)).cancelled?.calls.map(({ state }) => state),
          ["inDoubt"]
        )
        const refused = yield* Effect.flip(completeStored([], "job", { result: 1 }))
        assert.strictEqual(refused._tag, "RequestSuperseded")
      })
    )
  )

  it.effect("can be decided by a person, by the id of its request", () =>
    stored(
      Effect.gen(function* () {
        const { runtime } = yield* rendering()
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        const { requestId } = only(held, "external")
        yield* decideStored([runtime], { _tag: "supply", requestId, by: "ann", result: "by hand" })
        const late = yield* Effect.flip(completeStored([], "job", { result: 1 }))
        assert.deepInclude(late, { _tag: "AlreadyDecided", by: "ann" } as never)
        const done = expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
        assert.strictEqual(results(done.state)[0], "render completed: by hand")
      })
    )
  )

  it.effect("needs no tool any more: its result is recorded in a program that has removed the tool", () =>
    stored(
      Effect.gen(function* () {
        const { model, pay, runtime } = yield* rendering()
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        const { runtime: later } = yield* rebind(Agent.make("a", { tools: [pay.tool] }), model)
        only(yield* runPromptStored(later, { runId: held.runId }), "external")
        assert.isUndefined((yield* explain(held.runId, { runtimes: [later] })).missing)
        yield* completeStored([], "job", { result: "rendered" })
        const done = expect(yield* runPromptStored(later, { runId: held.runId }), "completed")
        assert.strictEqual(results(done.state)[0], "render completed: rendered")
      })
    )
  )

  it.effect("is explained with its token, and what a resume would do with its result", () =>
    stored(
      Effect.gen(function* () {
        const { runtime } = yield* rendering({
          token: "job",
          expiresIn: "1 hour",
          reason: "the farm renders"
        })
        yield* runPromptStored(runtime, { prompt: "go", runId })
        assert.include(
          (yield* explain(runId)).text,
          "It waits for the result of render, which ends elsewhere (token job): the farm renders, started 0 milliseconds ago (1970-01-01T00:00:00.000Z) by a; " +
            "it expires in 1 hour (1970-01-01T01:00:00.000Z), and fails then."
        )
        yield* completeStored([], "job", { result: 1 })
        assert.include(
          (yield* explain(runId)).text,
          "Resuming it would take the result of render, then call the model."
        )
      })
    )
  )

  it.effect("holds a run without a store, whose caller supplies the result", () =>
    Effect.gen(function* () {
      const { pay, runtime } = yield* rendering()
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const { requestId } = only(held, "external")
      const done = yield* runPrompt(runtime, {
        state: throughJson(held.state),
        decisions: [{ _tag: "supply", requestId, by: "ann", result: "rendered" }]
      })
      assert.strictEqual(results(expect(done, "completed").state)[0], "render completed: rendered")
      assert.deepStrictEqual(pay.ran, ["2"])
    })
  )

  for (const { dispatch, name } of [
    { name: "without a store", dispatch: dispatchPrompt },
    { name: "with a store", dispatch: dispatchPromptStored }
  ]) {
    it.effect(`is released through the handle of a run ${name}`, () =>
      stored(
        Effect.scoped(
          Effect.gen(function* () {
            const { runtime } = yield* rendering()
            const handle = yield* dispatch(runtime, { prompt: "go" })
            const { requestId } = only(yield* handle.wait, "external")
            yield* handle.decide({ _tag: "supply", requestId, by: "ann", result: "rendered" })
            const done = expect(yield* handle.done, "completed")
            assert.strictEqual(results(done.state)[0], "render completed: rendered")
          })
        )
      )
    )
  }

  for (const background of [false, true]) {
    it.effect(`holds a sub-agent ${background ? "in the background" : "that its lead waits for"}`, () =>
      stored(
        Effect.gen(function* () {
          const render = probe("render", {
            needsApproval: false,
            handler: () => Hold.pending({ token: "job" })
          })
          const helper = Agent.make("helper", { tools: [render.tool] })
          const lead = Agent.make("lead", { subAgents: [helper], delegation: "delegate" })
          const model = ScriptedModel.make(({ agentPath, messages }) => {
            const isAsked = messages.some(({ role }) => role === "tool")
            if (agentPath.at(-1) === "helper") return isAsked ? "rendered" : { calls: [call("render", "1")] }
            return isAsked
              ? "done"
              : {
                  calls: [{ tool: "delegate", arguments: { agent: "helper", prompt: "render", background } }]
                }
          })
          const { runtime } = yield* rebind(lead, model)
          const held = yield* runPromptStored(runtime, { prompt: "go" })
          assert.deepInclude(only(held, "external"), { agentPath: ["lead", "helper"] })
          yield* completeStored([runtime], "job", { result: "frames" })
          assert.deepStrictEqual(
            (yield* recover([runtime])).map(({ status }) => status),
            ["completed"]
          )
          assert.include(JSON.stringify(model.requests), "frames")
          assert.deepStrictEqual(render.ran, ["1"])
        })
      )
    )
  }

  it.effect("is refused in an archive if another call of the store has its token", () =>
    Effect.gen(function* () {
      const archive = yield* stored(
        Effect.gen(function* () {
          const { runtime } = yield* rendering({ token: "job" })
          return yield* exportRun((yield* runPromptStored(runtime, { prompt: "go", runId: "moved" })).runId)
        })
      )
      yield* stored(
        Effect.gen(function* () {
          const { runtime } = yield* rendering({ token: "job" })
          yield* runPromptStored(runtime, { prompt: "go", runId: "here" })
          const refused = yield* Effect.flip(importRun(archive))
          assert.strictEqual(refused._tag, "ArchiveInvalid")
          assert.include(
            refused.message,
            'its call moved.t1.1 has the token "job", which a call of the run here of this store has, too'
          )
          const store = yield* RunStore
          assert.lengthOf(yield* store.list(), 1)
          yield* store.remove("here" as never)
          yield* importRun(archive)
          yield* importRun(archive)
          yield* completeStored([], "job", { result: "rendered" }, noWait)
        })
      )
    })
  )

  it.effect("stays with the original of a fork", () =>
    stored(
      Effect.gen(function* () {
        const { render } = yield* rendering()
        const model = ScriptedModel.make(({ messages }) =>
          messages.some(({ role }) => role === "tool") ? "done" : { calls: [call("render", "1")] }
        )
        const { runtime } = yield* rebind(Agent.make("a", { tools: [render.tool] }), model)
        const held = yield* runPromptStored(runtime, { prompt: "go", runId })
        const fork = yield* forkRun(runtime, {
          runId,
          revision: held.state.revision,
          prompt: "go on without it"
        })
        assert.include(results(expect(fork, "completed").state)[0], "its result had not come")
        yield* completeStored([], "job", { result: "rendered" })
        const done = expect(yield* runPromptStored(runtime, { runId }), "completed")
        assert.strictEqual(results(done.state)[0], "render completed: rendered")
      })
    )
  )
})

describe("Hold.pending", () => {
  for (const [name, given, problem] of [
    ["an empty token", { token: "" }, "a text of 1 to 512 characters"],
    ["a token of more than 512 characters", { token: "x".repeat(513) }, "a text of 1 to 512 characters"],
    ["a token with half of a surrogate pair", { token: "job \ud800" }, "a text of 1 to 512 characters"],
    ["a token with U+0000", { token: "job \0" }, "a text of 1 to 512 characters"],
    ["both times", { expiresAt: 1, expiresIn: 1 }, "and not both"],
    ["a text that is no time", { expiresAt: "soon" }, "takes a time"],
    ["an unknown key", { tokn: "a" }, 'did you mean "token"?']
  ] as const) {
    it(`refuses ${name}`, () => {
      assert.throws(() => Hold.pending(given as never), problem)
    })
  }
})
