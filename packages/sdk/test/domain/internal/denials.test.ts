import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import type { Decision } from "../../../src/domain/Decision.ts"
import { evolve } from "../../../src/domain/evolve.ts"
import type { RunId } from "../../../src/domain/Id.ts"
import { hasDenial, recordsOf, standingDenial } from "../../../src/domain/internal/denials.ts"
import type { RequestRecord, RunState } from "../../../src/domain/RunState.ts"
import { approval, callId, requestId, started } from "../Journal.ts"

/** What happened to one request: of which digest, how it was decided, when, and whether it was reopened later. */
const happening = fc.record({
  digest: fc.constantFrom("one", "other"),
  decision: fc.constantFrom("open", "approve", "edit", "deny", "expiry", "supersede", "supply"),
  at: fc.integer({ min: 1, max: 6 }),
  reopenedAfter: fc.option(fc.integer({ min: 0, max: 3 }), { nil: undefined })
})
type Happening = typeof happening extends fc.Arbitrary<infer A> ? A : never

const decisionOf = ({ at, decision, digest }: Happening, index: number): Decision | undefined => {
  const by = { requestId: requestId(index), by: "ann", at }
  switch (decision) {
    case "open":
      return undefined
    case "approve":
      return { _tag: "approve", ...by }
    case "edit":
      return { _tag: "approve", ...by, arguments: { of: digest === "one" ? "other" : "one" } }
    case "deny":
      return { _tag: "deny", ...by }
    case "expiry":
      return { _tag: "deny", ...by, by: "expiry" }
    case "supersede":
      return { _tag: "deny", ...by, supersedes: "run-1" as RunId }
    case "supply":
      return { _tag: "supply", ...by, result: "by hand" }
  }
}

const isReopened = ({ decision, reopenedAfter }: Happening) =>
  decision === "deny" && reopenedAfter !== undefined

const recordOf = (one: Happening, index: number): RequestRecord => {
  const { at, digest, reopenedAfter } = one
  const decision = decisionOf(one, index)
  const request = approval(callId(1, index), requestId(index), { digest, arguments: { of: digest } })
  return {
    request,
    ...(decision === undefined ? {} : { decision }),
    ...(isReopened(one) ? { reopened: { by: "ben", at: at + reopenedAfter! } } : {})
  }
}

/** The last word on the call "one": denials stand over what happened at the same time, except a reopening. */
const isDenied = (happenings: ReadonlyArray<Happening>): boolean => {
  const words = happenings.flatMap(
    (one): ReadonlyArray<{ readonly at: number; readonly denies: boolean }> => {
      const { at, decision, digest } = one
      if (decision === "edit") return digest === "other" ? [{ at: at - 0.5, denies: false }] : []
      if (digest !== "one") return []
      if (isReopened(one)) return [{ at: at + one.reopenedAfter!, denies: false }]
      if (decision === "deny") return [{ at, denies: true }]
      return decision === "approve" ? [{ at: at - 0.5, denies: false }] : []
    }
  )
  const denials = words.filter(({ denies }) => denies)
  return (
    denials.length > 0 && words.every(({ at, denies }) => denies || denials.some((denial) => denial.at > at))
  )
}

describe("a denial", () => {
  it("stands for a digest exactly if the last word of a party on it is a denial", () => {
    fc.assert(
      fc.property(fc.array(happening, { maxLength: 6 }), (happenings) => {
        const records = happenings.map((one, index) => recordOf(one, index + 1))
        const denial = standingDenial(records, "one")
        assert.strictEqual(denial !== undefined, isDenied(happenings))
        // The order of the requests does not matter.
        assert.strictEqual(standingDenial(records.toReversed(), "one") !== undefined, denial !== undefined)
        const state: RunState = { ...evolve(undefined, started()), requests: records }
        if (denial !== undefined) assert.isTrue(hasDenial(state, denial.request.tool))
        assert.deepStrictEqual(recordsOf(state, "write_file"), records)
      }),
      { numRuns: 2000 }
    )
  })
})
