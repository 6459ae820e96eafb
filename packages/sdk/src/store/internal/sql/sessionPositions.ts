/**
 * The positions of runs in their sessions: a session is linear, and each position has one run.
 */
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import type { RunId, SessionId } from "../../../domain/Id.ts"
import { SessionBusy } from "../../../domain/RunError.ts"
import { RunExists, type RunStoreError } from "../../RunStoreError.ts"
import type { RestoredRun } from "../../RunStorePort.ts"
import { TransactionConflict, type SqlAccess } from "./access.ts"
import { makeHeads } from "./rows.ts"

type Position = Pick<RestoredRun, "parent" | "runId" | "sessionId">

/** Makes the queries of positions. All of them run inside a transaction. */
export const makeSessionPositions = (access: SqlAccess) => {
  const { sql } = access
  const heads = makeHeads(access)

  return {
    /** The preceding run of the same session; "" for the first run of a session, even if it builds on a run of another session. */
    predecessorOf: Effect.fnUntraced(function* ({
      parent,
      sessionId
    }: Position): Effect.fn.Return<string, SqlError> {
      if (parent === undefined) return ""
      const [before] = yield* sql`SELECT run_id FROM fermata_runs
        WHERE run_id = ${parent.runId} AND session_id = ${sessionId}`
      return before === undefined ? "" : parent.runId
    }),

    /** Marks the run that a new run of its session follows, if there is one. */
    follow: (follows: string): Effect.Effect<void, SqlError> =>
      follows === ""
        ? Effect.void
        : Effect.asVoid(access.run(sql`UPDATE fermata_runs SET followed = 1 WHERE run_id = ${follows}`)),

    /** Makes the run that this run follows the last one of its session again, before this run is deleted. */
    unfollow: (runId: RunId): Effect.Effect<void, SqlError> =>
      Effect.asVoid(sql`UPDATE fermata_runs SET followed = NULL WHERE run_id = (
        SELECT coalesce(follows, parent_run_id) FROM fermata_runs WHERE run_id = ${runId}
      ) AND session_id = (SELECT session_id FROM fermata_runs WHERE run_id = ${runId})`),

    /**
     * The refusal to resume a run that ended at this revision, if the next run of its session builds on that revision. The caller has locked
     * the run's row, so no such run can be stored in between.
     */
    continueRefusal: Effect.fnUntraced(function* (
      sessionId: SessionId,
      runId: RunId,
      revision: number
    ): Effect.fn.Return<SessionBusy | undefined, SqlError> {
      const [later] = yield* access.run(sql<{
        readonly run_id: RunId
        readonly status: string
      }>`SELECT run_id, status
        FROM fermata_runs WHERE session_id = ${sessionId} AND coalesce(follows, parent_run_id, '') = ${runId}
          AND parent_revision = ${revision}`)
      return later && new SessionBusy({ sessionId, runId: later.run_id, status: later.status })
    }),

    /**
     * Determines why a run could not be inserted: its id exists, or another run has its position. `TransactionConflict` if neither is the
     * case any more.
     */
    insertRefusal: Effect.fnUntraced(function* (
      operation: string,
      { runId, sessionId }: Position,
      follows: string
    ): Effect.fn.Return<RunExists | SessionBusy | TransactionConflict, SqlError | RunStoreError> {
      const own = yield* heads(operation, sql`run_id = ${runId}`)
      if (own !== undefined) return new RunExists({ runId, status: own.status })
      const other = yield* heads(
        operation,
        sql`session_id = ${sessionId} AND coalesce(follows, parent_run_id, '') = ${follows}`
      )
      if (other === undefined) return new TransactionConflict()
      return new SessionBusy({ sessionId, runId: other.runId, status: other.status })
    })
  }
}
