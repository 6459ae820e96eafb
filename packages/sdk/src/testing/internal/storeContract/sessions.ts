/**
 * The contract of runs that build on other runs: the next run of a session, forks, and the deletion of runs.
 */
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import type { RunId } from "../../../domain/Id.ts"
import type { RunEvent } from "../../../domain/RunEvent.ts"
import { a, b, c, d, failed, manySaid, resumed, rev, run, said, session } from "./events.ts"
import type { Group, Store } from "./group.ts"
import { approval, opened } from "./requests.ts"
import { claimed, heldOn, started, successesOf } from "./stored.ts"

const sessionId = session("one")

/** Creates a failed run with two events and a lease. */
const failing = (store: Store, runId: RunId, of = sessionId) =>
  started(store, runId, { sessionId: of, events: [said("0"), failed], status: "error" })

const next = (store: Store, runId: RunId, revision: number, from = a, of = sessionId) =>
  started(store, runId, { sessionId: of, parent: { runId: from, revision: rev(revision) } })

/** A session continues after a failed run with that run or with the next one, never with both. */
export const successors = ({ assert, fails, test }: Group): void => {
  test("does not resume a failed run once the next run of its session builds on its end", function* (store) {
    const lease = yield* failing(store, a)
    yield* next(store, b, 2)
    const busy = { _tag: "SessionBusy", sessionId, runId: b, status: "running" }
    for (const status of ["running", "held"] as const) {
      const taken = { lease, expected: rev(2), events: [resumed, said("more")], status } as const
      yield* fails(store.append(taken), busy)
      yield* fails(store.park(taken), busy)
    }
    assert.deepStrictEqual((yield* store.load(a)).events, [said("0"), failed])
    // Its cancellation can still be appended.
    const cancelled: RunEvent = { _tag: "run.cancelled", at: 11, reason: "no longer needed", calls: [] }
    yield* store.append({ lease, expected: rev(2), events: [resumed, cancelled], status: "cancelled" })
    assert.strictEqual((yield* store.latest(sessionId))?.runId, b)
  })

  test("resumes a failed run on which only forks build, and the next run of its session builds on its new end", function* (store) {
    const lease = yield* failing(store, a)
    yield* next(store, b, 2, a, session("two"))
    yield* store.append({ lease, expected: rev(2), events: [resumed, failed], status: "error" })
    yield* store.append({ lease, expected: rev(4), events: [resumed], status: "running" })
    yield* store.append({ lease, expected: rev(5), events: [said("1")], status: "completed" })
    yield* next(store, c, 6)
  })

  test("resumes a run that already has events after the revision on which the next run of its session builds", function* (store) {
    // An earlier version allowed both to continue.
    const later = { runId: b, sessionId, agent: "root", status: "completed", events: [said("b")] } as const
    yield* store.restore(
      [
        {
          runId: a,
          sessionId,
          agent: "root",
          status: "held",
          events: [said("0"), failed],
          rest: [resumed, said("1")]
        },
        { ...later, parent: { runId: a, revision: rev(2) } }
      ],
      [],
      []
    )
    const lease = yield* claimed(store, a)
    yield* store.append({ lease, expected: rev(4), events: [resumed], status: "running" })
  })

  test("starts the next run of a session only at the end of its last run", function* (store) {
    const lease = yield* failing(store, a)
    const refused = (status: string) => ({ _tag: "SessionBusy", sessionId, runId: a, status })
    yield* fails(next(store, b, 1), refused("error"))
    yield* store.append({ lease, expected: rev(2), events: [resumed], status: "running" })
    yield* fails(next(store, b, 2), refused("running"))
    yield* fails(next(store, b, 3), refused("running"))
    yield* store.append({ lease, expected: rev(3), events: [said("1")], status: "held" })
    yield* fails(next(store, b, 4), refused("held"))
    yield* fails(store.head(b), "RunNotFound")
    yield* store.append({ lease, expected: rev(4), events: manySaid(1), status: "completed" })
    yield* next(store, b, 5)
  })

  test("accepts either the resumption of a failed run or a concurrent start of the next run, not both", function* (store) {
    for (let round = 0; round < 10; round++) {
      const [first, second] = [run(`first_${round}`), run(`second_${round}`)]
      const of = session(`s-${round}`)
      const lease = yield* failing(store, first, of)
      const takeUp = store.append({ lease, expected: rev(2), events: [resumed], status: "running" })
      const begin = next(store, second, 2, first, of)
      const attempts = [Effect.isSuccess(takeUp), Effect.isSuccess(begin)]
      const won = yield* Effect.all(round % 2 === 0 ? attempts : attempts.toReversed(), { concurrency: 2 })
      assert.strictEqual(won.filter((isDone) => isDone).length, 1)
    }
  })
}

const [one, two] = [session("one"), session("two")]

/** Creates a run in another session that builds on the first events of a run. */
const forked = (
  store: Store,
  runId: RunId,
  from: RunId,
  revision: number,
  sessionId = session(`s-${runId}`)
) =>
  started(store, runId, {
    sessionId,
    parent: { runId: from, revision: rev(revision) },
    events: [said(`by ${runId}`)],
    ttl: 0
  })

/** A fork is the first run of its own session and builds on a part of another session's run. */
export const forks = ({ assert, fails, test }: Group): void => {
  test("accepts a fork at any revision of a run, of a fork, and of a run whose lease is in force", function* (store) {
    const lease = yield* started(store, a, { events: manySaid(4), sessionId: one })
    yield* forked(store, b, a, 3)
    yield* forked(store, c, a, 3)
    yield* forked(store, d, b, 1)
    yield* store.append({ lease, expected: rev(4), events: manySaid(2, 4), status: "running" })
    assert.deepStrictEqual((yield* store.load(c)).events, [...manySaid(3), said("by run_c")])
    assert.deepStrictEqual((yield* store.load(d)).events, [
      ...manySaid(3),
      said("by run_b"),
      said("by run_d")
    ])
    assert.strictEqual((yield* store.latest(one))?.runId, a)
    assert.strictEqual((yield* store.latest(session("s-run_b")))?.runId, b)
  })

  test("keeps a fork as the first run of its session, which accepts one next run like any other", function* (store) {
    yield* started(store, a, { events: manySaid(4), sessionId: one, status: "completed", ttl: 0 })
    yield* forked(store, b, a, 2, two)
    const taken = { _tag: "SessionBusy", sessionId: two, runId: b, status: "running" }
    const other = run("run_e")
    yield* fails(started(store, other, { sessionId: two }), taken)
    yield* fails(forked(store, other, a, 3, two), taken)
    yield* fails(forked(store, other, b, 1, one), "SessionBusy")
    const ended = yield* claimed(store, b)
    yield* store.append({ lease: ended, expected: rev(1), events: [said("the end")], status: "completed" })
    const parent = { runId: b, revision: rev(2) }
    yield* started(store, c, { sessionId: two, parent, ttl: 0 })
    yield* fails(started(store, other, { sessionId: two, parent }), "SessionBusy")
    assert.strictEqual((yield* store.latest(two))?.runId, c)
    yield* forked(store, d, b, 1, session("three"))
  })

  test("starts one of many concurrent first runs of a session, whether new runs or forks", function* (store) {
    yield* started(store, a, { events: manySaid(4), sessionId: one })
    yield* started(store, b, { events: manySaid(4) })
    const starts = Array.from({ length: 18 }, (_, index) => {
      const runId = run(`run_${index}`)
      return index % 3 === 0
        ? started(store, runId, { sessionId: two })
        : forked(store, runId, index % 3 === 1 ? a : b, 2, two)
    })
    assert.strictEqual((yield* successesOf(starts)).length, 1)
    assert.strictEqual((yield* store.list({ sessionId: two })).length, 1)
  })

  test("does not delete a run on which a fork builds", function* (store) {
    yield* started(store, a, { events: manySaid(2), sessionId: one, status: "completed", ttl: 0 })
    yield* forked(store, b, a, 1)
    yield* fails(store.remove(a), {
      _tag: "RunContinued",
      runId: a,
      by: b
    })
    assert.strictEqual(yield* store.prune({ endedBefore: 1e9 }), 0)
    yield* store.remove(b)
    yield* store.remove(a)
  })
}

export const deletion = ({ assert, fails, test }: Group): void => {
  test("deletes a run with its journal and its requests", function* (store) {
    const request = approval(a, 1)
    yield* heldOn(store, a, [request])
    yield* store.remove(a)
    yield* fails(store.load(a), "RunNotFound")
    yield* fails(store.events(a), "RunNotFound")
    yield* fails(store.request(request.requestId), "RequestNotFound")
    assert.deepStrictEqual([yield* store.pending(), yield* store.list()], [[], []])
    yield* fails(store.remove(a), "RunNotFound")
    yield* started(store, a, { events: [opened(request)] })
    assert.strictEqual((yield* store.load(a)).events.length, 1)
  })

  test("does not delete a run whose lease is in force", function* (store) {
    const lease = yield* started(store, a)
    yield* fails(store.remove(a), "RunBusy")
    yield* store.release(lease)
    yield* store.remove(a)
  })

  test("does not delete a run on which a later run builds", function* (store) {
    yield* started(store, a, { ttl: 0 })
    yield* started(store, b, { ttl: 0, parent: { runId: a, revision: rev(1) } })
    yield* fails(store.remove(a), { _tag: "RunContinued", runId: a, by: b })
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

  test("does not prune a run on which an active run builds, and prunes a session whose runs have all ended", function* (store) {
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
