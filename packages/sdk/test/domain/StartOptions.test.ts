import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import * as ApprovalPolicy from "../../src/domain/ApprovalPolicy.ts"
import { defaults } from "../../src/domain/Limits.ts"
import { policiesOf } from "../../src/domain/RunState.ts"
import { policiesFor } from "../../src/domain/StartOptions.ts"
import { answered, at, fold, foldOnto, started } from "./Journal.ts"

type Policy = ApprovalPolicy.ApprovalPolicy

const policies = fc.record(
  {
    mode: fc.constantFrom("ask", "all", "none", "until" as const),
    until: fc.constantFrom(50, 150),
    rules: fc.array(
      fc.record({
        tool: fc.constantFrom("pay", "p*", "read", "*"),
        action: fc.constantFrom("ask", "approve", "deny" as const)
      }),
      { maxLength: 3 }
    )
  },
  { requiredKeys: ["mode"] }
)

const calls = fc.record({ tool: fc.constantFrom("pay", "read", "x"), needed: fc.boolean() })

const rank = { run: 0, ask: 1, deny: 2 } as const

describe("the policies of a run", () => {
  it("are never looser for a successor than its own, the caller's or the profile's", () =>
    fc.assert(
      fc.property(
        fc.option(policies, { nil: undefined }),
        fc.option(policies, { nil: undefined }),
        policies,
        calls,
        (caller, profilePolicy, own, { needed, tool }) => {
          const startedWith = {
            ...(caller === undefined ? {} : { policy: caller, policyFor: "desk" }),
            ...(profilePolicy === undefined ? {} : { profilePolicy })
          }
          const binding = policiesOf(policiesFor(startedWith, { policy: own, isPrompted: false }))
          const judged = (policy: Policy) => rank[ApprovalPolicy.judge(policy, tool, needed, 100)._tag]
          const each = [caller, profilePolicy, own].flatMap((policy) =>
            policy === undefined ? [] : [judged(policy)]
          )
          const together = rank[ApprovalPolicy.judgeAll(binding, tool, needed, 100)._tag]
          assert.strictEqual(together, Math.max(...each))
        }
      )
    ))

  it("are the caller's for the prompted agent, and that agent's own without one", () => {
    const none: Policy = { mode: "none" }
    const given = { policy: { mode: "all" }, policyFor: "desk", profilePolicy: none } as const
    assert.deepStrictEqual(policiesFor(given, { policy: none, isPrompted: true }), {
      policy: { mode: "all" }
    })
    assert.deepStrictEqual(policiesFor({}, { policy: none, isPrompted: true }), { policy: none })
  })

  it("contain equal policies once", () => {
    const careful: Policy = { mode: "ask" }
    const given = { policy: careful, policyFor: "desk", profilePolicy: { mode: "ask" } } as const
    assert.deepStrictEqual(policiesFor(given, { policy: { mode: "ask" }, isPrompted: false }), {
      policy: careful
    })
  })

  it("are those of the last successor, and the start options stay", () => {
    const startedWith = { policy: { mode: "ask" }, policyFor: "desk" } as const
    const state = fold(started({ startedWith }), answered("hello"))
    const changed = { _tag: "agent.changed", at, agent: state.agent, structured: false } as const
    const taken = foldOnto(state, { ...changed, policy: { mode: "ask" }, otherPolicies: [{ mode: "all" }] })
    assert.deepStrictEqual(taken.otherPolicies, [{ mode: "all" }])
    const back = foldOnto(taken, { ...changed, policy: { mode: "ask" } })
    assert.notProperty(back, "otherPolicies")
    assert.deepStrictEqual(back.startedWith, startedWith)
  })

  it("follow the limits that a caller has given since, the latest of each", () => {
    const state = fold(started({ startedWith: { limits: { maxTurns: 2, maxTokens: 9 } } }))
    const given = { maxTurns: 5 }
    const raised = foldOnto(state, { _tag: "limits.changed", at, limits: { ...defaults, ...given }, given })
    assert.deepStrictEqual(raised.startedWith?.limits, { maxTurns: 5, maxTokens: 9 })
    const allotted = foldOnto(raised, { _tag: "limits.changed", at, limits: { ...defaults, maxTurns: 1 } })
    assert.deepStrictEqual(allotted.startedWith?.limits, { maxTurns: 5, maxTokens: 9 })
  })
})
