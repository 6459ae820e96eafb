/**
 * Which results of a run are untrusted: a fold over its events.
 */
import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import * as ApprovalPolicy from "../../src/domain/ApprovalPolicy.ts"
import { evolve } from "../../src/domain/evolve.ts"
import * as Grant from "../../src/domain/Grant.ts"
import type { GrantId, RunId, ToolCallId } from "../../src/domain/Id.ts"
import { untrustedIn } from "../../src/domain/internal/untrusted.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import type { RunState } from "../../src/domain/RunState.ts"
import { add } from "../../src/domain/Untrusted.ts"
import { calls, childStarted, delegated, done, fold, foldOnto, inside, started } from "./Journal.ts"

/** The journal of a run whose model makes these calls in one turn. */
const begun = (tools: ReadonlyArray<string>): RunState => fold(started(), calls(...tools))

const completed = (state: RunState, ordinal: number, untrusted: boolean): RunEvent => ({
  _tag: "tool.completed",
  at: 10 + ordinal,
  callId: state.calls[ordinal]!.id,
  content: [{ _tag: "text", text: "x" }],
  ...(untrusted ? { untrusted: true as const } : {})
})

const toolsIn = (state: RunState) => untrustedIn(state).map(({ tool }) => tool)

describe("the untrusted results of a run", () => {
  it("are none before a result is marked, and stay when the turn ends and the next run of the session starts", () => {
    const before = begun(["fetch", "read"])
    assert.deepStrictEqual(untrustedIn(before), [])
    const open = evolve(before, completed(before, 0, true))
    assert.deepStrictEqual(toolsIn(open), ["fetch"])
    assert.isUndefined(open.untrusted)
    const closed = evolve(open, completed(before, 1, false))
    assert.deepStrictEqual(closed.untrusted, [{ tool: "fetch", callId: before.calls[0]!.id, at: 10 }])
    const next = foldOnto(closed, done, started({ runId: "run-2" as RunId }))
    assert.deepStrictEqual(next.untrusted, closed.untrusted)
  })

  it("stay when the run is cancelled in the turn of the result", () => {
    const before = begun(["fetch", "read"])
    const open = evolve(before, completed(before, 0, true))
    const cancelled = evolve(open, { _tag: "run.cancelled", at: 30, reason: "stop", calls: [] })
    assert.deepStrictEqual(toolsIn(cancelled), ["fetch"])
  })

  it("of a sub-agent are those of its run, and of the run above once that has its answer", () => {
    const above = begun(["delegate"])
    const { id } = above.calls[0]!
    const inChild = foldOnto(above, delegated(id), childStarted(id), inside(id, calls("fetch")))
    const child = inChild.calls[0]!.child!
    const read = evolve(inChild, inside(id, completed(child, 0, true)))
    assert.deepStrictEqual(toolsIn(read.calls[0]!.child!), ["fetch"])
    assert.deepStrictEqual(toolsIn(read), [])
    assert.deepStrictEqual(toolsIn(evolve(read, inside(id, done))), ["fetch"])
  })

  it("are the same in any order in which parallel calls end", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.constantFrom("a", "b", "c"), fc.boolean()), { minLength: 1, maxLength: 6 }),
        fc.infiniteStream(fc.nat()),
        (calls, chance) => {
          const before = begun(calls.map(([tool]) => tool))
          const order = calls.map((_, index) => index)
          const shuffled = order.toSorted(() => (chance.next().value % 2 === 0 ? -1 : 1))
          const fold = (ordinals: ReadonlyArray<number>) =>
            ordinals.reduce(
              (state, ordinal) => evolve(state, completed(before, ordinal, calls[ordinal]![1])),
              before
            )
          assert.deepStrictEqual(untrustedIn(fold(shuffled)), untrustedIn(fold(order)))
          assert.sameMembers(toolsIn(fold(order)), [
            ...new Set(calls.filter(([, untrusted]) => untrusted).map(([tool]) => tool))
          ])
        }
      )
    )
  })

  it("never vanish with another event, and are bounded", () => {
    const result = fc.record({
      tool: fc.stringMatching(/^[a-z]{1,3}$/),
      callId: fc.string() as fc.Arbitrary<ToolCallId>,
      at: fc.nat()
    })
    fc.assert(
      fc.property(fc.array(result), fc.array(result), (known, more) => {
        const all = add(add([], known), more)
        assert.isAtMost(all.length, 20)
        assert.strictEqual(new Set(all.map(({ tool }) => tool)).size, all.length)
        if (more.length > 0) assert.deepStrictEqual(all.at(-1), more.at(-1))
        assert.strictEqual(all.length > 0, known.length + more.length > 0)
      })
    )
  })
})

describe("a policy in a run with untrusted results", () => {
  const judged = (policy: ApprovalPolicy.ApprovalPolicy, permits: ApprovalPolicy.Permits, needed = true) =>
    ApprovalPolicy.judge(policy, "send", needed, 5, permits)._tag

  it("asks where the mode or a rule with a star would permit the call", () => {
    assert.strictEqual(judged({ mode: "all" }, "named"), "ask")
    assert.strictEqual(judged({ mode: "until", until: 10 }, "named"), "ask")
    assert.strictEqual(judged({ mode: "ask", rules: [{ tool: "s*", action: "approve" }] }, "named"), "ask")
  })

  it("keeps a rule with the name of the tool, and what needs no approval", () => {
    assert.strictEqual(judged({ mode: "ask", rules: [{ tool: "send", action: "approve" }] }, "named"), "run")
    assert.strictEqual(judged({ mode: "all" }, "named", false), "run")
  })

  it("never permits what it would otherwise ask about or deny", () => {
    const rule = fc.record({
      tool: fc.constantFrom("send", "s*", "*", "other"),
      action: fc.constantFrom("ask" as const, "approve" as const, "deny" as const)
    })
    const policy = fc.record({
      mode: fc.constantFrom("ask" as const, "all" as const, "none" as const, "until" as const),
      until: fc.constantFrom(1, 10),
      rules: fc.array(rule, { maxLength: 3 })
    })
    const rank = { run: 0, ask: 1, deny: 2 }
    fc.assert(
      fc.property(policy, fc.boolean(), (policy, needed) => {
        const verdicts = (["any", "named", "none"] as const).map((permits) => judged(policy, permits, needed))
        // A rule that may not permit a call asks about it, even under the mode `none`, which that rule replaces.
        assert.isAtMost(rank[verdicts[0]!], rank[verdicts[1]!])
        assert.isAtMost(rank[verdicts[1]!], rank[verdicts[2]!])
        if (needed) assert.notStrictEqual(verdicts[2], "run")
      })
    )
  })
})

describe("a grant in a run with untrusted results", () => {
  const make = (untrusted?: ReadonlyArray<string> | "any") =>
    Grant.make({
      id: "g" as GrantId,
      definition: { agent: "a", tool: "send", safety: "sideEffecting", schema: "s" },
      approved: {},
      request: { scope: "run", ...(untrusted === "any" ? { untrusted } : {}) },
      ...(untrusted === undefined || untrusted === "any"
        ? {}
        : { untrusted: untrusted.map((callId) => ({ tool: "fetch", callId: callId as ToolCallId, at: 1 })) }),
      by: { by: "ada" },
      at: 1
    })
  const covers = (grant: Grant.Grant, ...ids: ReadonlyArray<string>) =>
    Grant.coversUntrusted(
      grant,
      ids.map((callId) => ({ callId: callId as ToolCallId }))
    )

  it("covers calls if it was given when the run had read no others", () => {
    assert.isTrue(covers(make()))
    assert.isFalse(covers(make(), "c1"))
    assert.isTrue(covers(make(["c1"]), "c1"))
    assert.isFalse(covers(make(["c1"]), "c1", "c2"))
    assert.isTrue(covers(make("any"), "c1", "c2"))
  })
})
