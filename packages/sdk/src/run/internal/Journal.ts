/**
 * The port between the loop and a run's storage: commits its events, delivers its mail, and keeps its lease.
 */
import type * as Effect from "effect/Effect"
import type { BlobRef } from "../../domain/Blob.ts"
import type { Decision } from "../../domain/Decision.ts"
import type { Revoked } from "../../domain/Grant.ts"
import type { ToolCallId } from "../../domain/Id.ts"
import type { SessionBusy } from "../../domain/RunError.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { LeaseLost, RunConflict, RunStoreError } from "../../store/RunStoreError.ts"
import type { Mail } from "../Mail.ts"
import type { Contents } from "./Contents.ts"

/** Why an operation of a journal failed. The journal of a run without a store does not fail. */
export type JournalError = RunConflict | LeaseLost | SessionBusy | RunStoreError

/** A report of the store about a run, alone or as part of the answer to a write. */
export interface News {
  /** Present if cancellation was requested. */
  readonly cancelReason?: string
  readonly hasMail?: boolean
  /** Present if nothing was written, because grants that the events rely on were revoked. */
  readonly revoked?: ReadonlyArray<Revoked>
}

/** The journal of one driven run. */
export interface Journal {
  /** Commits events. `state` is the state after them. */
  readonly append: (events: ReadonlyArray<RunEvent>, state: RunState) => Effect.Effect<News, JournalError>
  /** Present if events are not kept, so that the drive need not stage them. */
  readonly keepsNothing?: true | undefined
  /** Commits events and releases the lease. Returns `false` and writes nothing if there is mail or a cancellation to act on. */
  readonly park: (events: ReadonlyArray<RunEvent>, state: RunState) => Effect.Effect<boolean, JournalError>
  /** Returns the mail that is not in the state yet. Without a store, `expired` supplies the decisions of expired requests. */
  readonly mail: (expired: () => ReadonlyArray<Decision>) => Effect.Effect<Mail, JournalError>
  /** Fails if a stored decision does not fit its request, which means that the store was damaged. */
  readonly requireFitting: (
    state: RunState,
    decisions: ReadonlyArray<Decision>
  ) => Effect.Effect<void, JournalError>
  /** Adds a decision to the mail, unless its request has been decided. `undefined` if nothing else can decide concurrently. */
  readonly decide: ((decision: Decision) => Effect.Effect<void, JournalError>) | undefined
  /** Whether another call of the store has this token. Without a store, none has. */
  readonly isTokenTaken: (token: string, callId: ToolCallId) => Effect.Effect<boolean, JournalError>
  /** Calls `listener` when there may be mail. Returns the unsubscribe function. */
  readonly onMail: (listener: () => void) => () => void
  /** Reports cancellation and mail without a write. Reports nothing if the store cannot be read. */
  readonly news: Effect.Effect<News>
  /** Renews the lease and reports cancellation and mail. Fails if the run has another owner. */
  readonly renewLease: Effect.Effect<News, JournalError>
  /** Whether the last renewal was so long ago that the lease may have expired. */
  readonly isStale: () => boolean
  /** Whether the store has met a defect. Nothing more is written then. */
  readonly isBroken: () => boolean
  /** Keeps the bytes of files beside the events. Absent if they stay in the events. */
  readonly contents?: Contents | undefined
  /** Writes what memory lacks of the session before the run. Absent if the run writes no memory, or has caught up. */
  readonly catchUp?: ((state: RunState) => Effect.Effect<void>) | undefined
  /** Lists the contents that the run and the runs that it builds on refer to, with those of their sub-agents. */
  readonly references?: Effect.Effect<ReadonlyArray<BlobRef>, RunStoreError> | undefined
  /** Present if other processes can find and continue a run that is suspended. */
  readonly isShared?: true
}
