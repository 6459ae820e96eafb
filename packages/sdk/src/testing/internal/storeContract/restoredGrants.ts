/**
 * The contract of the grants of restored runs: the revocations in an archive, and those that remain of a deleted run.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Id from "../../../domain/Id.ts"
import type { RunEvent } from "../../../domain/RunEvent.ts"
import type { RestoredRun } from "../../../store/RunStorePort.ts"
import type { StoredGrant } from "../../../store/StoredGrant.ts"
import { a, b, c, inChild, rev, said, session } from "./events.ts"
import { grantOf, revocation, scope, start } from "./grants.ts"
import { fields, type Group } from "./group.ts"
import { approval, approve, decided, opened } from "./requests.ts"
import { started, touched } from "./stored.ts"

/** A copy of a run with a grant from this time. */
const copyAt = (runId: Id.RunId, at: number, more: ReadonlyArray<RunEvent> = []): RestoredRun => {
  const decision = { ...approve(Id.requestId(runId, 1)), grant: scope, at } as const
  return {
    runId,
    sessionId: session(`s-${runId}`),
    agent: "root",
    status: "completed",
    events: [opened(approval(runId, 1)), decided(decision, at), ...more, said("end")]
  }
}

/** The grant of such a copy. */
const grantAt = (runId: Id.RunId, at: number): StoredGrant => {
  const given = grantOf(runId)
  return { ...given, grant: { ...given.grant, at } }
}

const revokedBy = (stored: StoredGrant, by: string, at: number): StoredGrant => ({
  ...stored,
  grant: { ...stored.grant, revoked: { by, at } }
})

/** The id of the grant that the decision on the first request of `run_a` creates. */
const { id: grantId } = grantOf(a).grant

export const restoredGrants = ({ assert, fails, test }: Group): void => {
  test("restores a grant as revoked if it was revoked here before its run was deleted", function* (store) {
    yield* store.restore([copyAt(a, 0)], [], [])
    yield* store.revokeGrant({ grantId: grantId, revocation })
    for (let round = 0; round < 2; round += 1) {
      yield* store.remove(a)
      yield* store.restore([copyAt(a, 0)], [], [])
      const expected = revokedBy(grantOf(a), "a run that was deleted", revocation.at)
      assert.deepStrictEqual(yield* store.grants({ runId: a }), [expected])
    }
  })

  test("distinguishes the grants of a new run and of a deleted run with the same id", function* (store) {
    const other = yield* started(store, b)
    for (const at of [1, 2, 3]) {
      yield* store.restore([copyAt(a, at)], [], [])
      assert.deepStrictEqual(yield* store.grants(), [grantAt(a, at)])
      yield* start(store, other, [grantAt(a, at)], at)
      const revoked = yield* store.revokeGrant({ grantId, revocation })
      assert.deepStrictEqual(revoked, revokedBy(grantAt(a, at), "ben", 7))
      yield* store.remove(a)
    }
    yield* store.restore([copyAt(a, 4)], [], [])
    // The revocations of all three deleted runs are still stored.
    for (const at of [1, 2, 3]) {
      const refused = yield* start(store, other, [grantAt(a, at)], 4)
      assert.deepStrictEqual(refused.revoked?.length, 1)
    }
    assert.strictEqual((yield* start(store, other, [grantAt(a, 4)], 4)).revoked, undefined)
    yield* store.remove(a)
    yield* store.restore([copyAt(a, 2)], [], [])
    const back = revokedBy(grantAt(a, 2), "a run that was deleted", 7)
    assert.deepStrictEqual(yield* store.grants(), [back])
  })

  test("stores a grant of a new run when it is first relied on, even if a deleted run had one with the same id", function* (store) {
    yield* store.restore([copyAt(a, 1)], [], [])
    yield* store.revokeGrant({ grantId: grantId, revocation })
    yield* store.remove(a)
    const other = yield* started(store, b)
    assert.strictEqual((yield* start(store, other, [grantAt(a, 2)])).revoked, undefined)
    assert.deepStrictEqual(yield* store.grants(), [grantAt(a, 2)])
    assert.strictEqual((yield* start(store, other, [grantAt(a, 1)], 2)).revoked?.length, 1)
  })

  test("revokes the grants of restored runs that are revoked in their journals, even by an event of a sub-agent", function* (store) {
    const principal = { id: "ben", kind: "service" } as const
    const event = { _tag: "grant.revoked", at: 8, grantId, by: "ben", principal } as const
    yield* store.restore([{ ...copyAt(a, 0), rest: [event] }], [], [])
    const expected = revokedBy(grantOf(a), "ben", 8)
    const withPrincipal = { ...expected.grant, revoked: { by: "ben", principal, at: 8 } }
    assert.deepStrictEqual(yield* store.grants({ runId: a }), [{ ...expected, grant: withPrincipal }])
    const inside = { ...event, grantId: grantOf(b).grant.id, at: 9 }
    yield* store.restore([copyAt(b, 0, [inChild(b, inside)])], [], [])
    const [other] = yield* store.grants({ runId: b })
    assert.deepStrictEqual(other?.grant.revoked?.at, 9)
  })

  test("applies the revocations in an archive to the grants of its runs, and to no grant of another run", function* (store) {
    yield* store.restore([copyAt(a, 0)], [], [])
    const foreign = { _tag: "grant.revoked", at: 8, grantId, by: "eve" } as const
    const claims = [revokedBy(grantOf(a), "eve", 8), revokedBy({ ...grantOf(a), runId: b }, "eve", 8)]
    yield* store.restore([copyAt(b, 0, [foreign])], [], [], [...claims, revokedBy(grantOf(b), "ben", 8)])
    assert.deepStrictEqual(yield* store.grants(), [grantOf(a), revokedBy(grantOf(b), "ben", 8)])
  })

  test("applies the revocations in another archive of a run, even if the archive is refused", function* (store) {
    interface Case {
      /** The stored copy and the arriving one. The grant of each case has its own time, because revocations stay stored. */
      readonly copies: (
        copy: RestoredRun,
        up: (to: number, ...more: ReadonlyArray<RunEvent>) => RestoredRun
      ) => readonly [RestoredRun, RestoredRun]
      readonly isClaimed?: boolean
      readonly refused?: string
    }
    const cases: ReadonlyArray<Case> = [
      { copies: (copy) => [copy, copy] },
      { copies: (copy, up) => [up(2), copy] },
      { copies: (copy, up) => [up(3, said("more")), copy], refused: "older" },
      { copies: (copy) => [copy, copy], isClaimed: true, refused: "older" },
      { copies: (copy, up) => [up(2), copy], isClaimed: true, refused: "newer" },
      { copies: (_, up) => [up(2, said("here")), up(2, said("there"))], refused: "apart" }
    ]
    for (const [index, { copies, isClaimed, refused }] of cases.entries()) {
      const copy = copyAt(a, index)
      const [first, ...rest] = copy.events
      const [here, there] = copies(copy, (to, ...more) => ({
        ...copy,
        status: "held",
        events: [first, ...rest.slice(0, to - 1), ...more]
      }))
      const claims = [revokedBy(grantAt(a, index), "ben", 8)]
      yield* store.restore([here], [], [])
      if (isClaimed === true) {
        yield* touched(store, a)
      }
      const before = yield* store.events(a)
      const outcome = yield* Effect.result(store.restore([there], [], [], claims))
      assert.deepStrictEqual(
        Result.isFailure(outcome) ? fields(outcome.failure) : undefined,
        refused === undefined
          ? undefined
          : { _tag: "RunExists", runId: a, status: here.status, archive: refused, revoked: [grantId] }
      )
      if (refused !== undefined) assert.deepStrictEqual(yield* store.events(a), before)
      assert.deepStrictEqual(yield* store.grants({ runId: a }), claims)
      // The first revocation stands.
      const again = [revokedBy(grantAt(a, index), "cy", 9)]
      yield* Effect.result(store.restore([there], [], [], again))
      assert.deepStrictEqual(yield* store.grants({ runId: a }), claims)
      yield* store.remove(a)
    }
  })

  test("applies the revocations of a refused archive to the runs that are stored, and to no run with other first events", function* (store) {
    const claims = [revokedBy(grantOf(a), "ben", 8)]
    const next = (runId: Id.RunId): RestoredRun => ({
      runId,
      sessionId: session(`s-${a}`),
      agent: "root",
      status: "completed",
      parent: { runId: a, revision: rev(3) },
      events: [said(`by ${runId}`)]
    })
    const other = { ...copyAt(a, 0), events: [said("other"), said("end")] } as const
    yield* store.restore([copyAt(a, 0), next(b)], [], [])
    yield* fails(store.restore([other], [], [], claims), {
      _tag: "RunExists",
      runId: a,
      status: "completed",
      archive: "other",
      revoked: []
    })
    assert.deepStrictEqual(yield* store.grants(), [grantOf(a)])
    yield* fails(store.restore([copyAt(a, 0), next(c)], [], [], claims), {
      _tag: "SessionBusy",
      sessionId: session(`s-${a}`),
      runId: b,
      status: "completed",
      archived: c,
      revoked: [grantId]
    })
    assert.deepStrictEqual(yield* store.grants(), claims)
    assert.strictEqual((yield* store.list()).length, 2)
  })

  test("applies a revocation in a refused archive to the existing grants of a claimed run, and to no later grant", function* (store) {
    const held: RestoredRun = {
      ...copyAt(a, 0),
      status: "held",
      events: [opened(approval(a, 1)), opened(approval(a, 2))]
    }
    // The revocations that remain of a deleted run with this id do not concern this run.
    const second = { ...approve(Id.requestId(a, 2)), grant: scope, at: 5 } as const
    const given = decided(second, 5)
    yield* store.restore([{ ...held, events: [opened(approval(a, 2)), given] }], [], [])
    yield* store.revokeGrant({ grantId: grantOf(a, 2).grant.id, revocation })
    yield* store.remove(a)
    yield* store.restore([held], [], [])
    yield* touched(store, a)
    yield* store.decide({ ...approve(Id.requestId(a, 1)), grant: scope })
    const claims = [revokedBy(grantOf(a), "ben", 8), revokedBy(grantOf(a, 2), "ben", 8)]
    const refused = yield* Effect.flip(store.restore([held], [], [], claims))
    assert.deepStrictEqual(fields(refused)["revoked"], [grantId])
    yield* store.decide({ ...approve(Id.requestId(a, 2)), grant: scope })
    assert.deepStrictEqual(
      (yield* store.grants()).map(({ grant }) => grant.revoked?.by),
      ["ben", undefined]
    )
  })

  test("keeps the revocation of a grant for the later archive that contains the grant", function* (store) {
    const held = { ...copyAt(a, 0), status: "held", events: [opened(approval(a, 1))] } as const
    const claims = [revokedBy(grantOf(a), "ben", 8)]
    yield* store.restore([held], [], [])
    yield* store.restore([held], [], [], claims)
    yield* store.restore([copyAt(a, 0)], [], [])
    assert.deepStrictEqual(yield* store.grants(), claims)
  })
}
