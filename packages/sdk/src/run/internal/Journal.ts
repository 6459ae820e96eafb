/**
 * Where the events of a run go, and where its mail comes from.
 */
import type * as Effect from "effect/Effect"
import type { Decision } from "../../domain/Decision.ts"
import type { Revoked } from "../../domain/Grant.ts"
import type { SessionBusy } from "../../domain/RunError.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { LeaseLost, RunConflict, RunStoreError } from "../../store/RunStoreError.ts"
import type { Mail } from "../Mail.ts"

/** What can go wrong while a stored run is driven; nothing, where a run is not stored. */
export type JournalError = RunConflict | LeaseLost | SessionBusy | RunStoreError

/** What a journal has heard about the run since. */
export interface News {
  readonly cancelReason?: string
  readonly hasMail?: boolean
  /** Set when nothing was written, because grants that the events rely on were revoked. */
  readonly revoked?: ReadonlyArray<Revoked>
}

/** Where the events of a run go. `E` is what can go wrong there. */
export interface Journal {
  /** Commits events that are folded into `state` already. May report that the run is to be cancelled, and that there is mail. */
  readonly append: (events: ReadonlyArray<RunEvent>, state: RunState) => Effect.Effect<News, JournalError>
  /** Set where nobody keeps events: then they need not be collected. */
  readonly keepsNothing?: true | undefined
  /** Commits events and gives the lease back, unless there is something new to act on: then `false`, and nothing is written. */
  readonly park: (events: ReadonlyArray<RunEvent>, state: RunState) => Effect.Effect<boolean, JournalError>
  /** Decisions and messages that are not in the state yet. Where no store decides what expired, `expired` says it, in the same moment. */
  readonly mail: (expired: () => ReadonlyArray<Decision>) => Effect.Effect<Mail, JournalError>
  /** Fails when a decision does not fit what the run has asked: what is stored was damaged. */
  readonly requireFitting: (
    state: RunState,
    decisions: ReadonlyArray<Decision>
  ) => Effect.Effect<void, JournalError>
  /** Puts a decision into the mail, unless somebody has decided before. `undefined` where nobody else can. */
  readonly decide: ((decision: Decision) => Effect.Effect<void, JournalError>) | undefined
  /** Calls `listener` when there may be mail. Returns how to stop listening. */
  readonly onMail: (listener: () => void) => () => void
  /** Listens to what others do from now on, also while nothing is appended. */
  readonly watch: Effect.Effect<void>
  /** Renews the lease and reports cancellation and mail. Fails when the run has another owner. */
  readonly renewLease: Effect.Effect<News, JournalError>
  /** Whether so much time has passed since the last sign of life that the run may be somebody else's. */
  readonly isStale: () => boolean
  /** Whether the store itself has met a defect: nothing more is written then. */
  readonly isBroken: () => boolean
  /** Set where other programs find a run that is left at work, and go on with it. */
  readonly isShared?: true
}
