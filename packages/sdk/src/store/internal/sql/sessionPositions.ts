/**
 * The positions of runs in their sessions: a session is one line of runs, and each position in it has one run.
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

/** Makes the part of the store that looks for the positions of runs; all of it for use inside a transaction. */
export const makeSessionPositions = (access: SqlAccess) => {
  const { sql } = access
  const heads = makeHeads(access)

  return {
    /** The run of its own session that a run comes after; "" for the first one, whatever it builds on. */
    predecessorOf: Effect.fnUntraced(function* ({
      parent,
      sessionId
    }: Position): Effect.fn.Return<string, SqlError> {
      if (parent === undefined) return ""
      const [before] = yield* sql`SELECT run_id FROM fermata_runs
        WHERE run_id = ${parent.runId} AND session_id = ${sessionId}`
      return before === undefined ? "" : parent.runId
    }),

    /**
     * Why a run that ended at this revision cannot be taken up: the next run of its session goes on from there. The run's row is locked:
     * no other run can begin there meanwhile.
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
     * Why a run could not be inserted: the run is there, or another one has its position. `TransactionConflict` when neither is there any more.
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
