import * as PgClient from "@effect/sql-pg/PgClient"
import { assert, describe, it } from "@effect/vitest"
import type { Decision, Id, RunEvent } from "@fermata/sdk"
import { SqlRunStore } from "@fermata/sdk/store"
import { FaultySqlClient } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Redacted from "effect/Redacted"
import * as SqlClient from "effect/sql/SqlClient"
import { makeAccess } from "../../../sdk/src/store/internal/sql/access.ts"
import { reusedSchema } from "./database.ts"
import { create, openStore, runId, type Store } from "./storedRuns.ts"

const schema = reusedSchema()

/** A request whose approval can carry a grant. */
const gated = (run: Id.RunId): RunEvent.RunEvent => ({
  _tag: "request.opened",
  at: 1,
  request: {
    _tag: "approval",
    requestId: `${run}.r1` as Id.RequestId,
    runId: run,
    agentPath: ["root"],
    at: 1,
    callId: `${run}.t1.1` as Id.ToolCallId,
    tool: "pay",
    arguments: { amount: 1 },
    digest: "d",
    safety: "sideEffecting"
  }
})

const granting = (run: Id.RunId, by: string): Decision.DecisionInput => ({
  _tag: "approve",
  requestId: `${run}.r1` as Id.RequestId,
  by,
  digest: "d",
  grant: { scope: "run", arguments: {} }
})

const operations: Readonly<Record<string, (store: Store, run: Id.RunId) => Effect.Effect<unknown, unknown>>> =
  {
    decide: (store, run) => store.decide(granting(run, "ann")),
    decideAll: (store, run) => store.decideAll([granting(run, "ann")])
  }

const faults = ["ioError", "connectionLost", "lostAcknowledgement"] as const

/** Runs an operation on a new run with its statement `number` failing; undefined when it has fewer statements. */
const attempt = Effect.fnUntraced(function* (
  url: string,
  witness: Store,
  name: string,
  fault: (typeof faults)[number],
  number: number
) {
  const run = runId(`${name}_${fault}_${number}`)
  yield* create(witness, run, gated(run))
  let failing: number | undefined
  const sql = yield* PgClient.make({ url: Redacted.make(url), maxConnections: 1 })
  const faulty = FaultySqlClient.make(sql, (statement) => (statement.number === failing ? fault : "pass"))
  const store = yield* Effect.provideService(SqlRunStore.make(), SqlClient.SqlClient, faulty.client)
  failing = faulty.statements() + number
  const exit = yield* Effect.exit(operations[name]!(store, run))
  if (faulty.statements() < failing) return undefined
  const decisions = yield* witness.decisions(run)
  const grants = yield* witness.grants({ runId: run })
  return { acknowledged: Exit.isSuccess(exit), decisions, grants }
}, Effect.provide(Reactivity.layer))

describe("a decision with a grant, one of whose statements fails", () => {
  for (const name of Object.keys(operations)) {
    for (const fault of faults) {
      it.live(
        `is recorded with its grant when acknowledged, and otherwise with it or not at all (${name}, ${fault})`,
        () =>
          Effect.gen(function* () {
            const url = yield* schema
            const witness = yield* openStore({ url, maxConnections: 1 })
            let tried = 0
            for (let number = 1; ; number++) {
              const outcome = yield* Effect.scoped(attempt(url, witness, name, fault, number))
              if (outcome === undefined) break
              tried += 1
              const expected = outcome.acknowledged ? 1 : outcome.decisions.length
              assert.strictEqual(outcome.decisions.length, expected, `statement ${number}`)
              assert.strictEqual(outcome.grants.length, expected, `statement ${number}`)
            }
            assert.isAbove(tried, 4)
          })
      )
    }
  }
})

describe("a transaction in which a statement failed", () => {
  it.live("is rolled back with StoreFault, also when its body ignores the failure", () =>
    Effect.gen(function* () {
      const url = yield* schema
      const sql = yield* PgClient.make({ url: Redacted.make(url), maxConnections: 1 })
      const { query, run, write } = makeAccess(sql, { busyDeadline: "5 seconds", boundsLocks: true })
      yield* query("open", run(sql`CREATE TABLE kept (number integer)`))
      const failure = yield* Effect.flip(
        write(
          "decide",
          Effect.andThen(run(sql`INSERT INTO kept VALUES (1)`), Effect.ignore(run(sql`SELECT 1/0`))),
          Effect.succeedNone
        )
      )
      assert.strictEqual(failure.reason._tag, "StoreFault")
      assert.deepStrictEqual(yield* query("open", run(sql`SELECT number FROM kept`)), [])
      yield* write("decide", run(sql`INSERT INTO kept VALUES (2)`), Effect.succeedNone)
      assert.deepStrictEqual(yield* query("open", run(sql`SELECT number FROM kept`)), [{ number: 2 }])
      yield* query("open", run(sql`DROP TABLE kept`))
    }).pipe(Effect.provide(Reactivity.layer))
  )
})
