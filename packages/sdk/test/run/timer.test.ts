/**
 * Timers: a call whose handler returns `Hold.wait` holds its run until a time, and no process waits with it.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import { dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import { expiryDecision } from "../../src/domain/decide.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { explain } from "../../src/durable/explain.ts"
import { recordExpiries } from "../../src/durable/internal/storeJournal.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import * as Worker from "../../src/durable/Worker.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Hold from "../../src/tool/Hold.ts"
import * as WaitTool from "../../src/tool/WaitTool.ts"
import {
  assertValid,
  bind,
  call,
  expect,
  only,
  probe,
  rebind,
  results,
  safe,
  throughJson
} from "../helpers/Fixture.ts"

const hour = 60 * 60 * 1000
const over = `The wait is over: it is ${new Date(hour).toISOString()} or later.`

const stored = <A, E>(body: Effect.Effect<A, E, RunStore>) => Effect.provide(body, Layer.fresh(layerMemory))

/** An agent that waits for an hour, and then pays. */
const waiting = (options: Parameters<typeof bind>[2] = {}, waits = Hold.wait({ for: "1 hour" })) =>
  Effect.gen(function* () {
    const snooze = probe("snooze", { needsApproval: false, handler: () => waits })
    const pay = probe("pay", { needsApproval: false })
    const bound = yield* bind(
      Agent.make("a", { tools: [snooze.tool, pay.tool] }),
      [{ calls: [call("snooze", "1")] }, { calls: [call("pay", "2")] }, "done"],
      options as never
    )
    return { ...bound, snooze, pay }
  })

const ends = (_tag: "supply" | "fail", requestId: string): DecisionInput =>
  ({ _tag, requestId, by: "ann", ...(_tag === "supply" ? { result: "Go on." } : {}) }) as DecisionInput

describe("a tool that returns Hold.wait", () => {
  it.effect("holds a stored run until the time, and a worker then continues it", () =>
    stored(
      Effect.gen(function* () {
        const { pay, runtime, snooze } = yield* waiting()
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        const request = only(held, "timer")
        assert.deepInclude(request, { tool: "snooze", arguments: { id: "1" }, expiresAt: hour })
        const done: Array<string> = []
        const worker = yield* Effect.forkChild(
          Worker.run([runtime], { onTakenUp: ({ reason, status }) => done.push(`${reason} ${status}`) })
        )
        yield* TestClock.adjust(hour - 1)
        assert.deepStrictEqual([done, pay.ran], [[], []])
        yield* TestClock.adjust("2 seconds")
        assert.deepStrictEqual(done, ["expired completed"])
        const state = yield* loadState(held.runId)
        assertValid(state)
        assert.deepStrictEqual(results(state), [`snooze completed: ${over}`, "pay completed: pay:2"])
        assert.deepStrictEqual([snooze.ran, pay.ran], [["1"], ["2"]])
        yield* Fiber.interrupt(worker)
      })
    )
  )

  it.effect("is released once, by one of several workers that all were down at the time", () =>
    stored(
      Effect.gen(function* () {
        const { pay, runtime } = yield* waiting()
        yield* runPromptStored(runtime, { prompt: "go" })
        yield* TestClock.adjust("3 days")
        const all = yield* Effect.all(
          [1, 2, 3].map(() => recover([runtime])),
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(
          all.flat().flatMap((run) => ("status" in run && run.status !== undefined ? [run.status] : [])),
          ["completed"]
        )
        assert.deepStrictEqual(pay.ran, ["2"])
      })
    )
  )

  it.effect("holds a run without a store, which continues when it is resumed after the time", () =>
    Effect.gen(function* () {
      const { pay, runtime } = yield* waiting()
      const held = expect(yield* runPrompt(runtime, { prompt: "go" }), "interrupted")
      const state = throughJson(held.state)
      yield* TestClock.adjust(hour - 1)
      only(yield* runPrompt(runtime, { state }), "timer")
      yield* TestClock.adjust(1)
      const done = expect(yield* runPrompt(runtime, { state }), "completed")
      assert.strictEqual(results(done.state)[0], `snooze completed: ${over}`)
      assert.deepStrictEqual(pay.ran, ["2"])
    })
  )

  for (const { dispatch, name } of [
    { name: "without a store", dispatch: dispatchPrompt },
    { name: "with a store", dispatch: dispatchPromptStored }
  ]) {
    it.effect(`is released by the handle of a run ${name}`, () =>
      stored(
        Effect.scoped(
          Effect.gen(function* () {
            const { pay, runtime } = yield* waiting()
            const handle = yield* dispatch(runtime, { prompt: "go" })
            const done = yield* Effect.forkChild(handle.done)
            yield* TestClock.adjust(hour - 1)
            assert.deepStrictEqual(
              handle.interruptions().map(({ _tag }) => _tag),
              ["timer"]
            )
            yield* TestClock.adjust("5 seconds")
            expect(yield* Fiber.join(done), "completed")
            assert.deepStrictEqual(pay.ran, ["2"])
          })
        )
      )
    )
  }

  for (const given of [0, -1, new Date(-hour), "1969-12-31T23:59:59Z"]) {
    it.effect(`holds nothing if the time has passed: ${String(given)}`, () =>
      Effect.gen(function* () {
        const { runtime } = yield* waiting({}, Hold.wait({ until: given }))
        const done = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
        assert.strictEqual(
          results(done.state)[0],
          "snooze completed: There is nothing to wait for: it is 1970-01-01T00:00:00.000Z."
        )
      })
    )
  }

  it.effect("is not shown to the approval callback", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      const { runtime } = yield* waiting({
        approvalCallback: ({ _tag }) => {
          asked.push(_tag)
          return undefined
        }
      })
      only(yield* runPrompt(runtime, { prompt: "go" }), "timer")
      assert.deepStrictEqual(asked, [])
    })
  )

  for (const [decision, result] of [
    ["supply", "snooze completed: Go on."],
    ["fail", "snooze failed: This call failed."]
  ] as const) {
    it.effect(`ends before its time by ${decision}`, () =>
      stored(
        Effect.gen(function* () {
          const { runtime } = yield* waiting()
          const held = yield* runPromptStored(runtime, { prompt: "go" })
          yield* decideStored([runtime], ends(decision, only(held, "timer").requestId))
          const done = expect(yield* runPromptStored(runtime, { runId: held.runId }), "completed")
          assert.strictEqual(results(done.state)[0], result)
        })
      )
    )
  }

  it.effect("refuses a decision of another kind, and every decision after its time", () =>
    stored(
      Effect.gen(function* () {
        const { runtime } = yield* waiting()
        const { requestId } = only(yield* runPromptStored(runtime, { prompt: "go" }), "timer")
        const denied = yield* Effect.flip(decideStored([runtime], { _tag: "deny", requestId, by: "ann" }))
        assert.deepInclude(denied, { _tag: "DecisionNotApplicable", allowed: ["supply", "fail"] } as never)
        yield* TestClock.adjust(hour)
        const late = yield* Effect.flip(decideStored([runtime], ends("fail", requestId)))
        assert.deepInclude(late, { _tag: "AlreadyDecided", by: "expiry" } as never)
      })
    )
  )

  it.effect("is not ended before its time by a process whose clock is ahead of the store's", () =>
    stored(
      Effect.gen(function* () {
        const { runtime } = yield* waiting()
        const request = only(yield* runPromptStored(runtime, { prompt: "go" }), "timer")
        const store = yield* RunStore
        const expiry = expiryDecision(request)
        assert.deepStrictEqual(yield* recordExpiries(store, [expiry]), [expiry])
        assert.strictEqual((yield* store.pending()).length, 1)
      })
    )
  )

  it.effect(
    "is cancelled with its run, and the report says that the wait was stopped, and not that its body is in doubt",
    () =>
      stored(
        Effect.gen(function* () {
          const { pay, runtime } = yield* waiting()
          const { runId } = yield* runPromptStored(runtime, { prompt: "go" })
          yield* cancelRun(runId, "not needed")
          const state = yield* loadState(runId)
          assert.deepStrictEqual(
            state.cancelled?.calls.map(({ state }) => state),
            ["aborted"]
          )
          assert.deepStrictEqual(results(state), [
            "snooze cancelled: This call was stopped before it finished."
          ])
          yield* TestClock.adjust("2 hours")
          assert.deepStrictEqual(yield* recover([runtime]), [])
          assert.deepStrictEqual(pay.ran, [])
        })
      )
  )

  it.effect("is explained with its end", () =>
    stored(
      Effect.gen(function* () {
        const { runtime } = yield* waiting({}, Hold.wait({ for: "1 hour", reason: "the build runs" }))
        const { runId } = yield* runPromptStored(runtime, { prompt: "go", runId: "run" as RunId })
        const { text, waitsFor } = yield* explain(runId)
        assert.deepInclude(waitsFor[0], { kind: "timer", expiresAt: hour })
        assert.include(
          text,
          "It waits for a time, in snooze: the build runs, since 0 milliseconds ago (1970-01-01T00:00:00.000Z), for a; " +
            "the wait ends in 1 hour (1970-01-01T01:00:00.000Z)."
        )
      })
    )
  )

  it.effect(
    "is explained by the time of its start if that is in the future by the clock of this process",
    () =>
      stored(
        Effect.gen(function* () {
          const { runtime } = yield* waiting({}, Hold.wait({ for: "3 hours" }))
          yield* TestClock.adjust("1 hour")
          const { runId } = yield* runPromptStored(runtime, { prompt: "go" })
          yield* TestClock.setTime(0)
          assert.include(
            (yield* explain(runId)).text,
            "in snooze, since 1970-01-01T01:00:00.000Z, for a; the wait ends in 4 hours"
          )
        })
      )
  )

  it.effect("ends at the last time of Date if it would be longer", () =>
    stored(
      Effect.gen(function* () {
        yield* TestClock.adjust("1 hour")
        const { runtime } = yield* waiting({}, Hold.wait({ for: "100000000 days" }))
        const { runId } = yield* runPromptStored(runtime, { prompt: "go", runId: "run" as RunId })
        assert.include((yield* explain(runId)).text, "(+275760-09-13T00:00:00.000Z)")
      })
    )
  )

  for (const background of [false, true]) {
    it.effect(`holds a sub-agent ${background ? "in the background" : "that its lead waits for"}`, () =>
      stored(
        Effect.gen(function* () {
          const snooze = probe("snooze", {
            handler: () => Hold.wait({ for: "1 hour" }),
            needsApproval: false
          })
          const helper = Agent.make("helper", { tools: [snooze.tool] })
          const lead = Agent.make("lead", { subAgents: [helper], delegation: "delegate" })
          const model = ScriptedModel.make(({ agentPath, messages }) => {
            const isAsked = messages.some(({ role }) => role === "tool")
            if (agentPath.at(-1) === "helper") return isAsked ? "rested" : { calls: [call("snooze", "1")] }
            return isAsked
              ? "done"
              : { calls: [{ tool: "delegate", arguments: { agent: "helper", prompt: "rest", background } }] }
          })
          const { runtime } = yield* rebind(lead, model)
          const held = yield* runPromptStored(runtime, { prompt: "go" })
          assert.deepInclude(only(held, "timer"), { agentPath: ["lead", "helper"] })
          yield* TestClock.adjust(hour)
          assert.deepStrictEqual(
            (yield* recover([runtime])).map(({ reason, status }) => [reason, status]),
            [["expired", "completed"]]
          )
          assert.deepStrictEqual(snooze.ran, ["1"])
        })
      )
    )
  }

  it.effect("does not keep other calls of its turn from running", () =>
    Effect.gen(function* () {
      const snooze = safe("snooze", { handler: () => Hold.wait({ for: "1 hour" }) })
      const look = safe("look")
      const { runtime } = yield* bind(Agent.make("a", { tools: [snooze.tool, look.tool] }), [
        { calls: [call("snooze", "1"), call("look", "2")] },
        "done"
      ])
      const held = expect(yield* runPrompt(runtime, { prompt: "go" }), "interrupted")
      assert.deepStrictEqual(look.ran, ["2"])
      yield* TestClock.adjust(hour)
      const done = expect(yield* runPrompt(runtime, { state: held.state }), "completed")
      assert.deepStrictEqual(results(done.state), [`snooze completed: ${over}`, "look completed: look:2"])
    })
  )

  it.effect("does not begin in a turn that was superseded while its body ran", () =>
    stored(
      Effect.gen(function* () {
        const started = yield* Deferred.make<void>()
        const goOn = yield* Deferred.make<void>()
        const snooze = safe("snooze", {
          handler: () =>
            Deferred.succeed(started, undefined).pipe(
              Effect.andThen(Deferred.await(goOn)),
              Effect.as(Hold.wait({ for: "1 hour" }))
            )
        })
        const pay = probe("pay")
        const { runtime } = yield* bind(Agent.make("a", { tools: [snooze.tool, pay.tool] }), [
          { calls: [call("pay", "1"), call("snooze", "2")] },
          "done"
        ])
        const runId = "run" as RunId
        const running = yield* Effect.forkChild(runPromptStored(runtime, { prompt: "go", runId }))
        yield* Deferred.await(started)
        const [asked] = yield* (yield* RunStore).pending()
        const { requestId } = asked!.request
        yield* decideStored([runtime], { _tag: "deny", requestId, by: "ann", supersedes: runId })
        yield* Deferred.succeed(goOn, undefined)
        const done = expect(yield* Fiber.join(running), "completed")
        assert.deepStrictEqual(yield* (yield* RunStore).pending(), [])
        assert.include(results(done.state)[1], "Its result is not waited for")
      })
    )
  )

  it.effect("ends when its turn is superseded by a message", () =>
    stored(
      Effect.scoped(
        Effect.gen(function* () {
          const { model, runtime } = yield* waiting()
          const handle = yield* dispatchPromptStored(runtime, { prompt: "go" })
          only(yield* handle.wait, "timer")
          yield* handle.send("Never mind.", { whenHeld: "supersede", by: "ann" })
          expect(yield* handle.done, "completed")
          const said = JSON.stringify(model.requests[1]?.messages)
          assert.include(said, "The wait has ended before its time.")
          assert.include(said, "Never mind.")
        })
      )
    )
  )
})

describe("Hold.wait", () => {
  for (const [name, given, problem] of [
    ["neither time", {}, 'take either "until" or "for"'],
    ["both times", { until: 1, for: 1 }, 'take either "until" or "for"'],
    ["a text that is no time", { until: "soon" }, "takes a time, such as a Date"],
    ["an invalid date", { until: new Date(Number.NaN) }, "takes a time, such as a Date"],
    ["a time after the last one of Date", { until: 1e300 }, "takes a time, such as a Date"],
    ["a duration without an end", { for: "Infinity" }, "takes a finite duration"],
    ["a duration that is none", { for: "a while" }, "takes a finite duration"],
    ["an unknown key", { untill: 1 }, 'did you mean "until"?'],
    ["no options", null, "null"]
  ] as const) {
    it(`refuses ${name}`, () => {
      assert.throws(() => Hold.wait(given as never), problem)
    })
  }
})

describe("WaitTool.make", () => {
  const told = (args: Schema.JsonObject, options?: Parameters<typeof WaitTool.make>[0]) =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(Agent.make("a", { tools: [WaitTool.make(options)] }), [
        { calls: [{ tool: "wait", arguments: args }] },
        "done"
      ])
      return yield* runPrompt(runtime, { prompt: "go" })
    })

  for (const [name, args, end] of [
    ["for a time", { for: "90 seconds" }, 90_000],
    ["until a time with an offset", { until: "1970-01-01T02:00:00+01:00" }, hour],
    ["until a time in UTC", { until: "1970-01-01T01:00:00Z" }, hour]
  ] as const) {
    it.effect(`lets the model wait ${name}, without approval`, () =>
      Effect.gen(function* () {
        const request = only(yield* told({ ...args, reason: "the tide" }), "timer")
        assert.deepInclude(request, { expiresAt: end, reason: "the tide" })
      })
    )
  }

  for (const [name, args, options, problem] of [
    ["neither time", {}, undefined, 'give either "until" or "for"'],
    [
      "both times",
      { for: "1 hour", until: "1970-01-01T01:00:00Z" },
      undefined,
      'give either "until" or "for"'
    ],
    ["a time without an offset", { until: "1970-01-01T01:00:00" }, undefined, "is no time with an offset"],
    ["words", { for: "a while" }, undefined, '"a while" is no duration'],
    ["an endless wait", { for: "Infinity" }, undefined, "the longest wait is 30d"],
    ["more than the maximum", { for: "61 minutes" }, { max: "1 hour" }, "the longest wait is 1h"]
  ] as const) {
    it.effect(`tells the model about ${name}`, () =>
      Effect.gen(function* () {
        const done = expect(yield* told(args, options), "completed")
        assert.include(results(done.state)[0], `wait failed: `)
        assert.include(results(done.state)[0], problem)
      })
    )
  }
})
