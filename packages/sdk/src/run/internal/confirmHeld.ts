/**
 * Asking the store whether a run is still this process's.
 */
import * as Effect from "effect/Effect"
import type { Drive } from "./Drive.ts"

/** Makes sure that the run is still this process's before something happens that cannot be taken back. */
export const confirmHeld = <E>(drive: Drive<E>): Effect.Effect<void, E> =>
  drive.journal.isStale() ? confirm(drive) : Effect.void

const confirm = <E>(drive: Drive<E>): Effect.Effect<void, E> =>
  Effect.map(drive.journal.pulse, ({ cancelReason, hasMail }) => {
    if (hasMail === true) drive.hasMail = true
    if (cancelReason !== undefined) drive.token.cancel(cancelReason)
  })
