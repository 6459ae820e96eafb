/**
 * What there is to check stored runs by, and what the check finds.
 *
 * @since 0.1.0
 */
import type * as Schema from "effect/Schema"
import type { Decision, DecisionInput } from "../domain/Decision.ts"
import type { RunId, Revision } from "../domain/Id.ts"
import type { Interruption } from "../domain/Interruption.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type { Status } from "../domain/RunState.ts"
import type { Receipt, SentMessage } from "../store/SentMessage.ts"

/** One run as the store has it. */
export interface Journal {
  readonly runId: RunId
  /** The run's own events, oldest first. */
  readonly events: ReadonlyArray<RunEvent>
  /** What the head says. */
  readonly revision: Revision
  readonly status: Status
  /** The run before it in the session, which must be among the journals. */
  readonly parent?: { readonly runId: RunId; readonly revision: Revision }
}

/** Something that a tool did, as the tool itself wrote it down at the moment it did it. */
export interface Effect {
  readonly idempotencyKey: string
  readonly tool: string
  readonly arguments?: Schema.Json
  /** From 1, as in the handler's context. */
  readonly attempt: number
}

/** A tool's own answer about a call in doubt. */
export interface Reconciliation {
  readonly idempotencyKey: string
  readonly answer: "happened" | "notHappened" | "failed" | "unknown"
}

/** What the store's inbox says. */
export interface Inbox {
  readonly open: ReadonlyArray<{ readonly runId: RunId; readonly request: Interruption }>
  /** Decisions that are taken and not in a journal yet. */
  readonly undelivered: ReadonlyArray<{ readonly runId: RunId; readonly decision: Decision }>
  /** Messages that were sent and are not in a journal yet. */
  readonly messages?: ReadonlyArray<{ readonly runId: RunId; readonly message: SentMessage }>
}

/** What a store acknowledged. */
export interface Acknowledged {
  /** Events that were appended behind the first `revision` ones. */
  readonly appended?: ReadonlyArray<{
    readonly runId: RunId
    readonly revision: number
    readonly events: ReadonlyArray<RunEvent>
  }>
  readonly decisions?: ReadonlyArray<{
    readonly runId: RunId
    /** The decision that the store answered with. */
    readonly decision: Decision
    /** The decision that the caller sent. Given: it must be the one that the store answered with. */
    readonly asked?: DecisionInput
  }>
  readonly messages?: ReadonlyArray<{ readonly runId: RunId; readonly message: Receipt }>
  /** How runs ended. */
  readonly ended?: ReadonlyArray<{ readonly runId: RunId; readonly status: Status }>
}

/** What is checked. Whatever is left out is not. */
export interface Evidence {
  readonly journals: ReadonlyArray<Journal>
  /** Every effect of the tools in `effectTools`, in the order in which they happened. */
  readonly effects?: ReadonlyArray<Effect>
  /** The tools that write down each of their effects: of these, a recorded result without an effect is a violation too. */
  readonly effectTools?: ReadonlyArray<string>
  readonly reconciled?: ReadonlyArray<Reconciliation>
  readonly inbox?: Inbox
  readonly acknowledged?: Acknowledged
  /** Texts in which none of the secrets may occur: a database file, logs, what was sent to front ends. */
  readonly secrets?: { readonly values: ReadonlyArray<string>; readonly texts: ReadonlyArray<string> }
}

/** A promise. */
export type Invariant =
  /** The journal has as many events as the head says. */
  | "gapless"
  /** The journal folds to a state, whose status is the head's. */
  | "foldable"
  /** `tool.started` is in the journal before a body has an effect. */
  | "attemptFirst"
  /** A side-effecting call has one effect for each time that it was released. */
  | "atMostOnce"
  /** What was recorded as done was done. */
  | "lostEffect"
  /** A call has one result, and only while it is open. */
  | "oneResult"
  /** A call that needs approval runs after its approval, one under a grant while the grant is in force. */
  | "approvedOnly"
  /** What ran had the arguments that were approved. */
  | "asApproved"
  /** A request has one decision, taken while it was open, and only its author and exact repeats of it are acknowledged. */
  | "oneDecision"
  /** A message is in the journal once, and from then on it does not wait; none waits in a completed run. */
  | "oneMessage"
  /** Nothing happens in a run that has ended: its terminal event is its last. */
  | "terminal"
  /** Every call has its result before the model is called again. */
  | "validHistory"
  /** What was acknowledged is stored. */
  | "acknowledged"
  /** The inbox is what the journals say. */
  | "inbox"
  /** No secret is stored or shown. */
  | "secret"
/** A broken promise. */
export interface Violation {
  readonly invariant: Invariant
  readonly runId: RunId | undefined
  readonly detail: string
}
