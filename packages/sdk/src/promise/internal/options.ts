/**
 * What the functions of a Fermata are given. `Fermata.ts` exports all of it.
 */
import type { Brand } from "effect/Brand"
import type * as Duration from "effect/Duration"
import type * as Layer from "effect/Layer"
import type { Agent } from "../../agent/AgentDefinition.ts"
import type * as Runtime from "../../agent/Runtime.ts"
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import type * as Conductor_ from "../../dispatch/Conductor.ts"
import type { ApprovalPolicy } from "../../domain/ApprovalPolicy.ts"
import type { DecisionInput } from "../../domain/Decision.ts"
import type { Interruption } from "../../domain/Interruption.ts"
import type { Limits } from "../../domain/Limits.ts"
import type { Principal } from "../../domain/Principal.ts"
import type * as Worker from "../../durable/Worker.ts"
import type { ModelClient } from "../../model/ModelClient.ts"
import type { Prompt } from "../../run/Mail.ts"
import type { PendingRequest, RunStore } from "../../store/RunStore.ts"
import type { RunStoreError } from "../../store/RunStoreError.ts"
import type { Scrubber } from "../../tool/Scrubber.ts"
import type { DecisionBody } from "../decisions.ts"

/** What a Fermata is made of. */
export interface FermataOptions extends Pick<
  Runtime.RuntimeOptions<never, unknown>,
  "approvalCallback" | "interactive" | "owner" | "leaseTtl" | "cancelGrace"
> {
  readonly agents: ReadonlyArray<Agent<never, unknown>>
  readonly model: ModelClient["Service"]
  /** Where runs are kept. */
  readonly store: Layer.Layer<RunStore, RunStoreError>
  /** Who decides when a decision does not say: a principal, or a name that is not verified. Default: `unnamed`. */
  readonly by?: string | Principal
  /** What to remove from tools' output besides the known shapes of secrets. */
  readonly scrubber?: Scrubber
  /** How long what is going on may take to finish when this is closed, or a worker is stopped. Default: 2 seconds. */
  readonly drainTimeout?: Duration.Input
}

/** How a prompt is run. */
export interface PromptOptions {
  readonly runId?: string
  readonly sessionId?: string
  /** Changes to the agent's limits. */
  readonly limits?: Partial<Limits>
  /** Replaces the agent's approval policy, and binds every agent that takes the conversation over. */
  readonly policy?: ApprovalPolicy
  /**
   * The agent that answers: the one that the prompt is given to, or one that it hands over to. Default: the one that has the session, if
   * it is one of these; else the one that the prompt is given to.
   */
  readonly answeredBy?: string
  /**
   * Set when the prompt may have been run before, under the same `runId`, in a store that lost it: its side effects are then in doubt
   * before their first start.
   */
  readonly mayRepeat?: boolean
  readonly signal?: AbortSignal
  readonly onUpdate?: (update: RunUpdate) => void
}

/** Where a run is forked, and how the fork is run. Limits and policy that are not given are those that the caller of the run gave. */
export interface ForkOptions extends Omit<PromptOptions, "runId" | "mayRepeat"> {
  /** The last event that it shares with the run; see `rewindPoints`. Default: the last one at which no call was open. */
  readonly revision?: number
  /** A name for the fork, so that one that is tried again is not made twice. */
  readonly newRunId?: string
  /** Another agent than that of the run. */
  readonly agent?: string
}

/** How a run is continued. */
export interface ResumeOptions {
  readonly decisions?: ReadonlyArray<DecisionInput>
  readonly prompt?: Prompt
  /** Of a run that has ended: the agent that answers the `prompt`. Default: the one that has the conversation. */
  readonly answeredBy?: string
  /** Larger budgets for a run that has used up its own. Of a run that has ended: of the new run, beside what this one's caller gave. */
  readonly limits?: Partial<Limits>
  /**
   * Of a run that has ended: replaces the approval policy of the agent that answers the `prompt`. Default: the policy that the caller of
   * this one gave, if any.
   */
  readonly policy?: ApprovalPolicy
  readonly signal?: AbortSignal
  readonly onUpdate?: (update: RunUpdate) => void
}

/** Who decided, and why. */
export interface DecideOptions {
  /** A principal, or a name that is not verified. */
  readonly by?: string | Principal
  readonly note?: string
  /** The same decision sent again with the same key gets the answer that the first one got. */
  readonly idempotencyKey?: string
}

/** How a process works on the runs that need a worker. */
export interface WorkOptions extends Worker.WorkerOptions {
  /** Stops it. */
  readonly signal?: AbortSignal
}

/** How a run is watched. */
export interface EventsOptions {
  /** Events of the run that are known already. Default: 0. */
  readonly from?: number
  /** Until the run is held or over (`hold`, the default), or until it is over (`end`). */
  readonly until?: "hold" | "end"
  /** Ends the watching. */
  readonly signal?: AbortSignal
}

/** A filter of the store with its ids as plain strings. */
export type PlainIds<Filter> = { readonly [Key in keyof Filter]: Unbranded<Filter[Key]> }

type Unbranded<Value> = Value extends Brand<string> ? string : Value

/** How a conductor starts a run in the background. */
export interface ConductorDispatchOptions extends Pick<
  PromptOptions,
  "runId" | "sessionId" | "answeredBy" | "limits" | "policy"
> {
  /** A path of names, such as `research/eu`, by which a conductor cancels. */
  readonly name?: string
}

/** @deprecated Use `ConductorDispatchOptions`. */
export type DispatchOptions = ConductorDispatchOptions

/** One of several decisions that are taken together: what it is about, what was decided, and by whom. */
export interface DecisionOn extends DecideOptions {
  readonly request: Decidable
  readonly decision: DecisionBody
}

/** What a decision is about: a request, or its id. Given the request itself, it is bound to the arguments that were shown. */
export type Decidable = string | Interruption | PendingRequest | Conductor_.InboxEntry
