import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { ConnectionError, SqlError } from "effect/sql/SqlError"
import { inject } from "vitest"
import { isConnectionLost, isContention, toStoreError } from "../../../sdk/src/store/internal/sql/errors.ts"
import { withSql } from "./database.ts"

/** A state of the server, the message and reason of the store's error, and whether the store tries again by itself. */
const reports: ReadonlyArray<
  readonly [state: string, words: string, reason: string, isRetryable: boolean, triesAgain: boolean]
> = [
  ["40001", "the database reported a problem (SerializationError).", "StoreFault", true, true],
  ["40P01", "the database reported a problem (DeadlockError).", "StoreFault", true, true],
  ["55P03", "the database reported a problem (LockTimeoutError).", "StoreFault", true, true],
  ["08006", "the connection to the database was lost. Try again.", "StoreFault", true, true],
  ["57P01", "the database is shutting down or starting up. Try again.", "StoreFault", true, true],
  ["57P02", "the database is shutting down or starting up. Try again.", "StoreFault", true, true],
  ["57P03", "the database is shutting down or starting up. Try again.", "StoreFault", true, true],
  ["25P03", "the database ended a session that took too long. Try again.", "StoreFault", true, true],
  ["53200", "the database is out of memory. Try again.", "StoreFault", true, true],
  ["53100", "the disk, or a limit on the file, is full", "StorageFull", true, false],
  ["58030", "the disk reported an error. Check it, then try again.", "StoreFault", true, false],
  ["XX001", "the database is damaged. Restore it from a backup.", "StoreUnreadable", false, false],
  ["42501", "the database user may not do this. Check its rights.", "CannotOpen", false, false],
  ["3F000", "the search path names no schema that exists.", "CannotOpen", false, false],
  ["26000", "a connection pooler lost a prepared statement.", "StoreFault", false, false],
  ["23505", "a row with the key of a new one already exists", "StoreUnreadable", false, false],
  ["23502", "the database reported a problem (ConstraintError).", "StoreFault", false, false]
]

describe("an error of Postgres", () => {
  for (const [state, words, reason, isRetryable, triesAgain] of reports) {
    it.live(`in state ${state} gives: ${words}`, () =>
      withSql(inject("postgresUrl"), (sql) =>
        Effect.gen(function* () {
          const error = yield* Effect.flip(
            sql.unsafe(`DO $$ BEGIN RAISE EXCEPTION 'a secret' USING ERRCODE = '${state}'; END $$`)
          )
          const seen = toStoreError("append", error)
          assert.include(seen.message, words)
          assert.notInclude(seen.message, "secret")
          assert.deepStrictEqual(
            [seen.reason._tag, seen.isRetryable, isConnectionLost(error) || isContention(error)],
            [reason, isRetryable, triesAgain]
          )
        })
      )
    )
  }

  it("is a retryable lost connection when a socket times out", () => {
    const cause = Object.assign(new Error("a secret"), { code: "ETIMEDOUT" })
    const error = new SqlError({ reason: new ConnectionError({ cause, operation: "query" }) })
    const seen = toStoreError("append", error)
    assert.strictEqual(
      seen.message,
      "The store failed: the database does not answer. Check that its server runs and can be reached, then try again."
    )
    assert.isTrue(seen.isRetryable && isConnectionLost(error))
  })
})
