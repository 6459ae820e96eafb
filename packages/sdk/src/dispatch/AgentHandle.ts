/**
 * The handle of a background run: observes, awaits, decides, reopens, messages, explains and cancels it.
 *
 * `dispatchPrompt`, `dispatchPromptStored`, `attach` and a `Conductor` return one. A held run without a store is a value inside its handle;
 * it has a fiber only if a request expires. A stored run can be attached to again by its id. A held run continues as soon as a request of
 * it is decided or expires, under a conductor as soon as it also has a slot. A handle without readers has no stream and no queue.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { RunUpdate } from "../agent/RunUpdate.ts"
import type { ApprovalPolicy } from "../domain/ApprovalPolicy.ts"
import type { Decision, DecisionInput } from "../domain/Decision.ts"
import type { RequestId, RunId, SessionId } from "../domain/Id.ts"
import type { Interruption } from "../domain/Interruption.ts"
import type { Limits } from "../domain/Limits.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import type { Principal, PrincipalInvalid } from "../domain/Principal.ts"
import type { Rejection } from "../domain/Rejection.ts"
import type { ReopenError, ReopenOptions } from "../domain/reopenInState.ts"
import type { EmptyPrompt, RunEnded, RunSuspended, SessionBusy } from "../domain/RunError.ts"
import type { RunState } from "../domain/RunState.ts"
import type { Explanation } from "../durable/explain.ts"
import type { Prompt } from "../run/Mail.ts"
import type { RunPromptError } from "../run/runPrompt.ts"
import type { RunResult } from "../run/RunResult.ts"
import type {
  MessageInvalid,
  RunExists,
  RunNotFound,
  RunRemoved,
  RunStoreError
} from "../store/RunStoreError.ts"
import type {
  AnswerNotText,
  ConductorBudgetExceeded,
  ConductorClosed,
  NothingToAnswer,
  SeveralQuestions,
  SubAgentNotForked
} from "./DispatchError.ts"

/**
 * The status of a run, as its handle knows it.
 *
 * **Details**
 *
 * - `queued`: the run has not started, for example because it waits for a slot of its conductor; or it waits for such a slot again, or for
 *   its next attempt (`restart`).
 * - `running`: a process drives the run.
 * - `held`: the run waits for decisions, also those that end a timer or an external call.
 * - `completed`, `cancelled`: the run has ended.
 * - `error`: the run has failed; or it has no result, and `wait` and `done` fail with the reason.
 * - `suspended`: this program has stopped driving the run, which is in the store and can be attached to again.
 *
 * The first three may change; the others are final for the handle.
 */
export type HandleStatus = "queued" | "running" | "held" | "completed" | "cancelled" | "error" | "suspended"

/** A value that changes over time. */
export interface Observed<A> {
  /** Returns the current value. */
  readonly current: () => A
  /** Emits the current value and its changes, and ends with the last one. A slow reader misses all changes but the latest. */
  readonly changes: Stream.Stream<A>
}

/** Replaces the updates that a slow reader missed. */
export interface Skipped {
  readonly _tag: "skipped"
  readonly runId: RunId
  /** The number of missed updates. */
  readonly updates: number
}

/** An element of {@link AgentHandle.events}. */
export type HandleUpdate = RunUpdate | Skipped

/** What a message does while the run has open requests. */
export type WhenHeld =
  /** The model receives the message when the open calls are settled. */
  | "queue"
  /**
   * Abandons the open turn: approvals and questions are denied, calls in doubt, timers and external calls count as failed, no further call
   * of the turn starts, and the model receives the message next. Requests about budgets and logins stay open. If no other request is open,
   * the message is queued, and approved calls run.
   */
  | "supersede"
  /** Answers the one open question. */
  | "answer"
  /**
   * Forks the run at the start of the open turn and sends the message to the fork, which inherits the limits, the policy and the context
   * that the caller of this run gave. This run does not change.
   */
  | "fork"

/** The options of {@link AgentHandle.send}. */
export interface HandleSendOptions {
  /**
   * What the message does while requests are open. Default: `queue`. Without open requests, the message precedes the next turn of this run,
   * also with `fork`; with `answer`, it is refused then.
   */
  readonly whenHeld?: WhenHeld
  /**
   * The author of the message, recorded for denials and answers that it causes. Default: `user`; for a handle of a `Fermata`, the `by` of
   * the Fermata.
   */
  readonly by?: string | Principal
  /**
   * Identifies the message, so that a repeated call sends it once. Default: a random id. Refused for an answer, and for a message that
   * forks the run.
   */
  readonly messageId?: string
  /**
   * Changes to the agent's limits for a fork, field by field. Each replaces the change that the caller of this run gave for that field; the
   * caller's other changes apply, too. Refused unless the message forks the run.
   */
  readonly limits?: Partial<Limits>
  /**
   * The approval policy of a fork; see `StartInput`. Default: the policy that the caller of this run gave, if any. Refused unless the
   * message forks the run.
   */
  readonly policy?: ApprovalPolicy
}

/** @deprecated Use `HandleSendOptions`. */
export type SendOptions = HandleSendOptions

/** The errors of the store of a run. `RunNotFound` has `removed` set if another program has removed the run. */
export type StoredFault = RunStoreError | RunNotFound

/** The errors of a dispatched run that has no result. Failures inside a run are results with the status `error`. */
export type HandleError =
  | RunPromptError
  | RunSuspended
  | RunExists
  | RunRemoved
  | SessionBusy
  | ConductorClosed
  | ConductorBudgetExceeded

/**
 * The errors of {@link AgentHandle.send}. The message was not sent, except that a `supersede` has queued it if one of its denials fails.
 */
export type SendError =
  | EmptyPrompt
  | OptionsInvalid
  | PrincipalInvalid
  | RunEnded
  | MessageInvalid
  | NothingToAnswer
  | SeveralQuestions
  | AnswerNotText
  | SubAgentNotForked
  | Rejection
  | HandleError

/**
 * The handle of a background run. `E` are the errors of its store: `never` for a run without one.
 *
 * @category models
 * @since 0.1.0
 */
export interface AgentHandle<Output = unknown, out E = never> {
  readonly runId: RunId
  readonly sessionId: SessionId
  /** The option `name` with which the run was dispatched or attached to, if any; a fork has the name of its original. */
  readonly name: string | undefined
  /** The status of the run and its changes. */
  readonly status: Observed<HandleStatus>
  /**
   * Returns the state of the run as far as this process knows it; `undefined` before the run has started. For a stored run, it is the state
   * that the handle has read last: when it was attached, at a hold, or at the end; `undefined` before the first of these.
   */
  readonly state: () => RunState | undefined
  /** Returns the open requests of the run and its sub-agents. There may be some while other sub-agents are still running. */
  readonly interruptions: () => ReadonlyArray<Interruption>
  /**
   * Emits the updates of the run from its start until its end. Any number of readers may read the stream, each at its own pace.
   *
   * **Details**
   *
   * A reader of a stored run receives every event, from the journal. For a run without a store, the latest 64 events (`keepEvents`) are
   * kept for late readers. Parts of responses, progress and output reach only the current readers; those of another process reach them only
   * if the store has a broadcast. A slow reader never delays the run: it receives a {@link Skipped} with the number of missed updates.
   * Events of a stored run are never missed; they are read again from the journal.
   */
  readonly events: Stream.Stream<HandleUpdate, E>
  /** Waits until the run is held or has ended. Interrupting the wait does not affect the run. */
  readonly wait: Effect.Effect<RunResult<Output>, HandleError | E>
  /** Waits until the run has ended, regardless of how often it is held before. Interrupting the wait does not affect the run. */
  readonly done: Effect.Effect<RunResult<Output>, HandleError | E>
  /**
   * Cancels the run and the runs under it, and waits until the run has ended. A run that has already ended does not change, and its result
   * is returned. If a stored run has failed, the cancellation is stored, and ends the run if it is resumed. Fails with `RunStoreError` if
   * the store is locked or cannot be reached; the handle then continues to cancel the run, and `done` waits for its end.
   */
  readonly cancel: (reason?: string) => Effect.Effect<RunResult<Output>, HandleError | E>
  /**
   * Takes the decision on a request of the run; the first one counts. The run then continues, as far as its other open requests permit,
   * without a further call.
   *
   * **Errors**
   *
   * - A `Rejection` — the request does not exist or was already decided, or the decision does not apply to it.
   * - For a stored run, the errors of its store.
   */
  readonly decide: (decision: DecisionInput) => Effect.Effect<Decision, Rejection | E>
  /**
   * Reopens a denied request of the run: the run asks about the next equal call, and receives a message that says so. See `reopenRequest`.
   *
   * **Errors**
   *
   * - `RequestNotFound`, `RequestNotDenied` — no denial of such a request stands.
   * - `RunEnded` — the run has ended, and its denials with it.
   * - `PrincipalInvalid`, `OptionsInvalid` — `by` has to be a person; an option is unknown.
   * - For a stored run, the errors of its store.
   */
  readonly reopen: (
    requestId: RequestId,
    options: ReopenOptions
  ) => Effect.Effect<void, ReopenError | OptionsInvalid | E>
  /**
   * Sends a message to the run, which may be queued, running or held. Returns the handle of the run that receives it: this one, or the
   * fork.
   *
   * **Errors**
   *
   * - `EmptyPrompt` — send a message with content.
   * - `OptionsInvalid`, `PrincipalInvalid` — an option is unknown, has a wrong value or does not apply, or `by` is not a valid author.
   * - `RunEnded` — start a new run in its session.
   * - `SubAgentNotForked` — fork the root.
   * - `NothingToAnswer`, `SeveralQuestions`, `AnswerNotText` — decide by id, or send the message with another `whenHeld`.
   * - `MessageInvalid` — choose another `messageId`.
   * - A `Rejection` — the answer or a denial does not fit its request.
   * - With `fork`, those of starting a run, such as `LimitsInvalid` and `ConductorBudgetExceeded`.
   * - For a stored run, the errors of its store; for a run without a result, the error of `done`.
   */
  readonly send: (
    prompt: Prompt,
    options?: HandleSendOptions
  ) => Effect.Effect<AgentHandle<Output, E>, SendError | E>
  /** Explains what the run does or waits for, and what resuming it would do. */
  readonly explain: Effect.Effect<Explanation, E>
}
