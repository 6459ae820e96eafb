/**
 * The contract of decisions on a run that ends: which of the two takes effect.
 */
import * as TestClock from "effect/testing/TestClock"
import * as Id from "../../../domain/Id.ts"
import type { RunEvent } from "../../../domain/RunEvent.ts"
import { a, ended, failed, inChild, resumed, rev, saying, session } from "./events.ts"
import type { Group } from "./group.ts"
import { approval, approve, decided, deny, opened } from "./requests.ts"
import { claimed, heldOn, openRequests, started } from "./stored.ts"

const child = Id.childRunId(Id.toolCallId(a, 1, 1))
const sibling = Id.childRunId(Id.toolCallId(a, 1, 2))

export const endings = ({ assert, fails, test }: Group): void => {
  const own = approval(a, 1)
  const childs = approval(child, 1)
  const siblings = approval(sibling, 1)

  const withdrawn = (requestId: Id.RequestId, reason = "withdrawn"): RunEvent => ({
    _tag: "request.superseded",
    at: 9,
    requestId,
    reason
  })
  const superseded = (requestId: Id.RequestId, reason: string) => ({
    _tag: "RequestSuperseded",
    requestId,
    reason
  })
  const passedOver = "it was decided when it no longer waited"

  test("refuses decisions on a run after its cancellation request was acknowledged", function* (store) {
    const lease = yield* started(store, a, { events: [opened(own)] })
    yield* store.requestCancel(a, "enough")
    yield* fails(
      store.decide(approve(own.requestId)),
      superseded(own.requestId, `the run ${a} is being cancelled`)
    )
    yield* fails(store.decideAll([deny(own.requestId)]), "RequestSuperseded")
    assert.deepStrictEqual(yield* store.decisions(a), [])
    yield* store.append({ lease, expected: rev(1), events: [ended], status: "cancelled" })
    yield* fails(store.decide(approve(own.requestId)), "RequestSuperseded")
  })

  test("refuses decisions on a sub-agent and those under it after its end was requested, and accepts those on others", function* (store) {
    const below = approval(Id.childRunId(Id.toolCallId(child, 1, 1)), 1)
    yield* heldOn(store, a, [own, childs, siblings, below])
    yield* store.send(a, { ...saying("no"), to: child, ends: true })
    for (const { requestId } of [childs, below]) {
      yield* fails(
        store.decide(approve(requestId)),
        superseded(requestId, `the run ${child} is being cancelled`)
      )
    }
    const batch = [own, childs].map(({ requestId }) => approve(requestId))
    yield* fails(store.decideAll(batch), "RequestSuperseded")
    assert.deepStrictEqual(yield* store.decisions(a), [])
    yield* store.decide(approve(own.requestId))
    yield* store.decideAll([approve(siblings.requestId)])
    assert.deepStrictEqual(
      (yield* store.decisions(a)).map(({ requestId }) => requestId),
      [own.requestId, siblings.requestId]
    )
  })

  test("keeps a decision from before the end was requested, and returns it again when it is repeated", function* (store) {
    yield* heldOn(store, a, [childs])
    const input = { ...approve(childs.requestId), idempotencyKey: "once" }
    const { decision } = yield* store.decide(input)
    yield* store.send(a, { ...saying("no"), to: child, ends: true })
    assert.deepStrictEqual(yield* store.decide(input), { runId: a, decision })
    yield* fails(store.decide(deny(childs.requestId)), "AlreadyDecided")
    assert.deepStrictEqual(yield* store.decisions(a), [decision])
  })

  test("refuses an append that supersedes a request with an unread decision", function* (store) {
    const lease = yield* started(store, a, { events: [opened(own), opened(siblings)] })
    const { decision } = yield* store.decide(approve(own.requestId))
    const append = { lease, expected: rev(2), status: "running" } as const
    const events = [withdrawn(own.requestId)] as const
    yield* fails(store.append({ ...append, events }), "RunConflict")
    assert.deepStrictEqual(yield* store.decisions(a), [decision])
    yield* store.append({ ...append, events: [withdrawn(siblings.requestId)] })
    yield* fails(store.decide(approve(siblings.requestId)), "RequestSuperseded")
  })

  test("accepts an append that ends a sub-agent with an unread decision", function* (store) {
    const lease = yield* started(store, a, { events: [opened(childs)] })
    yield* store.decide(approve(childs.requestId))
    const events = [inChild(a, withdrawn(childs.requestId)), inChild(a, ended)] as const
    yield* store.append({ lease, expected: rev(1), events, status: "running" })
    assert.deepStrictEqual(yield* store.decisions(a), [])
    yield* fails(store.decide(approve(childs.requestId)), "RequestSuperseded")
  })

  test("accepts an append that records that a decision no longer applies", function* (store) {
    const lease = yield* started(store, a, { events: [opened(own)] })
    yield* store.decide(approve(own.requestId))
    const events = [withdrawn(own.requestId, passedOver)] as const
    yield* store.append({ lease, expected: rev(1), events, status: "running" })
    assert.deepStrictEqual(yield* store.decisions(a), [])
  })

  test("refuses decisions on a failed run, and opens its requests again when it is resumed", function* (store) {
    const gone = approval(a, 2)
    const lease = yield* started(store, a, { events: [opened(own), opened(childs), opened(gone)] })
    yield* store.append({ lease, expected: rev(3), events: [withdrawn(gone.requestId)], status: "running" })
    yield* store.append({ lease, expected: rev(4), events: [failed], status: "error" })
    assert.deepStrictEqual(yield* store.pending(), [])
    for (const { requestId } of [own, childs]) {
      yield* fails(
        store.decide(approve(requestId)),
        superseded(requestId, "the run has failed: resume it first")
      )
    }
    yield* store.append({ lease, expected: rev(5), events: [resumed], status: "running" })
    assert.deepStrictEqual(yield* openRequests(store), [own, childs])
    assert.deepStrictEqual(yield* store.damaged, [])
    yield* fails(store.decide(approve(gone.requestId)), "RequestSuperseded")
    const { decision } = yield* store.decide(approve(own.requestId))
    assert.deepStrictEqual(yield* store.decisions(a), [decision])
    // The run fails and is resumed a second time.
    yield* store.append({ lease, expected: rev(6), events: [decided(decision), failed], status: "error" })
    yield* store.append({ lease, expected: rev(8), events: [resumed], status: "running" })
    yield* fails(store.decide(deny(own.requestId)), "AlreadyDecided")
    yield* store.decide(approve(childs.requestId))
  })

  for (const [event, status] of [
    [ended, "cancelled"],
    [failed, "error"]
  ] as const) {
    test(`refuses an end with status ${status} that does not record a decision on the run's own or a sub-agent's request`, function* (store) {
      const lease = yield* started(store, a, { events: [opened(own), opened(childs)] })
      const append = { lease, expected: rev(2), status }
      const { decision } = yield* store.decide(approve(own.requestId))
      yield* fails(store.append({ ...append, events: [event] }), {
        _tag: "RunConflict",
        runId: a,
        expected: 2,
        actual: 2
      })
      assert.deepStrictEqual((yield* store.load(a)).events, [opened(own), opened(childs)])
      yield* store.decide(deny(childs.requestId))
      const closing = [inChild(a, withdrawn(childs.requestId)), inChild(a, ended), event] as const
      yield* fails(store.append({ ...append, events: [decided(decision), ...closing] }), "RunConflict")
      const read = inChild(a, withdrawn(childs.requestId, passedOver))
      yield* store.append({ ...append, events: [decided(decision), read, event] })
      assert.deepStrictEqual(yield* store.decisions(a), [])
    })
  }

  test("keeps an unread decision of a failed run until the run is resumed", function* (store) {
    const decision = { ...deny(childs.requestId), at: 5 }
    // An earlier version did not read decisions before it appended a failure.
    const stored = { runId: a, sessionId: session("s1"), agent: "root", status: "error" } as const
    yield* store.restore([{ ...stored, events: [opened(childs), failed] }], [decision], [])
    const lease = yield* claimed(store, a)
    assert.deepStrictEqual(yield* store.decisions(a), [decision])
    yield* fails(store.decide(approve(childs.requestId)), "AlreadyDecided")
    const events = [resumed, inChild(a, decided(decision))] as const
    yield* store.append({ lease, expected: rev(2), events, status: "running" })
    assert.deepStrictEqual(yield* store.decisions(a), [])
  })

  test("opens no request again when a run that had not failed is resumed", function* (store) {
    const lease = yield* started(store, a, { events: [opened(own), opened(childs)] })
    yield* store.append({ lease, expected: rev(2), events: [withdrawn(own.requestId)], status: "held" })
    yield* store.append({ lease, expected: rev(3), events: [resumed], status: "running" })
    assert.deepStrictEqual(yield* openRequests(store), [childs])
  })

  test("records the expiry of a request, and not the decision, when a decision of any kind comes too late", function* (store) {
    const expiring = approval(a, 1, { expiresAt: 1000, onExpiry: "deny" })
    const { requestId } = expiring
    yield* heldOn(store, a, [expiring])
    const unfit = { _tag: "fail", requestId, by: "ada" } as const
    yield* fails(store.decide(unfit), "DecisionNotApplicable")
    assert.deepStrictEqual(yield* store.decisions(a), [])
    yield* TestClock.adjust(1000)
    yield* fails(store.decide(unfit), "AlreadyDecided")
    yield* TestClock.setTime(999)
    // The recorded expiry also counts for a clock that is behind.
    yield* fails(store.decide(approve(requestId)), "AlreadyDecided")
    assert.deepStrictEqual(
      (yield* store.decisions(a)).map(({ _tag, at, by }) => ({ _tag, at, by })),
      [{ _tag: "deny", at: 1000, by: "expiry" }]
    )
  })
}
