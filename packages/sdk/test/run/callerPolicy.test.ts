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

/** How a run is started, and continued after its end, without a store and with one. */
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

/** A billing agent without handoffs. */
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

    it.effect("replaces the prompted agent's policy, and loosens no successor's", () =>
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

    it.effect("applies to the prompted agent again when the conversation is handed back", () =>
      inOneStore(
        Effect.gen(function* () {
          const { desk, pay } = office({ billing: ask })
          const { runtime } = yield* bind(desk, [transfer("billing"), transfer("desk"), pays, "done"])
          expect(yield* start(runtime, { policy: all }), "completed")
          assert.deepStrictEqual(pay.ran, ["1"])
        })
      )
    )

    it.effect("stays absent when the agent's definition changes while the run is held", () =>
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
          // The next release of the program asks for every call of the desk.
          const next = yield* rebind(noted(Agent.make("x", { policy: ask })), model)
          const again =
            mode === "with a store"
              ? yield* runPromptStored(next.runtime, { runId: held.state.runId, decisions })
              : yield* runPrompt(next.runtime, { state: throughJson(held.state), decisions })
          assert.deepStrictEqual(only(again, "approval").agentPath, ["billing"])
        })
      )
    )

    it.effect("applies, with the caller's limits, to the run that continues an ended one", () =>
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

    it.effect("and limits are replaced by those of the caller who continues the run", () =>
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
          // The options given last are inherited.
          const three = expect(yield* goOn(runtime, two, { prompt: "pay" }), "completed")
          assert.deepStrictEqual([three.state.limits.maxTurns, three.state.policy], [3, all])
          assert.deepStrictEqual(pay.ran, ["1", "1"])
        })
      )
    )

    it.effect(
      "binds the agent that has taken over, beside that agent's own policy, in the continuing run",
      () =>
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
      it.effect(`does not loosen the policy of an agent that has taken over when given again: ${said}`, () =>
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
      "replaces the prompted agent's policy when given again, and applies once the conversation is handed back",
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

    it.effect("cannot change before the run has ended", () =>
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

    it.effect("of a run from an earlier version applies where it differs from the agent's", () =>
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
    it.effect("binds the runs started under it after a handoff and after a change of profile", () =>
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

    it.effect("replaces the successor's own policy while it is in force", () =>
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

    it.effect("is not inherited by a continuing run, which has the profile in force", () =>
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
      it.effect(
        `combine ${expert.mode} of the successor and ${lead.mode} of the lead: the stricter applies`,
        () =>
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

    it.effect("do not loosen the policy of the lead's caller", () =>
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

describe("a stored run with a caller's policy", () => {
  const runId = "original" as RunId

  const told = Effect.gen(function* () {
    const { desk, pay } = office({ desk: all })
    const made = yield* bind(desk, ["hello", pays, "done"])
    const given = { policy: ask, limits: { maxTokens: 5000 } }
    expect(yield* runPromptStored(made.runtime, { prompt: "go", runId, ...given }), "completed")
    return { ...made, pay }
  })

  it.effect("passes its policy and limits to a fork from an earlier revision", () =>
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

  it.effect("takes another policy in a fork when one is given", () =>
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

  it.effect("does not pass its policy to the next prompt of its session", () =>
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

  it.effect("loosens no successor's policy when forked with another policy", () =>
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

  it.effect("keeps its policy through export, import and a handoff", () =>
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
