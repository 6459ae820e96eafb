import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { emptyDatabase, withSql } from "./database.ts"
import { answering, asked, create, openStore, runId } from "./storedRuns.ts"

const rounds = 25

describe("decisions on several runs in Postgres", () => {
  it.live("are taken from one of two processes that list them in opposite orders, without a deadlock", () =>
    Effect.gen(function* () {
      const { url } = yield* emptyDatabase
      yield* Effect.scoped(
        Effect.gen(function* () {
          const stores = yield* Effect.forEach(["ann", "ben"], (by) =>
            Effect.map(openStore({ url, maxConnections: 1 }), (store) => ({ by, store }))
          )
          const [{ store }] = stores as [(typeof stores)[number], ...typeof stores]
          for (let round = 0; round < rounds; round++) {
            const runs = Array.from({ length: 6 }, (_, index) => runId(`${round}-${index}`))
            yield* Effect.forEach(runs, (run) => create(store, run, asked(run)))
            const exits = yield* Effect.forEach(
              stores,
              ({ by, store }) => {
                const batch = runs.map((run) => answering(run, by))
                return Effect.exit(store.decideAll(by === "ann" ? batch : batch.toReversed()))
              },
              { concurrency: "unbounded" }
            )
            const winners = stores.flatMap(({ by }, index) => (Exit.isSuccess(exits[index]!) ? [by] : []))
            assert.lengthOf(winners, 1)
            const decisions = yield* Effect.forEach(runs, (run) => store.decisions(run))
            assert.deepStrictEqual(
              decisions.map(([decision]) => decision?.by),
              runs.map(() => winners[0])
            )
          }
        })
      )
      // The connections are closed, so the server has counted what they met.
      const [row] = yield* withSql(
        url,
        (sql) => sql<{ readonly deadlocks: unknown }>`SELECT deadlocks FROM pg_stat_database
          WHERE datname = current_database()`
      )
      assert.strictEqual(Number(row?.deadlocks), 0)
    })
  )
})
