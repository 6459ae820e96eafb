/**
 * The contract of the list of sessions.
 */
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import type { RunId } from "../../../domain/Id.ts"
import type { SessionFilter } from "../../../store/RunStore.ts"
import { a, b, c, d, failed, resumed, rev, run, said, session } from "./events.ts"
import type { Group, Store } from "./group.ts"
import { started } from "./stored.ts"

const [one, two, three] = [session("one"), session("two"), session("three")]

/** Stores a run that has ended after one event, without a lease, a second after the one before. */
const stored = Effect.fnUntraced(function* (
  store: Store,
  runId: RunId,
  options: Parameters<typeof started>[2] = {}
) {
  yield* TestClock.adjust("1 second")
  yield* started(store, runId, { status: "completed", ttl: 0, ...options })
})

const after = (runId: RunId) => ({ parent: { runId, revision: rev(1) } })

/** The sessions with their last runs, as `session: run`. */
const listed = (store: Store, filter?: SessionFilter) =>
  Effect.map(store.sessions(filter), (sessions) =>
    sessions.map(({ last, sessionId }) => `${sessionId}: ${last.runId}`)
  )

export const sessions = ({ assert, test }: Group): void => {
  test("lists each session once, with its last run, the newest last run first", function* (store) {
    yield* stored(store, a, { sessionId: one })
    yield* stored(store, b, { sessionId: two })
    assert.deepStrictEqual(yield* listed(store), ["two: run_b", "one: run_a"])
    yield* stored(store, c, { sessionId: one, ...after(a) })
    assert.deepStrictEqual(yield* listed(store), ["one: run_c", "two: run_b"])
    // A fork is in a session of its own, and does not follow the run on which it builds.
    yield* stored(store, d, { sessionId: three, ...after(b) })
    assert.deepStrictEqual(yield* listed(store), ["three: run_d", "one: run_c", "two: run_b"])
  })

  test("lists a session with the head of its last run and the time of its first one", function* (store) {
    yield* stored(store, a, { sessionId: one })
    yield* stored(store, b, { sessionId: one, ...after(a), agent: "other", status: "error" })
    const first = yield* store.head(a)
    assert.deepStrictEqual(yield* store.sessions(), [
      { sessionId: one, last: yield* store.head(b), createdAt: first.createdAt }
    ])
    yield* TestClock.adjust("1 second")
    const lease = yield* store.claim({ runId: b, owner: "me", ttl: "1 hour" })
    yield* store.append({ lease, expected: rev(1), events: [failed, resumed], status: "running" })
    const [{ last } = { last: undefined }] = yield* store.sessions()
    assert.deepStrictEqual(last, yield* store.head(b))
    assert.deepStrictEqual([last?.status, last?.lease?.owner], ["running", "me"])
  })

  test("lists the sessions whose last run has a status and an agent", function* (store) {
    yield* stored(store, a, { sessionId: one, agent: "other" })
    yield* stored(store, b, { sessionId: one, ...after(a), status: "held" })
    yield* stored(store, c, { sessionId: two, agent: "other" })
    assert.deepStrictEqual(yield* listed(store, { status: "completed" }), ["two: run_c"])
    assert.deepStrictEqual(yield* listed(store, { status: "held" }), ["one: run_b"])
    assert.deepStrictEqual(yield* listed(store, { agent: "other" }), ["two: run_c"])
    assert.deepStrictEqual(yield* listed(store, { agent: "root", status: "completed" }), [])
    assert.deepStrictEqual(yield* listed(store, { agent: "' OR 1=1 --\0" }), [])
  })

  test("lists sessions page by page, also if the last one of a page is continued in between", function* (store) {
    const all = Array.from({ length: 5 }, (_, index) => run(`run_${index}`))
    for (const runId of all) yield* started(store, runId, { status: "completed", ttl: 0 })
    const newest = all.toReversed()
    const page = yield* store.sessions({ limit: 2 })
    assert.deepStrictEqual(
      page.map(({ last }) => last.runId),
      newest.slice(0, 2)
    )
    const { last, sessionId } = page[1]!
    yield* stored(store, a, { sessionId, ...after(last.runId) })
    const next = yield* store.sessions({ limit: 10, after: last.runId })
    assert.deepStrictEqual(
      next.map(({ last }) => last.runId),
      newest.slice(2)
    )
    assert.deepStrictEqual(yield* store.sessions({ limit: 0 }), [])
  })

  test("lists a session with the run before its last one when that one was deleted, and no longer without runs", function* (store) {
    const copy = { sessionId: one, agent: "root", status: "completed", events: [said("0")] } as const
    yield* store.restore([{ runId: a, ...copy }], [], [])
    const restored = { runId: b, ...copy, ...after(a) }
    yield* store.restore([{ runId: a, ...copy }, restored], [], [])
    yield* stored(store, c, { sessionId: one, ...after(b) })
    yield* stored(store, d, { sessionId: two, ...after(c) })
    assert.deepStrictEqual(yield* listed(store), ["two: run_d", "one: run_c"])
    yield* store.remove(d)
    yield* store.remove(c)
    assert.deepStrictEqual(yield* listed(store), ["one: run_b"])
    yield* store.remove(b)
    assert.deepStrictEqual(yield* listed(store), ["one: run_a"])
    assert.strictEqual(yield* store.prune({ endedBefore: 1e9 }), 1)
    assert.deepStrictEqual(yield* listed(store), [])
  })
}
