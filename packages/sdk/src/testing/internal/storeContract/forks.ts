/**
 * The contract of forks: runs of a session of their own that build on a part of another session's run.
 */
import * as Effect from "effect/Effect"
import type { RunId } from "../../../domain/Id.ts"
import type { RunStore } from "../../../store/RunStore.ts"
import { fields, type Group, manySaid, rev, run, said, session, started } from "./fixtures.ts"

type Store = RunStore["Service"]

const [a, b, c, d] = ["run_a", "run_b", "run_c", "run_d"].map(run) as [RunId, RunId, RunId, RunId]
const [one, two] = [session("one"), session("two")]

/** A run of another session that builds on the first events of a run. */
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

const refusal = (start: Effect.Effect<unknown, unknown>) =>
  Effect.map(Effect.flip(start), (error) => fields(error)["_tag"])

export const forks = ({ assert, test }: Group): void => {
  test("lets a fork build on any part of a run, of a fork, and of a run that somebody works on", function* (store) {
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

  test("keeps a fork as the first run of its session, which is one line of runs like any other", function* (store) {
    yield* started(store, a, { events: manySaid(4), sessionId: one, status: "completed", ttl: 0 })
    yield* forked(store, b, a, 2, two)
    const taken = { _tag: "SessionBusy", sessionId: two, runId: b, status: "running" }
    const other = run("run_e")
    assert.deepStrictEqual(fields(yield* Effect.flip(started(store, other, { sessionId: two }))), taken)
    assert.deepStrictEqual(fields(yield* Effect.flip(forked(store, other, a, 3, two))), taken)
    assert.strictEqual(yield* refusal(forked(store, other, b, 1, one)), "SessionBusy")
    const ended = yield* store.claim({ runId: b, owner: "me", ttl: "1 hour" })
    yield* store.append({ lease: ended, expected: rev(1), events: [said("the end")], status: "completed" })
    const parent = { runId: b, revision: rev(2) }
    yield* started(store, c, { sessionId: two, parent, ttl: 0 })
    assert.strictEqual(yield* refusal(started(store, other, { sessionId: two, parent })), "SessionBusy")
    assert.strictEqual((yield* store.latest(two))?.runId, c)
    yield* forked(store, d, b, 1, session("three"))
  })

  test("starts one of many that begin a session at once, forks or not", function* (store) {
    yield* started(store, a, { events: manySaid(4), sessionId: one })
    yield* started(store, b, { events: manySaid(4) })
    const starts = Array.from({ length: 18 }, (_, index) => {
      const runId = run(`run_${index}`)
      const start =
        index % 3 === 0
          ? started(store, runId, { sessionId: two })
          : forked(store, runId, index % 3 === 1 ? a : b, 2, two)
      return Effect.exit(start)
    })
    const exits = yield* Effect.all(starts, { concurrency: "unbounded" })
    assert.strictEqual(exits.filter((exit) => exit._tag === "Success").length, 1)
    assert.strictEqual((yield* store.list({ sessionId: two })).length, 1)
  })

  test("does not delete a run that a fork builds on", function* (store) {
    yield* started(store, a, { events: manySaid(2), sessionId: one, status: "completed", ttl: 0 })
    yield* forked(store, b, a, 1)
    assert.deepStrictEqual(fields(yield* Effect.flip(store.remove(a))), {
      _tag: "RunContinued",
      runId: a,
      by: b
    })
    assert.strictEqual(yield* store.prune({ endedBefore: 1e9 }), 0)
    yield* store.remove(b)
    yield* store.remove(a)
  })
}
