import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as SqlClient from "effect/sql/SqlClient"
import { isSqlError } from "effect/sql/SqlError"
import * as SqliteClient from "../../../node/src/internal/sqlite/client.ts"
import { temporaryDirectory } from "../../../node/test/temporaryStore.ts"
import type { RunId, SessionId } from "../../src/domain/Id.ts"
import * as Limits from "../../src/domain/Limits.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import type * as RunStore from "../../src/store/RunStore.ts"
import * as SqlRunStore from "../../src/store/SqlRunStore.ts"
import * as FaultySqlClient from "../../src/testing/FaultySqlClient.ts"

const runId = "run" as RunId
const started: RunEvent = {
  _tag: "run.started",
  at: 1,
  runId,
  sessionId: "session" as SessionId,
  agent: { name: "clerk", instructions: "", tools: {} },
  agentPath: ["clerk"],
  prompt: [{ _tag: "text", text: "Do it." }],
  limits: Limits.defaults,
  policy: { mode: "ask" },
  asks: true,
  structured: false
}
const create = (store: RunStore.RunStore["Service"]) =>
  store.create({
    runId,
    sessionId: started.sessionId,
    agent: "clerk",
    events: [started],
    status: "running",
    owner: "worker",
    ttl: "15 seconds"
  })

/** A store on a file, through a client that follows the plan once the store is open. */
const open = Effect.fnUntraced(function* (filename: string, plan: FaultySqlClient.Plan) {
  const sql = yield* SqliteClient.make({ filename }).pipe(Effect.provide(Reactivity.layer))
  let isOpen = false
  const faulty = FaultySqlClient.make(sql, (statement) => (isOpen ? plan(statement) : "pass"))
  const store = yield* Effect.provideService(SqlRunStore.make(), SqlClient.SqlClient, faulty.client)
  isOpen = true
  return { faulty, sql, store }
})

const file = Effect.map(temporaryDirectory, (directory) => join(directory, "runs.db"))

/** Creates a run through a client that follows the plan, then counts the runs with another client. */
const createAndLook = (plan: FaultySqlClient.Plan) =>
  Effect.gen(function* () {
    const filename = yield* file
    const exit = yield* Effect.scoped(
      Effect.flatMap(open(filename, plan), ({ store }) => Effect.exit(create(store)))
    )
    const { store } = yield* open(filename, () => "pass")
    return { exit, runs: (yield* store.list()).length }
  })

const at =
  (start: string, fault: FaultySqlClient.Fault): FaultySqlClient.Plan =>
  ({ sql }) =>
    sql.startsWith(start) ? fault : "pass"

describe("FaultySqlClient", () => {
  it.live("numbers every statement of a transaction, its begin and commit included", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const { faulty, store } = yield* open(yield* file, ({ sql }) => {
        seen.push(sql.split(/\s/)[0] ?? "")
        return "pass"
      })
      const before = faulty.statements()
      yield* create(store)
      assert.strictEqual(faulty.statements() - before, seen.length)
      assert.deepStrictEqual([seen[0], seen.at(-1)], ["BEGIN", "COMMIT"])
    })
  )

  it.live("leaves nothing of a transaction whose process crashed before its commit", () =>
    Effect.gen(function* () {
      const { exit, runs } = yield* createAndLook(at("COMMIT", "crashBefore"))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
      assert.strictEqual(runs, 0)
    })
  )

  it.live("keeps a transaction whose process crashed after its commit", () =>
    Effect.gen(function* () {
      const { exit, runs } = yield* createAndLook(at("COMMIT", "crashAfter"))
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
      assert.strictEqual(runs, 1)
    })
  )

  it.live("answers no statement after a crash", () =>
    Effect.gen(function* () {
      const { faulty, store } = yield* open(yield* file, () => "pass")
      faulty.crash()
      const exit = yield* Effect.exit(store.list())
      assert.isTrue(
        Exit.isFailure(exit) && Cause.squash(exit.cause) instanceof FaultySqlClient.SimulatedCrash
      )
      assert.isTrue(faulty.crashed())
    })
  )

  it.live("reports a full disk like the database", () =>
    Effect.gen(function* () {
      const { exit, runs } = yield* createAndLook(at("INSERT", "full"))
      const error = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
      assert.deepInclude(error, { _tag: "RunStoreError" })
      assert.strictEqual((error as { readonly reason: { readonly _tag: string } }).reason._tag, "StorageFull")
      assert.strictEqual(runs, 0)
    })
  )

  it.live("lets a store retry when the database is busy", () =>
    Effect.gen(function* () {
      let busy = 3
      const { exit, runs } = yield* createAndLook(({ sql }) =>
        sql.startsWith("BEGIN") && busy-- > 0 ? "busy" : "pass"
      )
      assert.isTrue(Exit.isSuccess(exit))
      assert.strictEqual(runs, 1)
    })
  )

  it.live("commits and loses the acknowledgement, and the store notices the commit", () =>
    Effect.gen(function* () {
      let left = 1
      const { exit, runs } = yield* createAndLook(({ sql }) =>
        sql === "COMMIT" && left-- > 0 ? "lostAcknowledgement" : "pass"
      )
      assert.isTrue(Exit.isSuccess(exit))
      assert.strictEqual(runs, 1)
    })
  )

  it.live("rolls back the open transaction when the connection is lost", () =>
    Effect.gen(function* () {
      const { faulty, sql } = yield* open(yield* file, at("INSERT", "connectionLost"))
      const exit = yield* Effect.exit(
        Effect.scoped(
          Effect.gen(function* () {
            const connection = yield* faulty.client.reserve
            yield* connection.execute("CREATE TABLE things (id integer)", [], undefined)
            yield* connection.execute("BEGIN", [], undefined)
            yield* connection.execute("DELETE FROM things", [], undefined)
            yield* connection.execute("INSERT INTO things VALUES (1)", [], undefined)
          })
        )
      )
      assert.isTrue(Exit.isFailure(exit) && isSqlError(Cause.squash(exit.cause)))
      // An open transaction would refuse another one.
      yield* sql`BEGIN`
      yield* sql`ROLLBACK`
    })
  )
})
