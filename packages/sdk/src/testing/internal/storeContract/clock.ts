/**
 * The contract of leases where the clock by which they are judged is set back.
 */
import { type Group, rev, run, said, started, tagOf } from "./fixtures.ts"

const a = run("run_a")
const b = run("run_b")
const minutes = 60_000

export const clockSetBack = ({ assert, hooks: { setBack }, test }: Group): void => {
  test("keeps a lease in force whatever the length of the one before", function* (store) {
    const lease = yield* started(store, a, { ttl: "1 minute" })
    const longer = yield* store.renew(lease, "2 hours")
    yield* store.append({ lease: longer.lease, expected: rev(1), events: [said("1")], status: "running" })
    const shorter = yield* store.renew(longer.lease, "1 minute")
    assert.strictEqual(yield* tagOf(store.claim({ runId: a, owner: "you", ttl: 1 })), "RunBusy")
    yield* store.release(shorter.lease)
    const next = yield* store.claim({ runId: a, owner: "you", ttl: "3 hours" })
    assert.strictEqual(yield* tagOf(store.claim({ runId: a, owner: "me", ttl: 1 })), "RunBusy")
    yield* store.append({ lease: next, expected: rev(2), events: [said("2")], status: "running" })
  })

  if (setBack === undefined) return

  test("gives a run to the next who claims it when the clock was set back after its lease was given", function* (store) {
    const old = yield* started(store, a, { ttl: "15 seconds" })
    assert.deepStrictEqual(yield* store.ready(), [])
    yield* setBack(37 * minutes)
    assert.strictEqual((yield* store.head(a)).lease, undefined)
    assert.strictEqual((yield* store.list())[0]?.lease, undefined)
    assert.deepStrictEqual(yield* store.ready(), [{ runId: a, agent: "root", reason: "orphaned" }])
    const lease = yield* store.claim({ runId: a, owner: "you", ttl: "15 seconds" })
    assert.strictEqual(lease.epoch, old.epoch + 1)
    const late = { lease: old, expected: rev(1), events: [said("late")], status: "running" } as const
    assert.strictEqual(yield* tagOf(store.append(late)), "LeaseLost")
    yield* store.release(old)
    // One that was given after that is like any other.
    assert.strictEqual((yield* store.head(a)).lease?.owner, "you")
    assert.deepStrictEqual(yield* store.ready(), [])
    assert.strictEqual(yield* tagOf(store.claim({ runId: a, owner: "me", ttl: 1 })), "RunBusy")
    const renewed = yield* store.renew(lease, "15 seconds")
    yield* store.append({ lease: renewed.lease, expected: rev(1), events: [said("1")], status: "running" })
  })

  test("keeps every write of an owner that lives while the clock is set back, until another owner claims its run", function* (store) {
    const lease = yield* started(store, a, { ttl: "15 seconds" })
    yield* setBack(37 * minutes)
    yield* store.append({ lease, expected: rev(1), events: [said("1")], status: "running" })
    const renewed = (yield* store.renew(lease, "15 seconds")).lease
    assert.strictEqual((yield* store.head(a)).lease?.owner, renewed.owner)
    assert.strictEqual(yield* tagOf(store.claim({ runId: a, owner: "you", ttl: 1 })), "RunBusy")
    yield* setBack(37 * minutes)
    const next = yield* store.claim({ runId: a, owner: "you", ttl: "15 seconds" })
    const late = { lease: renewed, expected: rev(2), events: [said("late")], status: "held" } as const
    assert.strictEqual(yield* tagOf(store.append(late)), "LeaseLost")
    assert.strictEqual(yield* tagOf(store.park(late)), "LeaseLost")
    assert.strictEqual(yield* tagOf(store.renew(renewed, "15 seconds")), "LeaseLost")
    assert.strictEqual((yield* store.head(a)).revision, 2)
    yield* setBack(37 * minutes)
    const parked = yield* store.park({ ...late, lease: next, events: [said("2")] })
    assert.deepStrictEqual(parked, { parked: true, revision: rev(3) })
  })

  test("leaves a run to its owner when the clock is set back by less than the length of its lease", function* (store) {
    const lease = yield* started(store, a, { ttl: "15 minutes" })
    yield* setBack(10 * minutes)
    assert.strictEqual((yield* store.head(a)).lease?.owner, lease.owner)
    assert.deepStrictEqual(yield* store.ready(), [])
    assert.strictEqual(yield* tagOf(store.claim({ runId: a, owner: "you", ttl: 1 })), "RunBusy")
    assert.strictEqual(yield* tagOf(store.remove(a)), "RunBusy")
    yield* store.append({ lease, expected: rev(1), events: [said("1")], status: "running" })
    yield* setBack(10 * minutes)
    assert.deepStrictEqual(yield* store.ready(), [{ runId: a, agent: "root", reason: "orphaned" }])
  })

  test("judges a lease that was renewed or claimed again by its last length", function* (store) {
    const lease = yield* started(store, a, { ttl: "2 hours" })
    yield* store.renew(lease, "15 seconds")
    yield* store.release(yield* started(store, b, { ttl: "2 hours" }))
    yield* store.claim({ runId: b, owner: "me", ttl: "15 seconds" })
    yield* setBack(37 * minutes)
    assert.strictEqual((yield* store.ready()).length, 2)
    for (const runId of [a, b]) yield* store.claim({ runId, owner: "you", ttl: "15 seconds" })
  })

  test("removes and prunes a run whose lease was given before the clock was set back", function* (store) {
    yield* started(store, a, { ttl: "15 seconds" })
    yield* started(store, b, { ttl: "15 seconds", status: "completed" })
    assert.strictEqual(yield* tagOf(store.remove(a)), "RunBusy")
    assert.strictEqual(yield* store.prune({ endedBefore: 1e15 }), 0)
    yield* setBack(37 * minutes)
    yield* store.remove(a)
    assert.strictEqual(yield* store.prune({ endedBefore: 1e15 }), 1)
    assert.deepStrictEqual(yield* store.list(), [])
  })
}
