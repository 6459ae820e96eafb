/**
 * The contract for workers: which runs are ready, and which changes notify workers. Also of sessions and of restored runs.
 */
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import type { ReadyRun } from "../../../store/RunStorePort.ts"
import { a, b, manySaid, rev, run, said, session } from "./events.ts"
import type { Group } from "./group.ts"
import { approval, approve, decided, deny, opened } from "./requests.ts"
import { claimed, heldOn, notified, reasons, started, successesOf } from "./stored.ts"

const request = approval(a, 1)
const hour = 3_600_000

export const work = ({ assert, fails, test }: Group): void => {
  test("lists a running run whose lease has expired or was released as orphaned", function* (store) {
    yield* started(store, a, { ttl: 0 })
    const lease = yield* started(store, b)
    assert.deepStrictEqual(yield* store.ready(), [{ runId: a, agent: "root", reason: "orphaned" }])
    yield* store.release(lease)
    assert.deepStrictEqual(yield* reasons(store), ["run_a orphaned", "run_b orphaned"])
  })

  test("does not list held, leased or ended runs as ready", function* (store) {
    yield* heldOn(store, a, [request])
    yield* started(store, b)
    yield* started(store, run("completed"), { status: "completed", ttl: 0 })
    yield* started(store, run("failed"), { status: "error", ttl: 0 })
    assert.deepStrictEqual(yield* store.ready(), [])
  })

  test("does not list a run as ready that is held from its start and has no mail", function* (store) {
    yield* store.release(yield* started(store, a, { status: "held" }))
    assert.deepStrictEqual(yield* store.ready(), [])
    assert.strictEqual((yield* claimed(store, a)).runId, a)
  })

  test("lists a held run with a decision as ready, until the journal contains the decision", function* (store) {
    yield* heldOn(store, a, [request])
    const { decision } = yield* store.decide(approve(request.requestId))
    assert.deepStrictEqual(yield* reasons(store), ["run_a decided"])
    const lease = yield* claimed(store, a)
    assert.deepStrictEqual(yield* store.ready(), [])
    yield* store.park({ lease, expected: rev(1), events: [decided(decision)], status: "held" })
    assert.deepStrictEqual(yield* store.ready(), [])
  })

  test("lists a held run as expiring until its journal contains the warning, and as expired when its request has expired", function* (store) {
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

  test("lists a held run as expiring at the time that its request states", function* (store) {
    const early = approval(a, 1, { at: 0, expiresAt: 8 * hour, warnAt: 2 * hour })
    const late = approval(b, 1, { at: 0, expiresAt: 8 * hour, warnAt: 7.5 * hour })
    yield* heldOn(store, a, [early])
    yield* heldOn(store, b, [late])
    yield* TestClock.adjust("2 hours")
    assert.deepStrictEqual(yield* reasons(store), ["run_a expiring"])
    assert.deepStrictEqual((yield* store.request(early.requestId)).request, early)
    const lease = yield* claimed(store, a)
    const warning = { _tag: "request.expiring", at: 2 * hour, requestId: early.requestId } as const
    yield* store.park({ lease, expected: rev(1), events: [warning], status: "held" })
    yield* TestClock.adjust("5 hours")
    assert.deepStrictEqual(yield* store.ready(), [])
    yield* TestClock.adjust("30 minutes")
    assert.deepStrictEqual(yield* reasons(store), ["run_b expiring"])
  })

  test("lists a held run with a cancellation request as ready", function* (store) {
    yield* heldOn(store, a, [request])
    yield* store.decide(approve(request.requestId))
    yield* store.requestCancel(a, "enough")
    assert.deepStrictEqual(yield* reasons(store), ["run_a cancelled"])
  })

  test("lists ready runs of the named agents only, and at most `limit`", function* (store) {
    yield* started(store, a, { ttl: 0, agent: "ops" })
    yield* TestClock.adjust("1 second")
    yield* started(store, b, { ttl: 0, agent: "sales" })
    const ids = (ready: ReadonlyArray<{ readonly runId: string }>) => ready.map(({ runId }) => runId)
    assert.deepStrictEqual(ids(yield* store.ready({ agents: ["sales", "other"] })), [b])
    assert.deepStrictEqual(ids(yield* store.ready({ agents: [] })), [])
    assert.deepStrictEqual(ids(yield* store.ready({ limit: 1 })), [a])
  })

  test("notifies subscribers of a decision, of a cancellation request, and of a released lease", function* (store) {
    yield* heldOn(store, a, [request])
    const lease = yield* started(store, b)
    yield* notified(store, store.decide(approve(request.requestId)))
    yield* notified(store, store.requestCancel(a, "enough"))
    yield* notified(store, store.release(lease))
    assert.isTrue(true)
  })

  test("refuses a second next run of a session, and names the first one", function* (store) {
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

  test("starts one of twenty concurrent first runs of a session", function* (store) {
    const starts = Array.from({ length: 20 }, (_, index) =>
      started(store, run(`run_${index}`), { sessionId: session("crowd"), events: manySaid(3) })
    )
    assert.strictEqual((yield* successesOf(starts)).length, 1)
    assert.strictEqual((yield* store.list({ sessionId: session("crowd") })).length, 1)
  })

  test("returns the first decision when it is repeated with its idempotency key", function* (store) {
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

  test("lists each ready run once and page by page, even with many decided requests", function* (store) {
    const busy = Array.from({ length: 12 }, (_, index) => approval(a, index + 1))
    yield* heldOn(store, a, [busy[0]!, ...busy.slice(1)])
    for (const { requestId } of busy) yield* store.decide(approve(requestId))
    yield* TestClock.adjust("1 second")
    yield* started(store, b, { ttl: 0 })
    const listed = [
      { runId: b, agent: "root", reason: "orphaned" },
      { runId: a, agent: "root", reason: "decided" }
    ]
    assert.deepStrictEqual(yield* store.ready(), listed)
    for (const next of [({ cursor }: ReadyRun) => cursor, ({ runId }: ReadyRun) => runId]) {
      const pages: Array<ReadyRun> = []
      for (let after: string | undefined; ;) {
        const [found] = yield* store.ready({ limit: 1, ...(after === undefined ? {} : { after }) })
        if (found === undefined) break
        pages.push(found)
        after = next(found)
      }
      assert.deepStrictEqual(
        pages.map(({ agent, reason, runId }) => ({ runId, agent, reason })),
        listed
      )
    }
  })

  test("lists the runs after a page whose runs were driven meanwhile", function* (store) {
    const ids = Array.from({ length: 5 }, (_, index) => run(`run_${index}`))
    for (const id of ids) {
      yield* heldOn(store, id, [approval(id, 1)])
      yield* store.decide(approve(approval(id, 1).requestId))
      yield* TestClock.adjust("1 second")
    }
    const listed: Array<string> = []
    for (let after: string | undefined; ;) {
      const page = yield* store.ready({ limit: 2, ...(after === undefined ? {} : { after }) })
      for (const { runId } of page) {
        listed.push(runId)
        const lease = yield* claimed(store, runId)
        const { decisions } = yield* store.load(runId)
        yield* store.append({
          lease,
          expected: rev(1),
          events: [decided(decisions[0]!)],
          status: "completed"
        })
      }
      after = page.at(-1)?.cursor
      if (after === undefined) break
    }
    assert.deepStrictEqual(listed, ids)
  })

  test("lists runs with each reason in a page, however many runs with one reason there are", function* (store) {
    for (let index = 0; index < 20; index += 1) yield* started(store, run(`run_${index}`), { ttl: 0 })
    yield* TestClock.adjust("1 second")
    const approved = approval(run("decided"), 1)
    yield* heldOn(store, run("decided"), [approved])
    yield* store.decide(approve(approved.requestId))
    yield* heldOn(store, run("written"), [approval(run("written"), 1)])
    yield* store.send(run("written"), { messageId: "m", content: [{ _tag: "text", text: "hello" }] })
    yield* heldOn(store, run("stopped"), [approval(run("stopped"), 1)])
    yield* store.requestCancel(run("stopped"), "enough")
    const asked = { at: 1000, expiresAt: 2000 }
    yield* heldOn(store, run("expired"), [approval(run("expired"), 1, asked)])
    yield* TestClock.adjust("1 hour")
    const page = yield* store.ready({ limit: 5 })
    assert.deepStrictEqual(
      page.map(({ reason }) => reason),
      ["orphaned", "cancelled", "decided", "message", "expired"]
    )
  })

  test("lists the runs with one reason in the order in which they became ready, also of several agents", function* (store) {
    const ids = Array.from({ length: 4 }, (_, index) => run(`run_${index}`))
    for (const [index, id] of ids.entries()) {
      yield* store.release(yield* started(store, id, { agent: `agent-${index % 2}` }))
      const lease = yield* claimed(store, id)
      yield* store.park({ lease, expected: rev(1), events: [opened(approval(id, 1))], status: "held" })
    }
    for (const id of ids.toReversed()) {
      yield* store.decide(approve(approval(id, 1).requestId))
      yield* TestClock.adjust("1 second")
    }
    const listed = (agents?: ReadonlyArray<string>) =>
      Effect.map(store.ready(agents === undefined ? {} : { agents }), (page) =>
        page.map(({ runId }) => runId)
      )
    assert.deepStrictEqual(yield* listed(), ids.toReversed())
    assert.deepStrictEqual(yield* listed(["agent-1", "agent-0", "agent-1"]), ids.toReversed())
    assert.deepStrictEqual(yield* listed(["agent-1"]), [ids[3]!, ids[1]!])
    const many = Array.from({ length: 1200 }, (_, index) => `agent-${index}`)
    assert.deepStrictEqual(yield* listed(many), ids.toReversed())
    assert.deepStrictEqual(yield* listed([...many.slice(1), "agent-0"]), ids.toReversed())
  })

  test("returns the last run of a session, even if the clock was set back", function* (store) {
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

  test("restores runs of another store with their requests and decisions, all or none", function* (store) {
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

    // An archive without the decision does not remove it.
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

  test("accepts an event about a request that was not opened", function* (store) {
    const lease = yield* started(store, a)
    const warning = { _tag: "request.expiring", at: 5, requestId: request.requestId } as const
    yield* store.append({ lease, expected: rev(1), events: [warning, said("1")], status: "running" })
    yield* store.append({ lease, expected: rev(3), events: [opened(request)], status: "running" })
    assert.deepStrictEqual((yield* store.events(a)).length, 4)
    assert.deepStrictEqual(yield* store.ready(), [])
  })
}
