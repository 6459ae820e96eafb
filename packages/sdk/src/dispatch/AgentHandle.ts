/**
 * A run in the background, as the program that started it sees it: to watch, wait for, decide, talk to and cancel.
 *
 * `dispatchPrompt`, `dispatchPromptStored`, `attach` and a `Conductor` return one. There is no difference between them but where the
 * run is kept: a held run that is not stored is a value inside its handle, without a fiber; a stored one is found again by its id.
 * A run that is held goes on by itself as soon as it is decided. Nothing is made before it is asked for: a handle without
 * readers has no stream and no queue.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { RunUpdate } from "../agent/RunUpdate.ts"
import type { ApprovalPolicy } from "../domain/ApprovalPolicy.ts"
import type { Decision, DecisionInput } from "../domain/Decision.ts"
import type { RunId, SessionId } from "../domain/Id.ts"
import type { Interruption } from "../domain/Interruption.ts"
import type { Limits } from "../domain/Limits.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import type { Principal, PrincipalInvalid } from "../domain/Principal.ts"
import type { Rejection } from "../domain/Rejection.ts"
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
 * How a run stands, as its handle knows it.
 *
 * **Details**
 *
 * `queued`: it waits for a slot under a conductor, or for the time at which it is tried again. `suspended`: this program has stopped
 * working on it, and it is in the store. Of the others `running` and `held` may change; the rest are ends.
 */
export type HandleStatus = "queued" | "running" | "held" | "completed" | "cancelled" | "error" | "suspended"

/** Something that changes, and can be looked at. */
export interface Observed<A> {
  /** How it is now. */
  readonly current: () => A
  /** How it is now, and then every change, until there can be none. Who is slow gets the latest. */
  readonly changes: Stream.Stream<A>
}

/** In the place of updates that a reader was too slow for. */
export interface Skipped {
  readonly _tag: "skipped"
  readonly runId: RunId
  /** How many are missing. */
  readonly updates: number
}

/** What a reader of {@link AgentHandle.events} gets. */
export type HandleUpdate = RunUpdate | Skipped

/** What a message means while something is pending. */
export type WhenHeld =
  /** It is read when the open calls are settled. */
  | "queue"
  /**
   * Every open request is denied, calls in doubt count as failed, nothing more of the open turn begins, and the message is read next.
   * Budgets and logins stay open. Where no approval, question or call in doubt is open, the message is queued: calls that were approved
   * go on.
   */
  | "supersede"
  /** It answers the one open question. */
  | "answer"
  /**
   * It is said to another run, which begins where the open turn began, with what the caller of this one gave of limits and policy; this
   * one stays as it is.
   */
  | "fork"

/** How a message is sent through a handle. */
export interface HandleSendOptions {
  /** What it means while something is pending. Default: `queue`. A run that waits for nothing reads it before its next turn. */
  readonly whenHeld?: WhenHeld
  /** Who says it: who denies or answers, for the record. Default: `user`. */
  readonly by?: string | Principal
  /** Of a stored run: a message that is sent again with the same id is the same message. */
  readonly messageId?: string
  /** Of a fork alone, as `policy`: changes to the limits, beside those that the caller of this run gave. */
  readonly limits?: Partial<Limits>
  /** Of a fork: replaces the agent's approval policy. Default: the policy that the caller of this run gave, if any. */
  readonly policy?: ApprovalPolicy
}

/** @deprecated Use `HandleSendOptions`. */
export type SendOptions = HandleSendOptions

/** What can go wrong with the store of a run; `RunNotFound` with `removed` when another program has removed it. */
export type StoredFault = RunStoreError | RunNotFound

/** Why a run that was dispatched came to no result. What happens inside a run is a result. */
export type HandleError =
  | RunPromptError
  | RunSuspended
  | RunExists
  | RunRemoved
  | SessionBusy
  | ConductorClosed
  | ConductorBudgetExceeded

/** Why a message was not sent. */
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
 * A run in the background. `E` is what can go wrong with its store: nothing for a run without one.
 *
 * @category models
 * @since 0.1.0
 */
export interface AgentHandle<Output = unknown, out E = never> {
  readonly runId: RunId
  readonly sessionId: SessionId
  /** What its conductor calls it. */
  readonly name: string | undefined
  /** How the run stands. */
  readonly status: Observed<HandleStatus>
  /**
   * The run as a value, as far as this process knows it: of a stored one, how it was when it was held last, or in the end. `undefined`
   * before it has begun.
   */
  readonly state: () => RunState | undefined
  /** What waits for a decision, in the run and its sub-agents, also while others of them are at work. */
  readonly interruptions: () => ReadonlyArray<Interruption>
  /**
   * Everything that happens in the run, from its beginning, until it is over. Any number may read, each at its own pace.
   *
   * **Details**
   *
   * Of a stored run every event is there, from the journal. Of one that is not, the latest 64 are kept for who comes late, or as
   * many as `keepEvents` says. Parts of answers and progress go to those who read at the time. A reader that is slow never holds
   * up the run: what it has missed is counted in a {@link Skipped}; events of a stored run are not missed, but read again.
   */
  readonly events: Stream.Stream<HandleUpdate, E>
  /** Waits until the run is held or over. */
  readonly wait: Effect.Effect<RunResult<Output>, HandleError | E>
  /** Waits until the run is over, through every hold. Stopping to wait stops nothing. */
  readonly done: Effect.Effect<RunResult<Output>, HandleError | E>
  /**
   * Ends the run with everything under it, and returns when it is over. A run that was over stays as it was, and is returned; the
   * cancellation of a stored one that has failed is kept, and ends it if it is resumed.
   */
  readonly cancel: (reason?: string) => Effect.Effect<RunResult<Output>, HandleError | E>
  /**
   * Decides a request of the run, once. The run goes on by itself.
   *
   * **Errors**
   *
   * - A `Rejection` — no such request, decided already, or a decision that does not fit.
   */
  readonly decide: (decision: DecisionInput) => Effect.Effect<Decision, Rejection | E>
  /**
   * Says something to the run, at work or held, and returns the handle of the run that reads it: this one, or the fork.
   *
   * **Errors**
   *
   * - `EmptyPrompt` — say something.
   * - `OptionsInvalid`, `PrincipalInvalid` — a key that there is not; a name that no caller can have.
   * - `RunEnded` — start a new run in its session.
   * - `SubAgentNotForked` — fork the run that it works for.
   * - `NothingToAnswer`, `SeveralQuestions`, `AnswerNotText` — decide by id instead, or send it as something else than an answer.
   */
  readonly send: (
    prompt: Prompt,
    options?: HandleSendOptions
  ) => Effect.Effect<AgentHandle<Output, E>, SendError | E>
  /** What the run does or waits for, in words, and what resuming it would do. */
  readonly explain: Effect.Effect<Explanation, E>
}
