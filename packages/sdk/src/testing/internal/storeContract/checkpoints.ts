/**
 * The contract of checkpoints. The checkpoint of a run is stored when the run is parked, or when a later run is created on it. The run and
 * the runs that build on it load it. It is deleted with its run.
 */
import * as Effect from "effect/Effect"
import type { RunId } from "../../../domain/Id.ts"
import type { NewCheckpoint } from "../../../store/RunStorePort.ts"
import { a, b, c, d, manySaid, rev, said, session } from "./events.ts"
import type { Group, Store } from "./group.ts"
import { approval, approve, question } from "./requests.ts"
import { claimed, heldOn, started } from "./stored.ts"

const sessionId = session("one")

/** A checkpoint with these chunks after those of another one. */
const checkpoint = (
  state: string,
  chunks: ReadonlyArray<string>,
  base?: NewCheckpoint["base"]
): NewCheckpoint => ({ version: 1, state, chunks, ...(base === undefined ? {} : { base }) })

/** Creates a completed run with one event that builds on this revision of another run of the session. */
const next = (store: Store, runId: RunId, before: RunId, revision: number, given?: NewCheckpoint) =>
  Effect.flatMap(
    started(store, runId, {
      sessionId,
      parent: { runId: before, revision: rev(revision) },
      events: [said(runId)],
      status: "completed",
      ...(given === undefined ? {} : { checkpoint: given })
    }),
    store.release
  )

const first = (store: Store) =>
  Effect.flatMap(started(store, a, { sessionId, events: manySaid(3), status: "completed" }), store.release)

/** Loads the newest checkpoint of a run and the events after it. */
const read = (store: Store, runId: RunId, checkpointVersion = 1) =>
  Effect.map(store.load(runId, { checkpointVersion }), ({ checkpoint, events }) => ({ checkpoint, events }))

/** Parks a run at this revision with one more event and a checkpoint. */
const park = (store: Store, runId: RunId, expected: number, given: NewCheckpoint) =>
  Effect.gen(function* () {
    const lease = yield* claimed(store, runId)
    const events = [said(String(expected))] as const
    return yield* store.park({ lease, expected: rev(expected), events, status: "held", checkpoint: given })
  })

export const checkpoints = ({ assert, test }: Group): void => {
  test("loads the newest checkpoint of the runs on which a run builds, and the events after it", function* (store) {
    yield* first(store)
    yield* next(store, b, a, 3, checkpoint("a at 3", ["0", "1"]))
    yield* next(store, c, b, 1)
    yield* next(store, d, c, 1, checkpoint("c at 1", ["2"], { runId: a, chunks: 2 }))
    const ofA = { runId: a, revision: rev(3), version: 1, chunks: ["0", "1"], state: "a at 3" }
    const ofC = { runId: c, revision: rev(1), version: 1, chunks: ["0", "1", "2"], state: "c at 1" }
    assert.deepStrictEqual(yield* read(store, a), { checkpoint: ofA, events: [] })
    assert.deepStrictEqual(yield* read(store, b), { checkpoint: ofA, events: [said(b)] })
    assert.deepStrictEqual(yield* read(store, c), { checkpoint: ofC, events: [] })
    assert.deepStrictEqual(yield* read(store, d), { checkpoint: ofC, events: [said(d)] })
    const all = { checkpoint: undefined, events: [...manySaid(3), said(b), said(c), said(d)] }
    const { checkpoint: none, events } = yield* store.load(d)
    assert.deepStrictEqual({ checkpoint: none, events }, all)
    assert.deepStrictEqual(yield* read(store, d, 2), all)
  })

  test("keeps the newest checkpoint of a run that is parked repeatedly, with the chunks of the earlier ones", function* (store) {
    yield* first(store)
    yield* next(store, b, a, 3, checkpoint("a at 3", ["0"]))
    assert.isTrue((yield* park(store, b, 1, checkpoint("b at 2", ["1"], { runId: a, chunks: 1 }))).parked)
    yield* store.release(
      yield* started(store, c, { parent: { runId: b, revision: rev(2) }, events: [said("fork")] })
    )
    assert.isTrue((yield* park(store, c, 1, checkpoint("c at 2", ["2"], { runId: b, chunks: 2 }))).parked)
    yield* park(store, b, 2, checkpoint("b at 3", ["other", "3"], { runId: b, chunks: 2 }))
    const ofB = {
      runId: b,
      revision: rev(3),
      version: 1,
      chunks: ["0", "1", "other", "3"],
      state: "b at 3"
    }
    assert.deepStrictEqual(yield* read(store, b), { checkpoint: ofB, events: [] })
    const ofC = { runId: c, revision: rev(2), version: 1, chunks: ["0", "1", "2"], state: "c at 2" }
    assert.deepStrictEqual(yield* read(store, c), { checkpoint: ofC, events: [] })
  })

  test("does not use a checkpoint from after the revision on which a run builds", function* (store) {
    yield* first(store)
    yield* next(store, b, a, 3, checkpoint("a at 3", ["0"]))
    yield* park(store, b, 1, checkpoint("b at 2", ["1"], { runId: a, chunks: 1 }))
    for (const [runId, parent, events] of [
      [c, { runId: b, revision: rev(1) }, [said(b), said("fork")]],
      [d, { runId: a, revision: rev(2) }, [...manySaid(2), said("fork")]]
    ] as const) {
      yield* started(store, runId, { parent, events: [said("fork")] })
      const found = yield* read(store, runId)
      assert.deepStrictEqual(found.events, events)
      assert.strictEqual(found.checkpoint?.state, runId === c ? "a at 3" : undefined)
    }
  })

  test("stores no checkpoint of a run that was not parked, and none that is older than the stored one", function* (store) {
    yield* heldOn(store, a, [question(a, 1), approval(a, 2)])
    yield* store.decide(approve(approval(a, 2).requestId))
    assert.isTrue(!(yield* park(store, a, 2, checkpoint("a at 3", []))).parked)
    assert.strictEqual((yield* read(store, a)).checkpoint, undefined)
    yield* started(store, b, { events: manySaid(3), ttl: 0 })
    yield* park(store, b, 3, checkpoint("b at 4", ["0"]))
    const parent = { runId: b, revision: rev(2) }
    yield* started(store, c, { parent, checkpoint: checkpoint("b at 2", ["?"]) })
    const { checkpoint: kept, events } = yield* read(store, b)
    assert.deepStrictEqual([kept?.state, kept?.chunks, events], ["b at 4", ["0"], []])
  })

  test("loads all events if a part of the checkpoint is missing, even for a run that builds on it", function* (store) {
    yield* first(store)
    yield* next(store, b, a, 3, checkpoint("a at 3", ["1"], { runId: d, chunks: 1 }))
    const all = { checkpoint: undefined, events: [...manySaid(3), said(b)] }
    assert.deepStrictEqual(yield* read(store, b), all)
    assert.deepStrictEqual(yield* read(store, a), { ...all, events: manySaid(3) })
    // The next checkpoint does not depend on the damaged one.
    yield* next(store, c, b, 1, checkpoint("b at 1", ["0", "1"]))
    const { checkpoint: found, events } = yield* read(store, c)
    assert.deepStrictEqual([found?.state, found?.chunks, events], ["b at 1", ["0", "1"], [said(c)]])
  })

  test("deletes a checkpoint with its run", function* (store) {
    yield* first(store)
    yield* next(store, b, a, 3, checkpoint("a at 3", ["0"]))
    yield* next(store, c, b, 1, checkpoint("b at 1", ["1"], { runId: a, chunks: 1 }))
    yield* store.remove(c)
    yield* store.remove(b)
    yield* next(store, b, a, 3)
    const { checkpoint: found, events } = yield* read(store, b)
    assert.deepStrictEqual([found?.state, found?.chunks, events], ["a at 3", ["0"], [said(b)]])
  })
}
