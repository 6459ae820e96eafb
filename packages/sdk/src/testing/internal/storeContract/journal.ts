/**
 * The contract of journals: creating a run, appending and reading events, listing runs.
 */
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import type { RunEvent } from "../../../domain/RunEvent.ts"
import { a, b, begun, c, handedTo, inChild, manySaid, rev, run, said, session } from "./events.ts"
import type { Group, Store } from "./group.ts"
import { approval, opened } from "./requests.ts"
import { started, successesOf } from "./stored.ts"

const listed = (store: Store, filter?: Parameters<Store["list"]>[0]) =>
  Effect.map(store.list(filter), (heads) => heads.map(({ runId }) => runId))

export const journal = ({ assert, fails, test }: Group): void => {
  test("creates a run with its first events and a lease", function* (store) {
    yield* TestClock.adjust("1 minute")
    const lease = yield* started(store, a, { events: [said("one"), said("two")], sessionId: session("s1") })
    assert.deepStrictEqual({ ...lease, until: 0 }, { runId: a, owner: "me", epoch: 1, until: 0 })
    const { decisions, events, head } = yield* store.load(a)
    assert.deepStrictEqual(events, [said("one"), said("two")])
    assert.deepStrictEqual(decisions, [])
    assert.deepStrictEqual(head, {
      runId: a,
      sessionId: session("s1"),
      agent: "root",
      status: "running",
      revision: rev(2),
      createdAt: 60_000,
      updatedAt: 60_000,
      lease: { owner: "me", until: lease.until }
    })
    assert.deepStrictEqual(yield* store.head(a), head)
  })

  test("returns in `answeredBy` the agent that has the conversation, if the run was started with another one", function* (store) {
    const lease = yield* started(store, a, { events: [begun("root")] })
    const append = (expected: number, ...events: [RunEvent, ...Array<RunEvent>]) =>
      store.append({ lease, expected: rev(expected), events, status: "running" })
    const answeredBy = Effect.map(store.head(a), (head) => head.answeredBy)
    yield* append(1, inChild(a, handedTo("other")))
    assert.strictEqual(yield* answeredBy, undefined)
    yield* append(2, handedTo("third"), handedTo("billing"), said("2"))
    assert.strictEqual(yield* answeredBy, "billing")
    yield* append(5, said("5"))
    assert.strictEqual((yield* store.load(a)).head.answeredBy, "billing")
    yield* append(6, handedTo("root"))
    assert.strictEqual(yield* answeredBy, undefined)
    yield* started(store, b, { events: [begun("billing")], sessionId: session("other") })
    assert.strictEqual((yield* store.latest(session("other")))?.answeredBy, "billing")
  })

  test("refuses a second run with the same id and keeps the first", function* (store) {
    yield* started(store, a, { status: "held" })
    yield* fails(started(store, a, { events: [said("other")] }), {
      _tag: "RunExists",
      runId: a,
      status: "held"
    })
    assert.deepStrictEqual((yield* store.load(a)).events, [said("0")])
  })

  test("refuses a run that builds on a missing run or revision", function* (store) {
    yield* started(store, a)
    for (const parent of [
      { runId: a, revision: rev(2) },
      { runId: b, revision: rev(0) }
    ]) {
      yield* fails(started(store, b, { parent }), "RunRemoved")
    }
    yield* fails(store.load(b), "RunNotFound")
  })

  test("appends a batch, returns the new revision and sets the status", function* (store) {
    const lease = yield* started(store, a)
    yield* TestClock.adjust("1 minute")
    const appended = yield* store.append({
      lease,
      expected: rev(1),
      events: manySaid(3, 1),
      status: "held"
    })
    assert.deepStrictEqual(appended, { revision: rev(4) })
    const head = yield* store.head(a)
    assert.deepStrictEqual(
      [head.status, head.revision, head.createdAt, head.updatedAt],
      ["held", 4, 0, 60_000]
    )
    assert.deepStrictEqual((yield* store.load(a)).events, manySaid(4))
  })

  test("refuses an append at a stale revision and writes nothing", function* (store) {
    const lease = yield* started(store, a)
    yield* store.append({ lease, expected: rev(1), events: [said("1")], status: "running" })
    for (const expected of [rev(1), rev(3)]) {
      yield* fails(
        store.append({
          lease,
          expected,
          events: [said("lost"), opened(approval(a, 1))],
          status: "completed"
        }),
        { _tag: "RunConflict", runId: a, expected, actual: 2 }
      )
    }
    assert.deepStrictEqual((yield* store.load(a)).events, manySaid(2))
    assert.strictEqual((yield* store.head(a)).status, "running")
    assert.deepStrictEqual(yield* store.pending(), [])
  })

  test("accepts one of two concurrent appends at the same revision", function* (store) {
    const lease = yield* started(store, a)
    const appends = ["x", "y"].map((text) =>
      store.append({ lease, expected: rev(1), events: [said(text)], status: "running" })
    )
    assert.strictEqual((yield* successesOf(appends)).length, 1)
    assert.strictEqual((yield* store.load(a)).events.length, 2)
  })

  test("returns every text as it was stored", function* (store) {
    const texts = [
      "naïve 日本語 🎼",
      `"quoted" 'twice' \`\``,
      "nul \0 in the middle",
      "\u2028 \\ \n\t",
      "x".repeat(1e6)
    ]
    const lease = yield* started(store, a, { agent: `o'brien "\0" 🎼`, sessionId: session("s:1.2-3") })
    const request = approval(a, 1, { tool: "'; DROP TABLE fermata_runs; --", agentPath: ["a\0b", `"]`] })
    const events: ReadonlyArray<RunEvent> = [...texts.map(said), opened(request)]
    yield* store.append({ lease, expected: rev(1), events: [said("1"), ...events], status: "held" })
    const stored = yield* store.load(a)
    assert.deepStrictEqual(stored.events, [said("0"), said("1"), ...events])
    assert.strictEqual(stored.head.agent, `o'brien "\0" 🎼`)
    assert.deepStrictEqual((yield* store.pending({ tool: request.tool }))[0]?.request, request)
  })

  test("keeps the order of 2,000 events", function* (store) {
    const lease = yield* started(store, a)
    let revision = rev(1)
    while (revision < 2000) {
      const events = manySaid(Math.min(7, 2000 - revision), revision)
      revision = (yield* store.append({ lease, expected: revision, events, status: "running" })).revision
    }
    assert.strictEqual(revision, 2000)
    assert.deepStrictEqual((yield* store.load(a)).events, manySaid(2000))
  })

  test("reads a run's own events from a revision, across batches", function* (store) {
    const lease = yield* started(store, a, { events: manySaid(3) })
    yield* store.append({ lease, expected: rev(3), events: manySaid(4, 3), status: "running" })
    yield* store.append({ lease, expected: rev(7), events: manySaid(3, 7), status: "running" })
    const all = manySaid(10)
    assert.deepStrictEqual(yield* store.events(a), all)
    for (const from of [0, 1, 2, 3, 4, 6, 7, 9, 10, 11, 1e9]) {
      assert.deepStrictEqual(yield* store.events(a, { from }), all.slice(from), `from ${from}`)
      for (const limit of [0, 1, 4, 5, 100]) {
        const page = yield* store.events(a, { from, limit })
        assert.deepStrictEqual(page, all.slice(from, from + limit), `${limit} from ${from}`)
      }
    }
    yield* fails(store.events(run("none")), "RunNotFound")
  })

  test("loads the events of the earlier runs of a session before a run's own events", function* (store) {
    yield* started(store, a, { events: manySaid(2) })
    yield* started(store, b, { events: manySaid(3, 2), parent: { runId: a, revision: rev(2) } })
    const lease = yield* started(store, c, {
      events: manySaid(1, 5),
      parent: { runId: b, revision: rev(3) }
    })
    yield* store.append({ lease, expected: rev(1), events: manySaid(2, 6), status: "running" })
    const { events, head } = yield* store.load(c)
    assert.deepStrictEqual(events, manySaid(8))
    assert.deepStrictEqual([head.revision, head.parent], [3, { runId: b, revision: 3 }])
    assert.deepStrictEqual(yield* store.events(c), manySaid(3, 5))
  })

  test("loads a fork without the later events of the run that it builds on", function* (store) {
    const lease = yield* started(store, a, { events: manySaid(4) })
    yield* started(store, b, { events: [said("fork")], parent: { runId: a, revision: rev(3) } })
    yield* store.append({ lease, expected: rev(4), events: manySaid(2, 4), status: "running" })
    assert.deepStrictEqual((yield* store.load(b)).events, [...manySaid(3), said("fork")])
    assert.deepStrictEqual((yield* store.load(a)).events, manySaid(6))
  })

  test("fails with RunNotFound for a run that was not stored", function* (store) {
    yield* fails(store.load(a), "RunNotFound")
    yield* fails(store.head(a), "RunNotFound")
    assert.deepStrictEqual(yield* store.decisions(a), [])
  })

  test("lists runs newest first, page by page", function* (store) {
    const names = ["r1", "r2", "r3", "r4", "r5"].map(run)
    for (const name of names) {
      // r2 and r3 start at the same time, so their ids decide their order.
      if (name !== "r3") yield* TestClock.adjust("1 second")
      yield* started(store, name)
    }
    const newest = names.toReversed()
    assert.deepStrictEqual(yield* listed(store), newest)
    assert.deepStrictEqual(yield* listed(store, { limit: 2 }), newest.slice(0, 2))
    assert.deepStrictEqual(yield* listed(store, { limit: 10, after: newest[1]! }), newest.slice(2))
    assert.deepStrictEqual(yield* listed(store, { limit: 0 }), [])
  })

  test("lists the runs with the given ids, and no others", function* (store) {
    for (const runId of [a, b, c]) yield* started(store, runId)
    assert.deepStrictEqual(yield* listed(store, { runIds: [a, run("missing"), c, a, b] }), [c, b, a])
    assert.deepStrictEqual(yield* listed(store, { runIds: [b, c, a], limit: 2 }), [c, b])
    assert.deepStrictEqual(yield* listed(store, { runIds: [b], status: "held" }), [])
    assert.deepStrictEqual(yield* listed(store, { runIds: [] }), [])
    const many = Array.from({ length: 1001 }, (_, index) => run(`r${index}`))
    assert.deepStrictEqual(yield* listed(store, { runIds: many.slice(1) }), [])
    yield* fails(store.list({ runIds: many }), "RunStoreError")
  })

  test("lists runs by session, agent and status", function* (store) {
    yield* started(store, a, { sessionId: session("one"), status: "held" })
    yield* started(store, b, { sessionId: session("two"), agent: "other" })
    assert.deepStrictEqual(yield* listed(store, { sessionId: session("one") }), ["run_a"])
    assert.deepStrictEqual(yield* listed(store, { agent: "other" }), ["run_b"])
    assert.deepStrictEqual(yield* listed(store, { status: "held" }), ["run_a"])
    assert.deepStrictEqual(yield* listed(store, { status: "held", agent: "other" }), [])
    assert.deepStrictEqual(yield* listed(store, { agent: "' OR 1=1 --\0" }), [])
  })

  test("returns an event of a nested sub-agent as it was stored", function* (store) {
    const event = inChild(a, inChild(run("child"), said("deep")))
    yield* started(store, a, { events: [event] })
    assert.deepStrictEqual((yield* store.load(a)).events, [event])
  })
}
