/**
 * The contract of leases, cancellation and deletion.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import {
  approval,
  approve,
  type Group,
  heldOn,
  manySaid,
  opened,
  rev,
  run,
  said,
  started,
  fields,
  tagOf
} from "./fixtures.ts"

const a = run("run_a")
const b = run("run_b")

export const leases = ({ assert, test }: Group): void => {
  test("refuses to claim a run that somebody holds, even for the same owner", function* (store) {
    const lease = yield* started(store, a)
    for (const owner of ["you", "me"]) {
      const error = yield* Effect.flip(store.claim({ runId: a, owner, ttl: "1 hour" }))
      assert.deepStrictEqual(fields(error), { _tag: "RunBusy", runId: a, owner: "me", until: lease.until })
    }
    assert.strictEqual(yield* tagOf(store.claim({ runId: b, owner: "me", ttl: 1 })), "RunNotFound")
  })

  test("lets a run be claimed that was given back, under a higher epoch", function* (store) {
    yield* store.release(yield* started(store, a))
    assert.strictEqual((yield* store.head(a)).lease, undefined)
    const lease = yield* store.claim({ runId: a, owner: "you", ttl: "1 hour" })
    assert.deepStrictEqual([lease.owner, lease.epoch], ["you", 2])
    assert.strictEqual((yield* store.head(a)).lease?.owner, "you")
  })

  test("lets a run be claimed whose lease ran out, and refuses every write of the old one", function* (store) {
    const old = yield* started(store, a, { ttl: 0 })
    assert.strictEqual((yield* store.head(a)).lease, undefined)
    const lease = yield* store.claim({ runId: a, owner: "you", ttl: "1 hour" })
    const late = { lease: old, expected: rev(1), events: [said("late")], status: "completed" } as const
    assert.strictEqual(yield* tagOf(store.append(late)), "LeaseLost")
    assert.strictEqual(yield* tagOf(store.park(late)), "LeaseLost")
    assert.strictEqual(yield* tagOf(store.renew(old, "1 hour")), "LeaseLost")
    yield* store.release(old)
    assert.strictEqual((yield* store.head(a)).lease?.owner, "you")
    assert.deepStrictEqual((yield* store.load(a)).events, [said("0")])
    yield* store.append({ lease, expected: rev(1), events: [said("1")], status: "running" })
  })

  test("refuses a write under a lease that ran out, even when nobody took it over", function* (store) {
    const lease = yield* started(store, a, { ttl: 0 })
    const late = { lease, expected: rev(1), events: [said("late")], status: "running" } as const
    const error = yield* Effect.flip(store.append(late))
    assert.deepStrictEqual(fields(error), { _tag: "LeaseLost", runId: a, owner: "me" })
    assert.strictEqual(yield* tagOf(store.renew(lease, "1 hour")), "LeaseLost")
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
      assert.strictEqual(yield* tagOf(store.append(late)), "LeaseLost")
    }
  })

  test("extends a lease that is in force", function* (store) {
    const lease = yield* started(store, a)
    const renewed = yield* store.renew(lease, "2 hours")
    assert.isTrue(renewed.lease.until > lease.until)
    assert.strictEqual(renewed.cancelReason, undefined)
    assert.strictEqual((yield* store.head(a)).lease?.until, renewed.lease.until)
    yield* store.append({ lease: renewed.lease, expected: rev(1), events: [said("1")], status: "running" })
  })

  test("gives the run to one of many that claim it at once", function* (store) {
    yield* store.release(yield* started(store, a))
    const claims = Array.from({ length: 8 }, (_, index) =>
      Effect.exit(store.claim({ runId: a, owner: `owner ${index}`, ttl: "1 hour" }))
    )
    const fibers = yield* Effect.forEach(claims, (claim) => Effect.forkChild(claim))
    const exits = yield* Effect.forEach(fibers, Fiber.join)
    assert.strictEqual(exits.filter((exit) => exit._tag === "Success").length, 1)
  })

  test("parks a run: appends and gives the lease back", function* (store) {
    const lease = yield* started(store, a)
    const events = [opened(approval(a, 1)), said("held")] as const
    const parked = yield* store.park({ lease, expected: rev(1), events, status: "held" })
    assert.deepStrictEqual(parked, { parked: true, revision: rev(3) })
    const head = yield* store.head(a)
    assert.deepStrictEqual([head.status, head.revision, head.lease], ["held", 3, undefined])
    assert.strictEqual((yield* store.pending()).length, 1)
    yield* store.claim({ runId: a, owner: "you", ttl: "1 hour" })
  })

  test("does not park, and writes nothing, while a decision waits", function* (store) {
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
      events: [{ _tag: "request.decided", at: 2, decision: decision! }],
      status: "running"
    })
    const again = yield* store.park({ lease, expected: appended.revision, events, status: "held" })
    assert.deepStrictEqual(again, { parked: true, revision: rev(3) })
  })

  test("does not park on a request whose time is up", function* (store) {
    const lease = yield* started(store, a)
    yield* TestClock.adjust("1 second")
    const events = [opened(approval(a, 1, { expiresAt: 1000 }))] as const
    const parked = yield* store.park({ lease, expected: rev(1), events, status: "held" })
    assert.deepStrictEqual(parked, { parked: false, revision: rev(1) })
    assert.deepStrictEqual(yield* store.pending({ expiresBefore: 1e9 }), [])
  })

  test("rejects a park at a stale revision", function* (store) {
    const lease = yield* started(store, a)
    const stale = { lease, expected: rev(0), events: [said("held")], status: "held" } as const
    assert.strictEqual(yield* tagOf(store.park(stale)), "RunConflict")
    assert.strictEqual((yield* store.head(a)).lease?.owner, "me")
  })

  test("tells whoever drives the run that it is to be cancelled, and the first reason stays", function* (store) {
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
    assert.strictEqual(yield* tagOf(store.requestCancel(b, "why not")), "RunNotFound")
  })
}

export const deletion = ({ assert, test }: Group): void => {
  test("deletes a run with everything that belongs to it", function* (store) {
    const request = approval(a, 1)
    yield* heldOn(store, a, [request])
    yield* store.remove(a)
    assert.strictEqual(yield* tagOf(store.load(a)), "RunNotFound")
    assert.strictEqual(yield* tagOf(store.events(a)), "RunNotFound")
    assert.strictEqual(yield* tagOf(store.request(request.requestId)), "RequestNotFound")
    assert.deepStrictEqual([yield* store.pending(), yield* store.list()], [[], []])
    assert.strictEqual(yield* tagOf(store.remove(a)), "RunNotFound")
    yield* started(store, a, { events: [opened(request)] })
    assert.strictEqual((yield* store.load(a)).events.length, 1)
  })

  test("does not delete a run that somebody works on", function* (store) {
    const lease = yield* started(store, a)
    assert.strictEqual(yield* tagOf(store.remove(a)), "RunBusy")
    yield* store.release(lease)
    yield* store.remove(a)
  })

  test("does not delete a run that a later one builds on", function* (store) {
    yield* started(store, a, { ttl: 0 })
    yield* started(store, b, { ttl: 0, parent: { runId: a, revision: rev(1) } })
    const error = yield* Effect.flip(store.remove(a))
    assert.deepStrictEqual(fields(error), { _tag: "RunContinued", runId: a, by: b })
    assert.deepStrictEqual((yield* store.load(b)).events, [said("0"), said("0")])
    yield* store.remove(b)
    yield* store.remove(a)
  })

  test("prunes the runs that ended before a time and counts them", function* (store) {
    yield* started(store, run("completed"), { status: "completed", ttl: 0 })
    yield* started(store, run("cancelled"), { status: "cancelled", ttl: 0 })
    yield* started(store, run("failed"), { status: "error", ttl: 0, events: manySaid(3) })
    yield* started(store, run("leased"), { status: "completed", ttl: "2 hours" })
    yield* started(store, run("running"), { ttl: 0 })
    yield* heldOn(store, run("held"), [approval(run("held"), 1)])
    yield* TestClock.adjust("1 hour")
    yield* started(store, run("later"), { status: "completed", ttl: 0 })
    assert.strictEqual(yield* store.prune({ endedBefore: 3_600_000 }), 3)
    const left = (yield* store.list()).map((head) => String(head.runId))
    assert.deepStrictEqual(left.toSorted(), ["held", "later", "leased", "running"])
    assert.strictEqual(yield* store.prune({ endedBefore: 3_600_000 }), 0)
  })

  test("keeps an ended run that a later run builds on, and prunes a session that ended as a whole", function* (store) {
    const c = run("run_c")
    const ended = { status: "completed", ttl: 0 } as const
    yield* started(store, a, ended)
    yield* TestClock.adjust("1 second")
    yield* started(store, b, { ...ended, parent: { runId: a, revision: rev(1) } })
    yield* TestClock.adjust("1 second")
    const lease = yield* started(store, c, { parent: { runId: b, revision: rev(1) } })
    assert.strictEqual(yield* store.prune({ endedBefore: 1e9 }), 0)
    yield* store.append({ lease, expected: rev(1), events: [said("end")], status: "completed" })
    yield* store.release(lease)
    assert.strictEqual(yield* store.prune({ endedBefore: 1e9 }), 3)
    assert.deepStrictEqual(yield* store.list(), [])
  })
}
