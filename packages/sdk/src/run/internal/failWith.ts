/**
 * Ending a run whose drive met a defect: code of the program, or of Fermata, that threw where nothing expected it.
 *
 * Such a run is failed, with its state kept, and not left at work: the next worker would meet the same defect. Where the store
 * itself met the defect nothing more is written, as if the process had died; `maxRecoveries` bounds that.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { describe } from "../../agent/internal/userCode.ts"
import { isEnded, type RunState } from "../../domain/RunState.ts"
import { type Drive, type DriveError, emitRoot, flush, now } from "./Drive.ts"

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
    drive.untold.length = 0
    yield* write
    return drive.state
  })
