/**
 * The contract of copies: runs that another store held, which arrive in archives, in any order, beside what this store does with them.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as TestClock from "effect/testing/TestClock"
import type { Decision } from "../../../domain/Decision.ts"
import type { RunId } from "../../../domain/Id.ts"
import { text } from "../../../domain/Message.ts"
import { endOfPartialCopy } from "../../../store/internal/copies.ts"
import type { RestoredRun } from "../../../store/RunStorePort.ts"
import { a, b, c, d, manySaid, rev, run, said, saying, session, taking } from "./events.ts"
import type { Group, Store } from "./group.ts"
import { approval, approve, decided, deny, opened } from "./requests.ts"
import { factsOf, fields, mail, openRequests, reasons, started, tagOf } from "./stored.ts"

const one = session("one")
const asked = approval(a, 1)
const later = approval(a, 2)
const decision: Decision = { ...approve(asked.requestId), at: 0 }
const message = { messageId: "m1", content: [text("hello")], at: 5 }
const byDecision = decided(decision, 6)

/** The original: it asks, and is held. */
const original = {
  runId: a,
  sessionId: one,
  agent: "root",
  status: "held",
  events: [said("0"), opened(asked)]
} as const satisfies RestoredRun

/** The same, after the decision was acted on and it has asked again. */
const further = {
  ...original,
  events: [...original.events, byDecision, opened(later)]
} as const satisfies RestoredRun

/** The same, after it has ended. */
const over = {
  ...further,
  status: "completed",
  events: [...further.events, said("end")]
} as const satisfies RestoredRun

/** A run as one that the next builds on from this revision on. */
const upTo = (given: RestoredRun, revision: number): RestoredRun => {
  const [first, ...more] = given.events
  return { ...given, events: [first, ...more.slice(0, revision - 1)], rest: more.slice(revision - 1) }
}

/** Only the part of the original that a fork builds on. */
const partOf = (given: RestoredRun, revision: number, by: RunId): RestoredRun => ({
  ...upTo(given, revision),
  rest: [endOfPartialCopy(7, by, [])],
  status: "cancelled"
})

const fork = (runId: RunId, revision: number, sessionId = session(`s-${runId}`)): RestoredRun => ({
  runId,
  sessionId,
  agent: "root",
  status: "held",
  parent: { runId: a, revision: rev(revision) },
  events: [said(`by ${runId}`)]
})

const restore = (store: Store, ...runs: readonly [RestoredRun, ...Array<RestoredRun>]) =>
  store.restore(runs, runs.at(-1)?.decisions ?? [], runs.at(-1)?.messages ?? [])

/** What the store has of a run. */
const known = (store: Store, runId: RunId) =>
  Effect.gen(function* () {
    const { cancelReason, revision, status } = yield* store.head(runId)
    return {
      revision,
      status,
      ...(cancelReason === undefined ? {} : { cancelReason }),
      events: yield* store.events(runId),
      decisions: yield* store.decisions(runId),
      messages: yield* store.messages(runId),
      open: (yield* openRequests(store, { runId })).map(({ requestId }) => requestId)
    }
  })

const held = {
  status: "held",
  revision: 2,
  events: original.events,
  decisions: [],
  messages: [],
  open: [asked.requestId]
}

export const copies = ({ assert, test }: Group): void => {
  test("restores the run that a fork builds on with how it went on, and with all that waits for it", function* (store) {
    const mailed = { decisions: [decision], messages: [message], cancelReason: "enough" }
    yield* restore(store, { ...upTo(original, 1), ...mailed }, fork(b, 1))
    assert.deepStrictEqual(yield* known(store, a), { ...held, ...mailed, open: [] })
    assert.deepStrictEqual((yield* store.load(b)).events, [said("0"), said("by run_b")])
    assert.deepStrictEqual(yield* reasons(store), ["run_a cancelled"])
    // Its own archive has nothing that is new.
    yield* restore(store, original)
    assert.deepStrictEqual(yield* known(store, a), { ...held, ...mailed, open: [] })
  })

  test("restores a fork with the part that it builds on, which is over where the fork begins", function* (store) {
    const part = partOf(original, 2, b)
    yield* restore(store, part, fork(b, 2))
    assert.deepStrictEqual((yield* store.load(b)).events, [...original.events, said("by run_b")])
    assert.deepStrictEqual(yield* known(store, a), {
      ...held,
      status: "cancelled",
      revision: 3,
      events: [...original.events, ...part.rest!],
      open: []
    })
    assert.deepStrictEqual([yield* store.pending(), yield* store.ready()], [[], []])
    // The part is here now, and another fork of it finds it.
    yield* restore(store, partOf(original, 2, c), fork(c, 2))
    assert.deepStrictEqual(yield* store.events(a), [...original.events, ...part.rest!])
    assert.strictEqual(
      yield* tagOf(restore(store, partOf(original, 2, d), fork(d, 2, session("s-run_b")))),
      "SessionBusy"
    )
    assert.strictEqual((yield* store.list()).length, 3)
  })

  test("takes a run whose part came before with a fork: what it asks can be decided, and is", function* (store) {
    yield* restore(store, partOf(further, 1, b), fork(b, 1))
    yield* restore(store, { ...original, messages: [message] })
    assert.deepStrictEqual(yield* known(store, a), { ...held, messages: [message] })
    assert.strictEqual((yield* store.decide(approve(asked.requestId))).runId, a)
    const lease = yield* store.claim({ runId: a, owner: "me", ttl: "1 minute" })
    const events = [decided((yield* store.decisions(a))[0]!), taking("m1")] as const
    yield* store.append({ lease, expected: rev(2), events, status: "held" })
    assert.deepStrictEqual((yield* store.load(a)).events, [...original.events, ...events])
    assert.deepStrictEqual((yield* store.load(b)).events, [said("0"), said("by run_b")])
  })

  test("comes to the same whatever the order in which the archives of a run and of its forks arrive", function* (store) {
    const archives = [
      restore(store, further),
      restore(store, partOf(further, 1, b), fork(b, 1)),
      restore(store, partOf(further, 3, c), fork(c, 3))
    ]
    for (const order of orders(archives)) {
      for (const arrival of order) yield* arrival
      assert.deepStrictEqual(yield* known(store, a), {
        ...held,
        revision: 4,
        events: further.events,
        open: [later.requestId]
      })
      for (const [runId, revision] of [
        [b, 1],
        [c, 3]
      ] as const) {
        assert.deepStrictEqual((yield* store.load(runId)).events, [
          ...further.events.slice(0, revision),
          said(`by ${runId}`)
        ])
        yield* store.remove(runId)
      }
      yield* store.remove(a)
    }
  })

  test("prefers a whole run to a part of as many events, whichever comes first", function* (store) {
    yield* restore(store, partOf(original, 2, b), fork(b, 2))
    yield* restore(store, original)
    assert.deepStrictEqual(yield* known(store, a), held)
    yield* restore(store, partOf(original, 2, c), fork(c, 2))
    assert.deepStrictEqual(yield* known(store, a), held)
  })

  test("lets a copy go on to where it stood in a later archive, with what was decided and sent here", function* (store) {
    yield* restore(store, { ...upTo(original, 2), decisions: [decision] }, fork(b, 2))
    yield* store.send(a, saying("one", "m2"))
    yield* store.requestCancel(a, "enough")
    yield* restore(store, upTo({ ...further, messages: [message] }, 2), fork(c, 2))
    assert.deepStrictEqual(yield* known(store, a), {
      ...held,
      revision: 4,
      cancelReason: "enough",
      events: further.events,
      messages: [message, { messageId: "m2", content: [text("one")], at: 0 }],
      open: [later.requestId]
    })
    // An archive from before is of no further use to the run, but its fork is new.
    yield* restore(store, upTo(original, 1), fork(d, 1))
    assert.strictEqual((yield* store.head(a)).revision, 4)
    assert.strictEqual(yield* tagOf(restore(store, original)), "RunExists")
  })

  test("lets a copy that nothing builds on go on to where it stood in a later archive, and changes nothing by the same one", function* (store) {
    yield* restore(store, original)
    yield* store.send(a, saying("one", "m2"))
    const before = yield* known(store, a)
    const { createdAt } = yield* store.head(a)
    yield* restore(store, original)
    assert.deepStrictEqual([yield* known(store, a), (yield* store.head(a)).createdAt], [before, createdAt])
    yield* restore(store, further)
    assert.deepStrictEqual(yield* known(store, a), {
      ...before,
      revision: 4,
      events: further.events,
      open: [later.requestId]
    })
    // What was asked in the copy of before can no more be decided in another way.
    assert.strictEqual(yield* tagOf(store.decide(deny(asked.requestId))), "AlreadyDecided")
  })

  test("says how a copy that it refuses stands to the run that is here", function* (store) {
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
    yield* store.release(yield* store.claim({ runId: a, owner: "me", ttl: "1 minute" }))
    assert.strictEqual(yield* refusal(further), "older")
    assert.strictEqual(yield* refusal(over), "newer")
    const approved = { ...approve(later.requestId), at: 0 }
    assert.strictEqual(yield* refusal({ ...further, decisions: [approved] }), "newer")
    yield* store.decide(approve(later.requestId))
    assert.strictEqual(yield* refusal({ ...further, decisions: [approved] }), "older")
  })

  test("refuses a later copy that would drop what was decided here or sent here", function* (store) {
    const refused = Effect.fnUntraced(function* (later: RestoredRun) {
      const before = yield* known(store, a)
      assert.strictEqual(yield* tagOf(restore(store, later)), "RunExists")
      // The fork can be built on what is there.
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

  test("leaves a run alone that was claimed here, and one on whose end another run builds", function* (store) {
    yield* restore(store, upTo(original, 2), fork(b, 2))
    yield* store.release(yield* store.claim({ runId: a, owner: "me", ttl: "1 minute" }))
    const exists = { _tag: "RunExists", runId: a, status: "held", archive: "newer", revoked: [] }
    assert.deepStrictEqual(yield* factsOf(restore(store, further)), exists)
    assert.strictEqual(
      yield* tagOf(restore(store, upTo(further, 3), fork(c, 3))),
      "RunExists",
      "the fork needs more of it than is here"
    )
    yield* restore(store, upTo(further, 2), fork(c, 2))
    assert.deepStrictEqual(yield* known(store, a), held)
    for (const runId of [b, c, a]) yield* store.remove(runId)

    yield* restore(store, partOf(original, 1, b), fork(b, 1))
    yield* started(store, d, { sessionId: one, parent: { runId: a, revision: rev(2) }, ttl: 0 })
    assert.strictEqual(yield* tagOf(restore(store, original)), "RunExists")
    assert.strictEqual((yield* store.latest(one))?.runId, d)
  })

  test("refuses a run of the same id that is another one: of other events, another session, or another parent", function* (store) {
    yield* restore(store, partOf(original, 1, b), fork(b, 1))
    const [, ...more] = original.events
    for (const other of [
      { ...original, events: [said("other"), ...more] },
      { ...original, sessionId: session("two") },
      { ...original, agent: "other" },
      { ...original, parent: { runId: b, revision: rev(1) } }
    ] as const) {
      assert.strictEqual(yield* tagOf(restore(store, other)), "RunExists")
    }
    assert.strictEqual((yield* store.head(a)).status, "cancelled")
  })

  test("starts no run on a copy that was replaced since it was read, nor on another run of the same id", function* (store) {
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
    assert.deepStrictEqual(yield* factsOf(start(2, createdAt)), removed)
    yield* start(2, replaced.createdAt)
    for (const runId of [d, b, a]) yield* store.remove(runId)
    yield* TestClock.adjust("1 second")
    yield* started(store, a, { sessionId: one, events: manySaid(2), status: "completed", ttl: 0 })
    assert.deepStrictEqual(yield* factsOf(start(2, replaced.createdAt)), removed)
  })

  test("forgets the checkpoint of a part that it replaces by the run", function* (store) {
    yield* restore(store, partOf(original, 1, b), fork(b, 1))
    const checkpoint = { version: 1, chunks: ["said"], state: "cancelled" }
    yield* started(store, d, {
      sessionId: one,
      parent: { runId: a, revision: rev(2) },
      checkpoint,
      ttl: 0
    })
    yield* store.remove(d)
    assert.strictEqual((yield* store.load(a, { checkpointVersion: 1 })).checkpoint?.state, "cancelled")
    yield* restore(store, original)
    const { checkpoint: left, events } = yield* store.load(a, { checkpointVersion: 1 })
    assert.deepStrictEqual([left, events], [undefined, original.events])
  })

  test("keeps the decision on a run that ended before it was acted on", function* (store) {
    const ended = { ...original, status: "cancelled", decisions: [decision] } as const
    yield* restore(store, ended)
    assert.deepStrictEqual((yield* known(store, a)).decisions, [decision])
    assert.strictEqual(yield* tagOf(store.decide(deny(asked.requestId))), "AlreadyDecided")
  })

  test("keeps a request to cancel a part of a run when the whole of it comes", function* (store) {
    yield* restore(store, partOf(original, 2, b), fork(b, 2))
    yield* store.requestCancel(a, "enough")
    yield* restore(store, original)
    assert.strictEqual((yield* store.head(a)).cancelReason, "enough")
  })

  test("shows a request to cancel until the run is completed or cancelled, also where it failed", function* (store) {
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
    // A worker has nothing to do with a run that failed.
    yield* store.release(lease)
    assert.deepStrictEqual(yield* store.ready(), [])
    const again = yield* store.claim({ runId: a, owner: "me", ttl: "1 minute" })
    yield* store.append({ lease: again, expected: rev(2), events: [said("end")], status: "cancelled" })
    assert.strictEqual((yield* store.head(a)).cancelReason, undefined)
  })

  test("restores a run beside the removal of the one that it builds on, and its journal is whole", function* (store) {
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
      // It may have been pruned itself by now.
      const stored = yield* Effect.option(store.load(b))
      if (stored._tag === "Some") {
        assert.deepStrictEqual(stored.value.events, [...manySaid(3), ...second.events])
        yield* store.remove(b)
      }
      yield* Effect.ignore(store.remove(a))
    }
  })

  test("starts a run beside the removal of the one that it builds on: one of the two is refused", function* (store) {
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

  test("restores many archives that share runs at once", function* (store) {
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

/** All orders of some things. */
const orders = <A>(items: ReadonlyArray<A>): ReadonlyArray<ReadonlyArray<A>> =>
  items.length < 2
    ? [items]
    : items.flatMap((item, index) => orders(items.toSpliced(index, 1)).map((rest) => [item, ...rest]))
