/**
 * The input and the output of `RunChecker`: evidence about stored runs, and violations of invariants.
 *
 * @since 0.1.0
 */
import type * as Schema from "effect/Schema"
import type { Decision, DecisionToRecord } from "../domain/Decision.ts"
import type { RunId, Revision } from "../domain/Id.ts"
import type { Interruption } from "../domain/Interruption.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type { Status } from "../domain/RunState.ts"
import type { Receipt, SentMessage } from "../store/SentMessage.ts"

/** A stored run. */
export interface Journal {
  readonly runId: RunId
  /** The run's own events, oldest first. */
  readonly events: ReadonlyArray<RunEvent>
  /** Revision and status of the run's head. */
  readonly revision: Revision
  readonly status: Status
  /** The run that it builds on, if any, which must be among the journals. */
  readonly parent?: { readonly runId: RunId; readonly revision: Revision }
}

/** A side effect of a tool, recorded by the tool itself when it happened. */
export interface Effect {
  readonly idempotencyKey: string
  readonly tool: string
  readonly arguments?: Schema.Json
  /** The attempt, from 1, as in the handler's context. */
  readonly attempt: number
}

/** What a tool's `reconcile` answered about a started call whose outcome no journal contains. */
export interface Reconciliation {
  readonly idempotencyKey: string
  readonly answer: "happened" | "notHappened" | "failed" | "unknown"
}

/** The mail in a store: open requests, and the decisions and messages that no journal contains yet. */
export interface Inbox {
  readonly open: ReadonlyArray<{ readonly runId: RunId; readonly request: Interruption }>
  /** Decisions that no journal contains yet. */
  readonly undelivered: ReadonlyArray<{ readonly runId: RunId; readonly decision: Decision }>
  /** Messages that no journal contains yet. */
  readonly messages?: ReadonlyArray<{ readonly runId: RunId; readonly message: SentMessage }>
}

/** The operations that a store acknowledged. */
export interface Acknowledged {
  /** Appended events, with the revision at which they were appended. */
  readonly appended?: ReadonlyArray<{
    readonly runId: RunId
    readonly revision: number
    readonly events: ReadonlyArray<RunEvent>
  }>
  readonly decisions?: ReadonlyArray<{
    readonly runId: RunId
    /** The decision that the store returned. */
    readonly decision: Decision
    /** The decision that the caller sent. If set, it must equal the returned decision, apart from the time and the digest. */
    readonly asked?: DecisionToRecord
  }>
  readonly messages?: ReadonlyArray<{ readonly runId: RunId; readonly message: Receipt }>
  /** Runs whose end was reported, with the reported status. */
  readonly ended?: ReadonlyArray<{ readonly runId: RunId; readonly status: Status }>
}

/** The facts to check. What an absent field would show is not checked, unless the field says otherwise. */
export interface Evidence {
  readonly journals: ReadonlyArray<Journal>
  /** The effects of the tools, in the order in which they happened. */
  readonly effects?: ReadonlyArray<Effect>
  /** Names of tools that record every effect. For these, a result without an effect is a violation. */
  readonly effectTools?: ReadonlyArray<string>
  /** All results of `reconcile`. Without them, a call that was started again because it had not happened violates `atMostOnce`. */
  readonly reconciled?: ReadonlyArray<Reconciliation>
  readonly inbox?: Inbox
  /**
   * What the store acknowledged. Give the `inbox` with it: what is neither there nor in a journal counts as lost, except a decision on a
   * request that was closed, or whose run was cancelled or has failed.
   */
  readonly acknowledged?: Acknowledged
  /** Secrets, and texts that must not contain them: a database file, logs, data for front ends. */
  readonly secrets?: { readonly values: ReadonlyArray<string>; readonly texts: ReadonlyArray<string> }
}

/** An invariant that the checker verifies. */
export type Invariant =
  /** The journal has as many events as the head's revision. */
  | "gapless"
  /** The journal folds to a state with the head's status. */
  | "foldable"
  /** The journal contains `tool.started` for each effect of a body. */
  | "attemptFirst"
  /**
   * A call that is neither read-only nor idempotent has at most one effect, and one more for each `retry` decision and for each `reconcile`
   * that found that it had not happened. It is started again only after one of these.
   */
  | "atMostOnce"
  /** A completed call of a tool in `effectTools` has an effect. */
  | "lostEffect"
  /** A call gets one result. */
  | "oneResult"
  /** A call that needs approval starts after its approval; a call under a grant starts while the grant is in force. */
  | "approvedOnly"
  /** A body runs with the approved arguments. */
  | "asApproved"
  /** A request has one decision, taken while it was open. Only that decision and its exact repetitions are acknowledged. */
  | "oneDecision"
  /** The journal contains a message at most once. A message in the journal, or to a completed run, is not waiting. */
  | "oneMessage"
  /**
   * A run that has ended gets no further events, except revocations, and the resumption of a failed run. A reported end is the stored one.
   */
  | "terminal"
  /** Each call has its result before the next model call. */
  | "validHistory"
  /** Acknowledged data is stored. */
  | "acknowledged"
  /** The inbox agrees with the journals. */
  | "inbox"
  /** No text contains a secret. */
  | "secret"

/** A violated invariant, described by a sentence. */
export interface Violation {
  readonly invariant: Invariant
  /** The run; `undefined` for a secret in a text, and for an effect of a call that no journal contains. */
  readonly runId: RunId | undefined
  readonly detail: string
}
