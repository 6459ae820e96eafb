import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "@effect/vitest"
import type { Blob, Id } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { temporaryFile } from "../temporaryStore.ts"
import { run, said, showing, started, type Store, withStore } from "./fixtures.ts"
import { planOf, recording } from "./statements.ts"

const sessionId = "s" as Id.SessionId

/** Every query that lists or searches: the ones that only use a primary key are left out. */
const queries = (store: Store): ReadonlyArray<Effect.Effect<unknown, unknown>> => [
  store.latest(sessionId),
  store.list(),
  store.list({ sessionId }),
  store.list({ agent: "root" }),
  store.list({ status: "held" }),
  store.sessions(),
  store.sessions({ agent: "root" }),
  store.sessions({ status: "held" }),
  store.pending(),
  store.pending({ kind: "question" }),
  store.pending({ runId: run(1) }),
  store.pending({ expiresBefore: 1 }),
  store.withToken("token"),
  store.ready({ agents: ["root"] }),
  store.nextDue({ agents: ["root"] }),
  store.notices!([run(1)]),
  store.messages(run(1)),
  store.grants({ runId: run(1) }),
  store.grants({ sessionId }),
  store.blobs!.uses([run(2)]),
  store.blobs!.find(["0".repeat(64) as Blob.Sha256]),
  Stream.runDrain(store.blobs!.damaged),
  store.prune({ endedBefore: 1 }),
  store.remove(run(2))
]

/** The number of steps that read a whole table or index, sort rows, or use an index that is built for the statement. */
const slowSteps = (database: DatabaseSync, statement: string): number =>
  planOf(database, statement).filter((step) => /^SCAN|TEMP B-TREE|AUTOMATIC/.test(step)).length

/** Whether a statement needs more such steps than before, or cannot be compiled. */
const isSlower = (database: DatabaseSync, statement: string, before: number): boolean => {
  try {
    return slowSteps(database, statement) > before
  } catch {
    return true
  }
}

describe("the indexes of a SQLite store", () => {
  it.live("are each needed by a query, which would read more or sort rows without it", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      const statements = yield* withStore(filename, (store) =>
        Effect.gen(function* () {
          yield* started(store, run(1), said("hello"))
          yield* store.release(
            yield* started(store, run(2), showing(yield* store.blobs!.put(Stream.make(new Uint8Array([1])))))
          )
          return yield* Effect.promise(() =>
            recording(() => Effect.runPromise(Effect.all(queries(store), { discard: true })))
          )
        })
      )
      const database = new DatabaseSync(filename)
      const before = new Map([...statements].map((statement) => [statement, slowSteps(database, statement)]))
      const indexes = database
        .prepare(
          `SELECT list.name FROM sqlite_schema AS tables, pragma_index_list(tables.name) AS list
            WHERE tables.type = 'table' AND list.origin = 'c' AND NOT list."unique"`
        )
        .all()
        .map(({ name }) => String(name))
      assert.isAbove(indexes.length, 15)
      const unneeded = indexes.filter((index) => {
        database.exec(`BEGIN; DROP INDEX ${index}`)
        const isNeeded = [...before].some(([statement, steps]) => isSlower(database, statement, steps))
        database.exec("ROLLBACK")
        return !isNeeded
      })
      database.close()
      assert.deepStrictEqual(unneeded, [])
    })
  )
})
