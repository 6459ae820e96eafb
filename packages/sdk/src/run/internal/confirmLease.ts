/**
 * Confirms that this process still owns the lease of a run, and takes notice of what the store reports about it.
 */
import * as Effect from "effect/Effect"
import type { Drive } from "./Drive.ts"
import type { JournalError, News } from "./Journal.ts"

/** Renews the lease before an irreversible operation. Fails if another process owns the run; takes notice of mail and cancellation. */
export const confirmLease = (drive: Drive): Effect.Effect<void, JournalError> =>
  Effect.map(drive.journal.renewLease, (news) => takeNotice(drive, news))

/** Takes notice of mail and cancellation. */
export const takeNotice = (drive: Drive, { cancelReason, hasMail }: News): void => {
  if (hasMail === true) drive.hasMail = true
  if (cancelReason !== undefined) drive.token.cancel(cancelReason)
}
