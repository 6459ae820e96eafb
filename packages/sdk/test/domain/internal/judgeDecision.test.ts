import { assert, describe, it } from "@effect/vitest"
import type { Decision } from "../../../src/domain/Decision.ts"
import { judgeDecision, type Standing, type Verdict } from "../../../src/domain/internal/judgeDecision.ts"
import { approval, callId, requestId } from "../Journal.ts"

const request = approval(callId(1, 1), requestId(1), { expiresAt: 2000, onExpiry: "deny" })
const inTime = 1999
const late = 2000
const by = { requestId: requestId(1), by: "ada", at: 1500 }

const approve: Decision = { _tag: "approve", ...by }
const keyed: Decision = { _tag: "deny", ...by, idempotencyKey: "k1" }
const repeated: Decision = { ...keyed, at: 1900, digest: "digest" }
/** A decision that no approval takes. */
const misfit: Decision = { _tag: "topUp", ...by, limit: 9 }
const otherArguments: Decision = { ...approve, digest: "another" }

const open: Standing = { _tag: "open" }
const decided: Standing = { _tag: "decided", decision: keyed }
const closed: Standing = { _tag: "closed", reason: "it is asked anew", by: requestId(2) }

const told = ({ first, record, refusal }: Verdict) => ({
  ...(first === undefined ? {} : { first }),
  ...(record === undefined ? {} : { recordedBy: record.by }),
  ...(refusal === undefined ? {} : { refusal: refusal._tag })
})

describe("judgeDecision", () => {
  for (const [fact, standing, decision, now, verdict] of [
    [
      "rejects a decision on a closed request before it checks the kind",
      closed,
      misfit,
      inTime,
      "RequestSuperseded"
    ],
    [
      "rejects a decision on a closed request before it checks the expiry",
      closed,
      approve,
      late,
      "RequestSuperseded"
    ],
    ["acknowledges a repeated decision after the request expired", decided, repeated, late, { first: keyed }],
    ["keeps the first decision before it checks the kind", decided, misfit, inTime, "AlreadyDecided"],
    ["keeps the first decision before it checks the expiry", decided, approve, late, "AlreadyDecided"],
    [
      "records the expiry and rejects a late decision before it checks the kind",
      open,
      misfit,
      late,
      { recordedBy: "expiry", refusal: "AlreadyDecided" }
    ],
    ["checks the kind before the arguments", open, misfit, inTime, "DecisionNotApplicable"],
    ["rejects a decision about other arguments", open, otherArguments, inTime, "ArgumentsChanged"],
    ["records a decision before the expiry", open, approve, inTime, { recordedBy: "ada" }]
  ] as const) {
    it(`${fact}`, () => {
      assert.deepStrictEqual(
        told(judgeDecision(request, standing, decision, now)),
        typeof verdict === "string" ? { refusal: verdict } : verdict
      )
    })
  }

  it("names the decision that stands, and the replacing request", () => {
    assert.strictEqual(
      judgeDecision(request, decided, approve, inTime).refusal?.message,
      "run-1.r1 was decided (deny) by ada at 1970-01-01T00:00:01.500Z; that decision stands."
    )
    assert.strictEqual(
      judgeDecision(request, closed, approve, inTime).refusal?.message,
      "run-1.r1 is no longer open: it is asked anew. Decide run-1.r2 instead."
    )
  })
})
