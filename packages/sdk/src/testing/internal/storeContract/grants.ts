/**
 * The contract of grants: a decision creates them, a revocation is final, and the commit that starts a call checks them.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { type GrantRequest, fromApproval } from "../../../domain/Grant.ts"
import * as Id from "../../../domain/Id.ts"
import type { Lease } from "../../../store/RunStorePort.ts"
import type { StoredGrant } from "../../../store/StoredGrant.ts"
import { a, b, c, rev, run, said, session } from "./events.ts"
import { fields, type Group, type Store } from "./group.ts"
import { approval, approve, decided, deny, opened } from "./requests.ts"
import { claimed, heldOn, started } from "./stored.ts"

export const scope: GrantRequest = { scope: "session", arguments: {} }
export const revocation = { by: "ben", at: 7 }

export const grantOf = (runId: Id.RunId, index = 1): StoredGrant => ({
  grant: fromApproval(approval(runId, index), { by: "ada", at: 0, grant: scope }, { tools: {} }),
  runId,
  sessionId: session(`s-${runId}`)
})

/** Creates a run whose approval has created a grant, and claims it for `me`. */
const granted = Effect.fnUntraced(function* (store: Store, runId: Id.RunId) {
  yield* heldOn(store, runId, [approval(runId, 1)])
  yield* store.decide({ ...approve(Id.requestId(runId, 1)), grant: scope })
  return yield* claimed(store, runId)
})

export const start = (store: Store, lease: Lease, grants: ReadonlyArray<StoredGrant>, expected = 1) =>
  store.append({ lease, expected: rev(expected), events: [said("start")], status: "running", grants })

export const grants = ({ assert, fails, test }: Group): void => {
  test("stores the grant of a decision that is recorded with `decide`, `decideAll` or `append`", function* (store) {
    yield* granted(store, a)
    assert.deepStrictEqual(yield* store.grants({ runId: a }), [grantOf(a)])
    yield* heldOn(store, c, [approval(c, 1)])
    yield* store.decideAll([{ ...approve(Id.requestId(c, 1)), grant: scope }])
    assert.deepStrictEqual(yield* store.grants({ runId: c }), [grantOf(c)])
    const lease = yield* started(store, b, { events: [opened(approval(b, 1))] })
    const decision = { ...approve(Id.requestId(b, 1)), grant: scope, at: 0 } as const
    yield* store.append({
      lease,
      expected: rev(1),
      events: [decided(decision, 0)],
      status: "running"
    })
    assert.deepStrictEqual(yield* store.grants(), [grantOf(a), grantOf(b), grantOf(c)])
  })

  test("stores no grant for an approval without one, for a denial, or for a refused decision", function* (store) {
    yield* heldOn(store, a, [approval(a, 1), approval(a, 2)])
    yield* store.decide(approve(Id.requestId(a, 1)))
    yield* store.decide(deny(Id.requestId(a, 2)))
    const late = { ...approve(Id.requestId(a, 2)), grant: scope }
    yield* fails(store.decide(late), "AlreadyDecided")
    assert.deepStrictEqual(yield* store.grants(), [])
  })

  test("refuses a session grant on the request of a sub-agent, and accepts a run grant", function* (store) {
    yield* heldOn(store, a, [approval(a, 1, { agentPath: ["root", "helper"] })])
    const decision = approve(Id.requestId(a, 1))
    const error = yield* Effect.flip(store.decide({ ...decision, grant: scope }))
    assert.deepStrictEqual([error._tag, fields(error)["reason"]], ["GrantRefused", "subAgent"])
    assert.deepStrictEqual(yield* store.grants(), [])
    yield* store.decide({ ...decision, grant: { scope: "run" } })
    assert.deepStrictEqual(
      (yield* store.grants()).map(({ grant }) => grant.agent),
      ["helper"]
    )
  })

  test("writes nothing that relies on a revoked grant, and returns the revocation", function* (store) {
    const lease = yield* granted(store, a)
    const given = grantOf(a)
    yield* start(store, lease, [given])
    yield* store.revokeGrant({ grantId: given.grant.id, revocation })
    const refused = yield* start(store, lease, [given], 2)
    assert.deepStrictEqual(refused, {
      revision: rev(2),
      revoked: [{ grantId: given.grant.id, revocation }]
    })
    assert.strictEqual((yield* store.events(a)).length, 2)
    // The run continues without the grant.
    yield* start(store, lease, [], 2)
  })

  test("stores an unknown grant when a run first relies on it, and checks it in other runs too", function* (store) {
    const given = grantOf(a)
    const lease = yield* started(store, b)
    yield* start(store, lease, [given])
    assert.deepStrictEqual(yield* store.grants({ grantId: given.grant.id }), [given])
    yield* store.revokeGrant({ grantId: given.grant.id, revocation })
    assert.strictEqual((yield* start(store, lease, [given], 2)).revoked?.length, 1)
  })

  test("keeps the first revocation of a grant, and refuses to revoke an unknown grant", function* (store) {
    yield* granted(store, a)
    const given = grantOf(a)
    const { id: grantId } = given.grant
    const first = yield* store.revokeGrant({ grantId, revocation })
    assert.deepStrictEqual(first, { ...given, grant: { ...given.grant, revoked: revocation } })
    const principal = { id: "cy", kind: "service" } as const
    const second = { grantId, revocation: { by: "cy", principal, at: 8 } }
    assert.deepStrictEqual(yield* store.revokeGrant(second), first)
    const other = grantOf(b)
    const none = { grantId: other.grant.id, revocation: second.revocation }
    yield* fails(store.revokeGrant(none), "GrantNotFound")
    const kept = yield* store.revokeGrant({ ...none, given: other })
    assert.deepStrictEqual(kept.grant.revoked, second.revocation)
  })

  test("lists grants by run, session, tool and agent, oldest first, in pages", function* (store) {
    yield* granted(store, a)
    yield* granted(store, b)
    const both = [grantOf(a), grantOf(b)]
    const ids = (filter: Parameters<Store["grants"]>[0]) =>
      Effect.map(store.grants(filter), (found) => found.map(({ grant }) => grant.id))
    const [first, second] = both.map(({ grant }) => grant.id)
    assert.deepStrictEqual(yield* ids({ sessionId: session("s-run_b") }), [second])
    assert.deepStrictEqual(yield* ids({ tool: "deploy", agent: "root" }), [first, second])
    assert.deepStrictEqual(yield* ids({ tool: "erase" }), [])
    assert.deepStrictEqual(yield* ids({ agent: "other" }), [])
    assert.deepStrictEqual(yield* ids({ limit: 1 }), [first])
    assert.deepStrictEqual(yield* ids({ after: first! }), [second])
  })

  test("deletes the grants of a run with the run, but keeps their revocations", function* (store) {
    const lease = yield* granted(store, a)
    const given = grantOf(a)
    yield* store.revokeGrant({ grantId: given.grant.id, revocation })
    yield* store.release(lease)
    yield* store.remove(a)
    assert.deepStrictEqual(yield* store.grants(), [])
    const other = yield* started(store, b)
    const refused = yield* start(store, other, [given])
    assert.deepStrictEqual(
      refused.revoked?.map(({ grantId }) => grantId),
      [given.grant.id]
    )
    const again = { grantId: given.grant.id, revocation }
    yield* fails(store.revokeGrant(again), "GrantNotFound")
  })

  test("starts a call under a grant before a concurrent revocation, or refuses the start", function* (store) {
    for (let round = 0; round < 10; round += 1) {
      const runId = run(`run_${round}`)
      const lease = yield* granted(store, runId)
      const given = grantOf(runId)
      const revoking = yield* Effect.forkChild(store.revokeGrant({ grantId: given.grant.id, revocation }))
      const starting = yield* Effect.forkChild(start(store, lease, [given]))
      yield* Fiber.join(revoking)
      const { revision, revoked } = yield* Fiber.join(starting)
      assert.strictEqual(revision, revoked === undefined ? 2 : 1)
      assert.strictEqual((yield* start(store, lease, [given], revision)).revoked?.length, 1)
    }
  })
}
