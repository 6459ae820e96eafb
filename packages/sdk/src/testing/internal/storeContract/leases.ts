/**
 * The contract of leases, including a clock that is set back, and of cancellation requests.
 */
import * as TestClock from "effect/testing/TestClock"
import { a, b, rev, said } from "./events.ts"
import type { Group } from "./group.ts"
import { approval, approve, decided, opened } from "./requests.ts"
import { claimed, started, successesOf } from "./stored.ts"

const minutes = 60_000

export const leases = ({ assert, fails, test }: Group): void => {
  test("refuses to claim a run whose lease is in force, even for its owner", function* (store) {
    const lease = yield* started(store, a)
    for (const owner of ["you", "me"]) {
      yield* fails(store.claim({ runId: a, owner, ttl: "1 hour" }), {
        _tag: "RunBusy",
        runId: a,
        owner: "me",
        until: lease.until
      })
    }
    yield* fails(store.claim({ runId: b, owner: "me", ttl: 1 }), "RunNotFound")
  })

  test("claims a released run under a higher epoch", function* (store) {
    yield* store.release(yield* started(store, a))
    assert.strictEqual((yield* store.head(a)).lease, undefined)
    const lease = yield* claimed(store, a, "you")
    assert.deepStrictEqual([lease.owner, lease.epoch], ["you", 2])
    assert.strictEqual((yield* store.head(a)).lease?.owner, "you")
  })

  test("claims a run whose lease has expired, and refuses every write under the expired lease", function* (store) {
    const old = yield* started(store, a, { ttl: 0 })
    assert.strictEqual((yield* store.head(a)).lease, undefined)
    const lease = yield* claimed(store, a, "you")
    const late = { lease: old, expected: rev(1), events: [said("late")], status: "completed" } as const
    yield* fails(store.append(late), "LeaseLost")
    yield* fails(store.park(late), "LeaseLost")
    yield* fails(store.renew(old, "1 hour"), "LeaseLost")
    yield* store.release(old)
    assert.strictEqual((yield* store.head(a)).lease?.owner, "you")
    assert.deepStrictEqual((yield* store.load(a)).events, [said("0")])
    yield* store.append({ lease, expected: rev(1), events: [said("1")], status: "running" })
  })

  test("refuses a write under an expired lease, even if no other owner has claimed the run", function* (store) {
    const lease = yield* started(store, a, { ttl: 0 })
    const late = { lease, expected: rev(1), events: [said("late")], status: "running" } as const
    yield* fails(store.append(late), { _tag: "LeaseLost", runId: a, owner: "me" })
    yield* fails(store.renew(lease, "1 hour"), "LeaseLost")
    assert.strictEqual((yield* store.head(a)).revision, 1)
  })

  test("refuses a write under another owner or an earlier epoch", function* (store) {
    const lease = yield* started(store, a)
    for (const wrong of [
      { ...lease, owner: "you" },
      { ...lease, epoch: 0 },
      { ...lease, runId: b }
    ]) {
      const late = { lease: wrong, expected: rev(1), events: [said("late")], status: "running" } as const
      yield* fails(store.append(late), "LeaseLost")
    }
  })

  test("renews a lease that is in force", function* (store) {
    const lease = yield* started(store, a)
    const renewed = yield* store.renew(lease, "2 hours")
    assert.isTrue(renewed.lease.until > lease.until)
    assert.strictEqual(renewed.cancelReason, undefined)
    assert.strictEqual((yield* store.head(a)).lease?.until, renewed.lease.until)
    yield* store.append({ lease: renewed.lease, expected: rev(1), events: [said("1")], status: "running" })
  })

  test("lets one of many concurrent claims of a run succeed", function* (store) {
    yield* store.release(yield* started(store, a))
    const claims = Array.from({ length: 8 }, (_, index) => claimed(store, a, `owner ${index}`))
    assert.strictEqual((yield* successesOf(claims)).length, 1)
  })

  test("parks a run: appends the events and releases the lease", function* (store) {
    const lease = yield* started(store, a)
    const events = [opened(approval(a, 1)), said("held")] as const
    const parked = yield* store.park({ lease, expected: rev(1), events, status: "held" })
    assert.deepStrictEqual(parked, { parked: true, revision: rev(3) })
    const head = yield* store.head(a)
    assert.deepStrictEqual([head.status, head.revision, head.lease], ["held", 3, undefined])
    assert.strictEqual((yield* store.pending()).length, 1)
    yield* claimed(store, a, "you")
  })

  test("does not park a run with an unread decision, and writes nothing", function* (store) {
    const request = approval(a, 1)
    const lease = yield* started(store, a, { events: [opened(request)] })
    yield* store.decide(approve(request.requestId))
    const events = [said("held")] as const
    const parked = yield* store.park({ lease, expected: rev(1), events, status: "held" })
    assert.deepStrictEqual(parked, { parked: false, revision: rev(1) })
    const head = yield* store.head(a)
    assert.deepStrictEqual([head.status, head.revision, head.lease?.owner], ["running", 1, "me"])
    const [decision] = yield* store.decisions(a)
    const appended = yield* store.append({
      lease,
      expected: rev(1),
      events: [decided(decision!)],
      status: "running"
    })
    const again = yield* store.park({ lease, expected: appended.revision, events, status: "held" })
    assert.deepStrictEqual(again, { parked: true, revision: rev(3) })
  })

  test("does not park a run on an expired request", function* (store) {
    const lease = yield* started(store, a)
    yield* TestClock.adjust("1 second")
    const events = [opened(approval(a, 1, { expiresAt: 1000 }))] as const
    const parked = yield* store.park({ lease, expected: rev(1), events, status: "held" })
    assert.deepStrictEqual(parked, { parked: false, revision: rev(1) })
    assert.deepStrictEqual(yield* store.pending({ expiresBefore: 1e9 }), [])
  })

  test("refuses to park a run at a stale revision", function* (store) {
    const lease = yield* started(store, a)
    const stale = { lease, expected: rev(0), events: [said("held")], status: "held" } as const
    yield* fails(store.park(stale), "RunConflict")
    assert.strictEqual((yield* store.head(a)).lease?.owner, "me")
  })

  test("reports a cancellation request to the owner of the run's lease, with the first reason", function* (store) {
    const lease = yield* started(store, a)
    yield* store.requestCancel(a, "changed my mind")
    yield* store.requestCancel(a, "too late")
    const cancelReason = "changed my mind"
    const one = { lease, expected: rev(1), events: [said("1")], status: "running" } as const
    assert.deepStrictEqual(yield* store.append(one), { revision: rev(2), cancelReason })
    assert.strictEqual((yield* store.renew(lease, "1 hour")).cancelReason, cancelReason)
    const parked = yield* store.park({ ...one, expected: rev(2), status: "held" })
    assert.deepStrictEqual(parked, { parked: false, revision: rev(2) })
    assert.strictEqual((yield* store.head(a)).lease?.owner, "me")
    yield* fails(store.requestCancel(b, "why not"), "RunNotFound")
  })

  test("returns the reason of a cancellation request until the run is completed or cancelled, even after it failed", function* (store) {
    const lease = yield* started(store, a)
    yield* store.requestCancel(a, "first")
    yield* store.requestCancel(a, "second")
    assert.strictEqual((yield* store.head(a)).cancelReason, "first")
    assert.strictEqual((yield* store.load(a)).head.cancelReason, "first")
    assert.strictEqual((yield* store.list())[0]?.cancelReason, "first")
    yield* store.append({ lease, expected: rev(1), events: [said("failed")], status: "error" })
    for (const head of [yield* store.head(a), (yield* store.load(a)).head, ...(yield* store.list())]) {
      assert.deepStrictEqual([head.status, head.cancelReason], ["error", "first"])
    }
    // A failed run is not ready.
    yield* store.release(lease)
    assert.deepStrictEqual(yield* store.ready(), [])
    const again = yield* store.claim({ runId: a, owner: "me", ttl: "1 minute" })
    yield* store.append({ lease: again, expected: rev(2), events: [said("end")], status: "cancelled" })
    assert.strictEqual((yield* store.head(a)).cancelReason, undefined)
  })
}

export const clockSetBack = ({ assert, fails, hooks: { setBack }, test }: Group): void => {
  test("keeps a lease in force independently of the length of the previous one", function* (store) {
    const lease = yield* started(store, a, { ttl: "1 minute" })
    const longer = yield* store.renew(lease, "2 hours")
    yield* store.append({ lease: longer.lease, expected: rev(1), events: [said("1")], status: "running" })
    const shorter = yield* store.renew(longer.lease, "1 minute")
    yield* fails(store.claim({ runId: a, owner: "you", ttl: 1 }), "RunBusy")
    yield* store.release(shorter.lease)
    const next = yield* store.claim({ runId: a, owner: "you", ttl: "3 hours" })
    yield* fails(store.claim({ runId: a, owner: "me", ttl: 1 }), "RunBusy")
    yield* store.append({ lease: next, expected: rev(2), events: [said("2")], status: "running" })
  })

  if (setBack === undefined) return

  test("claims a run whose lease was taken before the clock was set back", function* (store) {
    const old = yield* started(store, a, { ttl: "15 seconds" })
    assert.deepStrictEqual(yield* store.ready(), [])
    yield* setBack(37 * minutes)
    assert.strictEqual((yield* store.head(a)).lease, undefined)
    assert.strictEqual((yield* store.list())[0]?.lease, undefined)
    assert.deepStrictEqual(yield* store.ready(), [{ runId: a, agent: "root", reason: "orphaned" }])
    const lease = yield* store.claim({ runId: a, owner: "you", ttl: "15 seconds" })
    assert.strictEqual(lease.epoch, old.epoch + 1)
    const late = { lease: old, expected: rev(1), events: [said("late")], status: "running" } as const
    yield* fails(store.append(late), "LeaseLost")
    yield* store.release(old)
    // A lease that was taken after the clock was set back is in force.
    assert.strictEqual((yield* store.head(a)).lease?.owner, "you")
    assert.deepStrictEqual(yield* store.ready(), [])
    yield* fails(store.claim({ runId: a, owner: "me", ttl: 1 }), "RunBusy")
    const renewed = yield* store.renew(lease, "15 seconds")
    yield* store.append({ lease: renewed.lease, expected: rev(1), events: [said("1")], status: "running" })
  })

  test("accepts every write of an owner after the clock was set back, until another owner claims its run", function* (store) {
    const lease = yield* started(store, a, { ttl: "15 seconds" })
    yield* setBack(37 * minutes)
    yield* store.append({ lease, expected: rev(1), events: [said("1")], status: "running" })
    const renewed = (yield* store.renew(lease, "15 seconds")).lease
    assert.strictEqual((yield* store.head(a)).lease?.owner, renewed.owner)
    yield* fails(store.claim({ runId: a, owner: "you", ttl: 1 }), "RunBusy")
    yield* setBack(37 * minutes)
    const next = yield* store.claim({ runId: a, owner: "you", ttl: "15 seconds" })
    const late = { lease: renewed, expected: rev(2), events: [said("late")], status: "held" } as const
    yield* fails(store.append(late), "LeaseLost")
    yield* fails(store.park(late), "LeaseLost")
    yield* fails(store.renew(renewed, "15 seconds"), "LeaseLost")
    assert.strictEqual((yield* store.head(a)).revision, 2)
    yield* setBack(37 * minutes)
    const parked = yield* store.park({ ...late, lease: next, events: [said("2")] })
    assert.deepStrictEqual(parked, { parked: true, revision: rev(3) })
  })

  test("keeps a lease in force when the clock is set back by less than its length", function* (store) {
    const lease = yield* started(store, a, { ttl: "15 minutes" })
    yield* setBack(10 * minutes)
    assert.strictEqual((yield* store.head(a)).lease?.owner, lease.owner)
    assert.deepStrictEqual(yield* store.ready(), [])
    yield* fails(store.claim({ runId: a, owner: "you", ttl: 1 }), "RunBusy")
    yield* fails(store.remove(a), "RunBusy")
    yield* store.append({ lease, expected: rev(1), events: [said("1")], status: "running" })
    yield* setBack(10 * minutes)
    assert.deepStrictEqual(yield* store.ready(), [{ runId: a, agent: "root", reason: "orphaned" }])
  })

  test("measures a lease by the length of its last renewal or claim", function* (store) {
    const lease = yield* started(store, a, { ttl: "2 hours" })
    yield* store.renew(lease, "15 seconds")
    yield* store.release(yield* started(store, b, { ttl: "2 hours" }))
    yield* store.claim({ runId: b, owner: "me", ttl: "15 seconds" })
    yield* setBack(37 * minutes)
    assert.strictEqual((yield* store.ready()).length, 2)
    for (const runId of [a, b]) yield* store.claim({ runId, owner: "you", ttl: "15 seconds" })
  })

  test("removes and prunes a run whose lease was taken before the clock was set back", function* (store) {
    yield* started(store, a, { ttl: "15 seconds" })
    yield* started(store, b, { ttl: "15 seconds", status: "completed" })
    yield* fails(store.remove(a), "RunBusy")
    assert.strictEqual(yield* store.prune({ endedBefore: 1e15 }), 0)
    yield* setBack(37 * minutes)
    yield* store.remove(a)
    assert.strictEqual(yield* store.prune({ endedBefore: 1e15 }), 1)
    assert.deepStrictEqual(yield* store.list(), [])
  })
}
