import { assert, describe, it } from "@effect/vitest"
import type { Id } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { repeats } from "../../../../scripts/internal/effort.ts"
import { emptyDatabase, reusedSchema, withSql } from "./database.ts"
import { type Fault, proxyTo } from "./proxy.ts"
import { answer, answering, asked, at, create, openStore, runId, said, type Store } from "./storedRuns.ts"

/** How often each test repeats: a commit that was done and not answered is the hard one. */
const rounds = { after: repeats(15), before: repeats(5) }

const schema = reusedSchema()

/** A store whose next commit can be broken, and a witness that sees the result. */
const storeToBreak = Effect.gen(function* () {
  const url = yield* schema
  const proxy = yield* proxyTo(url)
  const store = yield* openStore({ url: proxy.url, maxConnections: 2 })
  const witness = yield* openStore({ url, maxConnections: 1 })
  const broken = <A, E>(fault: Fault, operation: Effect.Effect<A, E>) =>
    Effect.suspend(() => {
      proxy.breakNextCommit(fault)
      return operation
    })
  return { store, witness, broken, count: proxy.broken }
})

/** Repeats a test, for each moment at which its commit is broken. */
const repeated = (
  title: string,
  story: (
    context: Effect.Success<typeof storeToBreak>,
    run: Id.RunId,
    fault: Fault
  ) => Effect.Effect<unknown, unknown>
) => {
  for (const fault of ["after", "before"] as const) {
    it.live(
      `${title}, when the connection breaks ${fault} the commit, ${rounds[fault]} of ${rounds[fault]}`,
      () =>
        Effect.gen(function* () {
          const context = yield* storeToBreak
          for (let round = 0; round < rounds[fault]; round += 1) yield* story(context, runId(round), fault)
          assert.strictEqual(context.count(), rounds[fault])
        })
    )
  }
}

const append = (store: Store, lease: Effect.Success<ReturnType<typeof create>>, text: string) =>
  store.append({ lease, expected: at(1), events: [said(text)], status: "running" })

describe("an operation whose commit gets no answer", () => {
  repeated("creates its run once", ({ broken, store, witness }, run, fault) =>
    Effect.gen(function* () {
      const lease = yield* broken(fault, create(store, run))
      const { events, head } = yield* witness.load(run)
      assert.deepStrictEqual(events, [said("start")])
      assert.deepStrictEqual(head.lease, { owner: lease.owner, until: lease.until })
      // The returned lease is valid.
      assert.strictEqual((yield* append(store, lease, "1")).revision, 2)
    })
  )

  repeated("appends its events once", ({ broken, store, witness }, run, fault) =>
    Effect.gen(function* () {
      const lease = yield* create(store, run)
      assert.deepStrictEqual(yield* broken(fault, append(store, lease, "1")), { revision: at(2) })
      assert.deepStrictEqual((yield* witness.load(run)).events, [said("start"), said("1")])
    })
  )

  repeated("parks its run once", ({ broken, store, witness }, run, fault) =>
    Effect.gen(function* () {
      const lease = yield* create(store, run)
      const park = store.park({ lease, expected: at(1), events: [asked(run)], status: "held" })
      assert.deepStrictEqual(yield* broken(fault, park), { parked: true, revision: at(2) })
      const { events, head } = yield* witness.load(run)
      assert.deepStrictEqual(events, [said("start"), asked(run)])
      assert.deepStrictEqual([head.status, head.lease], ["held", undefined])
    })
  )

  repeated("decides its request once, in its own name", ({ broken, store, witness }, run, fault) =>
    Effect.gen(function* () {
      yield* create(store, run, asked(run))
      const { decision } = yield* broken(fault, answer(store, run, "ann"))
      assert.strictEqual(decision.by, "ann")
      const late = yield* Effect.flip(answer(witness, run, "ben"))
      assert.strictEqual(late._tag === "AlreadyDecided" ? late.by : late._tag, "ann")
      assert.deepStrictEqual(yield* witness.decisions(run), [decision])
    })
  )

  repeated("decides several requests once, in its own name", ({ broken, store, witness }, run, fault) =>
    Effect.gen(function* () {
      const other = runId(`${run}-other`)
      yield* create(store, run, asked(run))
      yield* create(store, other, asked(other))
      const batch = [answering(run, "ann"), answering(other, "ann")]
      const outcomes = yield* broken(fault, store.decideAll(batch))
      assert.deepStrictEqual(
        outcomes.map(({ decision, runId }) => [runId, decision.by]),
        [
          [run, "ann"],
          [other, "ann"]
        ]
      )
      const late = yield* Effect.flip(witness.decideAll([answering(other, "ben"), answering(run, "ben")]))
      assert.strictEqual(late._tag === "AlreadyDecided" ? late.by : late._tag, "ann")
      for (const { decision, runId } of outcomes) {
        assert.deepStrictEqual(yield* witness.decisions(runId), [decision])
      }
    })
  )

  repeated(
    "sends its message once, with a receipt that stays valid",
    ({ broken, store, witness }, run, fault) =>
      Effect.gen(function* () {
        const lease = yield* create(store, run)
        const message = { messageId: "m1", content: [{ _tag: "text", text: "hello" }] } as const
        const receipt = yield* broken(fault, store.send(run, message))
        // The receipt stays valid when the run has ended.
        yield* store.append({ lease, expected: at(1), events: [said("end")], status: "completed" })
        assert.deepStrictEqual(yield* witness.messages(run), [{ ...message, at: receipt.at }])
        assert.deepStrictEqual(yield* witness.send(run, message), receipt)
      })
  )

  repeated("takes a message into the journal once", ({ broken, store, witness }, run, fault) =>
    Effect.gen(function* () {
      const lease = yield* create(store, run)
      const content = [{ _tag: "text", text: "hello" }] as const
      yield* store.send(run, { messageId: "m1", content })
      const taking = { _tag: "message.queued", at: 5, content, messageId: "m1" } as const
      const park = store.park({ lease, expected: at(1), events: [taking], status: "held" })
      assert.deepStrictEqual(yield* broken(fault, park), { parked: true, revision: at(2) })
      assert.deepStrictEqual((yield* witness.load(run)).events, [said("start"), taking])
      assert.deepStrictEqual(yield* witness.messages(run), [])
    })
  )

  repeated("claims its run once", ({ broken, store, witness }, run, fault) =>
    Effect.gen(function* () {
      yield* store.release(yield* create(store, run))
      const lease = yield* broken(fault, store.claim({ runId: run, owner: "heir", ttl: "1 minute" }))
      assert.strictEqual((yield* append(store, lease, "1")).revision, 2)
      const late = yield* Effect.flip(witness.claim({ runId: run, owner: "other", ttl: "1 minute" }))
      assert.strictEqual(late._tag === "RunBusy" ? late.owner : late._tag, "heir")
    })
  )

  repeated("removes its run", ({ broken, store, witness }, run, fault) =>
    Effect.gen(function* () {
      yield* store.release(yield* create(store, run))
      yield* broken(fault, store.remove(run))
      assert.strictEqual((yield* Effect.flip(witness.head(run)))._tag, "RunNotFound")
    })
  )

  it.live("fails with RunConflict when another append came first", () =>
    Effect.gen(function* () {
      const { broken, store, witness } = yield* storeToBreak
      const lease = yield* create(store, runId("a"))
      yield* append(witness, lease, "theirs")
      // Its transaction is refused before the commit; the next COMMIT is the reader's.
      const error = yield* Effect.flip(broken("after", append(store, lease, "mine")))
      assert.strictEqual(error._tag, "RunConflict")
      assert.deepStrictEqual((yield* witness.load(runId("a"))).events, [said("start"), said("theirs")])
    })
  )

  it.live("is retried when the server ends its session within the transaction", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      yield* withSql(
        url,
        (sql) => sql`DO $$ BEGIN
          EXECUTE format('ALTER DATABASE %I SET idle_in_transaction_session_timeout = 100', current_database());
        END $$`
      )
      const proxy = yield* proxyTo(url)
      // A store behind a pooler leaves the settings of the session as the server has them.
      const store = yield* openStore({ url: proxy.url, transactionPooler: true })
      const lease = yield* create(store, runId("a"))
      proxy.breakNextCommit("stall")
      const exit = yield* Effect.exit(append(store, lease, "1"))
      assert.deepStrictEqual(exit, Exit.succeed({ revision: at(2) }))
      assert.strictEqual(proxy.broken(), 1)
      assert.deepStrictEqual((yield* store.load(runId("a"))).events, [said("start"), said("1")])
    })
  )
})
