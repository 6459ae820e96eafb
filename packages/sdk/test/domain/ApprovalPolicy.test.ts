import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import * as ApprovalPolicy from "../../src/domain/ApprovalPolicy.ts"

describe("ApprovalPolicy", () => {
  const told = (policy: ApprovalPolicy.ApprovalPolicy, tool: string, needsApproval: boolean, now = 100) => {
    const verdict = ApprovalPolicy.judge(policy, tool, needsApproval, now)
    return verdict._tag === "run"
      ? `run by ${verdict.by}`
      : verdict._tag === "deny"
        ? `deny: ${verdict.message}`
        : "ask"
  }

  it("asks by default for each call that needs approval, and for no other", () => {
    assert.strictEqual(told(ApprovalPolicy.ask, "write_file", true), "ask")
    assert.strictEqual(told(ApprovalPolicy.ask, "write_file", false), "run by tool")
  })

  it("lets every call through in mode `all`, and denies calls that need approval in mode `none`", () => {
    assert.strictEqual(told({ mode: "all" }, "write_file", true), "run by policy all")
    assert.match(told({ mode: "none" }, "write_file", true), /^deny: The approval policy denies every call/)
    assert.strictEqual(told({ mode: "none" }, "read_file", false), "run by tool")
  })

  it("lets calls through until its time in mode `until`, and asks from then on", () => {
    const policy = { mode: "until", until: 100 } as const
    assert.strictEqual(told(policy, "write_file", true, 99), "run by policy until")
    assert.strictEqual(told(policy, "write_file", true, 100), "ask")
    assert.strictEqual(told({ mode: "until" }, "write_file", true), "ask")
  })

  it("applies the first rule that matches the tool, before the mode", () => {
    const policy: ApprovalPolicy.ApprovalPolicy = {
      mode: "all",
      rules: [
        { tool: "delete_*", action: "deny", message: "Never." },
        { tool: "*_file", action: "ask" },
        { tool: "read_file", action: "approve" },
        { tool: "git", action: "approve" },
        { tool: "rm", action: "deny" }
      ]
    }
    assert.strictEqual(told(policy, "delete_file", false), "deny: Never.")
    assert.strictEqual(told(policy, "read_file", false), "ask")
    assert.strictEqual(told(policy, "git", true), "run by rule git")
    assert.strictEqual(told(policy, "rm", true), "deny: The approval policy does not allow rm.")
    assert.strictEqual(told(policy, "other", true), "run by policy all")
  })

  it("lets no call through that needs approval unless a rule or the mode does", () => {
    fc.assert(
      fc.property(
        fc.constantFrom("ask", "none", "until" as const),
        fc.array(
          fc.record({
            tool: fc.constantFrom("a*", "b", "*"),
            action: fc.constantFrom("ask", "deny" as const)
          })
        ),
        (mode, rules) => {
          const verdict = ApprovalPolicy.judge(
            { mode, rules } as ApprovalPolicy.ApprovalPolicy,
            "abc",
            true,
            1
          )
          assert.notStrictEqual(verdict._tag, "run")
        }
      )
    )
  })
})
