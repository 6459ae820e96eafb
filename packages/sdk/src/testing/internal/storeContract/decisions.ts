/**
 * The contract of decisions on requests.
 */
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import type { Decision, DecisionInput } from "../../../domain/Decision.ts"
import type { Interruption } from "../../../domain/Interruption.ts"
import { a, b, rev, said } from "./events.ts"
import { fields, type Group, type Store } from "./group.ts"
import { approval, approve, decided, deny, external, inDoubt, opened, question, timer } from "./requests.ts"
import { claimed, heldOn, openIds, openRequests, successesOf } from "./stored.ts"

export const decisions = ({ assert, fails, test }: Group): void => {
  const request = approval(a, 1)
  const { requestId } = request

  test("records a decision without a lease and keeps it for the next owner of the run's lease", function* (store) {
    yield* heldOn(store, a, [request])
    yield* TestClock.adjust("1 second")
    const input = { ...approve(requestId), note: "fine", arguments: { index: 2 } } as const
    const decision = { ...input, at: 1000 }
    assert.deepStrictEqual(yield* store.decide(input), { runId: a, decision })
    assert.deepStrictEqual(yield* store.decisions(a), [decision])
    assert.deepStrictEqual((yield* store.load(a)).decisions, [decision])
    assert.deepStrictEqual((yield* store.request(requestId)).decision, decision)
    assert.deepStrictEqual(yield* store.pending(), [])
  })

  test("refuses a second decision and returns the first one", function* (store) {
    yield* heldOn(store, a, [request])
    const { decision } = yield* store.decide(approve(requestId))
    yield* fails(store.decide(deny(requestId)), {
      _tag: "AlreadyDecided",
      requestId,
      by: "ada",
      at: 0,
      decision
    })
    yield* fails(store.decide(approve(requestId)), "AlreadyDecided")
    assert.deepStrictEqual(yield* store.decisions(a), [decision])
  })

  test("records one of many concurrent decisions on a request", function* (store) {
    yield* heldOn(store, a, [request])
    const attempts = Array.from({ length: 8 }, (_, index) =>
      store.decide((index % 2 === 0 ? approve : deny)(requestId, `person ${index}`))
    )
    const won = yield* successesOf(attempts)
    assert.strictEqual(won.length, 1)
    assert.deepStrictEqual(yield* store.decisions(a), [won[0]?.decision])
  })

  const { digest } = request
  const answers: ReadonlyArray<readonly [Interruption, Decision]> = [
    [
      request,
      {
        _tag: "approve",
        requestId,
        by: "ada",
        at: 5,
        digest,
        grant: { scope: "run" },
        arguments: { index: 7 }
      }
    ],
    [request, { _tag: "deny", requestId, by: "ada", at: 5, message: "no", then: "stop" }],
    [request, { _tag: "supply", requestId, by: "ada", at: 5, result: { ok: [1, null, "two"] } }],
    [question(a, 1), { _tag: "answer", requestId, by: "ada", at: 5, answer: "this one" }]
  ]
  for (const [asked, decision] of answers) {
    test(`returns a decision to ${decision._tag} as it was stored`, function* (store) {
      yield* heldOn(store, a, [asked])
      yield* store.decide(decision)
      assert.deepStrictEqual(yield* store.decisions(a), [decision])
    })
  }

  test("refuses a malformed or inapplicable decision, and leaves the request open", function* (store) {
    yield* heldOn(store, a, [approval(a, 1, { safety: "privileged" })])
    const refused: ReadonlyArray<readonly [string, unknown]> = [
      ["RequestNotFound", approve(approval(a, 2).requestId)],
      ["RequestNotFound", { ...approve(requestId), requestId: "x".repeat(500) }],
      ["ArgumentsChanged", { ...approve(requestId), digest: "another" }],
      ["DecisionNotApplicable", { _tag: "answer", requestId, by: "ada", answer: "yes" }],
      ["DecisionMalformed", { _tag: "yes", requestId, by: "ada" }],
      ["DecisionMalformed", { _tag: "approve", requestId }],
      ["DecisionMalformed", { _tag: "approve", requestId: "'; --\0", by: "ada" }],
      ["DecisionMalformed", "yes"],
      ["DecisionMalformed", null]
    ]
    for (const [tag, input] of refused) {
      yield* fails(store.decide(input as DecisionInput), tag)
    }
    assert.strictEqual((yield* store.pending()).length, 1)
    assert.deepStrictEqual(yield* store.decisions(a), [])
  })

  test("refuses a grant that has expired, and takes one that expires later", function* (store) {
    yield* heldOn(store, a, [request])
    yield* TestClock.adjust("1 minute")
    for (const expiresAt of [-1, 0, 60_000]) {
      const error = yield* Effect.flip(
        store.decide({ ...approve(requestId), grant: { scope: "run", expiresAt } })
      )
      assert.deepStrictEqual([error._tag, fields(error)["reason"]], ["GrantRefused", "expired"])
    }
    assert.deepStrictEqual(yield* store.decisions(a), [])
    const given = {
      ...approve(requestId),
      grant: { scope: "run", expiresAt: 60_001 },
      idempotencyKey: "once"
    } as const
    const { decision } = yield* store.decide(given)
    yield* TestClock.adjust("1 minute")
    assert.deepStrictEqual((yield* store.decide(given)).decision, decision)
  })

  test("keeps requests with fractional milliseconds in their times", function* (store) {
    const asked = approval(a, 1, { at: 0.25, expiresAt: 60_000.75, onExpiry: "deny" })
    yield* heldOn(store, a, [asked])
    assert.deepStrictEqual(yield* openRequests(store), [asked])
    assert.deepStrictEqual((yield* store.decide(approve(requestId))).runId, a)
    assert.deepStrictEqual(yield* store.damaged, [])
  })

  test("denies an expired request by expiry", function* (store) {
    yield* heldOn(store, a, [approval(a, 1, { expiresAt: 60_000, onExpiry: "deny" })])
    yield* TestClock.adjust("59 seconds")
    assert.deepStrictEqual(yield* store.decisions(a), [])
    assert.strictEqual((yield* store.pending()).length, 1)
    yield* TestClock.adjust("1 second")
    const [decision] = yield* store.decisions(a)
    assert.deepStrictEqual([decision?._tag, decision?.by, decision?.at], ["deny", "expiry", 60_000])
    assert.deepStrictEqual((yield* store.load(a)).decisions, [decision])
    assert.deepStrictEqual((yield* store.request(requestId)).decision, decision)
    assert.deepStrictEqual(yield* store.pending(), [])
    assert.strictEqual((yield* store.pending({ expiresBefore: 60_001 })).length, 1)
    yield* fails(store.decide(approve(requestId)), {
      _tag: "AlreadyDecided",
      requestId,
      by: "expiry",
      at: 60_000,
      decision: fields(decision)
    })
    assert.deepStrictEqual(yield* store.decisions(a), [decision])
    assert.deepStrictEqual(yield* store.pending({ expiresBefore: 60_001 }), [])
  })

  test("lists a timer until its time, and then ends it by expiry, without a warning before", function* (store) {
    const waits = timer(a, 1, { at: 0, expiresAt: 60_000 })
    yield* heldOn(store, a, [waits])
    yield* TestClock.adjust("59 seconds")
    assert.deepStrictEqual(
      (yield* store.pending({ kind: "timer" })).map(({ request }) => request),
      [waits]
    )
    assert.deepStrictEqual(yield* store.ready(), [])
    yield* TestClock.adjust("1 second")
    assert.deepStrictEqual(
      (yield* store.ready()).map(({ reason, runId }) => [runId, reason]),
      [[a, "expired"]]
    )
    const [decision] = yield* store.decisions(a)
    assert.deepStrictEqual([decision?._tag, decision?.by, decision?.at], ["supply", "expiry", 60_000])
    const late = { _tag: "fail", requestId, by: "ada" } as const
    const first = { by: "expiry", at: 60_000, decision: fields(decision) }
    yield* fails(store.decide(late), { _tag: "AlreadyDecided", requestId, ...first })
  })

  test("finds the request that a token names, open or decided, and the newer of two decided ones first", function* (store) {
    const old = external(a, 1, { token: "job" })
    yield* heldOn(store, a, [old, external(a, 2)])
    const found = () =>
      Effect.map(store.withToken("job"), (named) =>
        named.map(({ decision, request }) => [request.requestId, decision?._tag])
      )
    assert.deepStrictEqual(yield* found(), [[old.requestId, undefined]])
    assert.deepStrictEqual(yield* store.withToken("job "), [])
    assert.deepStrictEqual(yield* store.withToken(""), [])
    yield* store.decide({ _tag: "supply", requestId: old.requestId, by: "ada", result: 1 })
    assert.deepStrictEqual(yield* found(), [[old.requestId, "supply"]])
    const { request, runId } = (yield* store.withToken("job"))[0]!
    assert.deepStrictEqual([request, runId], [old, a])

    const again = external(b, 1, { at: 9, token: "job" })
    yield* heldOn(store, b, [again])
    assert.deepStrictEqual(yield* found(), [
      [again.requestId, undefined],
      [old.requestId, "supply"]
    ])
    yield* store.decide({ _tag: "fail", requestId: again.requestId, by: "ada" })
    assert.deepStrictEqual(yield* found(), [
      [again.requestId, "fail"],
      [old.requestId, "supply"]
    ])
  })

  test("finds a call in doubt by its token, and none by its idempotency key alone", function* (store) {
    const own = inDoubt(a, 1, { idempotencyKey: "job" })
    const elsewhere = inDoubt(a, 2, { idempotencyKey: "film", token: "film" })
    yield* heldOn(store, a, [own, elsewhere])
    assert.deepStrictEqual(yield* store.withToken("job"), [])
    assert.deepStrictEqual(
      (yield* store.withToken("film")).map(({ request }) => request),
      [elsewhere]
    )
  })

  test("accepts a decision on an expired request whose `onExpiry` is `stay`", function* (store) {
    yield* heldOn(store, a, [approval(a, 1, { expiresAt: 60_000, onExpiry: "stay" })])
    yield* TestClock.adjust("2 minutes")
    assert.strictEqual((yield* store.pending()).length, 1)
    assert.deepStrictEqual(yield* store.decisions(a), [])
    yield* store.decide(approve(requestId))
  })

  test("returns decisions oldest first, until the journal contains them", function* (store) {
    yield* heldOn(store, a, [approval(a, 1), approval(a, 2), approval(a, 3)])
    const [one, two, three] = [approval(a, 1).requestId, approval(a, 2).requestId, approval(a, 3).requestId]
    for (const id of [three, one]) {
      yield* TestClock.adjust("1 second")
      yield* store.decide(approve(id))
    }
    const waiting = yield* store.decisions(a)
    const decided = waiting.map(({ requestId }) => requestId)
    assert.deepStrictEqual(decided, [three, one])
    yield* journalDecision(store, waiting[0]!, 3)
    assert.deepStrictEqual(yield* store.decisions(a), waiting.slice(1))
    assert.deepStrictEqual(yield* openIds(store), [two])
    yield* fails(store.decide(deny(three)), "AlreadyDecided")
  })

  test("accepts a decision that the owner of the run's lease appends", function* (store) {
    yield* heldOn(store, a, [request])
    const decision: Decision = { ...approve(requestId, "callback"), at: 7 }
    yield* journalDecision(store, decision, 1)
    assert.deepStrictEqual([yield* store.pending(), yield* store.decisions(a)], [[], []])
    assert.deepStrictEqual((yield* store.request(requestId)).decision, decision)
  })

  test("refuses an append with another decision than the recorded one", function* (store) {
    yield* heldOn(store, a, [request])
    const { decision } = yield* store.decide(approve(requestId))
    const other: Decision = { ...deny(requestId, "callback"), at: 7 }
    yield* fails(journalDecision(store, other, 1), "RunConflict")
    assert.strictEqual((yield* store.head(a)).revision, 1)
    assert.deepStrictEqual(yield* store.decisions(a), [decision])
  })

  test("closes the open requests of a run when it ends", function* (store) {
    yield* heldOn(store, a, [request, approval(a, 2)])
    yield* store.decide(approve(requestId))
    const lease = yield* claimed(store, a)
    yield* store.append({ lease, expected: rev(2), events: [said("end")], status: "cancelled" })
    assert.deepStrictEqual(yield* store.pending(), [])
    const error = yield* Effect.flip(store.decide(approve(approval(a, 2).requestId)))
    assert.strictEqual(error._tag, "RequestSuperseded")
    assert.isTrue(error.message.includes("cancelled"))
    yield* fails(store.decide(deny(requestId)), "AlreadyDecided")
  })

  test("returns the id of the new request when it refuses a decision on the superseded one", function* (store) {
    yield* heldOn(store, a, [request])
    yield* store.decide(approve(requestId))
    const next = approval(a, 2)
    const lease = yield* claimed(store, a)
    const reason = "the arguments changed"
    const superseded = { _tag: "request.superseded", at: 2, requestId, reason, by: next.requestId } as const
    yield* store.append({ lease, expected: rev(1), events: [superseded, opened(next)], status: "held" })
    yield* fails(store.decide(approve(requestId)), {
      _tag: "RequestSuperseded",
      requestId,
      reason,
      by: next.requestId
    })
    assert.deepStrictEqual(yield* openRequests(store), [next])
    assert.deepStrictEqual(yield* store.decisions(a), [])
  })
}

const journalDecision = Effect.fnUntraced(function* (store: Store, decision: Decision, expected: number) {
  const lease = yield* claimed(store, a)
  yield* Effect.ensuring(
    store.append({ lease, expected: rev(expected), events: [decided(decision)], status: "running" }),
    Effect.orDie(store.release(lease))
  )
})
