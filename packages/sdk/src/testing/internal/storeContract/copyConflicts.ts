/**
 * The contract of copies that conflict with the store's own runs: which ones are refused, and concurrent changes while they arrive.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as TestClock from "effect/testing/TestClock"
import type { RestoredRun } from "../../../store/RunStorePort.ts"
import {
  asked,
  decision,
  fork,
  further,
  held,
  known,
  later,
  message,
  one,
  original,
  partOf,
  restore,
  upTo
} from "./copies.ts"
import { a, b, c, d, manySaid, rev, run, said, saying, session } from "./events.ts"
import { factsOf, fields, type Group } from "./group.ts"
import { approve, deny } from "./requests.ts"
import { mail, started, touched } from "./stored.ts"

/** The original after it has ended. */
const over = {
  ...further,
  status: "completed",
  events: [...further.events, said("end")]
} as const satisfies RestoredRun

export const copyConflicts = ({ assert, fails, test }: Group): void => {
  test("returns whether a refused copy is older or newer than the stored run, diverges from it, or is another run", function* (store) {
    const refusal = (given: RestoredRun) =>
      Effect.map(factsOf(restore(store, given)), ({ archive }) => archive)
    const aside = { ...original, events: [...original.events, said("aside")] } as const
    yield* restore(store, further)
    assert.strictEqual(yield* refusal(original), "older")
    assert.strictEqual(yield* refusal({ ...original, decisions: [decision] }), "older")
    assert.strictEqual(yield* refusal({ ...original, messages: [message] }), "newer")
    assert.strictEqual(yield* refusal({ ...original, cancelReason: "enough" }), "newer")
    assert.strictEqual(yield* refusal(aside), "apart")
    assert.strictEqual(yield* refusal({ ...original, events: [said("other")] }), "other")
    assert.strictEqual(yield* refusal({ ...original, sessionId: session("two") }), "other")
    yield* touched(store, a)
    assert.strictEqual(yield* refusal(further), "older")
    assert.strictEqual(yield* refusal(over), "newer")
    const approved = { ...approve(later.requestId), at: 0 }
    assert.strictEqual(yield* refusal({ ...further, decisions: [approved] }), "newer")
    yield* store.decide(approve(later.requestId))
    assert.strictEqual(yield* refusal({ ...further, decisions: [approved] }), "older")
  })

  test("refuses a later copy that would drop a decision or a message of this store", function* (store) {
    const refused = Effect.fnUntraced(function* (later: RestoredRun) {
      const before = yield* known(store, a)
      yield* fails(restore(store, later), "RunExists")
      // The fork can build on the stored events.
      yield* restore(store, upTo(later, 2), fork(c, 2))
      assert.deepStrictEqual(yield* known(store, a), before)
      for (const runId of [b, c, a]) yield* store.remove(runId)
    })
    yield* restore(store, upTo(original, 2), fork(b, 2))
    yield* store.decide(deny(asked.requestId))
    yield* refused(further)

    yield* restore(store, upTo(original, 2), fork(b, 2))
    yield* store.decide(deny(asked.requestId))
    yield* refused({ ...original, decisions: [decision] })

    yield* restore(store, upTo(original, 2), fork(b, 2))
    yield* store.decide(approve(asked.requestId))
    yield* refused({ ...original, status: "cancelled", events: [...original.events, said("end")] })

    yield* restore(store, upTo(original, 2), fork(b, 2))
    yield* store.send(a, saying("one", "m2"))
    yield* refused(over)
  })

  test("does not replace a run that was claimed here, or one on whose end another run builds", function* (store) {
    yield* restore(store, upTo(original, 2), fork(b, 2))
    yield* touched(store, a)
    const exists = { _tag: "RunExists", runId: a, status: "held", archive: "newer", revoked: [] }
    yield* fails(restore(store, further), exists)
    // The fork builds on an event that is not stored.
    yield* fails(restore(store, upTo(further, 3), fork(c, 3)), "RunExists")
    yield* restore(store, upTo(further, 2), fork(c, 2))
    assert.deepStrictEqual(yield* known(store, a), held)
    for (const runId of [b, c, a]) yield* store.remove(runId)

    yield* restore(store, partOf(original, 1, b), fork(b, 1))
    yield* started(store, d, { sessionId: one, parent: { runId: a, revision: rev(2) }, ttl: 0 })
    yield* fails(restore(store, original), "RunExists")
    assert.strictEqual((yield* store.latest(one))?.runId, d)
  })

  test("refuses a run with a stored id and other events, another session, another agent or another parent", function* (store) {
    yield* restore(store, partOf(original, 1, b), fork(b, 1))
    const [, ...more] = original.events
    for (const other of [
      { ...original, events: [said("other"), ...more] },
      { ...original, sessionId: session("two") },
      { ...original, agent: "other" },
      { ...original, parent: { runId: b, revision: rev(1) } }
    ] as const) {
      yield* fails(restore(store, other), "RunExists")
    }
    assert.strictEqual((yield* store.head(a)).status, "cancelled")
  })

  test("refuses to start a run on a copy that was replaced since it was read, or on another run with its id", function* (store) {
    const start = (revision: number, createdAt: number) =>
      started(store, d, {
        sessionId: session("of-d"),
        parent: { runId: a, revision: rev(revision), createdAt },
        ttl: 0
      })
    yield* restore(store, partOf(original, 1, b), fork(b, 1))
    const { createdAt } = yield* store.head(a)
    yield* restore(store, original)
    const replaced = yield* store.head(a)
    assert.isTrue(replaced.createdAt > createdAt)
    const removed = { _tag: "RunRemoved", runId: a }
    yield* fails(start(2, createdAt), removed)
    yield* start(2, replaced.createdAt)
    for (const runId of [d, b, a]) yield* store.remove(runId)
    yield* TestClock.adjust("1 second")
    yield* started(store, a, { sessionId: one, events: manySaid(2), status: "completed", ttl: 0 })
    yield* fails(start(2, replaced.createdAt), removed)
  })

  test("restores a run with a whole journal while the run on which it builds is removed", function* (store) {
    const first = { ...original, status: "completed", events: manySaid(3) } as const
    const second = { ...fork(b, 3, one), status: "completed" } as const
    for (let round = 0; round < 12; round++) {
      yield* restore(store, first)
      yield* TestClock.adjust("1 minute")
      const removal =
        round % 2 === 0 ? Effect.asVoid(store.remove(a)) : Effect.asVoid(store.prune({ endedBefore: 1e12 }))
      const [restored] = yield* Effect.all(
        [Effect.exit(restore(store, first, second)), Effect.exit(removal)],
        {
          concurrency: "unbounded"
        }
      )
      assert.isTrue(Exit.isSuccess(restored))
      // The restored run may have been pruned, too.
      const stored = yield* Effect.option(store.load(b))
      if (stored._tag === "Some") {
        assert.deepStrictEqual(stored.value.events, [...manySaid(3), ...second.events])
        yield* store.remove(b)
      }
      yield* Effect.ignore(store.remove(a))
    }
  })

  test("refuses either the start of a run or the concurrent removal of the run on which it builds", function* (store) {
    for (let round = 0; round < 12; round++) {
      yield* started(store, a, { sessionId: one, status: "completed", ttl: 0 })
      const parent = { runId: a, revision: rev(1) }
      const [start, removal] = yield* Effect.all(
        [
          Effect.result(started(store, b, { sessionId: one, parent, ttl: 0 })),
          Effect.result(store.remove(a))
        ],
        { concurrency: "unbounded" }
      )
      if (start._tag === "Success") {
        assert.strictEqual(removal._tag === "Failure" && removal.failure._tag, "RunContinued")
        assert.strictEqual((yield* store.load(b)).events.length, 2)
        yield* store.remove(b)
        yield* store.remove(a)
      } else {
        assert.deepStrictEqual(fields(start.failure), { _tag: "RunRemoved", runId: a })
        assert.strictEqual(removal._tag, "Success")
      }
    }
  })

  test("restores many concurrent archives that share runs", function* (store) {
    const forks = Array.from({ length: 12 }, (_, index) =>
      restore(
        store,
        index % 2 === 0
          ? upTo(further, 1 + (index % 4))
          : partOf(further, 1 + (index % 4), run(`run_${index}`)),
        fork(run(`run_${index}`), 1 + (index % 4))
      )
    )
    yield* Effect.all(forks, { concurrency: "unbounded", discard: true })
    assert.deepStrictEqual((yield* known(store, a)).events, further.events)
    assert.strictEqual((yield* store.list()).length, 13)
    assert.deepStrictEqual(yield* mail(store, a), [])
  })
}
