/**
 * The contract of `decideAll`: it records all decisions or none.
 */
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import type { DecisionInput } from "../../../domain/Decision.ts"
import { a, b, inChild } from "./events.ts"
import { fields, type Group, type Store } from "./group.ts"
import { approval, approve, deny, opened } from "./requests.ts"
import { heldOn, notified, openIds, reasons, started, successesOf } from "./stored.ts"

const one = approval(a, 1).requestId
const two = approval(a, 2).requestId
const inside = approval(b, 1).requestId
const three = approval(b, 2).requestId

const keyed = (decision: DecisionInput, idempotencyKey: string): DecisionInput => ({
  ...decision,
  idempotencyKey
})

/** The unread decisions of both runs, as `request by`. */
const recorded = (store: Store) =>
  Effect.map(Effect.all([store.decisions(a), store.decisions(b)]), (all) =>
    all.flat().map(({ by, requestId }) => `${requestId} ${by}`)
  )

/** Creates two held runs with four open requests, one for a privileged tool and one of a sub-agent. */
const asking = Effect.fnUntraced(function* (store: Store) {
  yield* heldOn(store, a, [approval(a, 1), approval(a, 2, { safety: "privileged" })])
  const events = [inChild(b, opened(approval(b, 1))), opened(approval(b, 2))] as const
  yield* store.release(yield* started(store, b, { events, status: "held" }))
})

export const batches = ({ assert, fails, test }: Group): void => {
  test("records several decisions on several runs, and returns them in the order of the call", function* (store) {
    yield* asking(store)
    yield* TestClock.adjust("1 second")
    const outcomes = yield* store.decideAll([deny(two), approve(inside), { ...approve(one), note: "fine" }])
    assert.deepStrictEqual(outcomes, [
      { runId: a, decision: { ...deny(two), at: 1000 } },
      { runId: b, decision: { ...approve(inside), at: 1000 } },
      { runId: a, decision: { ...approve(one), note: "fine", at: 1000 } }
    ])
    // Decisions of the same time are in the order of their requests.
    assert.deepStrictEqual(yield* store.decisions(a), [outcomes[2]?.decision, outcomes[0]?.decision])
    assert.deepStrictEqual(yield* store.decisions(b), [outcomes[1]?.decision])
    assert.deepStrictEqual(yield* openIds(store), [three])
    assert.deepStrictEqual((yield* store.request(one)).decision, outcomes[2]?.decision)
    assert.deepStrictEqual(yield* store.decideAll([]), [])
  })

  test("records none of several decisions if one is refused, at any position", function* (store) {
    yield* asking(store)
    yield* store.decide(deny(three))
    const before = [yield* openIds(store), yield* recorded(store)]
    const refused: ReadonlyArray<readonly [string, unknown]> = [
      ["RequestNotFound", approve(approval(a, 9).requestId)],
      ["AlreadyDecided", approve(three)],
      ["ArgumentsChanged", { ...approve(two), digest: "another" }],
      ["DecisionNotApplicable", { _tag: "answer", requestId: two, by: "ada", answer: "yes" }],
      ["GrantRefused", { ...approve(two), grant: { scope: "run" } }],
      ["DecisionMalformed", { _tag: "approve", requestId: two }],
      ["DecisionMalformed", { ...approve(two), by: "expiry" }],
      ["DecisionMalformed", { ...approve(two), by: { id: "rules", kind: "policy" } }],
      ["DecisionMalformed", { ...approve(two), principal: { id: "bob", kind: "person" } }],
      ["DecisionMalformed", null]
    ]
    for (const [tag, input] of refused) {
      for (const batch of [
        [approve(one), approve(inside), input],
        [input, approve(one), approve(inside)],
        [approve(inside), input, approve(one)]
      ]) {
        yield* fails(store.decideAll(batch as ReadonlyArray<DecisionInput>), tag)
        assert.deepStrictEqual([yield* openIds(store), yield* recorded(store)], before)
      }
    }
    // Refused decisions leave nothing that prevents later ones.
    yield* store.decideAll([approve(one), approve(inside), approve(two)])
    assert.deepStrictEqual(yield* openIds(store), [])
  })

  test("refuses two decisions on one request, unless the second repeats the first with its idempotency key", function* (store) {
    yield* asking(store)
    for (const second of [deny(one), approve(one), keyed(approve(one), "k")]) {
      const error = yield* Effect.flip(store.decideAll([approve(inside), approve(one), second]))
      assert.deepStrictEqual([error._tag, fields(error)["requestId"]], ["AlreadyDecided", one])
    }
    assert.deepStrictEqual(yield* recorded(store), [])
    const decision = { ...keyed(approve(one), "k"), at: 0 }
    const outcome = { runId: a, decision }
    const twice = [keyed(approve(one), "k"), keyed(approve(one), "k")]
    assert.deepStrictEqual(yield* store.decideAll(twice), [outcome, outcome])
    assert.deepStrictEqual(yield* store.decisions(a), [decision])
  })

  test("returns the first decisions of a batch that is repeated with its idempotency keys, and records added ones", function* (store) {
    yield* asking(store)
    const batch = [keyed(approve(one), "k1"), keyed(approve(inside), "k2")]
    const outcomes = yield* store.decideAll(batch)
    yield* TestClock.adjust("1 minute")
    assert.deepStrictEqual(yield* store.decideAll(batch), outcomes)
    const more = yield* store.decideAll([...batch, keyed(deny(two), "k3")])
    assert.deepStrictEqual(more, [
      ...outcomes,
      { runId: a, decision: { ...keyed(deny(two), "k3"), at: 60_000 } }
    ])
    yield* fails(store.decideAll([approve(three), keyed(deny(one), "k1")]), "AlreadyDecided")
    assert.deepStrictEqual(yield* openIds(store), [three])
  })

  test("records none of several decisions if one request has expired", function* (store) {
    const stays = approval(a, 3, { expiresAt: 60_000, onExpiry: "stay" })
    yield* heldOn(store, a, [approval(a, 1), approval(a, 2, { expiresAt: 60_000 }), stays])
    yield* TestClock.adjust("1 minute")
    const error = yield* Effect.flip(store.decideAll([approve(one), approve(stays.requestId), approve(two)]))
    assert.deepStrictEqual([error._tag, fields(error)["by"]], ["AlreadyDecided", "expiry"])
    assert.deepStrictEqual(yield* openIds(store), [one, stays.requestId])
    assert.deepStrictEqual(yield* recorded(store), [`${two} expiry`])
    yield* store.decideAll([approve(one), approve(stays.requestId)])
    assert.deepStrictEqual(yield* openIds(store), [])
  })

  test("records one of many concurrent batches on the same requests, as a whole", function* (store) {
    yield* asking(store)
    const requests = [one, two, three, inside]
    const people = Array.from({ length: 8 }, (_, index) => `person ${index}`)
    const winners = yield* successesOf(
      people.map((by, index) => {
        const batch = (index % 2 === 0 ? requests : requests.toReversed()).map((id) => approve(id, by))
        return index < 6
          ? Effect.as(store.decideAll(batch), by)
          : Effect.as(store.decide(approve(one, by)), by)
      })
    )
    assert.strictEqual(winners.length, 1)
    const batch = winners[0] === "person 6" || winners[0] === "person 7" ? [one] : requests
    assert.deepStrictEqual(
      (yield* recorded(store)).toSorted(),
      batch.map((id) => `${id} ${winners[0]}`).toSorted()
    )
  })

  test("notifies subscribers of a batch, and lists its runs as ready", function* (store) {
    yield* asking(store)
    yield* notified(store, store.decideAll([approve(one), approve(inside)]))
    assert.deepStrictEqual(yield* reasons(store), ["run_a decided", "run_b decided"])
  })
}
