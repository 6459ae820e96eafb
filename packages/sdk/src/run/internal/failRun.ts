/**
 * Fails a run, and stops the sub-agents under it.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { describe } from "../../agent/internal/userCode.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import type { RunFailure } from "../../domain/RunError.ts"
import { wrap } from "../../domain/RunEvent.ts"
import { children, isEnded, type RunState } from "../../domain/RunState.ts"
import { stateOf, type AgentRun } from "./AgentRun.ts"
import { childCancellation, closedRequests } from "./cancellation.ts"
import { flush } from "./commit.ts"
import { now, emit, type Drive, type DriveError, emitRoot } from "./Drive.ts"

/** Cancels the sub-agents of a run. */
export const stopUnder = (run: AgentRun, reason: string): Effect.Effect<void> =>
  Effect.suspend(() =>
    stopAll(
      run,
      children(stateOf(run)).map(({ callId }) => callId),
      reason
    )
  )

/** Cancels the sub-agents of these calls that have not ended. The budgets set aside for them become available again. */
export const stopAll = Effect.fnUntraced(function* (
  run: AgentRun,
  callIds: ReadonlyArray<ToolCallId>,
  reason: string
) {
  const { drive } = run
  if (callIds.length === 0) return
  yield* drive.tasks.stop(callIds, reason)
  const named = new Set(callIds)
  for (const { callId, child } of children(stateOf(run))) {
    if (!named.has(callId)) continue
    for (const event of childCancellation(child, now(drive), reason, drive.said))
      emit(run, wrap(event, [callId]))
  }
  drive.notify()
})

/** Fails a run. Its sub-agents are stopped first, so that none of them is at work under a failed run. */
export const failRun = Effect.fnUntraced(function* (run: AgentRun, failure: RunFailure) {
  const { drive } = run
  const reason = `The run of ${stateOf(run).agent.name} has failed.`
  if (run.parent === undefined) {
    // A failed root may be continued together with its sub-agents, so they are stopped without an end.
    yield* drive.tasks.stop(
      children(stateOf(run)).map(({ callId }) => callId),
      reason
    )
  } else {
    yield* stopUnder(run, reason)
    for (const event of closedRequests(stateOf(run), now(drive))) emit(run, event)
  }
  emit(run, { _tag: "run.failed", at: now(drive), failure })
})

/** Records the failure of a drive. A defect fails the run, whose state is returned; other causes, and failing writes, fail the effect. */
export const failWith = (
  drive: Drive,
  cause: Cause.Cause<DriveError>
): Effect.Effect<RunState, DriveError> => {
  if (!Cause.hasDies(cause)) return Effect.failCause(cause)
  return Effect.catchCause(writeFailure(drive, cause), (other) =>
    Effect.failCause(Cause.hasDies(other) ? cause : other)
  )
}

const writeFailure = (drive: Drive, cause: Cause.Cause<DriveError>): Effect.Effect<RunState, DriveError> =>
  Effect.gen(function* () {
    if (drive.journal.isBroken()) return yield* Effect.failCause(cause)
    const description = describe(drive.runtime, Cause.squash(cause))
    const write = Effect.suspend(() => {
      if (!isEnded(drive.state)) {
        emitRoot(drive, { _tag: "run.failed", at: now(drive), failure: { _tag: "RunDefect", description } })
      }
      return flush(drive)
    })
    const written = yield* Effect.exit(write)
    if (Exit.isSuccess(written)) return drive.state
    const { committed } = drive
    if (!Cause.hasDies(written.cause) || drive.journal.isBroken() || committed === undefined)
      return yield* Effect.failCause(written.cause)
    // The staged events cannot be written, so they are discarded. A body that had started becomes `inDoubt` when the run is continued.
    drive.state = committed
    drive.staged.length = 0
    drive.unpublished.length = 0
    yield* write
    return drive.state
  })
