import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import { turn } from "../../src/agent/internal/eventLoop.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import type { AgentHandle, StoredFault } from "../../src/dispatch/AgentHandle.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import { dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import { evolveAll } from "../../src/domain/evolve.ts"
import type { RunId } from "../../src/domain/Id.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import { interruptions, type RunState } from "../../src/domain/RunState.ts"
import { exportRun, importRun } from "../../src/durable/archive.ts"
import { checkStoredRun } from "../../src/durable/checkStoredRun.ts"
import { explain } from "../../src/durable/explain.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import type { ModelClient } from "../../src/model/ModelClient.ts"
import { ModelError, StreamUnsupported } from "../../src/model/ModelError.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import { checkResume } from "../../src/run/checkResume.ts"
import { type RunOptions } from "../../src/run/runInput.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import {
  approvalOf,
  approve,
  assertValid,
  bind,
  call,
  deny,
  expect,
  only,
  probe,
  rebind,
  results,
  safe,
  throughJson,
  watch
} from "../helpers/Fixture.ts"

const stop = (request: Interruption): DecisionInput => deny(request, { then: "stop", message: "Enough" })

const inOneStore = <A, E>(body: Effect.Effect<A, E, RunStore | Scope.Scope>) =>
  Effect.provide(Effect.scoped(body), Layer.fresh(layerMemory))

const runId = "run" as RunId

/** A model that answers each agent from its own script. */
const scripted = (answers: {
  readonly [agent: string]: ReadonlyArray<ScriptedModel.ScriptedAnswer | string>
}) =>
  ScriptedModel.make((request: ModelRequest) => {
    const name = request.agentPath.at(-1) ?? ""
    return answers[name]?.[request.turn - 1] ?? `${name} has nothing more to say`
  })

const delegate = (agent: string, background: boolean) => ({
  tool: "delegate",
  arguments: { agent, prompt: "do", background }
})

/** A handler that signals its start and ends when `open` runs; `finished` has the ids of calls that ended. */
const gate = Effect.gen(function* () {
  const begun = yield* Deferred.make<void>()
  const open = yield* Deferred.make<void>()
  const finished: Array<string> = []
  const handler = ({ id }: { readonly id: string }) =>
    Effect.gen(function* () {
      yield* Deferred.succeed(begun, undefined)
      yield* Deferred.await(open)
      finished.push(id)
      return "finished"
    })
  return { begun: Deferred.await(begun), finished, handler, open: Deferred.succeed(open, undefined) }
})

const modes = {
  "without a store": {
    start: (runtime: Runtime<any>) => runPrompt(runtime, { prompt: "go" }),
    resume: (runtime: Runtime<any>, state: RunState, decisions: ReadonlyArray<DecisionInput>) =>
      runPrompt(runtime, { state: throughJson(state), decisions }),
    dispatch: (
      runtime: Runtime<any>,
      options: Pick<RunOptions, "onUpdate"> = {}
    ): Effect.Effect<AgentHandle<unknown, StoredFault>, unknown, RunStore | Scope.Scope> =>
      dispatchPrompt(runtime, { prompt: "go" }, options)
  },
  "with a store": {
    start: (runtime: Runtime<any>) => runPromptStored(runtime, { prompt: "go" }),
    resume: (runtime: Runtime<any>, { runId }: RunState, decisions: ReadonlyArray<DecisionInput>) =>
      runPromptStored(runtime, { runId, decisions }),
    dispatch: (runtime: Runtime<any>, options: Pick<RunOptions, "onUpdate"> = {}) =>
      dispatchPromptStored(runtime, { prompt: "go" }, options)
  }
}

/** Waits until the handle shows a request of this tool. */
const requestOf = (handle: AgentHandle<unknown, StoredFault>, tool: string) =>
  Effect.gen(function* () {
    while (true) {
      const found = handle.interruptions().find((request) => "tool" in request && request.tool === tool)
      if (found !== undefined) return found
      yield* Effect.yieldNow
    }
  })

for (const [mode, { dispatch, resume, start }] of Object.entries(modes)) {
  describe(`a denial that stops the run, ${mode}`, () => {
    it.effect("starts nothing further: no tool call, sub-agent, handoff or model call", () =>
      inOneStore(
        Effect.gen(function* () {
          const erase = probe("erase")
          const mail = probe("mail", { needsApproval: false })
          const helper = Agent.make("helper", { tools: [mail.tool] })
          const lead = Agent.make("lead", {
            tools: [erase.tool, mail.tool],
            subAgents: [helper],
            delegation: "delegate",
            handoffs: [Agent.make("billing")]
          })
          const model = scripted({
            lead: [
              {
                calls: [
                  call("erase", "1"),
                  call("mail", "2"),
                  delegate("helper", false),
                  delegate("helper", true),
                  { tool: "wait_for_agent", arguments: {} },
                  { tool: "transfer_to_billing", arguments: {} }
                ]
              }
            ]
          })
          const { runtime } = yield* rebind(lead, model)
          const held = yield* start(runtime)
          const end = yield* resume(runtime, held.state, [stop(only(held, "approval"))])
          const { reason, state } = expect(end, "cancelled")
          assert.strictEqual(reason, "Enough")
          assert.deepStrictEqual([erase.ran, mail.ran, model.requests.length], [[], [], 1])
          assert.strictEqual(state.agent.name, "lead")
          assert.isUndefined(state.background)
          assert.deepStrictEqual(
            results(state).map((line) => line.split(":")[0]),
            [
              "erase denied",
              "mail cancelled",
              "delegate cancelled",
              "delegate cancelled",
              "wait_for_agent cancelled",
              "transfer_to_billing cancelled"
            ]
          )
          assert.deepStrictEqual(
            state.cancelled?.calls.map(({ state }) => state),
            Array.from({ length: 6 }, () => "notStarted")
          )
          assertValid(state)
        })
      )
    )

    it.effect("reports an approved call as approved and not run", () =>
      inOneStore(
        Effect.gen(function* () {
          const pay = probe("pay")
          const { runtime } = yield* bind(Agent.make("a", { tools: [pay.tool] }), [
            { calls: [call("pay", "1"), call("pay", "2"), call("pay", "3")] }
          ])
          const held = yield* start(runtime)
          const [first, second, third] = ["1", "2", "3"].map((id) => approvalOf(held, id))
          const decisions = [approve(third!), stop(first!)]
          const { state } = expect(yield* resume(runtime, held.state, decisions), "cancelled")
          assert.deepStrictEqual(pay.ran, [])
          assert.deepStrictEqual(results(state), [
            "pay denied: Enough",
            "pay cancelled: This call was cancelled before it ran.",
            "pay cancelled: This call was approved by ann, and has not run: the run ended before it."
          ])
          assert.deepStrictEqual(
            state.cancelled?.calls.map(({ decided }) => decided),
            [undefined, undefined, { requestId: third!.requestId, decision: "approve" }]
          )
          const late = yield* Effect.flip(
            runPrompt(runtime, { state: throughJson(state), prompt: "x", decisions: [approve(second!)] })
          )
          assert.strictEqual(late._tag, "RequestSuperseded")
        })
      )
    )

    it.effect("lets a new prompt continue the session", () =>
      inOneStore(
        Effect.gen(function* () {
          const pay = probe("pay")
          const { runtime } = yield* bind(Agent.make("a", { tools: [pay.tool] }), [
            { calls: [call("pay", "1")] },
            { calls: [call("pay", "2")] },
            "paid"
          ])
          const held = yield* start(runtime)
          const { state } = expect(
            yield* resume(runtime, held.state, [stop(only(held, "approval"))]),
            "cancelled"
          )
          const next = yield* runPrompt(runtime, { state: throughJson(state), prompt: "again" })
          const decisions = [approve(only(next, "approval"))]
          const done = yield* runPrompt(runtime, { state: throughJson(next.state), decisions })
          assert.isUndefined(expect(done, "completed").state.stop)
          assert.deepStrictEqual(pay.ran, ["2"])
        })
      )
    )

    for (const background of [false, true]) {
      const kind = background ? "in the background" : "that the run waits for"
      it.effect(
        `lets the running body of a sub-agent ${kind} finish, records its result, and starts no other body there`,
        () =>
          inOneStore(
            Effect.gen(function* () {
              const { begun, handler, open } = yield* gate
              const post = probe("post", { needsApproval: false, handler })
              const erase = probe("erase")
              const helper = Agent.make("helper", { tools: [post.tool] })
              const lead = Agent.make("lead", {
                tools: [erase.tool],
                subAgents: [helper],
                delegation: "delegate"
              })
              const model = scripted({
                lead: [{ calls: [delegate("helper", background), call("erase", "1")] }],
                helper: [{ calls: [call("post", "2"), call("post", "3")] }]
              })
              const { runtime } = yield* rebind(lead, model)
              const handle = yield* dispatch(runtime)
              yield* begun
              yield* handle.decide(stop(yield* requestOf(handle, "erase")))
              yield* Effect.yieldNow
              assert.strictEqual(handle.status.current(), "running")
              yield* open
              const { state } = expect(yield* handle.done, "cancelled")
              assert.deepStrictEqual([post.ran, erase.ran, model.requests.length], [["2"], [], 2])
              const calls = background ? undefined : state.cancelled?.calls
              assert.deepStrictEqual(
                calls?.map(({ state, tool }) => `${tool} ${state}`),
                background
                  ? undefined
                  : ["delegate aborted", "post finished", "post notStarted", "erase notStarted"]
              )
            })
          )
      )

      it.effect(`accepts the pending model answer of a sub-agent ${kind}, and runs none of its calls`, () =>
        inOneStore(
          Effect.gen(function* () {
            const asked = yield* Deferred.make<void>()
            const answer = yield* Deferred.make<void>()
            const helper = Agent.make("helper", {
              instructions: () =>
                Effect.as(
                  Effect.andThen(Deferred.succeed(asked, undefined), Deferred.await(answer)),
                  "Help."
                ),
              tools: [probe("post", { needsApproval: false }).tool]
            })
            const erase = probe("erase")
            const lead = Agent.make("lead", {
              tools: [erase.tool],
              subAgents: [helper],
              delegation: "delegate"
            })
            const model = scripted({
              lead: [{ calls: [delegate("helper", background), call("erase", "1")] }],
              helper: [{ calls: [call("post", "2")] }]
            })
            const { runtime } = yield* rebind(lead, model)
            const handle = yield* dispatch(runtime)
            yield* Deferred.await(asked)
            yield* handle.decide(stop(yield* requestOf(handle, "erase")))
            yield* Deferred.succeed(answer, undefined)
            const { state } = expect(yield* handle.done, "cancelled")
            assert.strictEqual(model.requests.length, 2)
            assert.strictEqual(state.usage.turns, 1)
            assert.strictEqual(state.below?.turns, 1)
          })
        )
      )
    }

    it.effect("starts no further reads beside the denied call", () =>
      inOneStore(
        Effect.gen(function* () {
          const { begun, handler, open } = yield* gate
          const look = safe("look", { handler })
          const erase = probe("erase")
          const agent = Agent.make("a", { tools: [look.tool, erase.tool], limits: { toolConcurrency: 1 } })
          const { model, runtime } = yield* bind(agent, [
            { calls: [call("erase", "1"), call("look", "2"), call("look", "3"), call("look", "4")] }
          ])
          const handle = yield* dispatch(runtime)
          yield* begun
          yield* handle.decide(stop(yield* requestOf(handle, "erase")))
          yield* open
          const { state } = expect(yield* handle.done, "cancelled")
          assert.deepStrictEqual([look.ran, model.requests.length], [["2"], 1])
          assert.deepStrictEqual(
            state.cancelled?.calls.map(({ state }) => state),
            ["notStarted", "finished", "notStarted", "notStarted"]
          )
        })
      )
    )

    it.effect("does not retry a read that fails afterwards", () =>
      inOneStore(
        Effect.gen(function* () {
          const { begun, handler, open } = yield* gate
          const look = safe("look", {
            retry: Schedule.recurs(5),
            handler: (args) => Effect.andThen(handler(args), Effect.fail("not yet"))
          })
          const agent = Agent.make("a", { tools: [look.tool, probe("erase").tool] })
          const { runtime } = yield* bind(agent, [{ calls: [call("erase", "1"), call("look", "2")] }])
          const handle = yield* dispatch(runtime)
          yield* begun
          yield* handle.decide(stop(yield* requestOf(handle, "erase")))
          yield* open
          expect(yield* handle.done, "cancelled")
          assert.deepStrictEqual(look.ran, ["2"])
        })
      )
    )

    it.effect("starts no attempt of a body that waits for its retry", () =>
      inOneStore(
        Effect.gen(function* () {
          const failed = yield* Deferred.make<void>()
          const look = safe("look", {
            retry: Schedule.spaced("1 second"),
            handler: () => Effect.andThen(Deferred.succeed(failed, undefined), Effect.fail("not yet"))
          })
          const agent = Agent.make("a", { tools: [look.tool, probe("erase").tool] })
          const { runtime } = yield* bind(agent, [{ calls: [call("erase", "1"), call("look", "2")] }])
          const handle = yield* dispatch(runtime)
          yield* Deferred.await(failed)
          // The schedule has decided to retry, and waits for its second.
          yield* turn
          yield* handle.decide(stop(yield* requestOf(handle, "erase")))
          yield* TestClock.adjust("1 second")
          expect(yield* handle.done, "cancelled")
          assert.deepStrictEqual(look.ran, ["2"])
        })
      )
    )

    it.effect(
      "of a sub-agent's request ends that sub-agent once the bodies started under it have finished",
      () =>
        inOneStore(
          Effect.gen(function* () {
            const { begun, finished, handler, open } = yield* gate
            const post = safe("post", { handler })
            const erase = probe("erase")
            const grand = Agent.make("grand", { tools: [post.tool] })
            const child = Agent.make("child", {
              tools: [erase.tool],
              subAgents: [grand],
              delegation: "delegate"
            })
            const lead = Agent.make("lead", { subAgents: [child], delegation: "delegate" })
            const model = scripted({
              lead: [{ calls: [delegate("child", false)] }, "the lead goes on"],
              child: [{ calls: [delegate("grand", true), call("erase", "1")] }],
              grand: [{ calls: [call("post", "2")] }]
            })
            const { runtime } = yield* rebind(lead, model)
            const { onUpdate, tags } = watch()
            const handle = yield* dispatch(runtime, { onUpdate })
            yield* begun
            yield* handle.decide(stop(yield* requestOf(handle, "erase")))
            while (!tags().includes("request.decided")) yield* Effect.yieldNow
            yield* open
            const { state, text } = expect(yield* handle.done, "completed")
            assert.strictEqual(text, "the lead goes on")
            assert.deepStrictEqual([post.ran, finished, erase.ran], [["2"], ["2"], []])
            assert.deepStrictEqual(results(state), ["delegate cancelled: child was stopped: Enough."])
            assert.deepStrictEqual(
              model.requests.map(({ agentPath }) => agentPath.at(-1)),
              ["lead", "child", "grand", "lead"]
            )
          })
        )
    )

    it.effect("by the approval callback leaves the remaining requests unasked", () =>
      inOneStore(
        Effect.gen(function* () {
          const pay = probe("pay")
          const asked: Array<string> = []
          const agent = Agent.make("a", { tools: [pay.tool] })
          const script = [{ calls: [call("pay", "1"), call("pay", "2"), call("pay", "3")] }]
          const approvalCallback = (request: Interruption) => {
            asked.push(request.requestId)
            return asked.length === 1 ? approve(request) : stop(request)
          }
          const { runtime } = yield* bind(agent, script, { approvalCallback })
          const { state } = expect(yield* start(runtime), "cancelled")
          assert.strictEqual(asked.length, 2)
          assert.isAtMost(pay.ran.length, 1)
          assert.notInclude(pay.ran, "3")
          assert.deepStrictEqual(interruptions(state), [])
        })
      )
    )

    it.effect("ends a run with an approved call of a removed tool", () =>
      inOneStore(
        Effect.gen(function* () {
          const tools = [probe("pay").tool, probe("erase").tool]
          const { model, runtime } = yield* bind(Agent.make("a", { tools }), [
            { calls: [call("pay", "1"), call("erase", "2")] }
          ])
          const held = yield* start(runtime)
          const bare = Agent.make("a")
          const next = yield* rebind(bare, model)
          const decisions = [approve(approvalOf(held, "1")), stop(approvalOf(held, "2"))]
          assert.lengthOf((yield* checkResume(held.state, [bare])).blocking, 2)
          expect(yield* resume(next.runtime, held.state, decisions), "cancelled")
        })
      )
    )
  })
}

describe("a denial that stops a stored run", () => {
  it.effect("takes effect before the next body when another process acknowledges it", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const erase = probe("erase")
        const mail = probe("mail", {
          needsApproval: false,
          // Another process decides while this body runs.
          handler: ({ id }) =>
            id === "2"
              ? Effect.orDie(
                  Effect.gen(function* () {
                    const [pending] = yield* store.pending()
                    yield* store.decide(stop(pending!.request))
                    return "sent"
                  })
                )
              : Effect.succeed("sent")
        })
        const agent = Agent.make("a", { tools: [erase.tool, mail.tool] })
        const { runtime } = yield* bind(agent, [
          { calls: [call("mail", "1"), call("mail", "2"), call("mail", "3"), call("erase", "4")] }
        ])
        const { state } = expect(yield* runPromptStored(runtime, { prompt: "go", runId }), "cancelled")
        assert.deepStrictEqual([mail.ran, erase.ran], [["1", "2"], []])
        assert.deepStrictEqual(
          state.cancelled?.calls.map(({ state }) => state),
          ["finished", "finished", "notStarted", "notStarted"]
        )
      })
    )
  )

  it.effect("takes effect before the next sub-agent starts when another process acknowledges it", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        // The start of a read has no commit of its own.
        const look = safe("look", {
          handler: () =>
            Effect.orDie(
              Effect.gen(function* () {
                const [pending] = yield* store.pending({ tool: "erase" })
                yield* store.decide(stop(pending!.request))
                return "seen"
              })
            )
        })
        const lead = Agent.make("lead", {
          tools: [probe("erase").tool, look.tool],
          subAgents: [Agent.make("helper")],
          delegation: "delegate"
        })
        for (const background of [false, true]) {
          const model = scripted({
            lead: [{ calls: [call("look", "1"), delegate("helper", background), call("erase", "2")] }]
          })
          const { runtime } = yield* rebind(lead, model)
          const { state } = expect(yield* runPromptStored(runtime, { prompt: "go" }), "cancelled")
          assert.strictEqual(model.requests.length, 1)
          assert.deepStrictEqual(
            state.cancelled?.calls.map(({ state }) => state),
            ["finished", "notStarted", "notStarted"]
          )
          assert.isUndefined(state.background)
        }
      })
    )
  )

  it.effect("takes effect before a sub-agent's next model call when another process acknowledges it", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const look = safe("look", {
          handler: () =>
            Effect.orDie(
              Effect.gen(function* () {
                const [pending] = yield* store.pending({ tool: "erase" })
                yield* store.decide(stop(pending!.request))
                return "seen"
              })
            )
        })
        const helper = Agent.make("helper", { tools: [look.tool] })
        const lead = Agent.make("lead", {
          tools: [probe("erase").tool],
          subAgents: [helper],
          delegation: "delegate"
        })
        const model = scripted({
          lead: [{ calls: [delegate("helper", false), call("erase", "1")] }],
          helper: [{ calls: [call("look", "2")] }]
        })
        const { runtime } = yield* rebind(lead, model)
        expect(yield* runPromptStored(runtime, { prompt: "go", runId }), "cancelled")
        assert.strictEqual(model.requests.length, 2)
      })
    )
  )

  /** A stopped run whose process died with `pay` and `put` started; `erase` is denied. */
  const left = Effect.fnUntraced(function* (reconciled: "happened" | "failed" | "notHappened" | "unknown") {
    const pay = probe("pay", {
      needsApproval: false,
      reconcile: () => {
        switch (reconciled) {
          case "happened":
            return { _tag: "happened", result: "it is on the statement" }
          case "failed":
            return { _tag: "failed", message: "it was refused" }
          default:
            return { _tag: reconciled }
        }
      }
    })
    const put = probe("put", { needsApproval: false, idempotent: true })
    const agent = Agent.make("a", { tools: [pay.tool, put.tool, probe("erase").tool] })
    const { model, runtime } = yield* bind(agent, [
      { calls: [call("pay", "1"), call("put", "2"), call("erase", "3")] }
    ])
    const store = yield* RunStore
    const held = yield* runPromptStored(runtime, { prompt: "go", runId: "first" as RunId })
    const journal = yield* store.events(held.state.runId)
    // The state with both calls started.
    const state = evolveAll(
      undefined,
      journal.filter(({ _tag }) => _tag !== "tool.completed" && _tag !== "run.held")
    )!
    pay.ran.length = 0
    put.ran.length = 0
    const { runtime: next } = yield* rebind(agent, model)
    const decisions = [stop(interruptions(state)[0]!)]
    const end = expect(yield* runPrompt(next, { state, decisions }), "cancelled")
    assert.deepStrictEqual([pay.ran, put.ran, model.requests.length], [[], [], 1])
    assertValid(end.state)
    return end.state
  })

  for (const [found, report, result] of [
    ["happened", "finished", "pay completed: it is on the statement"],
    ["failed", "finished", "pay failed: it was refused"],
    ["notHappened", "notStarted", "pay cancelled: This call was cancelled before it ran."],
    [
      "unknown",
      "inDoubt",
      "pay cancelled: This call was stopped while it ran; it is not known whether it took effect."
    ]
  ] as const) {
    it.effect(`reconciles a call started by a dead process instead of repeating it: ${found}`, () =>
      inOneStore(
        Effect.gen(function* () {
          const state = yield* left(found)
          assert.deepStrictEqual(
            state.cancelled?.calls.map(({ state }) => state),
            [report, "aborted", "notStarted"]
          )
          assert.strictEqual(results(state)[0], result)
        })
      )
    )
  }

  for (const isThere of [true, false]) {
    const title = isThere
      ? "reconciles a started call of a sub-agent, and opens no request for an unknown outcome"
      : "reports a started call as in doubt when its sub-agent's definition is gone"
    it.effect(title, () =>
      inOneStore(
        Effect.gen(function* () {
          const store = yield* RunStore
          const { begun, handler } = yield* gate
          const looked: Array<string> = []
          const post = probe("post", {
            needsApproval: false,
            handler,
            reconcile: (key) => {
              looked.push(key)
              return { _tag: "unknown" }
            }
          })
          const helper = Agent.make("helper", { tools: [post.tool] })
          const lead = Agent.make("lead", {
            tools: [probe("erase").tool],
            subAgents: [helper],
            delegation: "delegate"
          })
          const model = scripted({
            lead: [{ calls: [delegate("helper", false), call("erase", "1")] }],
            helper: [{ calls: [call("post", "2")] }]
          })
          const { runtime } = yield* rebind(lead, model)
          const suspension = { soon: Cancellation.make(), now: Cancellation.make() }
          const fiber = yield* Effect.forkChild(
            Effect.flip(runPromptStored(runtime, { prompt: "go", runId }, { suspension }))
          )
          yield* begun
          suspension.soon.cancel("It closes.")
          suspension.now.cancel("It is closed.")
          assert.strictEqual((yield* Fiber.join(fiber))._tag, "RunSuspended")
          const [pending] = yield* store.pending()
          yield* store.decide(stop(pending!.request))
          const commits: Array<ReadonlyArray<string>> = []
          const watched: RunStore["Service"] = {
            ...store,
            append: (options) => {
              commits.push(options.events.map((event) => unwrap(event).event._tag))
              return store.append(options)
            }
          }
          const bare = Agent.make("lead", { tools: [probe("erase").tool], delegation: "delegate" })
          const next = yield* rebind(isThere ? lead : bare, model)
          const resumed = Effect.provideService(runPromptStored(next.runtime, { runId }), RunStore, watched)
          const { state } = expect(yield* resumed, "cancelled")
          assert.deepStrictEqual([post.ran, looked], [["2"], isThere ? ["run.t1.1.t1.1"] : []])
          assert.deepStrictEqual(
            state.cancelled?.calls.map(({ state, tool }) => `${tool} ${state}`),
            ["delegate inDoubt", "post inDoubt", "erase notStarted"]
          )
          // A request opened and closed in one commit appears in no inbox.
          for (const tags of commits) {
            if (tags.includes("request.opened")) assert.include(tags, "run.cancelled")
          }
          assert.deepStrictEqual(yield* store.pending(), [])
        })
      )
    )
  }

  const stopped = Effect.gen(function* () {
    const store = yield* RunStore
    const tools = [probe("pay").tool, probe("erase").tool, probe("mail", { needsApproval: false }).tool]
    const made = yield* bind(Agent.make("a", { tools }), [
      { calls: [call("pay", "1"), call("erase", "2"), call("mail", "3")] }
    ])
    const held = yield* runPromptStored(made.runtime, { prompt: "go", runId })
    yield* store.decide(approve(approvalOf(held, "1")))
    yield* store.decide(stop(approvalOf(held, "2")))
    return made
  })

  it.effect("is explained as the end of the run, with the calls that will not run", () =>
    inOneStore(
      Effect.gen(function* () {
        yield* stopped
        const { resuming, text, waitsFor } = yield* explain(runId)
        assert.deepStrictEqual(resuming, ["end the run (cancelled)"])
        assert.deepStrictEqual(waitsFor, [])
        assert.include(
          text,
          "ann has stopped it: nothing more begins in it; pay (approved by ann) and mail are not run. Resuming it would end the run (cancelled)."
        )
      })
    )
  )

  it.effect("unblocks checkStoredRun and recover before the run is resumed", () =>
    inOneStore(
      Effect.gen(function* () {
        const { model } = yield* stopped
        const { runtime } = yield* rebind(Agent.make("a"), model)
        assert.deepStrictEqual((yield* checkStoredRun(runId, runtime.bound)).blocking, [])
        const [taken] = yield* recover([runtime])
        assert.deepInclude({ ...taken }, { runId, status: "cancelled" })
      })
    )
  )

  it.effect("is kept by export and import", () =>
    Effect.gen(function* () {
      const [archive, { model, runtime }] = yield* inOneStore(
        Effect.gen(function* () {
          const made = yield* stopped
          return [yield* exportRun(runId), made] as const
        })
      )
      yield* inOneStore(
        Effect.gen(function* () {
          yield* importRun(JSON.parse(JSON.stringify(archive)))
          expect(yield* runPromptStored(runtime, { runId }), "cancelled")
          assert.strictEqual(model.requests.length, 1)
        })
      )
    })
  )

  it.effect("is explained for a sub-agent of the run", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const erase = probe("erase")
        const helper = Agent.make("helper", { tools: [erase.tool] })
        const lead = Agent.make("lead", { tools: [erase.tool], subAgents: [helper], delegation: "delegate" })
        const model = scripted({
          lead: [{ calls: [delegate("helper", false), call("erase", "1")] }],
          helper: [{ calls: [call("erase", "2")] }]
        })
        const { runtime } = yield* rebind(lead, model)
        const held = yield* runPromptStored(runtime, { prompt: "go", runId })
        yield* store.decide(stop(approvalOf(held, "1")))
        const { resuming, text, waitsFor } = yield* explain("run.t1.1" as RunId)
        assert.deepStrictEqual([resuming, waitsFor], [["end it with the run above it"], []])
        assert.include(text, "ann has stopped it: nothing more begins in it.")
      })
    )
  )

  it.effect("of a sub-agent's request is explained as the end of that sub-agent", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const helper = Agent.make("helper", { tools: [probe("erase").tool] })
        const lead = Agent.make("lead", { subAgents: [helper], delegation: "delegate" })
        const model = scripted({
          lead: [{ calls: [delegate("helper", false)] }],
          helper: [{ calls: [call("erase", "2")] }]
        })
        const { runtime } = yield* rebind(lead, model)
        const held = yield* runPromptStored(runtime, { prompt: "go", runId })
        yield* store.decide(stop(approvalOf(held, "2")))
        assert.deepStrictEqual((yield* explain(runId)).resuming, [
          "end the sub-agent delegate, as was decided"
        ])
        const inside = yield* explain("run.t1.1" as RunId)
        assert.deepStrictEqual(inside.resuming, ["end the run (cancelled)"])
      })
    )
  )

  it.effect("ends a background sub-agent whose definition is gone", () =>
    inOneStore(
      Effect.gen(function* () {
        const helper = Agent.make("helper", { tools: [probe("erase").tool] })
        const lead = (...subAgents: ReadonlyArray<Agent.Any>) =>
          Agent.make("lead", { tools: [probe("pay").tool], subAgents, delegation: "delegate" })
        const model = scripted({
          lead: [{ calls: [delegate("helper", true), call("pay", "1")] }],
          helper: [{ calls: [call("erase", "2")] }]
        })
        const { runtime } = yield* rebind(lead(helper), model)
        const held = yield* runPromptStored(runtime, { prompt: "go", runId })
        const next = yield* rebind(lead(), model)
        const decisions = [stop(approvalOf(held, "1"))]
        const { state } = expect(yield* runPromptStored(next.runtime, { runId, decisions }), "cancelled")
        assert.deepStrictEqual(
          state.background?.map(({ ended }) => ended?.status),
          ["cancelled"]
        )
      })
    )
  )

  it.effect("of a request of a sub-agent whose definition is gone ends that sub-agent", () =>
    inOneStore(
      Effect.gen(function* () {
        const pay = probe("pay")
        const helper = Agent.make("helper", { tools: [probe("erase").tool] })
        const lead = (...subAgents: ReadonlyArray<Agent.Any>) =>
          Agent.make("lead", { tools: [pay.tool], subAgents, delegation: "delegate" })
        const model = scripted({
          lead: [{ calls: [delegate("helper", false), call("pay", "1")] }, "done"],
          helper: [{ calls: [call("erase", "2")] }]
        })
        const { runtime } = yield* rebind(lead(helper), model)
        const held = yield* runPromptStored(runtime, { prompt: "go", runId })
        const store = yield* RunStore
        yield* store.decide(stop(approvalOf(held, "2")))
        const next = yield* rebind(lead(), model)
        assert.deepStrictEqual((yield* checkStoredRun(runId, next.runtime.bound)).blocking, [])
        yield* store.decide(approve(approvalOf(held, "1")))
        const { state } = expect(yield* runPromptStored(next.runtime, { runId }), "completed")
        assert.deepStrictEqual(results(state), [
          "delegate cancelled: helper was stopped: Enough.",
          "pay completed: pay:1"
        ])
      })
    )
  )

  it.effect("yields to a cancellation while a started body runs", () =>
    inOneStore(
      Effect.gen(function* () {
        const { begun, handler } = yield* gate
        const post = probe("post", { needsApproval: false, handler })
        const helper = Agent.make("helper", { tools: [post.tool] })
        const lead = Agent.make("lead", {
          tools: [probe("erase").tool],
          subAgents: [helper],
          delegation: "delegate"
        })
        const model = scripted({
          lead: [{ calls: [delegate("helper", true), call("erase", "1")] }],
          helper: [{ calls: [call("post", "2")] }]
        })
        const { runtime } = yield* rebind(lead, model)
        const handle = yield* dispatchPromptStored(runtime, { prompt: "go" })
        yield* begun
        yield* handle.decide(stop(yield* requestOf(handle, "erase")))
        const fiber = yield* Effect.forkChild(handle.cancel("now"))
        const { reason } = expect(yield* Fiber.join(fiber), "cancelled")
        assert.strictEqual(reason, "now")
      })
    )
  )
})

describe("a commit that starts a body", () => {
  /** A store in which a denial stops the run right before the commit that starts the body of this call. */
  const stoppedBefore = Effect.fnUntraced(function* (callId: string) {
    const store = yield* RunStore
    const watched: RunStore["Service"] = {
      ...store,
      append: (options) => {
        const starts = options.events.some((event) => {
          const inner = unwrap(event).event
          return inner._tag === "tool.started" && (inner.callId as string) === callId
        })
        const stopping = Effect.gen(function* () {
          const [pending] = yield* store.pending({ tool: "erase" })
          yield* store.decide(stop(pending!.request))
        })
        return Effect.andThen(starts ? Effect.orDie(stopping) : Effect.void, store.append(options))
      }
    }
    return watched
  })

  it.effect(
    "and follows an acknowledged stop does not start it, and the journal records tool.notStarted",
    () =>
      inOneStore(
        Effect.gen(function* () {
          const mail = probe("mail", { needsApproval: false })
          const look = safe("look")
          const agent = Agent.make("a", { tools: [mail.tool, look.tool, probe("erase").tool] })
          for (const [name, probed] of [
            ["mail", mail],
            ["look", look]
          ] as const) {
            const { runtime } = yield* bind(agent, [
              { calls: [call(name, "1"), call("mail", "2"), call(name, "3"), call("erase", "4")] }
            ])
            probed.ran.length = 0
            mail.ran.length = 0
            const id = `run-${name}` as RunId
            const running = runPromptStored(runtime, { prompt: "go", runId: id })
            const store = yield* stoppedBefore(`${id}.t1.3`)
            const { state } = expect(yield* Effect.provideService(running, RunStore, store), "cancelled")
            assert.notInclude(probed.ran, "3")
            assert.deepStrictEqual(
              state.cancelled?.calls.map(({ state }) => state),
              ["finished", "finished", "notStarted", "notStarted"]
            )
            const tags = (yield* (yield* RunStore).events(id)).map(({ _tag }) => _tag)
            assert.strictEqual(tags.filter((tag) => tag === "tool.notStarted").length, 1)
          }
        })
      )
  )

  it.effect("and follows an acknowledged stop does not start it in a sub-agent", () =>
    inOneStore(
      Effect.gen(function* () {
        const post = probe("post", { needsApproval: false })
        const helper = Agent.make("helper", { tools: [post.tool] })
        const lead = Agent.make("lead", {
          tools: [probe("erase").tool],
          subAgents: [helper],
          delegation: "delegate"
        })
        const model = scripted({
          lead: [{ calls: [delegate("helper", true), call("erase", "1")] }],
          helper: [{ calls: [call("post", "2"), call("post", "3")] }]
        })
        const { runtime } = yield* rebind(lead, model)
        const store = yield* stoppedBefore("run.t1.1.t1.2")
        const running = runPromptStored(runtime, { prompt: "go", runId })
        expect(yield* Effect.provideService(running, RunStore, store), "cancelled")
        assert.deepStrictEqual(post.ran, ["2"])
      })
    )
  )
})

describe("a sub-agent's model call under a stopped run", () => {
  it.effect("does not fall back to a whole answer when its stream fails", () =>
    inOneStore(
      Effect.gen(function* () {
        const asked = yield* Deferred.make<void>()
        const open = yield* Deferred.make<void>()
        const helper = Agent.make("helper", {})
        const lead = Agent.make("lead", {
          tools: [probe("erase").tool],
          subAgents: [helper],
          delegation: "delegate"
        })
        const model = scripted({ lead: [{ calls: [delegate("helper", true), call("erase", "1")] }] })
        let whole = 0
        const failing = Effect.andThen(
          Effect.andThen(Deferred.succeed(asked, undefined), Deferred.await(open)),
          Effect.fail(new ModelError({ reason: new StreamUnsupported({ description: "no streams" }) }))
        )
        const client: ModelClient["Service"] = {
          stream: (request) =>
            request.agentPath.length > 1 ? Stream.fromEffect(failing) : model.client.stream(request),
          complete: (request) => {
            whole += 1
            return model.client.complete(request)
          }
        }
        const { runtime } = yield* rebind(lead, model)
        const handle = yield* dispatchPromptStored({ ...runtime, model: client }, { prompt: "go" })
        yield* Deferred.await(asked)
        yield* handle.decide(stop(yield* requestOf(handle, "erase")))
        const store = yield* RunStore
        const unread = Effect.andThen(Effect.yieldNow, store.decisions(handle.runId))
        yield* Effect.repeat(unread, { until: ({ length }) => length === 0 })
        yield* Deferred.succeed(open, undefined)
        expect(yield* handle.done, "cancelled")
        assert.strictEqual(whole, 0)
      })
    )
  )
})
