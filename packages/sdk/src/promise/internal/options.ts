/**
 * The options of a Fermata, of its handles and of its conductors. `Fermata.ts` exports these types.
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
import type { MemoryOptions } from "../../memory/Memory.ts"
import type { ModelClient } from "../../model/ModelClient.ts"
import type { Tokenizer } from "../../model/Tokenizer.ts"
import type { Prompt } from "../../run/Mail.ts"
import type { PendingRequest, RunStore } from "../../store/RunStore.ts"
import type { RunStoreError } from "../../store/RunStoreError.ts"
import type { Scrubber } from "../../tool/Scrubber.ts"
import type { Secrets } from "../../tool/Secrets.ts"
import type { Tool } from "../../tool/Tool.ts"
import type { Awaitable } from "../../tool/ToolOptions.ts"
import type { Shape as WebAccess } from "../../tool/WebAccess.ts"
import type { DecisionBody } from "../decisions.ts"

/** Decides requests inside the program; see `FermataOptions`. */
export type ApprovalCallback = (
  ...args: Parameters<NonNullable<Runtime.RuntimeOptions<never, unknown>["approvalCallback"]>>
) => Awaitable<DecisionBody | DecisionInput | undefined>

/**
 * The options of a Fermata. `RuntimeOptions` describes those that the runtime of each agent takes, such as `approvalCallback` and
 * `leaseTtl`.
 */
export interface FermataOptions extends Pick<
  Runtime.RuntimeOptions<never, unknown>,
  | "interactive"
  | "owner"
  | "leaseTtl"
  | "cancelGrace"
  | "closeTimeout"
  | "maxResultLength"
  | "sandbox"
  | "sandboxes"
  | "workingDirectory"
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
  /**
   * The name of the model client's profile to call. Default: that of the capability profile, the agent or the client, in this order. A
   * sub-agent that selects a profile itself keeps that one.
   */
  readonly modelProfile?: string
  /**
   * Selects the messages that each model call receives. Default: `ContextPolicy.compacting()`, which sends a summary in place of the oldest
   * messages when the context is nearly full.
   */
  readonly contextPolicy?: ContextPolicy | ContextFunction
  /**
   * Whether runs write their messages to memory, and search it for each message of the user: `true`, or what runs do with it. Default: `false`.
   */
  readonly memory?: boolean | MemoryOptions
  /** Counts the tokens of requests. Default: an estimate from the length of the text. */
  readonly tokenizer?: Tokenizer
  /**
   * Decides requests before they hold the run, as the option of `RuntimeOptions` does. It returns what `approve`, `deny` and the like make, whose
   * author is `by`; or a decision with an author of its own; or `undefined`, which leaves the request open.
   */
  readonly approvalCallback?: ApprovalCallback
  /** The layer of the store, which is opened with the Fermata and closed with it. */
  readonly store: Layer.Layer<RunStore, RunStoreError>
  /**
   * The author of decisions, reopenings, revocations and messages of handles that name none: a principal, or an unverified name. Default:
   * `unnamed`.
   */
  readonly by?: string | Principal
  /**
   * Removes secrets from the texts that runs write; see `Scrubber` for the few that it does not read. Default: a scrubber that removes
   * texts with the form of a known kind of credential. With any scrubber, the secrets that this process uses are removed.
   */
  readonly scrubber?: Scrubber
  /**
   * The values of the secrets that calls refer to as `secret://name`, for the tools that state them in their option `secrets`. Default: none;
   * a call with such a reference waits for a program that has them.
   */
  readonly secrets?: Secrets
  /**
   * Makes the guarded HTTP client that tools receive as `context.http`, such as `WebClient.access()` of `@fermata/node`; see `WebAccess`.
   * Default: none, and a tool that uses it fails.
   */
  readonly web?: WebAccess
  /**
   * How long running operations may take to finish, before they are interrupted, when the Fermata is closed or a worker is stopped.
   * Default: 2 seconds.
   */
  readonly drainTimeout?: Duration.Input
}

/** A change of a running Fermata. What is left out stays as it is, unless a field says otherwise. */
export interface FermataChange {
  /**
   * The agents from now on, instead of the earlier ones. An agent with the same definition as before keeps its configuration; any other
   * begins with the profile, mode and model that were last given for all agents. Runs that this process drives, and handles, keep the
   * definition with which they began.
   */
  readonly agents?: ReadonlyArray<Agent<never, unknown>>
  /** The agent to which the following options apply, or its name or alias. Default: all agents. */
  readonly agent?: string | Agent<never, unknown>
  /**
   * The name of the capability profile. Unless the change names a mode, the mode becomes the profile's. Unless the change names a model or
   * a model profile, the model profile becomes the profile's if it names one.
   */
  readonly profile?: string
  /** The mode, such as `plan` or `act`. */
  readonly mode?: string
  /**
   * Tools that replace those of the definition of each agent that the change is for. The profile restricts them, too. The tools of
   * extensions, sub-agents and handoffs stay.
   */
  readonly tools?: ReadonlyArray<Tool>
  /**
   * The model client. It is called with its profile `modelProfile`, or else with that of the capability profile, the agent or the client,
   * in this order; an earlier choice of a model profile by name is dropped.
   */
  readonly model?: ModelClient["Service"]
  /** The name of the model client's profile to call. */
  readonly modelProfile?: string
}

/** The options of `runPrompt` and `stream`. */
export interface PromptOptions extends PlainIds<
  Omit<StoredStartInput, "prompt" | "~allotted" | "~conductor" | "~policy">
> {
  /** Cancels the run when it is aborted while the call drives the run; a run of `dispatch`, also while the run is held. */
  readonly signal?: AbortSignal
  /** Called synchronously with each update of the run. It must return quickly; if it throws, the run continues. */
  readonly onUpdate?: (update: RunUpdate) => void
}

/** The options of `submit`: those of `runPrompt`, without `signal` and `onUpdate`. */
export type SubmitOptions = Omit<PromptOptions, "signal" | "onUpdate">

/**
 * The options of `fork`. A policy or a context that is left out is that of the original's caller, if any, and so is each limit that is left
 * out.
 */
export interface ForkOptions<Output = unknown>
  extends
    Pick<PromptOptions, "signal" | "onUpdate">,
    PlainIds<Omit<ForkInput, "runId" | "prompt" | "~allotted" | "~conductor">> {
  /** The agent that runs the fork, which types the output, or its name or alias. Default: the agent with which the original was started. */
  readonly agent?: string | Agent<never, Output>
}

/** The options of `resume`. */
export interface ResumeOptions<Output = unknown>
  extends
    Pick<PromptOptions, "signal" | "onUpdate">,
    OfAgent<Output>,
    Omit<StoredContinueInput, "runId" | "message" | "decisions" | "~allotted" | "~queued" | "~policy"> {
  /** Decisions on the run's open requests, as `decideAll` takes them, or as `DecisionInput`. If one is refused, none is taken. */
  readonly decisions?: ReadonlyArray<DecisionOn | DecisionInput>
  /**
   * A message of the user. A run that has not ended receives it when its open calls are settled. After a run that has ended, also one that
   * failed, it starts the session's next run.
   */
  readonly prompt?: Prompt
}

/** The options of functions that take the agent of a stored run. */
export interface OfAgent<Output = unknown> {
  /**
   * The agent with which the run was started, which types the output, or its name or alias. With the id of a sub-agent's run, the
   * sub-agent; one that is not an agent of the Fermata is given as the agent itself. If the run was started with another agent, the call
   * rejects with `AgentNotFound`. Default: the run's own agent, with an untyped output.
   */
  readonly agent?: string | Agent<never, Output>
}

/** The options of a decision. A reopening takes only `by` and `note`, a revocation only `by`. */
export interface DecideOptions {
  /** The author of the decision: a principal, or an unverified name. Default: the `by` of the Fermata. */
  readonly by?: string | Principal | undefined
  /** The reason, for the record. The model reads the note of a denial, of an approval with other arguments, and of a reopening. */
  readonly note?: string | undefined
  /**
   * Makes a repetition safe: the same decision with the same key resolves to the recorded one, instead of a rejection (`AlreadyDecided`).
   */
  readonly idempotencyKey?: string | undefined
}

/** The options of `work`. */
export interface WorkOptions extends Worker.WorkerOptions {
  /** Stops the worker when it is aborted: the worker suspends its runs, and `work` resolves. */
  readonly signal?: AbortSignal
}

/** The options of the iterables of handles, of conductors and of `events`. */
export interface ReadOptions {
  /** Ends the iteration, without an error, when it is aborted. */
  readonly signal?: AbortSignal
}

/** The options of `events`. */
export interface EventsOptions extends ReadOptions {
  /** The number of the run's first events to leave out, because the reader already has them. Default: 0. */
  readonly from?: number
  /** When the iteration ends: when the run is held or has ended (`hold`, the default), or only when it has ended (`end`). */
  readonly until?: "hold" | "end"
}

/** The options of `eventsResponse`. */
export interface EventsResponseOptions extends Omit<EventsOptions, "until"> {
  /**
   * The request that is responded to: a `Request`, or that of a Node server, such as express has it. If its header `Last-Event-ID` is above
   * `from`, the response starts behind that event, so that a client that reconnects misses no event and receives none twice. Its signal, if
   * it has one, is the default of `signal`.
   */
  readonly request?: {
    readonly headers:
      | Pick<Headers, "get">
      | Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
    readonly signal?: AbortSignal
  }
  /** When the response ends: only when the run has ended (`end`, the default), or also when it is held (`hold`). */
  readonly until?: "hold" | "end"
  /** A comment is sent when nothing else was sent for this long: 1 millisecond or more. Default: 15 seconds. */
  readonly heartbeat?: Duration.Input
}

/** A type whose ids are plain strings instead of brands. A key whose value is `undefined` counts as absent. */
export type PlainIds<Filter> = { readonly [Key in keyof Filter]: Unbranded<Filter[Key]> | undefined }

type Unbranded<Value> =
  Value extends Brand<string>
    ? string
    : Value extends ReadonlyArray<Brand<string>>
      ? ReadonlyArray<string>
      : Value

/** The options of a conductor's `dispatch`. */
export interface ConductorDispatchOptions extends Pick<
  PromptOptions,
  "runId" | "sessionId" | "answeredBy" | "limits" | "policy" | "context"
> {
  /**
   * The name of the run, a path such as `research/eu`, which its handle shows. A conductor's `cancel` takes the whole name or its first
   * parts, such as `research`. Names need not be unique.
   */
  readonly name?: string
}

/** The options of `dispatch`. */
export interface BackgroundOptions
  extends PromptOptions, Pick<ConductorDispatchOptions, "name">, HandleOptions {}

/** The options of `damagedRuns`. */
export interface DamagedRunsOptions {
  /** Whether all journals and messages are read, too, which takes as long as loading every run. Default: `false`. */
  readonly journals?: boolean
}

/** The options of `attach`. */
export interface AttachOptions<Output = unknown> extends OfAgent<Output>, HandleOptions {}

/** The options of a handle of a stored run. */
type HandleOptions = Pick<StoredDispatchOptions, "restart" | "onClose">

/** @deprecated Use `ConductorDispatchOptions`. */
export type DispatchOptions = ConductorDispatchOptions

/** A request with its decision, as `decideAll` and the option `decisions` of `resume` take them. */
export interface DecisionOn extends DecideOptions {
  readonly request: Decidable
  readonly decision: DecisionBody
}

/**
 * A request, an inbox entry with it, or its id. Pass the request or the entry to bind an approval to the arguments and the facts that it
 * showed.
 */
export type Decidable = string | Interruption | PendingRequest | Conductor_.InboxEntry
