/**
 * A `SqlClient` over the SQLite of Node: one connection, which callers use in turn.
 *
 * Effect's own driver looks each statement up in a cache with a clock, and asks SQLite for its columns on each run; a statement then
 * takes several times as long as SQLite needs for it. This client prepares a statement once.
 */
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Reactivity } from "effect/reactivity/Reactivity"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import * as Stream from "effect/Stream"
import { reported } from "./file.ts"
import { narrowed } from "./rows.ts"

/** The database, and the settings of its connection. Every database is in WAL mode. */
interface ClientOptions {
  readonly filename: string
  /** Statements without results, each ended with a semicolon. */
  readonly settings?: string
  /** Checks the database before anything can be written to it; throws to refuse it. */
  readonly examine?: (database: DatabaseSync) => void
  /** Called after each commit of a transaction, before it is acknowledged; throws to report that it may not last. */
  readonly afterCommit?: () => void
}

/** A statement, whether it returns rows, and whether it only reads. */
interface Prepared {
  readonly statement: StatementSync
  readonly hasRows: boolean
  readonly isRead: boolean
}

/** Number of statements that stay prepared; the oldest is dropped first. The store has about sixty, and lists of several lengths. */
const capacity = 200

/** Opens a database until the scope closes. SQLite's errors while it is opened are defects. */
export const make = (
  options: ClientOptions
): Effect.Effect<SqlClient.SqlClient, never, Scope.Scope | Reactivity> =>
  Effect.gen(function* () {
    const database = yield* Effect.acquireRelease(
      Effect.sync(() => new DatabaseSync(options.filename)),
      (database) => Effect.sync(() => database.close())
    )
    options.examine?.(database)
    // The size of pages affects new files only: see the SDK's `filePages.ts`.
    database.exec(`PRAGMA page_size = 1024; PRAGMA journal_mode = WAL; ${options.settings ?? ""}`)
    const connection = connectionTo(database, options.afterCommit ?? (() => {}))
    const semaphore = Semaphore.makeUnsafe(1)
    const give = semaphore.release(1)
    const lent = Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(Effect.scope, (scope) =>
        Effect.as(Effect.andThen(restore(semaphore.take(1)), Scope.addFinalizer(scope, give)), connection)
      )
    )
    return yield* SqlClient.make({
      driver: "sqlite-node",
      acquirer: lent,
      borrower: (use) => semaphore.withPermits(1)(Effect.suspend(() => use(connection))),
      compiler: Statement.makeCompilerSqlite(),
      prepareTransactionControls: true,
      spanAttributes: [["db.system.name", "sqlite"]]
    })
  })

const connectionTo = (database: DatabaseSync, afterCommit: () => void): Connection => {
  const known = new Map<string, Prepared>()
  const prepare = (text: string): Prepared => {
    const found = known.get(text)
    if (found !== undefined) return found
    const statement = database.prepare(text)
    const hasRows = statement.columns().length > 0
    const prepared = { statement, hasRows, isRead: hasRows && /^\s*(SELECT|WITH)\b/i.test(text) }
    if (known.size >= capacity) known.delete(known.keys().next().value!)
    known.set(text, prepared)
    return prepared
  }
  const attempt = <A>(act: () => A): Effect.Effect<A, SqlError> =>
    Effect.suspend(() => {
      try {
        return Exit.succeed(act())
      } catch (error) {
        return Exit.fail(reported(error))
      }
    })
  const rows = (prepared: Prepared, values: ReadonlyArray<unknown>): ReadonlyArray<object> => {
    const { hasRows, isRead, statement } = prepared
    const given = values as ReadonlyArray<SQLInputValue>
    if (!hasRows) {
      statement.run(...given)
      return none
    }
    try {
      return statement.all(...given)
    } catch (error) {
      // Node returns no row at all when one of them has a number beyond its range.
      if (!isRead || !isTooLarge(error)) throw error
      return large(statement, given)
    }
  }
  const arrays = (prepared: Prepared, values: ReadonlyArray<unknown>) => {
    prepared.statement.setReturnArrays(true)
    try {
      return rows(prepared, values) as ReadonlyArray<ReadonlyArray<unknown>>
    } finally {
      prepared.statement.setReturnArrays(false)
    }
  }
  const execute: Connection["execute"] = (text, values, transform) =>
    attempt(() => {
      const found = rows(prepare(text), values)
      if (text === "COMMIT") afterCommit()
      return transform === undefined ? found : transform(found)
    })
  const executeValues: Connection["executeValues"] = (text, values) =>
    attempt(() => arrays(prepare(text), values))
  return {
    execute,
    executeUnprepared: execute,
    executeRaw: (text, values) => execute(text, values, undefined),
    executeValues,
    executeValuesUnprepared: executeValues,
    executeStream: () => Stream.die("This client has no streams.")
  }
}

const isTooLarge = (error: unknown): boolean =>
  error instanceof RangeError && "code" in error && error.code === "ERR_OUT_OF_RANGE"

/** Reads again with large integers as bigints: the decoder of the row then refuses that row alone. */
const large = (statement: StatementSync, values: ReadonlyArray<SQLInputValue>): ReadonlyArray<object> => {
  statement.setReadBigInts(true)
  try {
    return statement.all(...values).map(narrowed)
  } finally {
    statement.setReadBigInts(false)
  }
}

const none: ReadonlyArray<never> = []
