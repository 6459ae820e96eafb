/**
 * What a run store promises to processes that look for work: which runs need a worker, and how the workers are notified.
 */
import * as TestClock from "effect/testing/TestClock"
import { a, b, manySaid, rev, run, said, session } from "./events.ts"
import type { Group } from "./group.ts"
import { approval, approve, decided, deny, opened } from "./requests.ts"
import { claimed, heldOn, notified, reasons, started, successesOf } from "./stored.ts"

const request = approval(a, 1)
const hour = 3_600_000

export const work = ({ assert, fails, test }: Group): void => {
  test("says that a run at work whose lease ran out, or was given back, is orphaned", function* (store) {
    yield* started(store, a, { ttl: 0 })
    const lease = yield* started(store, b)
    assert.deepStrictEqual(yield* store.ready(), [{ runId: a, agent: "root", reason: "orphaned" }])
    yield* store.release(lease)
    assert.deepStrictEqual(yield* reasons(store), ["run_a orphaned", "run_b orphaned"])
  })

  test("finds nothing to do among runs that wait for people, run, or have ended", function* (store) {
    yield* heldOn(store, a, [request])
    yield* started(store, b)
    yield* started(store, run("completed"), { status: "completed", ttl: 0 })
    yield* started(store, run("failed"), { status: "error", ttl: 0 })
    assert.deepStrictEqual(yield* store.ready(), [])
  })

  test("finds a held run that has a decision, until the journal holds it", function* (store) {
    yield* heldOn(store, a, [request])
    const { decision } = yield* store.decide(approve(request.requestId))
    assert.deepStrictEqual(yield* reasons(store), ["run_a decided"])
    const lease = yield* claimed(store, a)
    assert.deepStrictEqual(yield* store.ready(), [])
    yield* store.park({ lease, expected: rev(1), events: [decided(decision)], status: "held" })
    assert.deepStrictEqual(yield* store.ready(), [])
  })

  test("finds a held run when one of its requests is about to expire, until that is recorded, and when it has expired", function* (store) {
    const expiring = approval(a, 1, { at: 0, expiresAt: 8 * hour })
    yield* heldOn(store, a, [expiring])
    yield* heldOn(store, b, [approval(b, 1, { at: 0, expiresAt: 8 * hour, onExpiry: "stay" })])
    assert.deepStrictEqual(yield* store.ready(), [])
    yield* TestClock.adjust("7 hours")
    assert.deepStrictEqual(yield* reasons(store), ["run_a expiring"])
    const lease = yield* claimed(store, a)
    const warning = { _tag: "request.expiring", at: 7 * hour, requestId: expiring.requestId } as const
    yield* store.park({ lease, expected: rev(1), events: [warning], status: "held" })
    assert.deepStrictEqual(yield* store.ready(), [])
    yield* TestClock.adjust("1 hour")
    assert.deepStrictEqual(yield* reasons(store), ["run_a expired"])
  })

  test("finds a held run whose cancellation was requested", function* (store) {
    yield* heldOn(store, a, [request])
    yield* store.decide(approve(request.requestId))
    yield* store.requestCancel(a, "enough")
    assert.deepStrictEqual(yield* reasons(store), ["run_a cancelled"])
  })

  test("lists ready runs of the named agents only, and no more than asked for", function* (store) {
    yield* started(store, a, { ttl: 0, agent: "ops" })
    yield* TestClock.adjust("1 second")
    yield* started(store, b, { ttl: 0, agent: "sales" })
    const ids = (ready: ReadonlyArray<{ readonly runId: string }>) => ready.map(({ runId }) => runId)
    assert.deepStrictEqual(ids(yield* store.ready({ agents: ["sales", "other"] })), [b])
    assert.deepStrictEqual(ids(yield* store.ready({ agents: [] })), [])
    assert.deepStrictEqual(ids(yield* store.ready({ limit: 1 })), [a])
  })

  test("notifies its listeners of a decision, of a cancellation, and of a lease that is released", function* (store) {
    yield* heldOn(store, a, [request])
    const lease = yield* started(store, b)
    yield* notified(store, store.decide(approve(request.requestId)))
    yield* notified(store, store.requestCancel(a, "enough"))
    yield* notified(store, store.release(lease))
    assert.isTrue(true)
  })

  test("lets one run follow another once: the second start hears which run was first", function* (store) {
    const sessionId = session("line")
    yield* started(store, a, { sessionId, status: "completed", ttl: 0 })
    yield* fails(started(store, run("other"), { sessionId }), {
      _tag: "SessionBusy",
      sessionId,
      runId: a,
      status: "completed"
    })
    const parent = { runId: a, revision: rev(1) }
    yield* started(store, b, { sessionId, parent })
    yield* fails(started(store, run("run_c"), { sessionId, parent }), {
      _tag: "SessionBusy",
      sessionId,
      runId: b,
      status: "running"
    })
    assert.deepStrictEqual((yield* store.list({ sessionId })).length, 2)
  })

  test("starts one of twenty runs that begin in one session at once", function* (store) {
    const starts = Array.from({ length: 20 }, (_, index) =>
      started(store, run(`run_${index}`), { sessionId: session("crowd"), events: manySaid(3) })
    )
    assert.strictEqual((yield* successesOf(starts)).length, 1)
    assert.strictEqual((yield* store.list({ sessionId: session("crowd") })).length, 1)
  })

  test("answers a decision that is sent again with its key as it answered the first one", function* (store) {
    yield* heldOn(store, a, [request])
    const decision = { ...approve(request.requestId), idempotencyKey: "click-1" }
    const first = yield* store.decide(decision)
    yield* TestClock.adjust("1 minute")
    assert.deepStrictEqual(yield* store.decide(decision), first)
    const lease = yield* claimed(store, a)
    yield* store.append({ lease, expected: rev(1), events: [decided(first.decision)], status: "running" })
    assert.deepStrictEqual(yield* store.decide(decision), first)
    for (const other of [
      { ...decision, idempotencyKey: "click-2" },
      { ...decision, by: "eve" },
      { ...deny(request.requestId, "ada"), idempotencyKey: "click-1" }
    ]) {
      yield* fails(store.decide(other), "AlreadyDecided")
    }
  })

  test("lists each ready run once and page by page, however many of its requests are decided", function* (store) {
    const busy = Array.from({ length: 12 }, (_, index) => approval(a, index + 1))
    yield* heldOn(store, a, [busy[0]!, ...busy.slice(1)])
    for (const { requestId } of busy) yield* store.decide(approve(requestId))
    yield* TestClock.adjust("1 second")
    yield* started(store, b, { ttl: 0 })
    const first = yield* store.ready({ limit: 1 })
    assert.deepStrictEqual(first, [{ runId: a, agent: "root", reason: "decided" }])
    const second = yield* store.ready({ limit: 1, after: a })
    assert.deepStrictEqual(second, [{ runId: b, agent: "root", reason: "orphaned" }])
    assert.deepStrictEqual(yield* store.ready({ limit: 1, after: b }), [])
  })

  test("knows the run of a session that no other follows, whatever the clocks said", function* (store) {
    const sessionId = session("line")
    assert.isTrue((yield* store.latest(sessionId)) === undefined)
    yield* TestClock.adjust("1 hour")
    yield* started(store, a, { sessionId, status: "completed", ttl: 0 })
    yield* TestClock.setTime(0)
    yield* started(store, b, {
      sessionId,
      status: "completed",
      ttl: 0,
      parent: { runId: a, revision: rev(1) }
    })
    assert.strictEqual((yield* store.latest(sessionId))?.runId, b)
  })

  test("restores runs of another store with their inbox and decisions, all of it or nothing", function* (store) {
    const sessionId = session("moved")
    const one = { runId: a, sessionId, agent: "root", status: "completed", events: manySaid(2) } as const
    const asked = approval(b, 1, { at: 0, expiresAt: 1 })
    const two = {
      runId: b,
      sessionId,
      agent: "root",
      status: "held",
      parent: { runId: a, revision: rev(2) },
      events: [said("0"), opened(asked)]
    } as const
    const decision = { ...approve(asked.requestId), at: 0 }
    yield* TestClock.adjust("1 hour")
    yield* store.restore([one, two], [decision], [])
    const { decisions, events, head } = yield* store.load(b)
    assert.deepStrictEqual(events.length, 4)
    assert.deepStrictEqual(decisions, [decision])
    assert.deepStrictEqual([head.status, head.lease, head.revision], ["held", undefined, 2])
    assert.deepStrictEqual(yield* reasons(store), ["run_b decided"])

    // The same again, without what it has got since: nothing changes.
    yield* store.restore([one, two], [], [])
    assert.deepStrictEqual((yield* store.load(b)).decisions, [decision])
    const three = {
      ...two,
      runId: run("run_c"),
      parent: { runId: b, revision: rev(2) },
      events: manySaid(2)
    } as const
    yield* store.restore([one, two, three], [], [])
    assert.strictEqual((yield* store.latest(sessionId))?.runId, three.runId)

    const other = { ...one, events: manySaid(2, 7) }
    const next = {
      ...three,
      runId: run("run_d"),
      parent: { runId: three.runId, revision: rev(2) }
    } as const
    yield* fails(store.restore([other, two, three, next], [], []), "RunExists")
    assert.deepStrictEqual((yield* store.list({ sessionId })).length, 3)
  })

  test("keeps what an event says of a request that it does not know", function* (store) {
    const lease = yield* started(store, a)
    const warning = { _tag: "request.expiring", at: 5, requestId: request.requestId } as const
    yield* store.append({ lease, expected: rev(1), events: [warning, said("1")], status: "running" })
    yield* store.append({ lease, expected: rev(3), events: [opened(request)], status: "running" })
    assert.deepStrictEqual((yield* store.events(a)).length, 4)
    assert.deepStrictEqual(yield* store.ready(), [])
  })
}
