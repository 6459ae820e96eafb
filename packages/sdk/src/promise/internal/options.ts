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
import type { Interruption } from "../../domain/Interruption.ts"
import type { Principal } from "../../domain/Principal.ts"
import type { ForkInput, StoredContinueInput, StoredStartInput } from "../../durable/storedInput.ts"
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
export interface PromptOptions extends PlainIds<Omit<StoredStartInput, "prompt" | "~allotted">> {
  readonly signal?: AbortSignal
  readonly onUpdate?: (update: RunUpdate) => void
}

/** Where a run is forked, and how the fork is run. Limits and policy that are not given are those that the caller of the run gave. */
export interface ForkOptions
  extends
    Pick<PromptOptions, "signal" | "onUpdate">,
    PlainIds<Omit<ForkInput, "runId" | "prompt" | "~allotted">> {
  /** Another agent than that of the run. */
  readonly agent?: string
}

/** How a run is continued. */
export interface ResumeOptions
  extends
    Pick<PromptOptions, "signal" | "onUpdate">,
    Omit<StoredContinueInput, "runId" | "message" | "~allotted"> {
  /** What the user says to the run. Held: queued until its calls are settled. Ended: a new run in its session. */
  readonly prompt?: Prompt
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
