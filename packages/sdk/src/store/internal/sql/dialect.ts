/**
 * The few words in which the dialects of Postgres and SQLite differ.
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"

/** One append, as a row. */
interface JournalRow {
  readonly runId: string
  readonly sequence: number
  readonly count: number
  readonly version: number
  readonly events: string
}

/** The channel on which Postgres notifies that a run may need a worker. */
export const channel = "fermata_runs"

/**
 * Where the rows end that `chain` asks for: of the run itself there are none behind its revision, and one that is there all the same
 * has to be seen.
 */
const endInChain = "CASE chain.depth WHEN 0 THEN 4294967296 ELSE chain.upto END"

/** What the store says in the words of the database. */
export const dialectOf = (sql: SqlClient) =>
  sql.onDialectOrElse({
    pg: () => ({
      /** The database's time in milliseconds: leases must not depend on the clocks of the processes. */
      now: sql.literal("(extract(epoch from clock_timestamp()) * 1000)::bigint"),
      /** Ends a `SELECT` whose rows must not change until the transaction ends. */
      forUpdate: sql.literal("FOR UPDATE"),
      /** After the table of runs: reads those that are to be cancelled from their index, where it would not be chosen otherwise. */
      toBeCancelled: sql.literal(""),
      /** After the table of runs: the same for those that build on a run. */
      byParent: sql.literal(""),
      /** Whether a transaction that writes is alone from its beginning: then no row has to be locked, and what is read is what is. */
      writesAlone: false,
      /** The rows of a run's journal, and their order. */
      journalOf: (runId: string) => sql`run_id = ${runId}`,
      journalOrder: sql.literal("sequence"),
      /** The rows of the journal that belong to `chain`: from its `start` on, and those of earlier runs up to its `upto`. */
      journalInChain: sql.literal(
        `journal.run_id = chain.run_id AND journal.sequence >= coalesce(chain.start, 0) AND journal.sequence < ${endInChain}`
      ),
      /** The number of a new run among its other columns: the journal of a run that lost its head keeps its place. */
      newNumber: { column: sql.literal(""), value: sql.literal("") },
      /** Adds a row to a run's journal. */
      insertBatch: ({ count, events, runId, sequence, version }: JournalRow) =>
        sql`INSERT INTO fermata_journal (run_id, sequence, count, version, events)
          VALUES (${runId}, ${sequence}, ${count}, ${version}, ${events})`,
      /** Whether an update that leaves an indexed column out writes less than one that sets it to what it is. */
      savesUnchanged: false,
      /** Whether a text column contains a text. */
      contains: (column: string, text: string) => sql`strpos(${sql(column)}, ${text}) > 0`,
      /** Part of a transaction: notifies the processes that wait for work, once it is committed. Equal notifications are sent once. */
      notify: Effect.asVoid(sql`SELECT pg_notify(${channel}, '')`),
      /** Bounds how long each statement of the transaction waits for a lock, and lets no commit be answered before it is on the disk. */
      settings: (lockTimeoutMs: number) =>
        `SELECT set_config('lock_timeout', '${lockTimeoutMs}', true),
          set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true)`,
      // What waits for a lock sees what was committed meanwhile, whatever the level of the database or the user is.
      beginWrite: "BEGIN ISOLATION LEVEL READ COMMITTED",
      beginRead: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
      control: (connection: Connection, statement: string) =>
        connection.executeUnprepared(statement, [], undefined)
    }),
    orElse: () => ({
      now: sql.literal("cast(unixepoch('subsec') * 1000 as integer)"),
      forUpdate: sql.literal(""),
      toBeCancelled: sql.literal("INDEXED BY fermata_runs_cancel"),
      byParent: sql.literal("INDEXED BY fermata_runs_parent"),
      writesAlone: true,
      // One whole number says both the run and the place in its journal.
      journalOf: (runId: string) => sql`id BETWEEN
        (SELECT number << 32 FROM fermata_runs WHERE run_id = ${runId}) AND
        (SELECT (number << 32) + 4294967295 FROM fermata_runs WHERE run_id = ${runId})`,
      journalOrder: sql.literal("id"),
      // The plus keeps SQLite from comparing the runs first, for which it would make an index of the whole journal.
      journalInChain: sql.literal(`journal.id >= (chain.number << 32) + coalesce(chain.start, 0)
        AND journal.id < (chain.number << 32) + min(${endInChain}, 4294967296) AND +journal.run_id = chain.run_id`),
      newNumber: {
        column: sql.literal("number, "),
        // None, for SQLite to choose one, where a damaged row has the highest.
        value:
          sql.literal(`nullif(1 + min(2147483647, max(coalesce((SELECT max(number) FROM fermata_runs), 0),
          coalesce((SELECT max(id) >> 32 FROM fermata_journal), 0))), 2147483648), `)
      },
      insertBatch: ({ count, events, runId, sequence, version }: JournalRow) =>
        // Node gives every number as a fraction, and those have no place for the numbers of more than two million runs.
        sql`INSERT INTO fermata_journal (id, run_id, sequence, count, version, events)
          SELECT (number << 32) + cast(${sequence} AS integer), ${runId}, ${sequence}, ${count}, ${version}, ${events}
          FROM fermata_runs WHERE run_id = ${runId}`,
      savesUnchanged: true,
      contains: (column: string, text: string) => sql`instr(${sql(column)}, ${text}) > 0`,
      notify: Effect.void as Effect.Effect<void, SqlError>,
      settings: undefined,
      // A deferred BEGIN cannot become a writer once another connection has written: the transaction would be lost.
      beginWrite: "BEGIN IMMEDIATE",
      beginRead: "BEGIN",
      control: (connection: Connection, statement: string) => connection.execute(statement, [], undefined)
    })
  })

export type Dialect = ReturnType<typeof dialectOf>
