/**
 * The contract of due times: when an open request expires, or is announced to expire soon.
 */
import * as Effect from "effect/Effect"
import type { DueFilter } from "../../../store/RunStorePort.ts"
import { a, b, rev, run } from "./events.ts"
import { factsOf, type Group } from "./group.ts"
import { approval, opened, timer } from "./requests.ts"
import { claimed, heldOn, started } from "./stored.ts"

const hour = 3_600_000

export const dueTimes = ({ assert, test }: Group): void => {
  test("returns when the next request of some agents expires, or is announced to expire soon", function* (store) {
    const due = (filter?: DueFilter) => Effect.map(store.nextDue(filter), (at) => at ?? "none")
    assert.deepStrictEqual([yield* due(), yield* due({ agents: ["root"] })], ["none", "none"])
    yield* heldOn(store, a, [timer(a, 1, { expiresAt: 5000 }), timer(a, 2, { expiresAt: 7000 })])
    yield* heldOn(store, b, [approval(b, 1, { at: 0, expiresAt: 8 * hour })], { agent: "other" })
    yield* heldOn(store, run("run_c"), [
      approval(run("run_c"), 1, { at: 0, expiresAt: 6000, onExpiry: "stay" }),
      approval(run("run_c"), 2)
    ])
    assert.strictEqual(yield* due(), 5000)
    assert.strictEqual(yield* due({ after: 4999 }), 5000)
    assert.strictEqual(yield* due({ after: 5000 }), 7000)
    assert.strictEqual(yield* due({ after: 7000 }), 7 * hour)
    assert.strictEqual(yield* due({ after: 9 * hour }), "none")
    assert.strictEqual(yield* due({ agents: ["other"] }), 7 * hour)
    assert.strictEqual(yield* due({ agents: ["root"], after: 7000 }), "none")
    assert.deepStrictEqual([yield* due({ agents: [] }), yield* due({ agents: ["none"] })], ["none", "none"])
    const many = Array.from({ length: 1200 }, (_, index) => `agent-${index}`)
    assert.strictEqual(yield* due({ agents: [...many, "other", "other"] }), 7 * hour)
  })

  test("returns when a request expires once its announcement is in the journal, and not once it is decided", function* (store) {
    const request = approval(a, 1, { at: 0, expiresAt: 8 * hour })
    yield* heldOn(store, a, [request])
    const lease = yield* claimed(store, a)
    const warning = { _tag: "request.expiring", at: 7 * hour, requestId: request.requestId } as const
    yield* store.park({ lease, expected: rev(1), events: [warning], status: "held" })
    assert.strictEqual(yield* store.nextDue({ after: 7 * hour }), 8 * hour)
    yield* store.decide({ _tag: "approve", requestId: request.requestId, by: "ada" })
    assert.strictEqual(yield* store.nextDue(), undefined)
  })

  test("returns the due times of runs that a process owns, and none of runs that have ended", function* (store) {
    const lease = yield* started(store, a, { events: [opened(timer(a, 1, { expiresAt: 5000 }))] })
    assert.strictEqual(yield* store.nextDue(), 5000)
    const ended = { _tag: "run.cancelled", at: 0, reason: "enough", calls: [] } as const
    yield* store.append({ lease, expected: rev(1), events: [ended], status: "cancelled" })
    assert.strictEqual(yield* store.nextDue(), undefined)
  })

  test("refuses a filter for due times that it does not know", function* (store) {
    for (const filter of [{ agent: ["root"] }, { agents: "root" }, { after: NaN }, { after: "now" }]) {
      const facts = yield* factsOf(store.nextDue(filter as DueFilter))
      assert.strictEqual(facts["_tag"], "RunStoreError")
    }
    assert.strictEqual(yield* store.nextDue({ after: Number.MAX_VALUE }), undefined)
  })
}
