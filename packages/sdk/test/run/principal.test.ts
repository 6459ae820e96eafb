import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Agent from "../../src/agent/Agent.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import { dispatchPrompt } from "../../src/dispatch/dispatchPrompt.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import type { Timestamp } from "../../src/domain/Id.ts"
import { attribute } from "../../src/domain/Principal.ts"
import { revokeInState } from "../../src/domain/revokeInState.ts"
import * as RunStateCodec from "../../src/domain/RunStateCodec.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { revokeGrant } from "../../src/durable/revokeGrant.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { bind, call, expect, only, probe, throughJson } from "../helpers/Fixture.ts"

const bob = { id: "bob", kind: "service", authenticated: "mtls" } as const
const anyPay = { scope: "session", arguments: {} } as const

/** Principals that a caller cannot give. */
const refusedBy: ReadonlyArray<readonly [string, object]> = [
  ["different parties", { by: "alice", principal: bob }],
  ["different parties", { by: { ...bob, id: "alice" }, principal: bob }],
  ["only Fermata itself", { by: "expiry" }],
  ["only Fermata itself", { by: " Policy " }],
  ["only Fermata itself uses: give person, agent or service", { by: { id: "clock", kind: "expiry" } }],
  ['takes "person" or "agent" or "service", and', { by: { id: "clock", kind: "robot" } }],
  ["only Fermata itself", { by: "clock", principal: { id: "clock", kind: "policy" } }]
]

const inStore = <A, E>(body: Effect.Effect<A, E, RunStore>) => Effect.provide(body, Layer.fresh(layerMemory))

/** An agent with a `pay` tool and `ask_user`. */
const paying = () => {
  const pay = probe("pay")
  return { pay, agent: Agent.make("a", { tools: [pay.tool, Tool.askUser] }) }
}
const twice = [{ calls: [call("pay", "1")] }, { calls: [call("pay", "2")] }, "done"]

describe("the principal of a decision", () => {
  it.effect("stays readable in a stored record when it could not be given today", () =>
    Effect.gen(function* () {
      const { agent, pay } = paying()
      const { runtime } = yield* bind(agent, twice)
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const { requestId } = only(held, "approval")
      const decision: DecisionInput = { _tag: "approve", requestId, by: "ana-the-first", grant: anyPay }
      const done = yield* runPrompt(runtime, { state: held.state, decisions: [decision] })
      for (const by of ["", " ", "роlісу", "Expiry"]) {
        const text = RunStateCodec.encode(done.state).replaceAll("ana-the-first", by)
        const state = Result.getOrThrow(RunStateCodec.decode(text))
        assert.strictEqual(state.grants[0]?.by, by)
        // The grant applies to the next run of the session.
        const next = yield* bind(agent, twice)
        const before = pay.ran.length
        expect(yield* runPrompt(next.runtime, { state, prompt: "again" }), "completed")
        assert.strictEqual(pay.ran.length, before + 2)
      }
    })
  )

  it.effect("is recorded with the decision and with its grant in a run without a store", () =>
    Effect.gen(function* () {
      const { agent } = paying()
      const { runtime } = yield* bind(agent, twice)
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const { requestId } = only(held, "approval")
      const decision: DecisionInput = { _tag: "approve", requestId, by: bob, grant: anyPay }
      const { state } = expect(
        yield* runPrompt(runtime, { state: held.state, decisions: [decision] }),
        "completed"
      )
      assert.deepInclude(state.requests[0]?.decision, { by: "bob", principal: bob })
      assert.deepInclude(state.grants[0], { by: "bob", principal: bob })
      assert.strictEqual(state.grants.length, 1)
    })
  )

  it.effect("is recorded with the decision of an approval callback and with its grant", () =>
    Effect.gen(function* () {
      const { agent, pay } = paying()
      const { client } = ScriptedModel.make(twice)
      const approvalCallback = ({
        requestId
      }: {
        readonly requestId: DecisionInput["requestId"]
      }): DecisionInput => ({
        _tag: "approve",
        requestId,
        by: bob,
        grant: anyPay
      })
      const runtime = yield* Effect.provideService(
        Runtime.make({ agent, approvalCallback }),
        ModelClient,
        client
      )
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(pay.ran, ["1", "2"])
      assert.lengthOf(state.requests, 1)
      assert.deepInclude(state.requests[0]?.decision, { by: "bob", principal: bob })
      assert.deepInclude(state.grants[0], { by: "bob", principal: bob })
    })
  )

  it.effect(
    "is refused when it contradicts `by` or names `expiry` or `policy`, with a store and without",
    () =>
      Effect.gen(function* () {
        for (const [problem, who] of refusedBy) {
          const { agent, pay } = paying()
          const { runtime } = yield* bind(agent, [...twice, ...twice])
          const held = yield* runPrompt(runtime, { prompt: "go" })
          const { requestId } = only(held, "approval")
          const decision = { _tag: "approve", requestId, ...who } as unknown as DecisionInput
          const refused = yield* Effect.flip(runPrompt(runtime, { state: held.state, decisions: [decision] }))
          assert.strictEqual(refused._tag, "DecisionMalformed")
          assert.include(refused.message, problem)
          yield* inStore(
            Effect.gen(function* () {
              const { runId, ...stored } = yield* runPromptStored(runtime, { prompt: "go" })
              const request = only({ runId, ...stored } as typeof held, "approval")
              const given = { ...decision, requestId: request.requestId } as DecisionInput
              const store = yield* RunStore
              const doors = [
                store.decide(given),
                store.decideAll([given]),
                decideStored([runtime], given),
                runPromptStored(runtime, { runId, decisions: [given] })
              ]
              for (const door of doors) {
                const error = yield* Effect.flip(
                  Effect.asVoid(door as Effect.Effect<unknown, { _tag: string }>)
                )
                assert.strictEqual(error._tag, "DecisionMalformed")
              }
            })
          )
          assert.deepStrictEqual(pay.ran, [])
        }
      })
  )

  it.effect("is recorded as it was checked when each read of it returns another value", () =>
    Effect.gen(function* () {
      const { agent } = paying()
      /** A principal whose id is `policy` at one of its reads. */
      const shifting = (odd: number) => {
        let looks = 0
        return {
          kind: "person",
          get id() {
            return looks++ === odd ? "policy" : "ana"
          }
        } as const
      }
      for (const door of ["store", "decideAll", "stored"] as const) {
        for (let odd = 0; odd < 8; odd += 1) {
          const { runtime } = yield* bind(agent, twice)
          yield* inStore(
            Effect.gen(function* () {
              const store = yield* RunStore
              const { requestId } = only(yield* runPromptStored(runtime, { prompt: "go" }), "approval")
              const given: DecisionInput = { _tag: "approve", requestId, by: shifting(odd) }
              yield* Effect.ignore(
                door === "store"
                  ? Effect.asVoid(store.decide(given))
                  : door === "decideAll"
                    ? Effect.asVoid(store.decideAll([given]))
                    : Effect.asVoid(decideStored([runtime], given))
              )
              const { decision } = yield* store.request(requestId)
              if (decision !== undefined)
                assert.deepStrictEqual(decision.principal, { id: "ana", kind: "person" })
            })
          )
        }
      }
      for (let odd = 0; odd < 8; odd += 1) {
        const { runtime } = yield* bind(agent, twice)
        const held = yield* runPrompt(runtime, { prompt: "go" })
        const { requestId } = only(held, "approval")
        const decisions: ReadonlyArray<DecisionInput> = [{ _tag: "approve", requestId, by: shifting(odd) }]
        const went = yield* Effect.option(runPrompt(runtime, { state: held.state, decisions }))
        if (went._tag === "Some") assert.strictEqual(went.value.state.requests[0]?.decision?.by, "ana")
        const attributed = attribute(shifting(odd))
        if (Result.isSuccess(attributed)) assert.strictEqual(attributed.success.principal?.id, "ana")
      }
    })
  )

  it.effect("decides nothing when a callback gives one that is reserved", () =>
    Effect.gen(function* () {
      for (const [, who] of refusedBy) {
        const { agent, pay } = paying()
        const { client } = ScriptedModel.make(twice)
        const approvalCallback = ({ requestId }: { readonly requestId: string }) =>
          ({ _tag: "approve", requestId, ...who }) as never
        const runtime = yield* Effect.provideService(
          Runtime.make({ agent, approvalCallback }),
          ModelClient,
          client
        )
        only(yield* runPrompt(runtime, { prompt: "go" }), "approval")
        assert.deepStrictEqual(pay.ran, [])
      }
    })
  )

  it.effect("is checked by the handle of a background run", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const { agent, pay } = paying()
        const { runtime } = yield* bind(agent, twice)
        const handle = yield* dispatchPrompt(runtime, { prompt: "go" })
        const { requestId } = only(yield* handle.wait, "approval")
        for (const [problem, who] of refusedBy) {
          const given = { _tag: "approve", requestId, ...who } as unknown as DecisionInput
          assert.include((yield* Effect.flip(handle.decide(given))).message, problem)
        }
        yield* handle.decide({ _tag: "approve", requestId, by: bob, grant: anyPay })
        const { state } = expect(yield* handle.done, "completed")
        assert.deepInclude(state.requests[0]?.decision, { by: "bob", principal: bob })
        assert.deepStrictEqual(pay.ran, ["1", "2"])
      })
    )
  )
})

describe("the principal of a revocation", () => {
  it.effect("is recorded, and can be neither `expiry` nor `policy`", () =>
    inStore(
      Effect.gen(function* () {
        const { agent } = paying()
        const { runtime } = yield* bind(agent, twice)
        const held = yield* runPromptStored(runtime, { prompt: "go" })
        const { requestId } = only(held, "approval")
        const decision: DecisionInput = { _tag: "approve", requestId, by: bob, grant: anyPay }
        const { runId, state } = yield* runPromptStored(runtime, { runId: held.runId, decisions: [decision] })
        const grantId = state.grants[0]!.id
        for (const by of ["expiry", { id: "x", kind: "policy" }, { id: "policy", kind: "person" }, 7, {}]) {
          const refused = yield* Effect.flip(revokeGrant(runId, grantId, by as never))
          assert.strictEqual(refused._tag, "PrincipalInvalid")
          const inState = revokeInState(state, grantId, { by: by as never, at: 1 as Timestamp })
          assert.strictEqual(Result.isFailure(inState) ? inState.failure._tag : "", "PrincipalInvalid")
        }
        assert.isUndefined((yield* (yield* RunStore).grants())[0]?.grant.revoked)
        const { grant } = yield* revokeGrant(runId, grantId, bob)
        assert.deepInclude(grant.revoked, { by: "bob", principal: bob })
      })
    )
  )
})

describe("a grant in a state kept by the caller", () => {
  /** Pays once with a grant, asks a question, and pays again. */
  const script = [
    { calls: [call("pay", "1")] },
    { calls: [{ tool: "ask_user", arguments: { question: "Again?" } }] },
    { calls: [call("pay", "2")] },
    "done"
  ]

  it.effect("lets no call through after it was revoked in the state", () =>
    Effect.gen(function* () {
      const { agent, pay } = paying()
      const { runtime } = yield* bind(agent, [...script, "done"])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const { requestId } = only(held, "approval")
      const grant: DecisionInput = { _tag: "approve", requestId, by: bob, grant: anyPay }
      const asked = yield* runPrompt(runtime, { state: held.state, decisions: [grant] })
      const question = only(asked, "question")
      const answer: DecisionInput = {
        _tag: "answer",
        requestId: question.requestId,
        by: "ann",
        answer: "yes"
      }
      const { id } = asked.state.grants[0]!
      const revoked = Result.getOrThrow(revokeInState(asked.state, id, { by: bob, at: 5 as Timestamp }))
      const again = yield* runPrompt(runtime, { state: throughJson(revoked), decisions: [answer] })
      only(again, "approval")
      assert.deepStrictEqual(pay.ran, ["1"])
      assert.deepInclude(again.state.grants[0]?.revoked, { by: "bob", principal: bob })
      assert.strictEqual(
        Result.isFailure(revokeInState(revoked, "none", { by: "ann", at: 5 as Timestamp })),
        true
      )
    })
  )

  it.effect(
    "from a background run is revoked in the state of its handle, also for the run that continues it",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const { agent, pay } = paying()
          const { runtime } = yield* bind(agent, script)
          const handle = yield* dispatchPrompt(runtime, { prompt: "go" })
          const { requestId } = only(yield* handle.wait, "approval")
          yield* handle.decide({ _tag: "approve", requestId, by: bob, grant: anyPay })
          yield* Effect.repeat(handle.wait, { until: (result) => result.state.calls[0]?.name === "ask_user" })
          const held = yield* handle.wait
          const question = only(held, "question")
          yield* handle.cancel("its grant is revoked")
          const { id } = held.state.grants[0]!
          const state = Result.getOrThrow(revokeInState(held.state, id, { by: "ben", at: 5 as Timestamp }))
          const next = yield* dispatchPrompt(runtime, { state })
          yield* next.decide({ _tag: "answer", requestId: question.requestId, by: "ann", answer: "yes" })
          yield* Effect.repeat(next.wait, { until: (result) => result.state.calls[0]?.name === "pay" })
          only(yield* next.wait, "approval")
          assert.deepStrictEqual(pay.ran, ["1"])
        })
      )
  )
})
