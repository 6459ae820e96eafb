/**
 * The tables of the SQL store, and the migrations that create them.
 *
 * `fermata_schema` has one row for each applied migration. All missing migrations are applied in one transaction, so a process that is
 * killed leaves the old tables, and processes that start at the same time wait for each other. A released migration is never edited; a
 * new one is added.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { RunStoreError } from "../../RunStoreError.ts"
import { unreadable } from "../journal.ts"
import type { SqlAccess } from "./access.ts"
import { backfillGrants } from "./grantsBackfill.ts"
import { groupOf } from "./requestRows.ts"
import { agentAtWork } from "./rows.ts"

/** Applies the missing migrations. Fails with `StoreUnreadable` if a newer version wrote the tables. Writes nothing if none is missing. */
export const migrate = (access: SqlAccess): Effect.Effect<void, RunStoreError> =>
  Effect.flatMap(latestOf(access), (version) => (version === steps.length ? Effect.void : takeSteps(access)))

/** The number of the last applied migration; `undefined` if there are no tables or it could not be read. */
const latestOf = ({ query, run, sql }: SqlAccess): Effect.Effect<number | undefined, RunStoreError> =>
  query(
    "open",
    run(sql<{ readonly version: number | null }>`SELECT max(version) AS version FROM fermata_schema`)
  ).pipe(
    Effect.map(([row]) => Number(row?.version)),
    Effect.catch((error) =>
      error.reason._tag === "StoreBusy" ? Effect.fail(error) : Effect.succeed(undefined)
    )
  )

const takeSteps = ({ sql, write }: SqlAccess): Effect.Effect<void, RunStoreError> =>
  write(
    "open",
    Effect.gen(function* () {
      yield* sql.onDialectOrElse({
        // Two `CREATE TABLE IF NOT EXISTS` at once can fail on Postgres. The number is Fermata's own.
        pg: () => sql`SELECT pg_advisory_xact_lock(7306086967)`,
        orElse: () => Effect.void
      })
      yield* sql`CREATE TABLE IF NOT EXISTS fermata_schema (version integer NOT NULL PRIMARY KEY, applied_at bigint NOT NULL)`
      const rows = yield* sql<{ readonly version: number }>`SELECT version FROM fermata_schema`
      const current = rows.reduce((highest, row) => Math.max(highest, Number(row.version)), 0)
      if (current > steps.length) {
        const detail = `it was written by a newer version of Fermata (tables ${current}, this one knows ${steps.length}): update, then open it again.`
        return yield* unreadable("open", detail)
      }
      const at = yield* Clock.currentTimeMillis
      for (let version = current + 1; version <= steps.length; version += 1) {
        for (const statement of steps[version - 1]?.(sql) ?? []) yield* statement
        yield* sql`INSERT INTO fermata_schema (version, applied_at) VALUES (${version}, ${at})`
      }
    }),
    // A second attempt finds no missing migration.
    Effect.succeedNone
  )

type Step = (sql: SqlClient) => ReadonlyArray<Effect.Effect<unknown, SqlError>>

/** Stores a table in the order of its primary key, so that the rows of a run are adjacent. */
const clustered = (sql: SqlClient) =>
  sql.onDialectOrElse({
    sqlite: () => sql.literal("WITHOUT ROWID"),
    orElse: () => sql.literal("")
  })

const first: Step = (sql) => [
  sql`CREATE TABLE fermata_runs (
      run_id text NOT NULL PRIMARY KEY,
      session_id text NOT NULL,
      parent_run_id text,
      parent_revision bigint,
      agent text NOT NULL,
      status text NOT NULL,
      revision bigint NOT NULL,
      owner text,
      epoch bigint NOT NULL,
      lease_until bigint,
      cancel_reason text,
      created_at bigint NOT NULL,
      updated_at bigint NOT NULL
    )`,
  sql`CREATE INDEX fermata_runs_age ON fermata_runs (created_at, run_id)`,
  sql`CREATE INDEX fermata_runs_session ON fermata_runs (session_id, created_at, run_id)`,
  sql`CREATE INDEX fermata_runs_status ON fermata_runs (status, created_at, run_id)`,
  sql`CREATE INDEX fermata_runs_parent ON fermata_runs (parent_run_id) WHERE parent_run_id IS NOT NULL`,
  sql`CREATE TABLE fermata_journal (
      run_id text NOT NULL,
      sequence bigint NOT NULL,
      count bigint NOT NULL,
      version integer NOT NULL,
      events text NOT NULL,
      PRIMARY KEY (run_id, sequence)
    ) ${clustered(sql)}`,
  sql`CREATE TABLE fermata_requests (
      request_id text NOT NULL PRIMARY KEY,
      run_id text NOT NULL,
      session_id text NOT NULL,
      agent text NOT NULL,
      kind text NOT NULL,
      agent_path text NOT NULL,
      tool text,
      asked_at bigint NOT NULL,
      expires_at bigint,
      on_expiry text NOT NULL,
      request text NOT NULL,
      status text NOT NULL,
      decision text,
      decided_at bigint,
      decided_by text,
      superseded_reason text,
      superseded_by text
    )`,
  sql`CREATE INDEX fermata_requests_open ON fermata_requests (asked_at, request_id) WHERE status = 'open'`,
  sql`CREATE INDEX fermata_requests_expiry ON fermata_requests (expires_at) WHERE status = 'open' AND expires_at IS NOT NULL`,
  sql`CREATE INDEX fermata_requests_session ON fermata_requests (session_id, asked_at) WHERE status = 'open'`,
  sql`CREATE INDEX fermata_requests_run ON fermata_requests (run_id, status)`
]

/** Allows each run one successor, identifies claims, and adds the indexes that find ready runs. */
const second: Step = (sql) => [
  // Two processes may have continued one run of a session. The first continuation stays; each other one becomes a session of its own.
  sql`CREATE TEMPORARY TABLE fermata_forks AS
    WITH RECURSIVE forks (run_id) AS (
      SELECT run.run_id FROM fermata_runs AS run WHERE EXISTS (
        SELECT 1 FROM fermata_runs AS other WHERE other.session_id = run.session_id
          AND coalesce(other.parent_run_id, '') = coalesce(run.parent_run_id, '')
          AND (other.created_at, other.run_id) < (run.created_at, run.run_id)
      )
    ), moved (run_id, root) AS (
      SELECT run_id, run_id FROM forks
      UNION ALL
      SELECT child.run_id, moved.root FROM moved JOIN fermata_runs AS child ON child.parent_run_id = moved.run_id
        WHERE child.run_id NOT IN (SELECT run_id FROM forks)
    )
    SELECT run_id, root FROM moved`,
  sql`UPDATE fermata_requests SET session_id = session_id || '.fork.' ||
    (SELECT root FROM fermata_forks WHERE fermata_forks.run_id = fermata_requests.run_id)
    WHERE run_id IN (SELECT run_id FROM fermata_forks)`,
  sql`UPDATE fermata_runs SET session_id = session_id || '.fork.' ||
    (SELECT root FROM fermata_forks WHERE fermata_forks.run_id = fermata_runs.run_id)
    WHERE run_id IN (SELECT run_id FROM fermata_forks)`,
  sql`DROP TABLE fermata_forks`,
  sql`CREATE UNIQUE INDEX fermata_runs_next ON fermata_runs (session_id, coalesce(parent_run_id, ''))`,
  sql`ALTER TABLE fermata_runs ADD COLUMN claim text`,
  sql`CREATE INDEX fermata_runs_cancel ON fermata_runs (run_id) WHERE cancel_reason IS NOT NULL AND status IN ('running', 'held')`,
  sql`ALTER TABLE fermata_requests ADD COLUMN warn_at bigint`,
  sql`CREATE INDEX fermata_requests_warning ON fermata_requests (warn_at) WHERE status = 'open' AND warn_at IS NOT NULL`,
  sql`CREATE INDEX fermata_requests_decided ON fermata_requests (decided_at) WHERE status = 'decided'`
]

/** Adds messages, and lets a fork be the first run of a session of its own. */
const third: Step = (sql) => [
  sql`CREATE TABLE fermata_messages (
    run_id text NOT NULL,
    message_id text NOT NULL,
    position bigint NOT NULL,
    sent_at bigint NOT NULL,
    status text NOT NULL,
    content text,
    PRIMARY KEY (run_id, message_id)
  ) ${clustered(sql)}`,
  sql`CREATE INDEX fermata_messages_waiting ON fermata_messages (run_id, position) WHERE status = 'waiting'`,
  // The preceding run of the same session, '' for the first run. NULL in earlier rows, for which the parent counts.
  sql`ALTER TABLE fermata_runs ADD COLUMN follows text`,
  sql`DROP INDEX fermata_runs_next`,
  sql`CREATE UNIQUE INDEX fermata_runs_next ON fermata_runs (session_id, coalesce(follows, parent_run_id, ''))`
]

/**
 * Adds the agent that has the conversation after a handoff (NULL in earlier rows until their next handoff), and messages for sub-agents,
 * including those that end one.
 */
const fourth: Step = (sql) => [
  sql`ALTER TABLE fermata_runs ADD COLUMN answered_by text`,
  sql`ALTER TABLE fermata_messages ADD COLUMN recipient text`,
  sql`ALTER TABLE fermata_messages ADD COLUMN intent text`
]

const runColumns = `run_id, session_id, parent_run_id, parent_revision, agent, status, revision, owner, epoch, lease_until,
  cancel_reason, created_at, updated_at, claim, follows, answered_by`

/**
 * Reduces the bytes written by each commit in SQLite. A run has a number, and number and sequence form the integer key of its journal, so
 * a commit changes one page at the end of the run's rows. Before, a row of more than a quarter of a page used a page of its own.
 */
const numbered: Step = (sql) => [
  sql`CREATE TABLE fermata_runs_numbered (
      number integer PRIMARY KEY,
      run_id text NOT NULL UNIQUE,
      session_id text NOT NULL,
      parent_run_id text,
      parent_revision bigint,
      agent text NOT NULL,
      status text NOT NULL,
      revision bigint NOT NULL,
      owner text,
      epoch bigint NOT NULL,
      lease_until bigint,
      cancel_reason text,
      created_at bigint NOT NULL,
      updated_at bigint NOT NULL,
      claim text,
      follows text,
      answered_by text
    )`,
  sql`INSERT INTO fermata_runs_numbered (${sql.literal(runColumns)})
    SELECT ${sql.literal(runColumns)} FROM fermata_runs ORDER BY created_at, run_id`,
  sql`DROP TABLE fermata_runs`,
  sql`ALTER TABLE fermata_runs_numbered RENAME TO fermata_runs`,
  sql`CREATE INDEX fermata_runs_age ON fermata_runs (created_at, run_id)`,
  sql`CREATE INDEX fermata_runs_session ON fermata_runs (session_id, created_at, run_id)`,
  sql`CREATE INDEX fermata_runs_status ON fermata_runs (status, created_at, run_id)`,
  sql`CREATE INDEX fermata_runs_parent ON fermata_runs (parent_run_id) WHERE parent_run_id IS NOT NULL`,
  sql`CREATE UNIQUE INDEX fermata_runs_next ON fermata_runs (session_id, coalesce(follows, parent_run_id, ''))`,
  sql`CREATE INDEX fermata_runs_cancel ON fermata_runs (run_id) WHERE cancel_reason IS NOT NULL AND status IN ('running', 'held')`,
  sql`CREATE TABLE fermata_journal_numbered (
      id integer PRIMARY KEY,
      run_id text NOT NULL,
      sequence bigint NOT NULL,
      count bigint NOT NULL,
      version integer NOT NULL,
      events text NOT NULL
    )`,
  sql`INSERT INTO fermata_journal_numbered (id, run_id, sequence, count, version, events)
    SELECT (run.number << 32) + entry.sequence, entry.run_id, entry.sequence, entry.count, entry.version, entry.events
    FROM fermata_runs AS run JOIN fermata_journal AS entry ON entry.run_id = run.run_id ORDER BY 1`,
  sql`DROP TABLE fermata_journal`,
  sql`ALTER TABLE fermata_journal_numbered RENAME TO fermata_journal`
]

/** Reduces the bytes written: the index of a run's requests no longer contains the status, so a decision does not change it. */
const fifth: Step = (sql) => [
  ...sql.onDialectOrElse({ sqlite: () => numbered(sql), orElse: () => [] }),
  sql`DROP INDEX fermata_requests_run`,
  sql`CREATE INDEX fermata_requests_run ON fermata_requests (run_id)`,
  sql`DROP INDEX fermata_requests_session`
]

/**
 * Adds checkpoints. The chunks of a checkpoint from `base_chunks` on belong to its own run; the ones before are the first chunks of the
 * checkpoint of `base_run_id`. The tables are not clustered, because SQLite would read whole, long rows to compare keys.
 */
const checkpointed: Step = (sql) => [
  sql`CREATE TABLE fermata_checkpoints (
    run_id text NOT NULL PRIMARY KEY,
    revision bigint NOT NULL,
    version integer NOT NULL,
    chunks bigint NOT NULL,
    base_run_id text,
    base_chunks bigint NOT NULL,
    state text NOT NULL
  )`,
  sql`CREATE TABLE fermata_chunks (
    run_id text NOT NULL,
    place bigint NOT NULL,
    version integer NOT NULL,
    messages text NOT NULL,
    PRIMARY KEY (run_id, place)
  )`
]

/**
 * Adds grants, one row for each, so that a revocation applies to every copy of the grant. Earlier grants are read from the decisions that
 * created them, and their revocations from the journals.
 */
const granted: Step = (sql) => [
  sql`CREATE TABLE fermata_grants (
    grant_id text NOT NULL PRIMARY KEY,
    run_id text NOT NULL,
    session_id text NOT NULL,
    agent text NOT NULL,
    tool text NOT NULL,
    scope text NOT NULL,
    given_at bigint NOT NULL,
    expires_at bigint,
    data text,
    revoked_at bigint,
    revocation text
  )`,
  sql`CREATE INDEX fermata_grants_run ON fermata_grants (run_id)`,
  sql`CREATE INDEX fermata_grants_session ON fermata_grants (session_id)`,
  backfillGrants(sql)
]

/** Adds the length of a lease and the epoch of its claim: see `lease.ts`. Earlier leases have no length. */
const measured: Step = (sql) => [
  sql`ALTER TABLE fermata_runs ADD COLUMN lease_ms bigint`,
  sql`ALTER TABLE fermata_runs ADD COLUMN lease_epoch bigint`
]

/** Marks the runs that another run of their session follows, so that an index contains the last run of each session only. */
const followed: Step = (sql) => [
  sql`ALTER TABLE fermata_runs ADD COLUMN followed integer`,
  sql`UPDATE fermata_runs SET followed = 1 WHERE EXISTS (
    SELECT 1 FROM fermata_runs AS next WHERE next.session_id = fermata_runs.session_id
      AND coalesce(next.follows, next.parent_run_id, '') = fermata_runs.run_id
  )`,
  sql`CREATE INDEX fermata_runs_last ON fermata_runs (created_at, run_id) WHERE followed IS NULL`
]

/** Adds a digest to messages, which tells a repetition from another message with the same id. Earlier messages have none. */
const digested: Step = (sql) => [sql`ALTER TABLE fermata_messages ADD COLUMN digest text`]

/**
 * Makes the indexes for pages of ready runs begin with the agent, so that a worker reads no rows of agents that it does not have; an open
 * request is in one of two of them. Adds indexes of the runs of an agent, and of the open requests of a kind, a tool and an agent. Messages
 * that an earlier version stores from now on have no agent.
 */
const paged: Step = (sql) => [
  sql`ALTER TABLE fermata_messages ADD COLUMN agent text`,
  sql`UPDATE fermata_messages SET agent = (SELECT agent FROM fermata_runs AS run WHERE run.run_id = fermata_messages.run_id)
    WHERE status = 'waiting'`,
  sql`CREATE INDEX fermata_messages_ready ON fermata_messages (agent, sent_at, run_id) WHERE status = 'waiting'`,
  sql`DROP INDEX fermata_requests_decided`,
  sql`CREATE INDEX fermata_requests_decided ON fermata_requests (agent, decided_at, run_id) WHERE status = 'decided'`,
  sql`DROP INDEX fermata_requests_warning`,
  sql`CREATE INDEX fermata_requests_warning ON fermata_requests (agent, warn_at, run_id) WHERE status = 'open' AND warn_at IS NOT NULL`,
  sql`CREATE INDEX fermata_requests_expired ON fermata_requests (agent, expires_at, run_id)
    WHERE status = 'open' AND warn_at IS NULL AND on_expiry = 'deny' AND expires_at IS NOT NULL`,
  sql`CREATE INDEX fermata_requests_group ON fermata_requests ((${sql.literal(groupOf)}), asked_at, request_id) WHERE status = 'open'`,
  sql`DROP INDEX fermata_runs_cancel`,
  sql`CREATE INDEX fermata_runs_cancel ON fermata_runs (agent, status, created_at, run_id)
    WHERE cancel_reason IS NOT NULL AND status IN ('running', 'held')`,
  sql`DROP INDEX fermata_runs_status`,
  sql`CREATE INDEX fermata_runs_status ON fermata_runs (status, (${sql.literal(agentAtWork)}), created_at, run_id)`,
  sql`CREATE INDEX fermata_runs_agent ON fermata_runs (agent, followed, created_at, run_id)`
]

/** Adds the denied request that a message reopens. */
const reopening: Step = (sql) => [sql`ALTER TABLE fermata_messages ADD COLUMN reopens text`]

/** Adds the token of a request, by which a result from outside finds it. Earlier requests have none. */
const tokened: Step = (sql) => [
  sql`ALTER TABLE fermata_requests ADD COLUMN token text`,
  sql`CREATE INDEX fermata_requests_token ON fermata_requests (token) WHERE token IS NOT NULL`
]

/**
 * Adds contents. A row of `fermata_blobs` without `sha256` is incomplete, or deleted except for its pieces; see `blobs.ts`. `unused` marks
 * rows that no run refers to. `blob` is random, so that it is never used again.
 */
const withContents: Step = (sql) => [
  sql`CREATE TABLE fermata_blobs (
    blob bigint NOT NULL PRIMARY KEY,
    sha256 text UNIQUE,
    bytes bigint NOT NULL,
    pending bigint NOT NULL,
    touched_at bigint NOT NULL,
    unused integer
  )`,
  sql`CREATE INDEX fermata_blobs_unused ON fermata_blobs (touched_at) WHERE unused = 1`,
  sql`CREATE TABLE fermata_blob_pieces (
    blob bigint NOT NULL,
    place bigint NOT NULL,
    content ${sql.onDialectOrElse({ pg: () => sql.literal("bytea"), orElse: () => sql.literal("blob") })} NOT NULL,
    PRIMARY KEY (blob, place)
  )`,
  sql`CREATE TABLE fermata_blob_uses (
    run_id text NOT NULL,
    sha256 text NOT NULL,
    PRIMARY KEY (run_id, sha256)
  ) ${clustered(sql)}`,
  sql`CREATE INDEX fermata_blob_uses_content ON fermata_blob_uses (sha256)`
]

/** Adds contents whose bytes are in files, and the one row of a store that has opened a directory for them; see `blobFiles.ts`. */
const filed: Step = (sql) => [
  sql`ALTER TABLE fermata_blobs ADD COLUMN filed integer`,
  sql`CREATE TABLE fermata_blob_directory (store_id text NOT NULL PRIMARY KEY, has_files integer NOT NULL)`
]

const steps: ReadonlyArray<Step> = [
  first,
  second,
  third,
  fourth,
  fifth,
  checkpointed,
  granted,
  measured,
  followed,
  digested,
  paged,
  reopening,
  tokened,
  withContents,
  filed
]
