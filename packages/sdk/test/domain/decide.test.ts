import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { check, decide } from "../../src/domain/decide.ts"
import type { Decision, DecisionInput } from "../../src/domain/Decision.ts"
import type { RequestId } from "../../src/domain/Id.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import type { RunState } from "../../src/domain/RunState.ts"
import {
  approval,
  at,
  broke,
  callId,
  calls,
  cancelled,
  decided,
  fold,
  foldOnto,
  inDoubt,
  limit,
  login,
  opened,
  question,
  requestId,
  resumed,
  started
} from "./Journal.ts"

const a = callId(1, 1)
const r1 = requestId(1)

const open = (request: Interruption) => fold(started(), calls("write_file"), opened(request))
const outcome = (state: RunState, decision: DecisionInput): string => {
  const result = decide(state, { at: 2000, ...decision } as Decision)
  return Result.isSuccess(result) ? "taken" : `${result.failure._tag}: ${result.failure.message}`
}

const kinds: Record<string, Interruption> = {
  approval: approval(a, r1),
  question: question(a, r1),
  inDoubt: inDoubt(a, r1),
  limit: limit(r1, "turns", 8),
  login: login(r1)
}
const by = { requestId: r1, by: "ada" }
const answers: Record<string, DecisionInput> = {
  approve: { _tag: "approve", ...by },
  deny: { _tag: "deny", ...by },
  answer: { _tag: "answer", ...by, answer: "main" },
  supply: { _tag: "supply", ...by, result: 1 },
  retry: { _tag: "retry", ...by },
  fail: { _tag: "fail", ...by },
  topUp: { _tag: "topUp", ...by, limit: 9 }
}
const fits: Record<string, ReadonlyArray<string>> = {
  approval: ["approve", "deny", "supply"],
  question: ["deny", "answer"],
  inDoubt: ["supply", "retry", "fail"],
  limit: ["deny", "topUp"],
  login: ["deny", "retry"]
}

describe("decide", () => {
  for (const [kind, request] of Object.entries(kinds)) {
    it(`accepts ${fits[kind]!.join(", ")} for the request kind ${kind}, and nothing else`, () => {
      const taken = Object.entries(answers).filter(
        ([, decision]) => outcome(open(request), decision) === "taken"
      )
      assert.deepStrictEqual(
        taken.map(([tag]) => tag),
        fits[kind]
      )
    })
  }

  it("names the decisions that fit the request", () => {
    assert.strictEqual(
      outcome(open(kinds["question"]!), answers["approve"]!),
      `DecisionNotApplicable: "approve" does not answer the question request run-1.r1: use answer, deny.`
    )
  })

  it("rejects a decision on an unknown request", () => {
    assert.strictEqual(
      outcome(open(kinds["approval"]!), { ...answers["approve"]!, requestId: "run-1.r9" as RequestId }),
      "RequestNotFound: There is no request run-1.r9: list the pending requests and decide one of those."
    )
  })

  it("accepts the first of two decisions, and rejects the second with the first one", () => {
    const state = foldOnto(open(kinds["approval"]!), decided({ ...answers["deny"]!, at: 0 } as Decision))
    assert.strictEqual(
      outcome(state, { ...answers["approve"]!, by: "grace" }),
      "AlreadyDecided: run-1.r1 was decided (deny) by ada at 1970-01-01T00:00:00.000Z; that decision stands."
    )
    assert.isTrue(outcome(state, answers["deny"]!).startsWith("AlreadyDecided"))
  })

  it("rejects a decision about other arguments", () => {
    assert.strictEqual(
      outcome(open(kinds["approval"]!), { ...answers["approve"]!, digest: "another" } as DecisionInput),
      'ArgumentsChanged: run-1.r1 asks about other arguments than the ones decided on: show it again and decide anew. To approve other arguments, give them in the decision, as "arguments".'
    )
    assert.strictEqual(
      outcome(open(kinds["approval"]!), { ...answers["approve"]!, digest: "digest" }),
      "taken"
    )
  })

  it("rejects a grant of a privileged tool", () => {
    const state = open(approval(a, r1, { safety: "privileged", tool: "delete_branch" }))
    assert.strictEqual(
      outcome(state, { _tag: "approve", ...by, grant: { scope: "run" } }),
      "GrantRefused: delete_branch is privileged and cannot be granted for more than one call: approve run-1.r1 alone."
    )
    assert.strictEqual(outcome(state, answers["approve"]!), "taken")
  })

  it("accepts a top-up above the spent amount, in whole numbers except for money", () => {
    const turns = open(limit(r1, "turns", 8, 9))
    const topUp = (state: RunState, limit: number) => outcome(state, { _tag: "topUp", ...by, limit })
    assert.strictEqual(
      topUp(turns, 9),
      `DecisionNotApplicable: A top-up of run-1.r1 takes a "limit" above 9, which has been used already: a whole number, except for money.`
    )
    assert.isTrue(topUp(turns, 9.5).startsWith("DecisionNotApplicable"))
    assert.isTrue(topUp(turns, Number.NaN).startsWith("DecisionNotApplicable"))
    assert.strictEqual(topUp(turns, 10), "taken")
    const money = open(limit(r1, "cost", 0.5, 0.6))
    assert.strictEqual(topUp(money, 0.75), "taken")
    assert.isTrue(topUp(money, 0.6).startsWith("DecisionNotApplicable"))
  })

  it("rejects a decision on a cancelled run, and on a failed one until it is resumed", () => {
    const state = open(kinds["approval"]!)
    assert.strictEqual(
      outcome(foldOnto(state, cancelled), answers["approve"]!),
      "RequestSuperseded: run-1.r1 is no longer open: the run was cancelled."
    )
    assert.strictEqual(
      outcome(foldOnto(state, broke), answers["approve"]!),
      "RequestSuperseded: run-1.r1 is no longer open: the run has failed: resume it first."
    )
    assert.strictEqual(outcome(foldOnto(state, broke, resumed), answers["approve"]!), "taken")
  })

  it("points from a superseded request to its replacement", () => {
    const state = foldOnto(open(kinds["approval"]!), opened(approval(a, requestId(2))))
    assert.strictEqual(
      outcome(state, answers["approve"]!),
      "RequestSuperseded: run-1.r1 is no longer open: it is asked anew. Decide run-1.r2 instead."
    )
    assert.strictEqual(outcome(state, { _tag: "approve", requestId: requestId(2), by: "ada" }), "taken")
  })

  it("quotes no argument value in a rejection", () => {
    const state = open(approval(a, r1, { arguments: { password: "hunter2" }, safety: "privileged" }))
    const edited = { password: "hunter3" }
    for (const decision of [
      { _tag: "approve", ...by, arguments: edited, digest: "x" },
      { _tag: "approve", ...by, arguments: edited, grant: { scope: "run" } },
      { _tag: "answer", ...by, answer: "hunter3" }
    ] as const) {
      assert.notMatch(outcome(state, decision), /hunter/)
    }
  })

  it("checks a decision against a request without a state", () => {
    assert.isTrue(Result.isSuccess(check(kinds["login"]!, { at, _tag: "retry", ...by })))
    assert.isTrue(Result.isFailure(check(kinds["login"]!, { at, _tag: "approve", ...by })))
  })
})
