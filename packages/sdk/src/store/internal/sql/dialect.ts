/**
 * The parts of statements that differ between Postgres and SQLite.
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"

/** The row of one append. */
interface JournalRow {
  readonly runId: string
  readonly sequence: number
  readonly count: number
  readonly version: number
  readonly events: string
}

/** The Postgres channel of the store's notifications. */
export const channel = "fermata_runs"

/**
 * The upper bound of the journal rows that `chain` reads. For the requested run it is not the revision, so that rows after the revision,
 * which are damage, are read and found.
 */
const endInChain = "CASE chain.depth WHEN 0 THEN 4294967296 ELSE chain.upto END"

/** The parts of statements for the database of a client. */
export const dialectOf = (sql: SqlClient) => {
  const union = sql.join(" UNION ALL ", false)
  return sql.onDialectOrElse({
    pg: () => ({
      /** The database's time in milliseconds. Leases use it, so that they do not depend on the clocks of the processes. */
      now: sql.literal("(extract(epoch from clock_timestamp()) * 1000)::bigint"),
      /** Ends a `SELECT` whose rows must not change until the transaction ends. */
      forUpdate: sql.literal("FOR UPDATE"),
      /** Follows the table of runs: makes SQLite use the index of cancellation requests, which it would not choose. */
      byCancellation: sql.literal(""),
      noHint: sql.literal(""),
      /** Follows the table of runs: makes SQLite use the index of agents. */
      byAgent: sql.literal(""),
      /** Follows the table of runs: makes SQLite use the index of statuses. */
      byStatus: sql.literal(""),
      /** Follows the table of requests: makes SQLite use the index of the requests of a run. */
      byRun: sql.literal(""),
      /** Follows the table of requests: makes SQLite use the index of expiries. */
      byExpiry: sql.literal(""),
      /**
       * A union of branches, before an order and a limit. SQLite merges branches that are read in this order, as far as needed; Postgres does
       * so only if each branch has a limit.
       */
      merged: (branches: ReadonlyArray<Fragment>, order: Fragment, limit: number | string) =>
        branches.length === 1
          ? branches[0]!
          : union(branches.map((branch) => sql`(${branch} ORDER BY ${order} LIMIT ${limit})`)),
      /** Orders a union of ordered lists. SQLite reads them one after another. */
      inLists: sql.literal("ORDER BY list, at, run_id"),
      /** Follows the table of runs: makes SQLite use the index of parents. */
      byParent: sql.literal(""),
      /** Follows the table of runs: makes SQLite use the index of the last runs of sessions. */
      byLast: sql.literal(""),
      /** Whether a writing transaction excludes all others from its beginning. Then it needs no row locks, and its reads are current. */
      writesAlone: false,
      /** The condition that selects the rows of a run's journal, and their order. */
      journalOf: (runId: string) => sql`run_id = ${runId}`,
      journalOrder: sql.literal("sequence"),
      /** The condition that joins journal rows to `chain`: from its `start`, and for earlier runs up to its `upto`. */
      journalInChain: sql.literal(
        `journal.run_id = chain.run_id AND journal.sequence >= coalesce(chain.start, 0) AND journal.sequence < ${endInChain}`
      ),
      /** The column `number` of a new run, in SQLite: above all numbers in use, also by journals whose head was lost. */
      newNumber: { column: sql.literal(""), value: sql.literal("") },
      /** Adds a row to a run's journal. */
      insertBatch: ({ count, events, runId, sequence, version }: JournalRow) =>
        sql`INSERT INTO fermata_journal (run_id, sequence, count, version, events)
          VALUES (${runId}, ${sequence}, ${count}, ${version}, ${events})`,
      /** Whether an update that omits an indexed column writes less than one that sets it to its present value. */
      savesUnchanged: false,
      /** Makes other transactions that lock the same number wait until this one ends. In SQLite, every writing transaction excludes the others. */
      lockNumber: (number: number): Effect.Effect<unknown, SqlError> =>
        sql`SELECT pg_advisory_xact_lock(${number}::bigint)`,
      /** The condition that a text column contains a text. */
      contains: (column: string, text: string) => sql`strpos(${sql(column)}, ${text}) > 0`,
      /** Notifies the waiting processes when the transaction commits. Postgres merges equal notifications of one transaction. */
      notify: Effect.asVoid(sql`SELECT pg_notify(${channel}, '')`),
      /** Bounds each statement's wait for a lock, and makes the commit wait until it is on disk, for the rest of the transaction. */
      settings: (lockTimeoutMs: number) =>
        `SELECT set_config('lock_timeout', '${lockTimeoutMs}', true),
          set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true)`,
      /** In a transaction of the caller: reads its isolation level and its bound of waits for locks, and sets that bound again. */
      joining: {
        read: `SELECT current_setting('transaction_isolation') AS isolation, current_setting('lock_timeout') AS lock_timeout`,
        restore: (lockTimeout: string) => `SELECT set_config('lock_timeout', '${lockTimeout}', true)`
      },
      // A statement that waited for a lock must see what was committed meanwhile, also if the database's or user's default level is another.
      beginWrite: "BEGIN ISOLATION LEVEL READ COMMITTED",
      beginRead: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
      control: (connection: Connection, statement: string) =>
        connection.executeUnprepared(statement, [], undefined)
    }),
    orElse: () => ({
      now: sql.literal("cast(unixepoch('subsec') * 1000 as integer)"),
      forUpdate: sql.literal(""),
      byCancellation: sql.literal("INDEXED BY fermata_runs_cancel"),
      noHint: sql.literal(""),
      byAgent: sql.literal("INDEXED BY fermata_runs_agent"),
      byStatus: sql.literal("INDEXED BY fermata_runs_status"),
      byRun: sql.literal("INDEXED BY fermata_requests_run"),
      byExpiry: sql.literal("INDEXED BY fermata_requests_expiry"),
      merged: (branches: ReadonlyArray<Fragment>, _order: Fragment, _limit: number | string) =>
        union(branches),
      inLists: sql.literal(""),
      byParent: sql.literal("INDEXED BY fermata_runs_parent"),
      byLast: sql.literal("INDEXED BY fermata_runs_last"),
      writesAlone: true,
      // `id` combines the run's number (high bits) and the sequence (low 32 bits).
      journalOf: (runId: string) => sql`id BETWEEN
        (SELECT number << 32 FROM fermata_runs WHERE run_id = ${runId}) AND
        (SELECT (number << 32) + 4294967295 FROM fermata_runs WHERE run_id = ${runId})`,
      journalOrder: sql.literal("id"),
      // The unary plus stops SQLite from joining on run_id, for which it would build an index of the whole journal.
      journalInChain: sql.literal(`journal.id >= (chain.number << 32) + coalesce(chain.start, 0)
        AND journal.id < (chain.number << 32) + min(${endInChain}, 4294967296) AND +journal.run_id = chain.run_id`),
      newNumber: {
        column: sql.literal("number, "),
        // NULL, so that SQLite chooses a number, if a damaged row has the highest one.
        value:
          sql.literal(`nullif(1 + min(2147483647, max(coalesce((SELECT max(number) FROM fermata_runs), 0),
          coalesce((SELECT max(id) >> 32 FROM fermata_journal), 0))), 2147483648), `)
      },
      insertBatch: ({ count, events, runId, sequence, version }: JournalRow) =>
        // Node's driver binds numbers as floats, which are not exact above run number 2^21 (53 - 32 bits); the cast makes the sum an integer.
        sql`INSERT INTO fermata_journal (id, run_id, sequence, count, version, events)
          SELECT (number << 32) + cast(${sequence} AS integer), ${runId}, ${sequence}, ${count}, ${version}, ${events}
          FROM fermata_runs WHERE run_id = ${runId}`,
      savesUnchanged: true,
      lockNumber: () => Effect.void as Effect.Effect<unknown, SqlError>,
      contains: (column: string, text: string) => sql`instr(${sql(column)}, ${text}) > 0`,
      notify: Effect.void as Effect.Effect<void, SqlError>,
      settings: undefined,
      joining: undefined,
      // A deferred transaction that becomes a writer fails at once if another connection wrote meanwhile.
      beginWrite: "BEGIN IMMEDIATE",
      beginRead: "BEGIN",
      control: (connection: Connection, statement: string) => connection.execute(statement, [], undefined)
    })
  })
}

export type Dialect = ReturnType<typeof dialectOf>
