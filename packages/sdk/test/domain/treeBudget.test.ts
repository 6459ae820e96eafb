import { assert, describe, it } from "@effect/vitest"
import { exceededAbove, timeLeft, workedMs } from "../../src/domain/Budget.ts"
import * as Id from "../../src/domain/Id.ts"
import { type Limits, defaults } from "../../src/domain/Limits.ts"
import { constraintsOf, mayStart, next, onNothingLeft } from "../../src/domain/next.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import { findChild, type RunState } from "../../src/domain/RunState.ts"
import {
  allowed,
  answered,
  approval,
  askedAbout,
  at,
  callId,
  calls,
  childStarted,
  completed,
  decided,
  delegated,
  done,
  fold,
  foldOnto,
  held,
  inside,
  limit,
  opened,
  requestId,
  started
} from "./Journal.ts"

const a = callId(1, 1)
const b = callId(1, 2)
const r1 = requestId(1)
const ofA = { call: callId(1, 1, Id.childRunId(a)), request: requestId(1, Id.childRunId(a)) }
const usageOf = (tokens: number) => ({ inputTokens: tokens, outputTokens: 0, costUsd: 0 })

/** An answer of this many tokens, with a text or with calls of these tools. */
const spent = (tokens: number, ...names: ReadonlyArray<string>): RunEvent =>
  ({
    ...(names.length === 0 ? answered("Said.") : calls(...names)),
    ...({ usage: usageOf(tokens) } as object)
  }) as RunEvent

const background = (id: Id.ToolCallId, limits: Partial<Limits> = {}): ReadonlyArray<RunEvent> => [
  allowed(id, { target: "background" }),
  childStarted(id, { limits: { ...defaults, ...limits } })
]

const attached = (id: Id.ToolCallId, limits: Partial<Limits> = {}): ReadonlyArray<RunEvent> => [
  delegated(id),
  childStarted(id, { limits: { ...defaults, ...limits } })
]

/** The open request of the first call's sub-agent. */
const waits: ReadonlyArray<RunEvent> = [
  inside(a, calls("write")),
  ...askedAbout(ofA.call, ofA.request).map((event) => inside(a, event))
]

const approved = inside(
  a,
  decided({
    _tag: "approve",
    requestId: ofA.request,
    by: "ann",
    digest: approval(ofA.call, ofA.request).digest
  })
)

const lead = (limits: Partial<Limits>, fields: { readonly asks?: boolean } = {}) =>
  started({ ...fields, limits: { ...defaults, ...limits } })

const childOf = (state: RunState, id: Id.ToolCallId) => findChild(state, id)!
const stepOf = (state: RunState, id: Id.ToolCallId) => next(childOf(state, id), constraintsOf([state]))._tag

/** A lead of 100 tokens that has spent 10 and reserved 90 for a background sub-agent. */
const promised = fold(lead({ maxTokens: 100 }), spent(10, "delegate"), ...background(a, { maxTokens: 90 }))

describe("a budget whose rest is reserved", () => {
  it("makes the run wait while the sub-agent with the reservation works", () => {
    assert.strictEqual(next(promised)._tag, "AwaitChildren")
    assert.isFalse(mayStart([promised]))
  })

  it("opens a limit request when that sub-agent is held, or holds the run when it cannot ask", () => {
    const state = foldOnto(promised, ...waits)
    const step = next(state)
    assert.deepInclude(step, { _tag: "AskLimit" })
    assert.deepStrictEqual(step._tag === "AskLimit" ? step.exceeded : undefined, {
      budget: "tokens",
      limit: 100,
      spent: 100
    })
    assert.isTrue(mayStart([state]))
    const alone = foldOnto({ ...promised, asks: false }, ...waits)
    const holding = next(alone)
    assert.deepStrictEqual(
      holding._tag === "Hold" ? holding.requests.map((request) => request.requestId) : holding._tag,
      [ofA.request]
    )
    assert.isFalse(mayStart([alone]))
  })

  it("leaves the reservation to its sub-agent while the limit request is open", () => {
    const state = foldOnto(promised, ...waits, opened(limit(r1, "tokens", 100)))
    assert.strictEqual(next(state)._tag, "Hold")
    const after = foldOnto(state, approved)
    assert.strictEqual(next(after)._tag, "AwaitChildren")
    assert.strictEqual(stepOf(after, a), "SettleToolCalls")
  })

  it("withdraws the limit request when the rest of a reservation returns", () => {
    const state = foldOnto(promised, ...waits, opened(limit(r1, "tokens", 100)), approved)
    const over = foldOnto(state, inside(a, completed(ofA.call)), inside(a, spent(20)), inside(a, done))
    const step = next(over)
    assert.deepStrictEqual(
      step._tag === "Withdraw" ? step.requests.map(({ requestId }) => requestId) : step,
      [r1]
    )
    const after = foldOnto(over, {
      _tag: "request.superseded",
      at,
      requestId: r1,
      reason: "there is room again"
    })
    assert.strictEqual(next(after)._tag, "CallModel")
  })

  it("keeps the limit request when the budget is used up, and holds the sub-agents", () => {
    const state = foldOnto(promised, ...waits, opened(limit(r1, "tokens", 100)), approved)
    assert.strictEqual(stepOf(foldOnto(state, inside(a, spent(70, "write"))), a), "ClassifyCalls")
    const over = foldOnto(state, inside(a, spent(95, "write")))
    assert.strictEqual(stepOf(over, a), "Hold")
    assert.strictEqual(next(over)._tag, "Hold")
  })

  it("makes another sub-agent wait, and then open a limit request", () => {
    const state = fold(
      lead({ maxTokens: 100 }),
      spent(10, "delegate", "delegate"),
      ...background(a, { maxTokens: 90 }),
      ...attached(b)
    )
    assert.strictEqual(stepOf(state, b), "Hold")
    assert.strictEqual(next(state)._tag, "AwaitChildren")
    const stuck = foldOnto(state, ...waits)
    assert.strictEqual(stepOf(stuck, b), "CallModel")
    assert.deepStrictEqual(exceededAbove([stuck], childOf(stuck, b).limits, 0), {
      depth: 0,
      exceeded: { budget: "tokens", limit: 100, spent: 100 },
      isPromised: true
    })
    assert.strictEqual(stepOf(foldOnto(stuck, opened(limit(r1, "tokens", 100))), b), "Hold")
  })

  it("and another one do not deadlock two sub-agents", () => {
    const state = fold(
      lead({ maxTokens: 100, maxCostUsd: 10 }),
      spent(10, "delegate", "delegate"),
      ...attached(a, { maxTokens: 90 }),
      ...attached(b, { maxCostUsd: 10 })
    )
    assert.deepStrictEqual([stepOf(state, a), stepOf(state, b)], ["CallModel", "CallModel"])
  })
})

describe("a run with wrapUp", () => {
  const state = fold(
    lead({ maxTokens: 100, wrapUp: true }),
    spent(10, "delegate", "write"),
    ...attached(a),
    ...askedAbout(b, r1)
  )
  const nothing = {
    depth: 0,
    exceeded: { budget: "tokens", limit: 100, spent: 110 },
    isPromised: false
  } as const
  const due: RunEvent = { _tag: "budget.exhausted", at, budget: "tokens", limit: 100 }
  const asked: RunEvent = { _tag: "wrapUp.asked", at, budget: "tokens", limit: 100 }
  const usedUp = foldOnto(state, inside(a, spent(100, "write")), due)

  it("wraps up once when a sub-agent has used up the budget, and not for a reservation", () => {
    assert.strictEqual(onNothingLeft(state, nothing), "comesToItsEnd")
    assert.strictEqual(onNothingLeft(usedUp, nothing), "seenTo")
    assert.strictEqual(onNothingLeft(state, { ...nothing, isPromised: true }), "asks")
    assert.strictEqual(onNothingLeft({ ...state, asks: false }, nothing), "comesToItsEnd")
  })

  it("starts nothing under it, and asks the model once its calls are settled", () => {
    assert.strictEqual(stepOf(usedUp, a), "Hold")
    assert.strictEqual(next(usedUp)._tag, "AskWrapUp")
  })

  it("accepts an answer that was pending, with its calls", () => {
    const writing = foldOnto(fold(lead({ maxTokens: 100, wrapUp: true })), due, spent(10, "write"))
    assert.strictEqual(writing.calls.length, 1)
    assert.isUndefined(writing.wrappingUp?.answered)
    assert.strictEqual(next(writing)._tag, "AskWrapUp")
  })

  it("supersedes the requests of the turn", () => {
    const after = foldOnto(usedUp, asked)
    assert.deepStrictEqual(after.calls, [])
    assert.deepStrictEqual(
      after.requests.map(({ superseded }) => superseded),
      [{ reason: "the run comes to its end" }]
    )
    assert.strictEqual(next(after)._tag, "CallModel")
    assert.strictEqual(next(foldOnto(after, answered("Half.")))._tag, "AskLimit")
  })

  it("continues when the budget is raised before the model is asked", () => {
    const more = foldOnto(usedUp, {
      _tag: "limits.changed",
      at,
      limits: { ...usedUp.limits, maxTokens: 500 }
    })
    assert.isUndefined(more.wrappingUp)
    assert.strictEqual(next(more)._tag, "ResumeChildren")
  })
})

describe("the working time", () => {
  const running = fold(started(), calls("delegate"), ...background(a))

  it("of a held sub-agent stands still", () => {
    const rests = foldOnto(running, inside(a, { ...held, at: at + 500 } as RunEvent))
    assert.strictEqual(workedMs(childOf(rests, a), at + 9000), 500)
    assert.strictEqual(workedMs(rests, at + 9000), 9000)
    const again = foldOnto(rests, inside(a, { _tag: "run.resumed", at: at + 9000 }))
    assert.strictEqual(workedMs(childOf(again, a), at + 9100), 600)
  })

  it("of a held sub-agent does not start when the run is recovered or resumed", () => {
    const rests = foldOnto(running, inside(a, held))
    for (const event of [
      { _tag: "run.recovered", at: at + 100 },
      { _tag: "run.resumed", at: at + 100 }
    ] as const) {
      assert.strictEqual(workedMs(childOf(foldOnto(rests, event), a), at + 900), 0)
      assert.strictEqual(workedMs(childOf(foldOnto(running, event), a), at + 900), 800)
    }
  })

  it("does not reset the count of recoveries", () => {
    const dying = foldOnto(running, { _tag: "run.recovered", at })
    assert.strictEqual(dying.recoveries, 1)
    const state = foldOnto(dying, inside(a, held), inside(a, { _tag: "run.resumed", at }))
    assert.strictEqual(state.recoveries, 1)
  })

  it("left to a run is the least of its own and those above it", () => {
    const lone = (maxWallMs?: number) => fold(lead(maxWallMs === undefined ? {} : { maxWallMs }))
    assert.strictEqual(timeLeft([lone(500), lone(), lone(900)], at + 100), 400)
    assert.strictEqual(timeLeft([lone(), lone(50)], at + 100), -50)
    assert.isUndefined(timeLeft([lone(), lone()], at + 100))
    const last = foldOnto(lone(50), { _tag: "wrapUp.asked", at, budget: "wallTime", limit: 50 })
    assert.strictEqual(timeLeft([lone(500), last], at + 100), 400)
  })
})
