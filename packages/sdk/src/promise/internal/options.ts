/**
 * The options of a Fermata and of its methods. `Fermata.ts` exports these types.
 */
import type { Brand } from "effect/Brand"
import type * as Duration from "effect/Duration"
import type * as Layer from "effect/Layer"
import type { Agent } from "../../agent/AgentDefinition.ts"
import type * as Runtime from "../../agent/Runtime.ts"
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import type { ContextFunction, ContextPolicy } from "../../context/ContextPolicy.ts"
import type * as Conductor_ from "../../dispatch/Conductor.ts"
import type { StoredDispatchOptions } from "../../dispatch/dispatchOptions.ts"
import type { DecisionInput } from "../../domain/Decision.ts"
import type { Interruption } from "../../domain/Interruption.ts"
import type { Principal } from "../../domain/Principal.ts"
import type { ForkInput, StoredContinueInput, StoredStartInput } from "../../durable/storedInput.ts"
import type * as Worker from "../../durable/Worker.ts"
import type { ModelClient } from "../../model/ModelClient.ts"
import type { Tokenizer } from "../../model/Tokenizer.ts"
import type { Prompt } from "../../run/Mail.ts"
import type { PendingRequest, RunStore } from "../../store/RunStore.ts"
import type { RunStoreError } from "../../store/RunStoreError.ts"
import type { Scrubber } from "../../tool/Scrubber.ts"
import type { Tool } from "../../tool/Tool.ts"
import type { DecisionBody } from "../decisions.ts"

/** The options of a Fermata. The others are those of its runtimes: see `RuntimeOptions`. */
export interface FermataOptions extends Pick<
  Runtime.RuntimeOptions<never, unknown>,
  | "approvalCallback"
  | "interactive"
  | "owner"
  | "leaseTtl"
  | "cancelGrace"
  | "closeTimeout"
  | "maxResultLength"
  | "profile"
  | "profiles"
  | "mode"
  | "extensions"
  | "hooks"
> {
  /** The agents that the Fermata can run. Their names and aliases must differ. */
  readonly agents: ReadonlyArray<Agent<never, unknown>>
  /** The model client of all agents. */
  readonly model: ModelClient["Service"]
  /** The name of the model client's profile to call. Default: that of the capability profile, the agent or the client, in this order. */
  readonly modelProfile?: string
  /** Selects the messages that each model call receives. Default: all of the session. */
  readonly contextPolicy?: ContextPolicy | ContextFunction
  /** Counts the tokens of requests. Default: an estimate from the length of the text. */
  readonly tokenizer?: Tokenizer
  /** The layer of the store, which is opened with the Fermata and closed with it. */
  readonly store: Layer.Layer<RunStore, RunStoreError>
  /** The author of decisions that name none: a principal, or an unverified name. Default: `unnamed`. */
  readonly by?: string | Principal
  /** Replaces the scrubber, which removes secrets from everything that is written. Default: it removes known forms of secrets. */
  readonly scrubber?: Scrubber
  /** How long running operations may take to finish when the Fermata is closed or a worker is stopped. Default: 2 seconds. */
  readonly drainTimeout?: Duration.Input
}

/** A change of a running Fermata. What is left out stays as it is. */
export interface FermataChange {
  /**
   * The agents from now on. An agent with the same definition as before keeps its configuration. Runs that this process drives, and
   * handles, keep the definition with which they began.
   */
  readonly agents?: ReadonlyArray<Agent<never, unknown>>
  /** The agent to which the following options apply, or its name or alias. Default: all agents. */
  readonly agent?: string | Agent<never, unknown>
  /**
   * The name of the capability profile. Unless the change names them, the mode becomes that profile's, and so does the model profile if the
   * profile names one.
   */
  readonly profile?: string
  /** The mode. */
  readonly mode?: string
  /** Tools that replace those of the agent's definition. The profile restricts them, too. */
  readonly tools?: ReadonlyArray<Tool>
  /** The model client. It is called with the model profile of the capability profile or the agent, unless `modelProfile` names another. */
  readonly model?: ModelClient["Service"]
  /** The name of the model client's profile to call. */
  readonly modelProfile?: string
}

/** The options of `runPrompt`. */
export interface PromptOptions extends PlainIds<Omit<StoredStartInput, "prompt" | "~allotted">> {
  /** Cancels the run when it is aborted. */
  readonly signal?: AbortSignal
  /** Called with each update of the run. */
  readonly onUpdate?: (update: RunUpdate) => void
}

/** The options of `submit`. */
export type SubmitOptions = Omit<PromptOptions, "signal" | "onUpdate">

/** The options of `fork`. Limits and a policy that are left out are inherited from the original's caller. */
export interface ForkOptions<Output = unknown>
  extends
    Pick<PromptOptions, "signal" | "onUpdate">,
    PlainIds<Omit<ForkInput, "runId" | "prompt" | "~allotted">> {
  /** The agent that runs the fork, which types the output, or its name or alias. Default: the run's agent. */
  readonly agent?: string | Agent<never, Output>
}

/** The options of `resume`. */
export interface ResumeOptions<Output = unknown>
  extends
    Pick<PromptOptions, "signal" | "onUpdate">,
    OfAgent<Output>,
    Omit<StoredContinueInput, "runId" | "message" | "decisions" | "~allotted"> {
  /** Decisions on the run's open requests, as `decideAll` takes them, or complete. If one is refused, none is taken. */
  readonly decisions?: ReadonlyArray<DecisionOn | DecisionInput>
  /** A message of the user. A held run receives it when its calls are settled; after a run that has ended, it starts the session's next run. */
  readonly prompt?: Prompt
}

/** The options of functions that take the agent of a stored run. */
export interface OfAgent<Output = unknown> {
  /**
   * The agent with which the run was started, which types the output, or its name. With the id of a sub-agent's run, the sub-agent. If the
   * run was started with another agent, the call rejects with `AgentNotFound`.
   */
  readonly agent?: string | Agent<never, Output>
}

/** The options of a decision. */
export interface DecideOptions {
  /** The author of the decision: a principal, or an unverified name. Default: the `by` of the Fermata. */
  readonly by?: string | Principal
  /** A note for the record, such as the reason. */
  readonly note?: string
  /** Identifies the decision. A decision that is repeated with the same key has the result of the first one. */
  readonly idempotencyKey?: string
}

/** The options of `work`. */
export interface WorkOptions extends Worker.WorkerOptions {
  /** Stops the worker when it is aborted. */
  readonly signal?: AbortSignal
}

/** The options of the iterables of handles and conductors. */
export interface ReadOptions {
  /** Ends the iteration when it is aborted. */
  readonly signal?: AbortSignal
}

/** The options of `events`. */
export interface EventsOptions extends ReadOptions {
  /** The number of events of the run to leave out, because the reader already has them. Default: 0. */
  readonly from?: number
  /** When the iteration ends: when the run is held or has ended (`hold`, the default), or only when it has ended (`end`). */
  readonly until?: "hold" | "end"
}

/** The options of `eventsResponse`. */
export interface EventsResponseOptions extends Omit<EventsOptions, "until"> {
  /**
   * The request that is responded to: its header `Last-Event-ID` is the default of `from`, so that a client that reconnects misses no event,
   * and its signal is that of `signal`.
   */
  readonly request?: {
    readonly headers: { readonly get: (name: string) => string | null }
    readonly signal?: AbortSignal
  }
  /** When the response ends: only when the run has ended (`end`, the default), or also when it is held (`hold`). */
  readonly until?: "hold" | "end"
  /** A comment is sent when nothing else was sent for this long. Default: 15 seconds. */
  readonly heartbeat?: Duration.Input
}

/** A type with its ids as plain strings instead of brands. */
export type PlainIds<Filter> = { readonly [Key in keyof Filter]: Unbranded<Filter[Key]> }

type Unbranded<Value> =
  Value extends Brand<string>
    ? string
    : Value extends ReadonlyArray<Brand<string>>
      ? ReadonlyArray<string>
      : Value

/** The options of a conductor's `dispatch`. */
export interface ConductorDispatchOptions extends Pick<
  PromptOptions,
  "runId" | "sessionId" | "answeredBy" | "limits" | "policy"
> {
  /** The name of the run, a path such as `research/eu`. A conductor's `cancel` takes it or a part from the left, such as `research`. */
  readonly name?: string
}

/** The options of `dispatch`. */
export interface BackgroundOptions
  extends PromptOptions, Pick<ConductorDispatchOptions, "name">, HandleOptions {}

/** The options of `attach`. */
export interface AttachOptions<Output = unknown> extends OfAgent<Output>, HandleOptions {}

/** The options of a handle of a stored run. */
type HandleOptions = Pick<StoredDispatchOptions, "restart" | "onClose">

/** @deprecated Use `ConductorDispatchOptions`. */
export type DispatchOptions = ConductorDispatchOptions

/** One element of the argument of `decideAll`. */
export interface DecisionOn extends DecideOptions {
  readonly request: Decidable
  readonly decision: DecisionBody
}

/** A request or its id. Pass the request itself to bind an approval to the arguments that it showed. */
export type Decidable = string | Interruption | PendingRequest | Conductor_.InboxEntry
