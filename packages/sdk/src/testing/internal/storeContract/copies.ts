/**
 * The contract of copies: runs of another store that arrive in archives, in any order, and that this store may have changed.
 */
import * as Effect from "effect/Effect"
import type { Decision } from "../../../domain/Decision.ts"
import type { RunId } from "../../../domain/Id.ts"
import { text } from "../../../domain/Message.ts"
import { endOfPartialCopy } from "../../../store/internal/copies.ts"
import type { RestoredRun } from "../../../store/RunStorePort.ts"
import { a, b, c, d, rev, said, saying, session, taking } from "./events.ts"
import type { Group, Store } from "./group.ts"
import { approval, approve, decided, deny, opened } from "./requests.ts"
import { openIds, reasons, started } from "./stored.ts"

export const one = session("one")
export const asked = approval(a, 1)
export const later = approval(a, 2)
export const decision: Decision = { ...approve(asked.requestId), at: 0 }
export const message = { messageId: "m1", content: [text("hello")], at: 5 }
const byDecision = decided(decision, 6)

/** The original: a run that is held on its first request. */
export const original = {
  runId: a,
  sessionId: one,
  agent: "root",
  status: "held",
  events: [said("0"), opened(asked)]
} as const satisfies RestoredRun

/** The original later: it has the decision, and is held on its second request. */
export const further = {
  ...original,
  events: [...original.events, byDecision, opened(later)]
} as const satisfies RestoredRun

/** A run on whose events up to this revision the next run of an archive builds; the others are its `rest`. */
export const upTo = (given: RestoredRun, revision: number): RestoredRun => {
  const [first, ...more] = given.events
  return { ...given, events: [first, ...more.slice(0, revision - 1)], rest: more.slice(revision - 1) }
}

/** A partial copy, as an archive of the fork `by` contains it: the events up to `revision`, then the cancellation of the copy. */
export const partOf = (given: RestoredRun, revision: number, by: RunId): RestoredRun => ({
  ...upTo(given, revision),
  rest: [endOfPartialCopy(7, by, [])],
  status: "cancelled"
})

export const fork = (runId: RunId, revision: number, sessionId = session(`s-${runId}`)): RestoredRun => ({
  runId,
  sessionId,
  agent: "root",
  status: "held",
  parent: { runId: a, revision: rev(revision) },
  events: [said(`by ${runId}`)]
})

export const restore = (store: Store, ...runs: readonly [RestoredRun, ...Array<RestoredRun>]) =>
  store.restore(runs, runs.at(-1)?.decisions ?? [], runs.at(-1)?.messages ?? [])

/** The stored facts about a run. */
export const known = (store: Store, runId: RunId) =>
  Effect.gen(function* () {
    const { cancelReason, revision, status } = yield* store.head(runId)
    return {
      revision,
      status,
      ...(cancelReason === undefined ? {} : { cancelReason }),
      events: yield* store.events(runId),
      decisions: yield* store.decisions(runId),
      messages: yield* store.messages(runId),
      open: yield* openIds(store, { runId })
    }
  })

export const held = {
  status: "held",
  revision: 2,
  events: original.events,
  decisions: [],
  messages: [],
  open: [asked.requestId]
}

export const copies = ({ assert, fails, test }: Group): void => {
  test("restores the run on which a fork builds with its later events, its mail and its cancellation request", function* (store) {
    const mailed = { decisions: [decision], messages: [message], cancelReason: "enough" }
    yield* restore(store, { ...upTo(original, 1), ...mailed }, fork(b, 1))
    assert.deepStrictEqual(yield* known(store, a), { ...held, ...mailed, open: [] })
    assert.deepStrictEqual((yield* store.load(b)).events, [said("0"), said("by run_b")])
    assert.deepStrictEqual(yield* reasons(store), ["run_a cancelled"])
    // The run's own archive contains nothing new.
    yield* restore(store, original)
    assert.deepStrictEqual(yield* known(store, a), { ...held, ...mailed, open: [] })
  })

  test("restores a fork with a partial copy of the run on which it builds, which ends where the fork begins", function* (store) {
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
    // Another fork builds on the partial copy that is already stored.
    yield* restore(store, partOf(original, 2, c), fork(c, 2))
    assert.deepStrictEqual(yield* store.events(a), [...original.events, ...part.rest!])
    yield* fails(restore(store, partOf(original, 2, d), fork(d, 2, session("s-run_b"))), "SessionBusy")
    assert.strictEqual((yield* store.list()).length, 3)
  })

  test("replaces a partial copy by the whole run, whose requests can then be decided", function* (store) {
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

  test("restores the same runs in every order in which the archives of a run and of its forks arrive", function* (store) {
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

  test("prefers a whole run to a partial copy with as many events, in either order", function* (store) {
    yield* restore(store, partOf(original, 2, b), fork(b, 2))
    yield* restore(store, original)
    assert.deepStrictEqual(yield* known(store, a), held)
    yield* restore(store, partOf(original, 2, c), fork(c, 2))
    assert.deepStrictEqual(yield* known(store, a), held)
  })

  test("continues a copy with the events of a later archive, and keeps the messages and the cancellation request of this store", function* (store) {
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
    // An earlier archive changes nothing in the run, but its fork is new.
    yield* restore(store, upTo(original, 1), fork(d, 1))
    assert.strictEqual((yield* store.head(a)).revision, 4)
    yield* fails(restore(store, original), "RunExists")
  })

  test("continues a copy on which no run builds with the events of a later archive, and ignores the same archive", function* (store) {
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
    // The request of the earlier copy has the decision of the later archive.
    yield* fails(store.decide(deny(asked.requestId)), "AlreadyDecided")
  })

  test("deletes the checkpoint of a partial copy when the whole run replaces it", function* (store) {
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

  test("restores the unread decision of a cancelled run", function* (store) {
    const ended = { ...original, status: "cancelled", decisions: [decision] } as const
    yield* restore(store, ended)
    assert.deepStrictEqual((yield* known(store, a)).decisions, [decision])
    yield* fails(store.decide(deny(asked.requestId)), "AlreadyDecided")
  })

  test("keeps the cancellation request of a partial copy when the whole run replaces it", function* (store) {
    yield* restore(store, partOf(original, 2, b), fork(b, 2))
    yield* store.requestCancel(a, "enough")
    yield* restore(store, original)
    assert.strictEqual((yield* store.head(a)).cancelReason, "enough")
  })
}

/** All permutations of the items. */
const orders = <A>(items: ReadonlyArray<A>): ReadonlyArray<ReadonlyArray<A>> =>
  items.length < 2
    ? [items]
    : items.flatMap((item, index) => orders(items.toSpliced(index, 1)).map((rest) => [item, ...rest]))
