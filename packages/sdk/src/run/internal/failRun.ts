/**
 * Ending a run that cannot go on, and the sub-agents under it.
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

/** Ends the sub-agents of a run, each with an end of its own. */
export const stopUnder = (run: AgentRun, reason: string): Effect.Effect<void> =>
  Effect.suspend(() =>
    stopAll(
      run,
      children(stateOf(run)).map(({ callId }) => callId),
      reason
    )
  )

/** Ends the sub-agents of these calls, as far as they have not ended. What was promised to them is free again. */
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
    for (const event of childCancellation(child, now(drive), reason)) emit(run, wrap(event, [callId]))
  }
  drive.notify()
})

/** The run could not go on. What is under it is stopped first: a run that has failed leaves nobody at work. */
export const failRun = Effect.fnUntraced(function* (run: AgentRun, failure: RunFailure) {
  const { drive } = run
  const reason = `The run of ${stateOf(run).agent.name} has failed.`
  if (run.parent === undefined) {
    // It may be continued, and they with it: they are stopped where they stand.
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

/** Fails the run if its drive met a defect, and returns its state; fails with the cause if it did not, or if that cannot be written. */
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
    // What cannot be written has not happened: a body that was at work is then asked about.
    drive.state = committed
    drive.staged.length = 0
    drive.unpublished.length = 0
    yield* write
    return drive.state
  })
