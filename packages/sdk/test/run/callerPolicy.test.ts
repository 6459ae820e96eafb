import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import { createRuntime } from "../../src/agent/createRuntime.ts"
import { reconfigureRuntime } from "../../src/agent/reconfigureRuntime.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import type { ApprovalPolicy } from "../../src/domain/ApprovalPolicy.ts"
import type { RunId, SessionId } from "../../src/domain/Id.ts"
import type { LimitChanges } from "../../src/domain/Limits.ts"
import type { RunState } from "../../src/domain/RunState.ts"
import { exportRun, importRun } from "../../src/durable/archive.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import type { RunResult } from "../../src/run/RunResult.ts"
import { layerMemory, type RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, bind, call, deny, expect, only, probe, rebind, throughJson } from "../helpers/Fixture.ts"

const transfer = (to: string) => ({ calls: [{ tool: `transfer_to_${to}`, arguments: {} }] })

const ask: ApprovalPolicy = { mode: "ask" }
const all: ApprovalPolicy = { mode: "all" }
const none: ApprovalPolicy = { mode: "none" }

const inOneStore = <A, E>(body: Effect.Effect<A, E, RunStore>) =>
  Effect.provide(body, Layer.fresh(layerMemory))

interface Given {
  readonly policy?: ApprovalPolicy
  readonly limits?: LimitChanges
}

/** How a run is started, and gone on with after its end, without a store and with one. */
const modes = {
  "without a store": {
    start: (runtime: Runtime<any>, given: Given = {}) => runPrompt(runtime, { prompt: "go", ...given }),
    goOn: (runtime: Runtime<any>, { state }: RunResult, given: Given & { readonly prompt?: string } = {}) =>
      runPrompt(runtime, { state: throughJson(state), ...given })
  },
  "with a store": {
    start: (runtime: Runtime<any>, given: Given = {}) => runPromptStored(runtime, { prompt: "go", ...given }),
    goOn: (
      runtime: Runtime<any>,
      { state }: RunResult,
      { prompt, ...given }: Given & { readonly prompt?: string } = {}
    ) =>
      runPromptStored(runtime, {
        runId: state.runId,
        ...given,
        ...(prompt === undefined ? {} : { message: prompt })
      })
  }
}

/** A desk that hands over to billing, which hands back, or to the vault. */
const office = (policies: { readonly [Name in "desk" | "billing" | "vault"]?: ApprovalPolicy } = {}) => {
  const pay = probe("pay")
  const of = (policy: ApprovalPolicy | undefined) => (policy === undefined ? {} : { policy })
  const vault = Agent.make("vault", { tools: [pay.tool], ...of(policies.vault) })
  const billing: Agent.Any = Agent.make("billing", {
    tools: [pay.tool],
    handoffs: () => [desk, vault],
    ...of(policies.billing)
  })
  const desk: Agent.Any = Agent.make("desk", {
    tools: [pay.tool],
    handoffs: () => [billing],
    ...of(policies.desk)
  })
  return { billing, desk, pay }
}

/** A billing that hands over to nobody. */
const clerk = (policy: ApprovalPolicy) => {
  const pay = probe("pay")
  return { billing: Agent.make("billing", { tools: [pay.tool], policy }), pay }
}

const pays = { calls: [call("pay", "1")] }

for (const [mode, { goOn, start }] of Object.entries(modes)) {
  describe(`the policy of a run's caller, ${mode}`, () => {
    for (const [policy, outcome] of [
      [ask, "held"],
      [{ mode: "ask", rules: [] }, "held"],
      [none, "denied"],
      [{ mode: "all", rules: [{ tool: "pay", action: "ask" }] }, "held"]
    ] as const) {
      for (const own of [undefined, policy]) {
        const said = `${JSON.stringify(policy)}${own === undefined ? "" : ", which the agent that hands over has as well"}`
        it.effect(`binds the agent that takes over: ${said}`, () =>
          inOneStore(
            Effect.gen(function* () {
              const { desk, pay } = office({ billing: all, ...(own === undefined ? {} : { desk: own }) })
              const { runtime } = yield* bind(desk, [transfer("billing"), pays, "done"])
              const result = yield* start(runtime, { policy })
              assert.strictEqual(result.status, outcome === "held" ? "interrupted" : "completed")
              assert.deepStrictEqual(pay.ran, [])
            })
          )
        )
      }
    }

    it.effect("binds every agent of a chain of handoffs", () =>
      inOneStore(
        Effect.gen(function* () {
          const { desk, pay } = office({ desk: all, vault: all })
          const { runtime } = yield* bind(desk, [transfer("billing"), transfer("vault"), pays])
          const held = yield* start(runtime, { policy: ask })
          assert.deepStrictEqual(only(held, "approval").agentPath, ["vault"])
          assert.deepStrictEqual(pay.ran, [])
        })
      )
    )

    it.effect("replaces that of the agent that was prompted, and loosens none of those that take over", () =>
      inOneStore(
        Effect.gen(function* () {
          const { desk, pay } = office({ billing: ask })
          const script = [pays, transfer("billing"), { calls: [call("pay", "2")] }]
          const { runtime } = yield* bind(desk, script)
          const held = yield* start(runtime, { policy: all })
          assert.deepStrictEqual(only(held, "approval").agentPath, ["billing"])
          assert.deepStrictEqual(pay.ran, ["1"])
        })
      )
    )

    it.effect("is that of the prompted agent again when the conversation is given back to it", () =>
      inOneStore(
        Effect.gen(function* () {
          const { desk, pay } = office({ billing: ask })
          const { runtime } = yield* bind(desk, [transfer("billing"), transfer("desk"), pays, "done"])
          expect(yield* start(runtime, { policy: all }), "completed")
          assert.deepStrictEqual(pay.ran, ["1"])
        })
      )
    )

    it.effect("is not inferred from a definition that changed while the run was held", () =>
      inOneStore(
        Effect.gen(function* () {
          const script = [{ calls: [call("note", "1")] }, transfer("billing"), pays]
          const note = probe("note")
          const noted = (before: Agent.Any): Agent.Any =>
            Agent.make("desk", {
              tools: [note.tool],
              handoffs: [clerk(ask).billing],
              policy: before.policy
            })
          const first = { mode: "all", rules: [{ tool: "note", action: "ask" }] } as const
          const { model, runtime } = yield* bind(noted(Agent.make("x", { policy: first })), script)
          const held = yield* start(runtime)
          const decisions = [approve(only(held, "approval"))]
          // The next release of the program asks for everything at the desk.
          const next = yield* rebind(noted(Agent.make("x", { policy: ask })), model)
          const again =
            mode === "with a store"
              ? yield* runPromptStored(next.runtime, { runId: held.state.runId, decisions })
              : yield* runPrompt(next.runtime, { state: throughJson(held.state), decisions })
          assert.deepStrictEqual(only(again, "approval").agentPath, ["billing"])
        })
      )
    )

    it.effect("holds, with the caller's limits, for the run that continues one that has ended", () =>
      inOneStore(
        Effect.gen(function* () {
          const { desk, pay } = office({ desk: all })
          const { runtime } = yield* bind(desk, ["hello", pays])
          const one = expect(yield* start(runtime, { policy: ask, limits: { maxTokens: 5000 } }), "completed")
          const two = yield* goOn(runtime, one, { prompt: "pay" })
          only(two, "approval")
          assert.deepStrictEqual([two.state.limits.maxTokens, two.state.policy], [5000, ask])
          assert.deepStrictEqual(pay.ran, [])
        })
      )
    )

    it.effect("is replaced, and so are the limits, by what the continuing caller gives", () =>
      inOneStore(
        Effect.gen(function* () {
          const { desk, pay } = office()
          const { runtime } = yield* bind(desk, ["hello", pays, "done", pays, "done"])
          const limits = { maxTokens: 5000, maxTurns: 7 }
          const one = expect(yield* start(runtime, { policy: ask, limits }), "completed")
          const given = { policy: all, limits: { maxTurns: 3 } }
          const two = expect(yield* goOn(runtime, one, { prompt: "pay", ...given }), "completed")
          const { maxTokens, maxTurns } = two.state.limits
          assert.deepStrictEqual([maxTokens, maxTurns, two.state.policy], [5000, 3, all])
          // What was given last is what is inherited next.
          const three = expect(yield* goOn(runtime, two, { prompt: "pay" }), "completed")
          assert.deepStrictEqual([three.state.limits.maxTurns, three.state.policy], [3, all])
          assert.deepStrictEqual(pay.ran, ["1", "1"])
        })
      )
    )

    it.effect("binds an agent that continues the run of another one beside that agent's own", () =>
      inOneStore(
        Effect.gen(function* () {
          const { desk, pay } = office({ billing: ask })
          const { runtime } = yield* bind(desk, [transfer("billing"), "billing here", pays])
          const one = expect(yield* start(runtime, { policy: all }), "completed")
          const two = yield* goOn(runtime, one, { prompt: "pay" })
          assert.deepStrictEqual(only(two, "approval").agentPath, ["billing"])
          assert.deepStrictEqual([two.state.policy, two.state.otherPolicies], [all, [ask]])
          assert.deepStrictEqual(pay.ran, [])
        })
      )
    )

    for (const [own, outcome] of [
      [ask, "interrupted"],
      [none, "completed"],
      [{ mode: "all", rules: [{ tool: "pay", action: "deny" }] }, "completed"]
    ] as const) {
      const said = JSON.stringify(own)
      it.effect(`given again does not loosen the own policy of an agent that has taken over: ${said}`, () =>
        inOneStore(
          Effect.gen(function* () {
            const { desk, pay } = office({ billing: own })
            const script = [transfer("billing"), "billing here", pays, "done"]
            const { model, runtime } = yield* bind(desk, script)
            const one = expect(yield* start(runtime, { policy: all }), "completed")
            const two = yield* goOn(runtime, one, { prompt: "pay", policy: all })
            assert.strictEqual(two.status, outcome)
            assert.deepStrictEqual(model.requests[2]?.agentPath, ["billing"])
            assert.deepStrictEqual([two.state.policy, two.state.otherPolicies], [all, [own]])
            assert.deepStrictEqual(pay.ran, [])
          })
        )
      )
    }

    it.effect(
      "given again replaces that of the prompted agent, to which the conversation is given back",
      () =>
        inOneStore(
          Effect.gen(function* () {
            const { desk, pay } = office({ desk: ask, billing: ask })
            const script = [transfer("billing"), "billing here", transfer("desk"), pays, "done"]
            const { runtime } = yield* bind(desk, script)
            const one = expect(yield* start(runtime), "completed")
            expect(yield* goOn(runtime, one, { prompt: "pay", policy: all }), "completed")
            assert.deepStrictEqual(pay.ran, ["1"])
          })
        )
    )

    it.effect("cannot be changed while the run has not ended", () =>
      inOneStore(
        Effect.gen(function* () {
          const { desk } = office()
          const { runtime } = yield* bind(desk, [pays, "done"])
          const held = yield* start(runtime)
          const error = yield* Effect.flip(goOn(runtime, held, { policy: all, prompt: "hurry" }))
          assert.deepInclude({ ...error }, { _tag: "PolicyFixed", runId: held.state.runId, status: "held" })
          only(yield* goOn(runtime, held), "approval")
        })
      )
    )

    it.effect(
      "that a run of an earlier version was started with holds where it differs from the agent's",
      () =>
        inOneStore(
          Effect.gen(function* () {
            const run = (policy: ApprovalPolicy) =>
              Effect.gen(function* () {
                const { desk, pay } = office({ billing: all })
                const { runtime } = yield* bind(desk, [pays, transfer("billing"), pays, "done"])
                const held = yield* runPrompt(runtime, {
                  prompt: "go",
                  policy: { ...policy, rules: [{ tool: "pay", action: "ask" }] }
                })
                const { startedWith: _, ...rest } = throughJson(held.state)
                const state: RunState = { ...rest, policy }
                const decisions = [deny(only(held, "approval"))]
                const again = yield* runPrompt(runtime, { state, decisions })
                return [again.status, pay.ran]
              })
            assert.deepStrictEqual(yield* run(none), ["completed", []])
            assert.deepStrictEqual(yield* run(ask), ["completed", ["1"]])
          })
        )
    )
  })

  describe(`the policy of a capability profile, ${mode}`, () => {
    it.effect(
      "binds the runs that were started under it, whoever takes over and whatever profile is next",
      () =>
        inOneStore(
          Effect.gen(function* () {
            const note = probe("note")
            const { billing, pay } = clerk(all)
            const desk = Agent.make("desk", { tools: [note.tool], handoffs: [billing] })
            const script = [{ calls: [call("note", "1")] }, transfer("billing"), pays]
            const model = ScriptedModel.make(script)
            const profiles = [{ name: "careful", policy: ask }, { name: "act" }]
            const runtime = yield* Effect.provideService(
              createRuntime({ agent: desk, profiles, profile: "careful" }),
              ModelClient,
              model.client
            )
            const held = yield* start(runtime)
            yield* reconfigureRuntime(runtime, { profile: "act" })
            const decisions = [approve(only(held, "approval"))]
            const again =
              mode === "with a store"
                ? yield* runPromptStored(runtime, { runId: held.state.runId, decisions })
                : yield* runPrompt(runtime, { state: throughJson(held.state), decisions })
            assert.deepStrictEqual(only(again, "approval").agentPath, ["billing"])
            assert.deepStrictEqual(pay.ran, [])
          }).pipe(Effect.scoped)
        )
    )

    it.effect("stands in the place of the agents' own while it is in force, whoever takes over", () =>
      inOneStore(
        Effect.gen(function* () {
          const { billing, pay } = clerk(none)
          const desk = Agent.make("desk", { handoffs: [billing] })
          const runtime = yield* Effect.provideService(
            createRuntime({ agent: desk, profiles: [{ name: "free", policy: all }], profile: "free" }),
            ModelClient,
            ScriptedModel.make([transfer("billing"), pays, "done"]).client
          )
          expect(yield* start(runtime), "completed")
          assert.deepStrictEqual(pay.ran, ["1"])
        }).pipe(Effect.scoped)
      )
    )

    it.effect("is not inherited: a run that continues one is bound by the profile in force", () =>
      inOneStore(
        Effect.gen(function* () {
          const { desk, pay } = office({ desk: all })
          const model = ScriptedModel.make(["hello", pays, "done"])
          const profiles = [{ name: "careful", policy: ask }, { name: "act" }]
          const runtime = yield* Effect.provideService(
            createRuntime({ agent: desk, profiles, profile: "careful" }),
            ModelClient,
            model.client
          )
          const one = expect(yield* start(runtime), "completed")
          yield* reconfigureRuntime(runtime, { profile: "act" })
          expect(yield* goOn(runtime, one, { prompt: "pay" }), "completed")
          assert.deepStrictEqual(pay.ran, ["1"])
        }).pipe(Effect.scoped)
      )
    )
  })

  describe(`the policies of a sub-agent that hands over, ${mode}`, () => {
    const team = (expert: ApprovalPolicy, lead: ApprovalPolicy) => {
      const pay = probe("pay")
      const taking = Agent.make("expert", { tools: [pay.tool], policy: expert })
      const helper = Agent.make("helper", { handoffs: [taking], policy: all })
      return { pay, lead: Agent.make("lead", { subAgents: [helper], policy: lead }) }
    }
    const script = [{ calls: [{ tool: "helper", arguments: { prompt: "pay" } }] }, transfer("expert"), pays]

    for (const [expert, lead, ran] of [
      [ask, all, []],
      [all, ask, []],
      [all, all, ["1"]]
    ] as const) {
      it.effect(`are ${expert.mode} of the successor and ${lead.mode} of the lead: the stricter counts`, () =>
        inOneStore(
          Effect.gen(function* () {
            const { lead: agent, pay } = team(expert, lead)
            const { runtime } = yield* bind(agent, [...script, "paid", "done"])
            yield* start(runtime)
            assert.deepStrictEqual<ReadonlyArray<string>>(pay.ran, ran)
          })
        )
      )
    }

    it.effect("are bound by the policy that the lead's caller gave", () =>
      inOneStore(
        Effect.gen(function* () {
          const { lead, pay } = team(all, all)
          const { runtime } = yield* bind(lead, script)
          const held = yield* start(runtime, { policy: ask })
          assert.deepStrictEqual(only(held, "approval").agentPath, ["lead", "expert"])
          assert.deepStrictEqual(pay.ran, [])
        })
      )
    )
  })
}

describe("a stored run of a caller with a policy", () => {
  const runId = "original" as RunId

  const told = Effect.gen(function* () {
    const { desk, pay } = office({ desk: all })
    const made = yield* bind(desk, ["hello", pays, "done"])
    const given = { policy: ask, limits: { maxTokens: 5000 } }
    expect(yield* runPromptStored(made.runtime, { prompt: "go", runId, ...given }), "completed")
    return { ...made, pay }
  })

  it.effect("is forked, from its end and from an earlier moment, with that policy and those limits", () =>
    inOneStore(
      Effect.gen(function* () {
        const { pay, runtime } = yield* told
        const forked = yield* forkRun(runtime, { runId, revision: 1, prompt: "pay" })
        only(forked, "approval")
        assert.deepStrictEqual([forked.state.limits.maxTokens, forked.state.policy], [5000, ask])
        assert.deepStrictEqual(pay.ran, [])
      })
    )
  )

  it.effect("is forked with another policy where one is given", () =>
    inOneStore(
      Effect.gen(function* () {
        const { pay, runtime } = yield* told
        const given = { policy: all, limits: { maxTurns: 3 } }
        const { state } = expect(yield* forkRun(runtime, { runId, prompt: "pay", ...given }), "completed")
        assert.deepStrictEqual([state.limits.maxTokens, state.limits.maxTurns, state.policy], [5000, 3, all])
        assert.deepStrictEqual(pay.ran, ["1"])
      })
    )
  )

  it.effect("leaves the next prompt of its session to the policy that is given with it, or the agent's", () =>
    inOneStore(
      Effect.gen(function* () {
        const { desk, pay } = office({ desk: all })
        const { runtime } = yield* bind(desk, ["hello", pays, "done"])
        const sessionId = "s" as SessionId
        expect(yield* runPromptStored(runtime, { prompt: "go", sessionId, policy: ask }), "completed")
        const next = expect(yield* runPromptStored(runtime, { prompt: "pay", sessionId }), "completed")
        assert.deepStrictEqual(next.state.policy, all)
        assert.deepStrictEqual(pay.ran, ["1"])
      })
    )
  )

  for (const answeredBy of [undefined, "billing"]) {
    const how = answeredBy === undefined ? "has the session" : "is named to answer"
    it.effect(`binds the agent that ${how} beside that agent's own policy`, () =>
      inOneStore(
        Effect.gen(function* () {
          const { desk, pay } = office({ billing: ask })
          const script = answeredBy === undefined ? [transfer("billing"), "billing here", pays] : [pays]
          const { runtime } = yield* bind(desk, script)
          const given = { sessionId: "s" as SessionId, policy: all }
          if (answeredBy === undefined) {
            expect(yield* runPromptStored(runtime, { prompt: "go", ...given }), "completed")
          }
          const held = yield* runPromptStored(runtime, {
            prompt: "pay",
            ...given,
            ...(answeredBy === undefined ? {} : { answeredBy })
          })
          assert.deepStrictEqual(only(held, "approval").agentPath, ["billing"])
          assert.deepStrictEqual([held.state.policy, held.state.otherPolicies], [all, [ask]])
          assert.deepStrictEqual(pay.ran, [])
        })
      )
    )
  }

  it.effect("is forked with another policy, which loosens none of an agent that has taken over", () =>
    inOneStore(
      Effect.gen(function* () {
        const { desk, pay } = office({ billing: ask })
        const { runtime } = yield* bind(desk, [transfer("billing"), "billing here", pays])
        expect(yield* runPromptStored(runtime, { prompt: "go", runId }), "completed")
        const held = yield* forkRun(runtime, { runId, prompt: "pay", policy: all })
        assert.deepStrictEqual(only(held, "approval").agentPath, ["billing"])
        assert.deepStrictEqual(pay.ran, [])
      })
    )
  )

  it.effect("is exported, imported and handed over with that policy", () =>
    Effect.gen(function* () {
      const note = probe("note")
      const { billing, pay } = clerk(all)
      const desk = Agent.make("desk", { tools: [note.tool], handoffs: [billing] })
      const { model, runtime } = yield* bind(desk, [
        { calls: [call("note", "1")] },
        transfer("billing"),
        pays
      ])
      const [archive, request] = yield* inOneStore(
        Effect.gen(function* () {
          const held = yield* runPromptStored(runtime, { prompt: "go", runId, policy: ask })
          return [yield* exportRun(runId), only(held, "approval")] as const
        })
      )
      yield* inOneStore(
        Effect.gen(function* () {
          yield* importRun(JSON.parse(JSON.stringify(archive)))
          const next = yield* rebind(desk, model)
          const again = yield* runPromptStored(next.runtime, { runId, decisions: [approve(request)] })
          assert.deepStrictEqual(only(again, "approval").agentPath, ["billing"])
          assert.deepStrictEqual(note.ran, ["1"])
          assert.deepStrictEqual(pay.ran, [])
        })
      )
    })
  )
})
