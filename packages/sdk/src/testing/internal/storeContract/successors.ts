/**
 * The contract of sessions that go on after a run that failed: with that run, or with the next one, never with both.
 */
import * as Effect from "effect/Effect"
import type { RunId } from "../../../domain/Id.ts"
import type { RunEvent } from "../../../domain/RunEvent.ts"
import type { RunStore } from "../../../store/RunStore.ts"
import { fields, type Group, manySaid, rev, run, said, session, started, tagOf } from "./fixtures.ts"

type Store = RunStore["Service"]

const [a, b, c] = ["run_a", "run_b", "run_c"].map(run) as [RunId, RunId, RunId]
const sessionId = session("one")
const failed: RunEvent = { _tag: "run.failed", at: 9, failure: { _tag: "RunDefect", description: "no" } }
const resumed: RunEvent = { _tag: "run.resumed", at: 10 }

/** A run that failed after two events, and is worked on. */
const failing = (store: Store, runId: RunId, of = sessionId) =>
  started(store, runId, { sessionId: of, events: [said("0"), failed], status: "error" })

const next = (store: Store, runId: RunId, revision: number, from = a, of = sessionId) =>
  started(store, runId, { sessionId: of, parent: { runId: from, revision: rev(revision) } })

export const successors = ({ assert, test }: Group): void => {
  test("does not take up a run that failed once the next one of its session builds on its end", function* (store) {
    const lease = yield* failing(store, a)
    yield* next(store, b, 2)
    const busy = { _tag: "SessionBusy", sessionId, runId: b, status: "running" }
    for (const status of ["running", "held"] as const) {
      const taken = { lease, expected: rev(2), events: [resumed, said("more")], status } as const
      assert.deepStrictEqual(fields(yield* Effect.flip(store.append(taken))), busy)
      assert.deepStrictEqual(fields(yield* Effect.flip(store.park(taken))), busy)
    }
    assert.deepStrictEqual((yield* store.load(a)).events, [said("0"), failed])
    // It can still be put on record what became of it.
    const cancelled: RunEvent = { _tag: "run.cancelled", at: 11, reason: "no longer needed", calls: [] }
    yield* store.append({ lease, expected: rev(2), events: [resumed, cancelled], status: "cancelled" })
    assert.strictEqual((yield* store.latest(sessionId))?.runId, b)
  })

  test("takes up a run that failed though forks build on it, and one that went on before a next one was begun", function* (store) {
    const lease = yield* failing(store, a)
    yield* next(store, b, 2, a, session("two"))
    yield* store.append({ lease, expected: rev(2), events: [resumed, failed], status: "error" })
    yield* store.append({ lease, expected: rev(4), events: [resumed], status: "running" })
    yield* store.append({ lease, expected: rev(5), events: [said("1")], status: "completed" })
    yield* next(store, c, 6)
  })

  test("takes up a run that had gone on further than where the next one of its session builds on it", function* (store) {
    // An earlier version let both go on.
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
    const lease = yield* store.claim({ runId: a, owner: "me", ttl: "1 hour" })
    yield* store.append({ lease, expected: rev(4), events: [resumed], status: "running" })
  })

  test("begins the next run of a session only on what the last one came to", function* (store) {
    const lease = yield* failing(store, a)
    const refused = (status: string) => ({ _tag: "SessionBusy", sessionId, runId: a, status })
    const refusal = (revision: number) => Effect.map(Effect.flip(next(store, b, revision)), fields)
    assert.deepStrictEqual(yield* refusal(1), refused("error"))
    yield* store.append({ lease, expected: rev(2), events: [resumed], status: "running" })
    assert.deepStrictEqual(yield* refusal(2), refused("running"))
    assert.deepStrictEqual(yield* refusal(3), refused("running"))
    yield* store.append({ lease, expected: rev(3), events: [said("1")], status: "held" })
    assert.deepStrictEqual(yield* refusal(4), refused("held"))
    assert.strictEqual(yield* tagOf(store.head(b)), "RunNotFound")
    yield* store.append({ lease, expected: rev(4), events: manySaid(1), status: "completed" })
    yield* next(store, b, 5)
  })

  test("goes on with a run that failed or with the next one when both are asked for at once", function* (store) {
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
