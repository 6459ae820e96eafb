import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Agent from "../../src/agent/Agent.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import { attach } from "../../src/dispatch/dispatchPromptStored.ts"
import type { SessionId } from "../../src/domain/Id.ts"
import { exportRun, importRun } from "../../src/durable/archive.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { checkResume } from "../../src/run/checkResume.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import {
  approvalOf,
  approve,
  assertValid,
  bind,
  call,
  expect,
  probe,
  rebind,
  results,
  throughJson,
  transcript
} from "../helpers/Fixture.ts"

const transfer = (to: string, reason?: string) => ({
  tool: `transfer_to_${to}`,
  arguments: reason === undefined ? {} : { reason }
})

describe("a handoff", () => {
  it.effect("moves the run to another agent with its instructions, tools and output", () =>
    Effect.gen(function* () {
      const billing = Agent.make("billing", {
        instructions: "You are billing.",
        description: "Knows invoices",
        tools: [probe("refund", { needsApproval: false }).tool],
        output: Schema.Struct({ refunded: Schema.Number })
      })
      const desk = Agent.make("desk", { instructions: "You are the desk.", handoffs: [billing] })
      const { model, runtime } = yield* bind(desk, [
        { calls: [transfer("billing", "an invoice")] },
        { calls: [call("refund", "7")] },
        '{"refunded": 7}'
      ])
      const done = expect(yield* runPrompt(runtime, { prompt: "refund me" }), "completed")
      assert.deepStrictEqual<unknown>(done.output, { refunded: 7 })
      assert.deepStrictEqual(
        model.requests.map(({ agentPath, instructions }) => `${agentPath.join("/")}: ${instructions}`),
        ["desk: You are the desk.", "billing: You are billing.", "billing: You are billing."]
      )
      assert.deepStrictEqual(
        model.requests[0]?.tools.map(({ name }) => name),
        ["transfer_to_billing"]
      )
      assert.deepStrictEqual(results(done.state), [
        "transfer_to_billing completed: billing has the conversation now.",
        "refund completed: refund:7"
      ])
      assert.include(transcript(done.state)[0], "refund me")
      assertValid(done.state)
    })
  )

  it.effect("keeps the new agent's request held, and its approval resumes that agent", () =>
    Effect.gen(function* () {
      const refund = probe("refund")
      const billing = Agent.make("billing", { tools: [refund.tool] })
      const desk: Agent.Any = Agent.make("desk", { handoffs: [billing] })
      const { runtime } = yield* bind(desk, [
        { calls: [transfer("billing")] },
        { calls: [call("refund", "7")] },
        "refunded"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      assert.deepStrictEqual(approvalOf(held, "7").agentPath, ["billing"])
      const state = throughJson(held.state)
      assert.deepStrictEqual(yield* checkResume(state, [desk]), { changes: [], blocking: [] })
      const decisions = [approve(approvalOf(held, "7"), { arguments: { id: "8" } })]
      expect(yield* runPrompt(runtime, { state, decisions }), "completed")
      assert.deepStrictEqual(refund.ran, ["8"])
    })
  )

  it.effect("can return to an earlier agent, and settles all calls of its answer first", () =>
    Effect.gen(function* () {
      const one: Agent.Any = Agent.make("one", { handoffs: () => [two] })
      const two: Agent.Any = Agent.make("two", { handoffs: () => [one] })
      const { model, runtime } = yield* bind(one, [
        { calls: [transfer("two")] },
        { calls: [transfer("one"), transfer("one")] },
        "back again"
      ])
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(
        model.requests.map(({ agentPath }) => agentPath.join()),
        ["one", "two", "one"]
      )
      assertValid(state)
    })
  )

  it.effect("keeps the policy that the run was started with", () =>
    Effect.gen(function* () {
      const refund = probe("refund")
      const desk = Agent.make("desk", { handoffs: [Agent.make("billing", { tools: [refund.tool] })] })
      const { runtime } = yield* bind(desk, [
        { calls: [transfer("billing")] },
        { calls: [call("refund", "7")] },
        "refused"
      ])
      expect(yield* runPrompt(runtime, { prompt: "go", policy: { mode: "none" } }), "completed")
      assert.deepStrictEqual(refund.ran, [])
    })
  )

  it.effect("to two agents of one name is refused when the runtime is made", () =>
    Effect.gen(function* () {
      const desk = Agent.make("desk", { handoffs: [Agent.make("x"), Agent.make("y", { aliases: ["x"] })] })
      const error = yield* Effect.flip(bind(desk, []))
      assert.strictEqual(error._tag, "AgentDefinitionError")
    })
  )
})

const sessionId = "s" as SessionId

/** A desk and a billing agent that hand over to each other. */
const office = (billingOptions: Partial<Agent.AgentOptions<never, undefined>> = {}) => {
  const refund = probe("refund")
  const desk: Agent.Agent = Agent.make("desk", { instructions: "Greet.", handoffs: () => [billing] })
  const billing: Agent.Agent = Agent.make("billing", {
    instructions: "Refund.",
    tools: [refund.tool],
    handoffs: () => [desk],
    ...billingOptions
  })
  return { billing, desk, refund }
}

const who = (model: { readonly requests: ReadonlyArray<{ readonly agentPath: ReadonlyArray<string> }> }) =>
  model.requests.map(({ agentPath }) => agentPath.join("/"))

const inOneStore = <A, E>(body: Effect.Effect<A, E, RunStore>) =>
  Effect.provide(body, Layer.fresh(layerMemory))

/** The first and next prompts of a session, without a store and with one. */
const modes = {
  "without a store": {
    first: (runtime: Runtime<any>) => runPrompt(runtime, { prompt: "hello", sessionId }),
    next: (
      runtime: Runtime<any>,
      last: { readonly state: Parameters<typeof throughJson>[0] },
      given: { readonly answeredBy?: string } = {}
    ) => runPrompt(runtime, { state: throughJson(last.state), prompt: "and then?", ...given })
  },
  "with a store": {
    first: (runtime: Runtime<any>) => runPromptStored(runtime, { prompt: "hello", sessionId }),
    next: (runtime: Runtime<any>, _: unknown, given: { readonly answeredBy?: string } = {}) =>
      runPromptStored(runtime, { prompt: "and then?", sessionId, ...given })
  }
}

for (const [mode, { first, next }] of Object.entries(modes)) {
  describe(`a session after a handoff, ${mode}`, () => {
    it.effect("is continued by the agent that took over, and can be handed back", () =>
      inOneStore(
        Effect.gen(function* () {
          const { model, runtime } = yield* bind(office().desk, [
            { calls: [transfer("billing")] },
            "billing here",
            { calls: [transfer("desk")] },
            "desk here",
            "still the desk"
          ])
          const one = expect(yield* first(runtime), "completed")
          const two = expect(yield* next(runtime, one), "completed")
          const three = expect(yield* next(runtime, two), "completed")
          assert.deepStrictEqual(who(model), ["desk", "billing", "billing", "desk", "desk"])
          assert.strictEqual(model.requests[2]?.instructions, "Refund.")
          assert.deepStrictEqual(
            model.requests[2]?.tools.map(({ name }) => name),
            ["refund", "transfer_to_desk"]
          )
          assert.strictEqual(three.text, "still the desk")
          assertValid(three.state)
        })
      )
    )

    it.effect("has the limits, the policy and the output of the agent that took over", () =>
      inOneStore(
        Effect.gen(function* () {
          const { desk } = office({
            limits: { maxTurns: 3 },
            policy: { mode: "none" },
            output: Schema.Struct({ n: Schema.Number }) as never
          })
          const { runtime } = yield* bind(desk, [{ calls: [transfer("billing")] }, '{"n":1}', '{"n":2}'])
          const one = expect(yield* first(runtime), "completed")
          const two = expect(yield* next(runtime, one), "completed")
          assert.deepStrictEqual<unknown>(two.output, { n: 2 })
          assert.deepStrictEqual<unknown>(
            [two.state.limits.maxTurns, two.state.policy],
            [3, { mode: "none" }]
          )
        })
      )
    )

    it.effect("can be held, and its approval resumes the agent that took over", () =>
      inOneStore(
        Effect.gen(function* () {
          const { desk, refund } = office()
          const { model, runtime } = yield* bind(desk, [
            { calls: [transfer("billing")] },
            "billing here",
            { calls: [call("refund", "7")] },
            "refunded"
          ])
          const one = expect(yield* first(runtime), "completed")
          const held = yield* next(runtime, one)
          const request = approvalOf(held, "7")
          assert.deepStrictEqual(request.agentPath, ["billing"])
          const { state } = held
          const decisions = [approve(request)]
          const again = yield* rebind(desk, model)
          const done =
            mode === "with a store"
              ? yield* runPromptStored(again.runtime, { runId: state.runId, decisions })
              : yield* runPrompt(again.runtime, { state: throughJson(state), decisions })
          expect(done, "completed")
          assert.deepStrictEqual(refund.ran, ["7"])
        })
      )
    )

    it.effect("is continued by the agent named in `answeredBy`", () =>
      inOneStore(
        Effect.gen(function* () {
          const { model, runtime } = yield* bind(office().desk, [
            { calls: [transfer("billing")] },
            "billing here",
            "desk here",
            "billing again"
          ])
          const one = expect(yield* first(runtime), "completed")
          const two = expect(yield* next(runtime, one, { answeredBy: "desk" }), "completed")
          expect(yield* next(runtime, two, { answeredBy: "billing" }), "completed")
          assert.deepStrictEqual(who(model).slice(2), ["desk", "billing"])
          const error = yield* Effect.flip(next(runtime, two, { answeredBy: "nobody" }))
          assert.deepInclude({ ...error }, { _tag: "AgentNotFound", agent: "nobody" })
          assert.strictEqual(model.requests.length, 4)
        })
      )
    )

    it.effect(
      "fails a prompt with AgentNotFound when its agent is gone, keeps its history, and can go to another agent",
      () =>
        inOneStore(
          Effect.gen(function* () {
            const { model, runtime } = yield* bind(office().desk, [
              { calls: [transfer("billing")] },
              "billing here",
              "alone again"
            ])
            const one = expect(yield* first(runtime), "completed")
            const alone = yield* rebind(Agent.make("desk", {}), model)
            const error = yield* Effect.flip(next(alone.runtime, one))
            assert.deepInclude({ ...error }, { _tag: "AgentNotFound", agent: "billing", known: ["desk"] })
            assert.include(error.message, 'The session s is with the agent "billing"')
            assert.include(error.message, "answeredBy")
            assert.strictEqual(model.requests.length, 2)
            const two = expect(yield* next(alone.runtime, one, { answeredBy: "desk" }), "completed")
            assert.deepStrictEqual(transcript(two.state).slice(-3), [
              "assistant: billing here",
              "user: and then?",
              "assistant: alone again"
            ])
          })
        )
    )

    it.effect("is continued by an agent with the earlier name as an alias", () =>
      inOneStore(
        Effect.gen(function* () {
          const { model, runtime } = yield* bind(office().desk, [
            { calls: [transfer("billing")] },
            "billing here",
            "accounting here"
          ])
          const one = expect(yield* first(runtime), "completed")
          const accounting = Agent.make("accounting", { aliases: ["billing"] })
          const renamed = yield* rebind(Agent.make("desk", { handoffs: [accounting] }), model)
          expect(yield* next(renamed.runtime, one), "completed")
          assert.strictEqual(who(model).at(-1), "accounting")
        })
      )
    )
  })
}

describe("a stored session after a handoff", () => {
  /** A session whose second run, answered by billing from the start, is held on a refund. */
  const heldBehind = Effect.fnUntraced(function* () {
    const { billing, desk, refund } = office()
    const { model, runtime } = yield* bind(desk, [
      { calls: [transfer("billing")] },
      "billing here",
      { calls: [call("refund", "7")] },
      "refunded"
    ])
    expect(yield* runPromptStored(runtime, { prompt: "hello", sessionId }), "completed")
    const held = yield* runPromptStored(runtime, { prompt: "refund", sessionId })
    return { billing, desk, held, model, refund, request: approvalOf(held, "7"), runtime }
  })

  it.effect("is listed under its first agent, with the current one as `answeredBy`", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        yield* heldBehind()
        const heads = yield* store.list({ sessionId })
        assert.deepStrictEqual(
          heads.map(({ agent, answeredBy }) => [agent, answeredBy]),
          [
            ["desk", "billing"],
            ["desk", "billing"]
          ]
        )
        assert.strictEqual((yield* store.latest(sessionId))?.answeredBy, "billing")
      })
    )
  )

  it.effect("is recovered by a runtime of its first agent", () =>
    inOneStore(
      Effect.gen(function* () {
        const { desk, model, refund, request } = yield* heldBehind()
        const { runtime } = yield* rebind(desk, model)
        const malformed = { _tag: "approve", requestId: request.requestId, by: "ann", arguments: {} } as const
        const refused = yield* Effect.flip(decideStored([runtime], malformed))
        assert.strictEqual(refused._tag, "EditedArgumentsInvalid")
        yield* decideStored([runtime], approve(request, { arguments: { id: "8" } }))
        const [taken] = yield* recover([runtime])
        assert.deepInclude({ ...taken }, { agent: "desk", status: "completed" })
        assert.deepStrictEqual(refund.ran, ["8"])
      })
    )
  )

  it.effect("is attached to through a runtime of its first agent", () =>
    inOneStore(
      Effect.scoped(
        Effect.gen(function* () {
          const { billing, desk, held, model, refund, request } = yield* heldBehind()
          const runtimes = [(yield* rebind(billing, model)).runtime, (yield* rebind(desk, model)).runtime]
          const handle = yield* attach(runtimes, held.state.runId)
          yield* handle.decide(approve(request))
          expect(yield* handle.done, "completed")
          assert.deepStrictEqual(refund.ran, ["7"])
        })
      )
    )
  )

  it.effect("is resumed after export and import", () =>
    Effect.gen(function* () {
      const { desk, model, archive, request } = yield* inOneStore(
        Effect.gen(function* () {
          const made = yield* heldBehind()
          const archive = JSON.parse(JSON.stringify(yield* exportRun(made.held.state.runId))) as unknown
          return { ...made, archive }
        })
      )
      yield* inOneStore(
        Effect.gen(function* () {
          const runId = yield* importRun(archive)
          assert.strictEqual((yield* (yield* RunStore).head(runId)).answeredBy, "billing")
          const { runtime } = yield* rebind(desk, model)
          expect(yield* runPromptStored(runtime, { runId, decisions: [approve(request)] }), "completed")
        })
      )
    })
  )

  it.effect("is forked with the agent that had the conversation at that revision", () =>
    inOneStore(
      Effect.gen(function* () {
        const { model, runtime } = yield* bind(office().desk, [
          "desk here",
          { calls: [transfer("billing")] },
          "billing here",
          "fork of billing",
          "fork of the desk"
        ])
        const one = expect(yield* runPromptStored(runtime, { prompt: "hello", sessionId }), "completed")
        const two = expect(yield* runPromptStored(runtime, { prompt: "refund", sessionId }), "completed")
        expect(yield* forkRun(runtime, { runId: two.state.runId, prompt: "or else?" }), "completed")
        expect(yield* forkRun(runtime, { runId: one.state.runId, prompt: "or else?" }), "completed")
        assert.deepStrictEqual(who(model).slice(-2), ["billing", "desk"])
      })
    )
  )

  it.effect("moves to an unrelated agent that is run in it", () =>
    inOneStore(
      Effect.gen(function* () {
        const { model, runtime } = yield* bind(office().desk, [
          { calls: [transfer("billing")] },
          "billing here",
          "poem",
          "billing again?"
        ])
        expect(yield* runPromptStored(runtime, { prompt: "hello", sessionId }), "completed")
        const poet = yield* rebind(Agent.make("poet"), model)
        expect(yield* runPromptStored(poet.runtime, { prompt: "a poem", sessionId }), "completed")
        expect(yield* runPromptStored(runtime, { prompt: "and then?", sessionId }), "completed")
        assert.deepStrictEqual(who(model), ["desk", "billing", "poet", "desk"])
      })
    )
  )
})
