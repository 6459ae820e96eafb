/**
 * Asking the store whether the lease of a run is still this process's.
 */
import * as Effect from "effect/Effect"
import type { Drive } from "./Drive.ts"
import type { JournalError } from "./Journal.ts"

/** Makes sure that the run is still this process's before something happens that cannot be taken back. */
export const confirmLease = (drive: Drive): Effect.Effect<void, JournalError> =>
  Effect.map(drive.journal.renewLease, ({ cancelReason, hasMail }) => {
    if (hasMail === true) drive.hasMail = true
    if (cancelReason !== undefined) drive.token.cancel(cancelReason)
  })
