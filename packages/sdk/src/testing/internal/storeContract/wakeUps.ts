/**
 * The contract of messages for workers: no message is missed, and no worker is woken without need.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import type { RunId } from "../../../domain/Id.ts"
import type { RunEvent } from "../../../domain/RunEvent.ts"
import { a, b, rev, run, said, saying, taking } from "./events.ts"
import type { Group, Store } from "./group.ts"
import { approval, approve, decided, opened } from "./requests.ts"
import { claimed, heldOn, mail, notified, reasons, started } from "./stored.ts"

const request = approval(a, 1)

export const wakeUps = ({ assert, test }: Group): void => {
  test("does not park a run with an unread message that the events do not contain, and writes nothing", function* (store) {
    const lease = yield* started(store, a)
    yield* store.send(a, saying("one", "m1"))
    yield* store.send(a, saying("two", "m2"))
    const parking = (events: readonly [RunEvent, ...ReadonlyArray<RunEvent>], expected: number) =>
      store.park({ lease, expected: rev(expected), events, status: "held" })
    assert.deepStrictEqual(yield* parking([said("held")], 1), { parked: false, revision: rev(1) })
    assert.deepStrictEqual(yield* parking([taking("m1")], 1), { parked: false, revision: rev(1) })
    assert.deepStrictEqual(yield* mail(store, a), ["m1: one", "m2: two"])
    const head = yield* store.head(a)
    assert.deepStrictEqual([head.status, head.revision, head.lease?.owner], ["running", 1, "me"])
    const all = [taking("m1"), taking("m2"), said("held")] as const
    assert.deepStrictEqual(yield* parking(all, 1), { parked: true, revision: rev(4) })
    assert.deepStrictEqual([yield* mail(store, a), yield* store.ready()], [[], []])
  })

  test("reports unread mail to the owner of the run's lease with each append and renewal", function* (store) {
    const lease = yield* started(store, a, { events: [opened(request)] })
    let expected = 1
    const news = (...events: readonly [RunEvent, ...ReadonlyArray<RunEvent>]) =>
      Effect.gen(function* () {
        const { revision, ...appended } = yield* store.append({
          lease,
          expected: rev(expected),
          events,
          status: "running"
        })
        expected = revision
        const { lease: _, ...renewed } = yield* store.renew(lease, "1 hour")
        assert.deepStrictEqual(appended, renewed)
        return appended
      })
    assert.deepStrictEqual(yield* news(said("1")), {})
    yield* store.send(a, saying("hello", "m1"))
    assert.deepStrictEqual(yield* news(said("2")), { hasMail: true })
    yield* store.send(a, saying("hello", "m2"))
    assert.deepStrictEqual(yield* news(taking("m1")), { hasMail: true })
    assert.deepStrictEqual(yield* news(taking("m2")), {})
    const { decision } = yield* store.decide(approve(request.requestId))
    yield* store.requestCancel(a, "enough")
    assert.deepStrictEqual(yield* news(said("3")), { hasMail: true, cancelReason: "enough" })
    assert.deepStrictEqual(yield* news(decided(decision)), { cancelReason: "enough" })
  })

  test("reports unread mail and requested cancellations of several runs without a write", function* (store) {
    const { notices } = store
    if (notices === undefined) return
    const lease = yield* started(store, a, { events: [opened(request)] })
    yield* started(store, b)
    const unknown = run("unknown")
    const news = (...runIds: ReadonlyArray<RunId>) =>
      Effect.map(notices(runIds), (all) =>
        all.map(({ cancelReason, hasMail, runId }) => `${runId} ${hasMail} ${cancelReason}`).sort()
      )
    assert.deepStrictEqual([yield* news(), yield* news(a, b, unknown)], [[], []])
    yield* store.send(a, saying("hello", "m1"))
    assert.deepStrictEqual(yield* news(a, b, unknown), ["run_a true undefined"])
    assert.deepStrictEqual(yield* news(b), [])
    yield* store.requestCancel(b, "enough")
    assert.deepStrictEqual(yield* news(b, a), ["run_a true undefined", "run_b undefined enough"])
    yield* store.append({ lease, expected: rev(1), events: [taking("m1")], status: "running" })
    assert.deepStrictEqual(yield* news(a), [])
    const { decision } = yield* store.decide(approve(request.requestId))
    assert.deepStrictEqual(yield* news(a), ["run_a true undefined"])
    yield* store.requestCancel(a, "enough")
    const events = [decided(decision), said("cancelled")] as const
    yield* store.append({ lease, expected: rev(2), events, status: "cancelled" })
    // What was asked of a run that has ended is not asked of a run that continues it.
    assert.deepStrictEqual(yield* news(a), [])
  })

  test("lists a held run with a message as ready, until the journal contains the message", function* (store) {
    yield* heldOn(store, a, [request])
    yield* started(store, b)
    yield* store.send(b, saying("at work"))
    yield* store.send(a, saying("hello", "m1"))
    assert.deepStrictEqual(yield* reasons(store), ["run_a message"])
    assert.deepStrictEqual(yield* store.ready({ agents: ["another"] }), [])
    yield* store.decide(approve(request.requestId))
    assert.deepStrictEqual(yield* reasons(store), ["run_a decided"])
    yield* store.requestCancel(a, "enough")
    assert.deepStrictEqual(yield* reasons(store), ["run_a cancelled"])
    const lease = yield* claimed(store, a)
    assert.deepStrictEqual(yield* store.ready(), [])
    const [decision] = yield* store.decisions(a)
    yield* store.append({
      lease,
      expected: rev(1),
      events: [decided(decision!), taking("m1")],
      status: "held"
    })
    yield* store.release(lease)
    assert.deepStrictEqual(yield* reasons(store), ["run_a cancelled"])
    assert.deepStrictEqual(yield* mail(store, a), [])
  })

  test("lists a run that has a message and an expired request with the reason `message`", function* (store) {
    yield* heldOn(store, a, [approval(a, 1, { at: 0, expiresAt: 60_000 })])
    yield* TestClock.adjust("1 hour")
    assert.deepStrictEqual(yield* reasons(store), ["run_a expired"])
    yield* store.send(a, saying("hello"))
    yield* store.send(a, saying("hello"))
    assert.deepStrictEqual(yield* reasons(store), ["run_a message"])
    assert.strictEqual((yield* store.ready()).length, 1)
  })

  const notifies = (
    change: string,
    before: (store: Store) => Effect.Effect<Effect.Effect<unknown, unknown>, unknown>
  ) =>
    test(`notifies subscribers of ${change}`, function* (store) {
      yield* notified(store, yield* before(store))
      assert.isTrue(true)
    })

  notifies("a sent message", (store) =>
    Effect.as(heldOn(store, a, [request]), store.send(a, saying("hello")))
  )

  notifies("a removed run", (store) => Effect.as(heldOn(store, a, [request]), store.remove(a)))

  notifies("a held run that is resumed", (store) =>
    Effect.map(Effect.andThen(heldOn(store, a, [request]), claimed(store, a)), (lease) =>
      store.append({
        lease,
        expected: rev(1),
        events: [{ _tag: "run.resumed", at: 1 }],
        status: "running"
      })
    )
  )

  notifies("the released lease of a run that has ended", (store) =>
    Effect.gen(function* () {
      const lease = yield* started(store, a)
      yield* store.append({ lease, expected: rev(1), events: [said("cancelled")], status: "cancelled" })
      return store.release(lease)
    })
  )

  notifies("a parked run, whose lease is not released separately", (store) =>
    Effect.map(started(store, a), (lease) =>
      store.park({ lease, expected: rev(1), events: [said("held")], status: "held" })
    )
  )

  test("keeps the unread message of a failed run, which is not ready, and does not park the resumed run without it", function* (store) {
    const lease = yield* started(store, a)
    yield* store.send(a, saying("hello", "m1"))
    yield* store.append({ lease, expected: rev(1), events: [said("failed")], status: "error" })
    yield* store.release(lease)
    assert.deepStrictEqual([yield* mail(store, a), yield* store.ready()], [["m1: hello"], []])
    const next = yield* claimed(store, a, "you")
    yield* store.append({ lease: next, expected: rev(2), events: [said("on")], status: "running" })
    const parking = { lease: next, expected: rev(3), events: [said("held")], status: "held" } as const
    assert.strictEqual((yield* store.park(parking)).parked, false)
    assert.strictEqual((yield* store.park({ ...parking, events: [taking("m1")] })).parked, true)
  })

  test("parks a run and lists it as ready, or does not park it, when a message is sent concurrently", function* (store) {
    const found = new Set<string>()
    const listening = yield* Deferred.make<void>()
    const woken = yield* Queue.unbounded<void>()
    yield* Effect.forkChild(
      Stream.runForEach(store.changes, () =>
        Effect.gen(function* () {
          for (const { reason, runId } of yield* store.ready()) if (reason === "message") found.add(runId)
          yield* Deferred.succeed(listening, undefined)
          yield* Queue.offer(woken, undefined)
        })
      )
    )
    yield* Deferred.await(listening)
    for (let round = 0; round < 40; round += 1) {
      const runId = run(`run_${round}`)
      const lease = yield* started(store, runId)
      const park = store.park({ lease, expected: rev(1), events: [said("held")], status: "held" })
      const send = store.send(runId, saying("hello", "m1"))
      const both = round % 2 === 0 ? ([park, send] as const) : ([send, park] as const)
      const results = yield* Effect.all(both, { concurrency: "unbounded" })
      assert.deepStrictEqual(yield* mail(store, runId), ["m1: hello"])
      const isParked = results.some((result) => "parked" in result && result.parked)
      assert.strictEqual((yield* store.head(runId)).status, isParked ? "held" : "running")
      while (isParked && !found.has(runId)) yield* Queue.take(woken)
    }
  })
}
