import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Agent from "../../src/agent/Agent.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import type { AgentHandle, StoredFault } from "../../src/dispatch/AgentHandle.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import { attach } from "../../src/dispatch/dispatchPromptStored.ts"
import { dispatchPromptStored } from "../../src/dispatch/dispatchPromptStored.ts"
import { decide } from "../../src/domain/decide.ts"
import type { Decision } from "../../src/domain/Decision.ts"
import { evolve } from "../../src/domain/evolve.ts"
import type { RunId } from "../../src/domain/Id.ts"
import type { RunState } from "../../src/domain/RunState.ts"
import { explain, explainState } from "../../src/durable/explain.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
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
  transcript
} from "../helpers/Fixture.ts"

type Handle = AgentHandle<unknown, StoredFault>

const ways: ReadonlyArray<{
  readonly name: string
  readonly dispatch: (runtime: Runtime<any>) => Effect.Effect<Handle, unknown, RunStore | Scope.Scope>
}> = [
  { name: "without a store", dispatch: (runtime) => dispatchPrompt(runtime, { prompt: "go" }) },
  { name: "with a store", dispatch: (runtime) => dispatchPromptStored(runtime, { prompt: "go" }) }
]

const inOneStore = <A, E>(body: Effect.Effect<A, E, RunStore | Scope.Scope>) =>
  Effect.provide(Effect.scoped(body), Layer.fresh(layerMemory))

const runId = "run" as RunId

const follows = "the user has said something else instead; it follows."
const denied = "The user has said something else instead; it follows. This was not done."
const dropped = `This call has not run: ${follows}`

/** A model that answers each agent from its own script. */
const scripted = (answers: {
  readonly [agent: string]: ReadonlyArray<ScriptedModel.ScriptedAnswer | string>
}) =>
  ScriptedModel.make((request: ModelRequest) => {
    const name = request.agentPath.at(-1) ?? ""
    return answers[name]?.[request.turn - 1] ?? `${name} is done`
  })

const delegate = (agent: string, background: boolean) => ({
  tool: "delegate",
  arguments: { agent, prompt: "do", background }
})

const supersede = (handle: Handle) => handle.send("do that", { whenHeld: "supersede", by: "ann" })

/** A handler that signals its start and ends when `open` runs. */
const gate = Effect.gen(function* () {
  const begun = yield* Deferred.make<void>()
  const open = yield* Deferred.make<void>()
  const handler = ({ id }: { readonly id: string }) =>
    Effect.as(Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(open)), `done:${id}`)
  return { begun: Deferred.await(begun), handler, open: Deferred.succeed(open, undefined) }
})

const requestOf = (handle: Handle, tool: string) =>
  Effect.gen(function* () {
    while (true) {
      const found = handle.interruptions().find((request) => "tool" in request && request.tool === tool)
      if (found !== undefined) return found
      yield* Effect.yieldNow
    }
  })

for (const { dispatch, name } of ways) {
  describe(`a superseding message, ${name}`, () => {
    it.effect("starts no further call of the turn: no tool, sub-agent, wait or handoff", () =>
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
          const handle = yield* dispatch(runtime)
          only(yield* handle.wait, "approval")
          yield* supersede(handle)
          const { state } = expect(yield* handle.done, "completed")
          assert.deepStrictEqual([erase.ran, mail.ran], [[], []])
          assert.deepStrictEqual(
            model.requests.map(({ agentPath }) => agentPath.at(-1)),
            ["lead", "lead"]
          )
          assert.strictEqual(state.agent.name, "lead")
          assert.isUndefined(state.background)
          assert.isUndefined(state.superseded)
          assert.deepStrictEqual(transcript(state).slice(2), [
            `tool: ${denied}`,
            ...Array.from({ length: 5 }, () => `tool: ${dropped}`),
            "user: do that",
            "assistant: lead is done"
          ])
          assertValid(state)
        })
      )
    )

    it.effect("does not run an approved call of the turn, and its result names the approver", () =>
      inOneStore(
        Effect.gen(function* () {
          const pay = probe("pay")
          const { runtime } = yield* bind(Agent.make("a", { tools: [pay.tool] }), [
            { calls: [call("pay", "1"), call("pay", "2")] },
            "done"
          ])
          const handle = yield* dispatch(runtime)
          const held = yield* handle.wait
          yield* handle.decide(approve(approvalOf(held, "2")))
          yield* supersede(handle)
          const { state } = expect(yield* handle.done, "completed")
          assert.deepStrictEqual(pay.ran, [])
          assert.deepStrictEqual(results(state), [
            `pay denied: ${denied}`,
            `pay cancelled: This call was approved by ann, and has not run: ${follows}`
          ])
        })
      )
    )

    it.effect("starts no further reads of the turn", () =>
      inOneStore(
        Effect.gen(function* () {
          const { begun, handler, open } = yield* gate
          const look = safe("look", { handler })
          const agent = Agent.make("a", {
            tools: [look.tool, probe("erase").tool],
            limits: { toolConcurrency: 1 }
          })
          const { runtime } = yield* bind(agent, [
            { calls: [call("erase", "1"), call("look", "2"), call("look", "3"), call("look", "4")] },
            "done"
          ])
          const handle = yield* dispatch(runtime)
          yield* begun
          yield* requestOf(handle, "erase")
          yield* supersede(handle)
          yield* open
          const { state } = expect(yield* handle.done, "completed")
          assert.deepStrictEqual(look.ran, ["2"])
          assert.deepStrictEqual(transcript(state).slice(2, 6), [
            `tool: ${denied}`,
            "tool: done:2",
            `tool: ${dropped}`,
            `tool: ${dropped}`
          ])
        })
      )
    )

    it.effect("stops the attached sub-agents after their running bodies", () =>
      inOneStore(
        Effect.gen(function* () {
          const { begun, handler, open } = yield* gate
          const erase = probe("erase")
          const post = probe("post", { needsApproval: false, handler })
          const mail = probe("mail", { needsApproval: false })
          const asker = Agent.make("asker", { tools: [erase.tool, mail.tool] })
          const poster = Agent.make("poster", { tools: [post.tool] })
          const lead = Agent.make("lead", {
            tools: [mail.tool],
            subAgents: [asker, poster],
            delegation: "delegate"
          })
          const model = scripted({
            lead: [{ calls: [delegate("asker", false), delegate("poster", false), call("mail", "9")] }],
            asker: [{ calls: [call("erase", "1"), call("mail", "2")] }],
            poster: [{ calls: [call("post", "3"), call("post", "4")] }]
          })
          const { runtime } = yield* rebind(lead, model)
          const handle = yield* dispatch(runtime)
          yield* begun
          yield* requestOf(handle, "erase")
          yield* supersede(handle)
          yield* open
          const { state } = expect(yield* handle.done, "completed")
          assert.deepStrictEqual([erase.ran, mail.ran, post.ran], [[], [], ["3"]])
          assert.deepStrictEqual(
            model.requests.map(({ agentPath }) => agentPath.at(-1)),
            ["lead", "asker", "poster", "lead"]
          )
          const why = "was stopped: the user has said something else instead."
          assert.deepStrictEqual(transcript(state).slice(2), [
            `tool: asker ${why}`,
            `tool: poster ${why}`,
            `tool: ${dropped}`,
            "user: do that",
            "assistant: lead is done"
          ])
          assertValid(state)
        })
      )
    )

    it.effect("opens no request for a call whose approval rule is still running", () =>
      inOneStore(
        Effect.gen(function* () {
          const rule = yield* gate
          const tick = yield* gate
          const rated = probe("rated", {
            needsApproval: (args) => Effect.as(rule.handler(args), true)
          })
          const mail = probe("mail", { needsApproval: false })
          const asker = Agent.make("asker", { tools: [probe("erase").tool] })
          const busy = Agent.make("busy", {
            tools: [probe("tick", { needsApproval: false, handler: tick.handler }).tool]
          })
          const lead = Agent.make("lead", {
            tools: [rated.tool, mail.tool],
            subAgents: [asker, busy],
            delegation: "delegate"
          })
          const model = scripted({
            lead: [
              { calls: [delegate("asker", true), delegate("busy", true)] },
              { calls: [call("rated", "1"), call("mail", "2")] }
            ],
            asker: [{ calls: [call("erase", "3")] }],
            busy: [{ calls: [call("tick", "4")] }]
          })
          const { runtime } = yield* rebind(lead, model)
          const handle = yield* dispatch(runtime)
          yield* rule.begun
          yield* tick.begun
          yield* requestOf(handle, "erase")
          yield* supersede(handle)
          yield* tick.open
          // A sub-agent reads the mail of the whole run before its model call.
          const asked = () => model.requests.filter(({ agentPath }) => agentPath.at(-1) === "busy").length
          while (asked() < 2) yield* Effect.yieldNow
          yield* rule.open
          const { state } = expect(yield* handle.done, "completed")
          assert.deepStrictEqual([rated.ran, mail.ran], [[], []])
          assert.deepStrictEqual(
            state.requests.map(({ request }) => "tool" in request && request.tool),
            ["erase"]
          )
          assert.strictEqual(transcript(state).filter((line) => line === `tool: ${dropped}`).length, 2)
          assertValid(state)
        })
      )
    )

    it.effect("lets a background sub-agent work on, without its open turn", () =>
      inOneStore(
        Effect.gen(function* () {
          const erase = probe("erase")
          const mail = probe("mail", { needsApproval: false })
          const helper = Agent.make("helper", { tools: [erase.tool, mail.tool] })
          const lead = Agent.make("lead", { subAgents: [helper], delegation: "delegate" })
          const model = scripted({
            lead: [
              { calls: [delegate("helper", true)] },
              { calls: [{ tool: "wait_for_agent", arguments: {} }] }
            ],
            helper: [{ calls: [call("erase", "1"), call("mail", "2")] }, "I have done nothing"]
          })
          const { runtime } = yield* rebind(lead, model)
          const handle = yield* dispatch(runtime)
          only(yield* handle.wait, "approval")
          yield* supersede(handle)
          const { state } = expect(yield* handle.done, "completed")
          assert.deepStrictEqual([erase.ran, mail.ran], [[], []])
          const said = transcript(state)
          assert.include(said, `tool: ${dropped}`)
          assert.include(said, "user: do that")
          assert.isTrue(said.some((line) => line.includes("I have done nothing")))
          const second = model.requests.findLast(({ agentPath }) => agentPath.at(-1) === "helper")
          assert.deepStrictEqual(
            second?.messages.flatMap((message) => (message.role === "tool" ? [message.content] : [])),
            [
              "The user has said something else instead. This was not done.",
              "This call has not run: the user has said something else instead."
            ].map((text) => [{ _tag: "text" as const, text }])
          )
        })
      )
    )
  })
}

describe("a superseded turn", () => {
  const turn = Effect.gen(function* () {
    const pay = probe("pay")
    const mail = probe("mail", { needsApproval: false })
    const { runtime } = yield* bind(Agent.make("a", { tools: [pay.tool, mail.tool] }), [
      { calls: [call("pay", "1"), call("pay", "2"), call("mail", "3")] },
      "done"
    ])
    return { pay, mail, runtime }
  })

  const fold = (state: RunState, decisions: ReadonlyArray<Decision>): RunState =>
    decisions.reduce((state, decision) => {
      const taken = decide(state, decision)
      assert.strictEqual(taken._tag, "Success")
      return taken._tag === "Success" ? taken.success.reduce<RunState>(evolve, state) : state
    }, state)

  it.effect("has the same result when an approval is folded before or after the superseding decision", () =>
    Effect.gen(function* () {
      const { runtime } = yield* turn
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const away = { ...deny(approvalOf(held, "1"), { supersedes: held.state.runId }), at: 1 } as Decision
      const approval = { ...approve(approvalOf(held, "2")), at: 1 } as Decision
      const [one, other] = [fold(held.state, [away, approval]), fold(held.state, [approval, away])]
      assert.deepStrictEqual(results(one), results(other))
      assert.deepStrictEqual(one.calls, other.calls)
      assert.deepStrictEqual(results(one).slice(1), [
        `pay cancelled: This call was approved by ann, and has not run: ${follows}`,
        `mail cancelled: ${dropped}`
      ])
    })
  )

  it.effect("is kept in the caller's state while other requests are open", () =>
    Effect.gen(function* () {
      const { mail, pay, runtime } = yield* turn
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const away = deny(approvalOf(held, "1"), { supersedes: held.state.runId })
      const half = yield* runPrompt(runtime, { state: throughJson(held.state), decisions: [away] })
      const second = only(half, "approval")
      assert.deepStrictEqual(mail.ran, [])
      const { text } = explainState(half.state, [], 0)
      assert.include(
        text,
        "ann has said something else instead: nothing more of the open turn begins; mail is not run."
      )
      const done = yield* runPrompt(runtime, { state: throughJson(half.state), decisions: [approve(second)] })
      expect(done, "completed")
      assert.deepStrictEqual([pay.ran, mail.ran], [[], []])
    })
  )

  it.effect("is explained, with the calls that will not run, before the run reads the decision", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const { runtime } = yield* turn
        const held = yield* runPromptStored(runtime, { prompt: "go", runId })
        yield* store.decide(approve(approvalOf(held, "2")))
        yield* store.decide(deny(approvalOf(held, "1"), { supersedes: runId }))
        const { resuming, text } = yield* explain(runId)
        assert.deepStrictEqual(resuming, ["call the model"])
        assert.include(
          text,
          "ann has said something else instead: nothing more of the open turn begins; mail is not run."
        )
        expect(yield* runPromptStored(runtime, { runId }), "completed")
      })
    )
  )

  it.effect("starts no body whose start is committed after the decision", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const erase = probe("erase")
        const look = safe("look")
        const agent = Agent.make("a", { tools: [erase.tool, look.tool] })
        const { runtime } = yield* bind(agent, [{ calls: [call("erase", "1"), call("look", "2")] }, "done"])
        const racing: RunStore["Service"] = {
          ...store,
          append: (options) =>
            options.events.some(({ _tag }) => _tag === "tool.started")
              ? Effect.gen(function* () {
                  // The result of the append announces the decision.
                  const appended = yield* store.append(options)
                  const [asked] = yield* store.pending()
                  yield* Effect.orDie(store.decide(deny(asked!.request, { supersedes: runId })))
                  return { ...appended, hasMail: true }
                })
              : store.append(options)
        }
        const run = runPromptStored(runtime, { prompt: "go", runId })
        const { state } = expect(yield* Effect.provideService(run, RunStore, racing), "completed")
        assert.deepStrictEqual([erase.ran, look.ran], [[], []])
        assert.strictEqual(results(state)[1], `look cancelled: ${dropped}`)
      })
    )
  )

  it.effect("of a sub-agent leaves the turn of its lead alone", () =>
    inOneStore(
      Effect.gen(function* () {
        const erase = probe("erase")
        const mail = probe("mail", { needsApproval: false })
        const helper = Agent.make("helper", { tools: [erase.tool, mail.tool] })
        const lead = Agent.make("lead", {
          tools: [mail.tool],
          subAgents: [helper],
          delegation: "delegate"
        })
        const model = scripted({
          lead: [{ calls: [delegate("helper", false), call("mail", "9")] }],
          helper: [{ calls: [call("erase", "1"), call("mail", "2")] }]
        })
        const { runtime } = yield* rebind(lead, model)
        only(yield* runPromptStored(runtime, { prompt: "go", runId }), "approval")
        const root = yield* attach([runtime], runId)
        yield* supersede(yield* attach([runtime], "run.t1.1" as RunId))
        const { state } = expect(yield* root.done, "completed")
        assert.deepStrictEqual([erase.ran, mail.ran], [[], ["9"]])
        assert.deepStrictEqual(transcript(state).slice(2), [
          "tool: helper is done",
          "tool: mail:9",
          "assistant: lead is done"
        ])
      })
    )
  )
})
