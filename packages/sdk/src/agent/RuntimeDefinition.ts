/**
 * The types of a runtime, of its options and of its extensions.
 *
 * They are in one file because each refers to the others. `Runtime`, `RuntimeOptions` and `RuntimeExtension` are the modules to use.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as Semaphore from "effect/Semaphore"
import type { ContextPolicy } from "../context/ContextPolicy.ts"
import type { DecisionInput } from "../domain/Decision.ts"
import type { RunId, SessionId, Timestamp } from "../domain/Id.ts"
import type { Interruption } from "../domain/Interruption.ts"
import type { RunContext } from "../domain/RunContext.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type { SandboxRef } from "../domain/SandboxRef.ts"
import type { MemoryOperations } from "../memory/Memory.ts"
import type { ModelClient } from "../model/ModelClient.ts"
import type { Tokenizer } from "../model/Tokenizer.ts"
import type { Shape as Sandbox } from "../sandbox/Sandbox.ts"
import type { SandboxLost, SandboxUnavailable } from "../sandbox/SandboxError.ts"
import type { Shape as SandboxProvider } from "../sandbox/SandboxProvider.ts"
import type { Scrubber } from "../tool/Scrubber.ts"
import type { Secrets } from "../tool/Secrets.ts"
import type { AnyServices, AnyTool, Tool } from "../tool/Tool.ts"
import type { Awaitable } from "../tool/ToolOptions.ts"
import type { Shape as WebAccess } from "../tool/WebAccess.ts"
import type { Agent, Any, Section } from "./AgentDefinition.ts"
import type { CancellationToken } from "./Cancellation.ts"
import type { CapabilityProfile } from "./CapabilityProfile.ts"
import type * as BoundAgent from "./Entry.ts"
import type { RunIds } from "./RunIds.ts"
import type { CloseStatus, ExtensionFailed, RuntimeClosed } from "./RuntimeError.ts"
import type { RuntimeHooks } from "./RuntimeHooks.ts"
import type { RuntimeSettings } from "./RuntimeSettings.ts"

/** The options of a runtime. `R` are the services that its agent and its callbacks need. */
export interface RuntimeOptions<R, Output> extends RuntimeSettings {
  /** The agent to run. */
  readonly agent: Agent<R, Output>
  /**
   * Decides requests before they hold the run. The callback is called with one open request of a run after the other, except timers and
   * external calls, and has no timeout; a decision from elsewhere ends the wait. Return a decision, or `undefined` to leave the request
   * open. A callback that fails, or whose decision does not fit the request, leaves it open, too. Each time a run is resumed, the callback
   * is called for these requests again. Default: an open request holds the run.
   */
  readonly approvalCallback?: (
    request: Interruption,
    /** The context of the run, as JSON. */
    about: { readonly context: RunContext }
  ) => Awaitable<DecisionInput | undefined, R>
  /** Extensions, which add tools that can use the runtime, and code that runs when the runtime starts and closes. Default: none. */
  readonly extensions?: ReadonlyArray<RuntimeExtension<R>>
  /**
   * Makes the sandboxes in which tools with the option `sandbox` act. Default: the `SandboxProvider` in the context in which the runtime is
   * created, which is none unless the program provides one.
   */
  readonly sandbox?: SandboxProvider
  /**
   * Providers of the capability profiles of these names, which replace `sandbox` in a runtime that is created with such a profile, such as
   * `{ daytona: provider }`. A name that `profiles` does not have becomes a profile that changes nothing else. A live runtime does not change
   * between profiles with different providers. Default: none.
   */
  readonly sandboxes?: Readonly<Record<string, SandboxProvider>>
  /** Callbacks that observe the runs. Default: none. */
  readonly hooks?: RuntimeHooks
  /** Cancels all runs of the runtime. Default: the `CancellationToken` in the context in which the runtime is created. */
  readonly cancellation?: CancellationToken
}

/** The runtime that an extension belongs to, as the argument of its functions. */
export interface RuntimeContext {
  /** The agent as it was defined, without the changes of the profile. */
  readonly agent: Any
  readonly profile: CapabilityProfile
  readonly mode: string
  /**
   * The services that user code runs with, captured when the runtime is made or its tools are replaced. The context of a run takes
   * precedence.
   */
  readonly services: AnyServices
  /** Cancelled when the runtime is closed, and with the token in its option `cancellation`. */
  readonly cancellation: CancellationToken
  /**
   * Returns the runtime, to run or dispatch a prompt on it. Call it in a handler or in `onStart`; it throws while the tools of a new
   * runtime are being made.
   */
  readonly runtime: () => Runtime
}

/** An extension with any services. */
export type AnyExtension = RuntimeExtension<unknown>

/**
 * Adds tools and sections to a runtime, and code that runs when the runtime starts and closes. The tools are made when the runtime is created and again
 * at each reconfiguration, from its current profile and mode. `R` are the services that the tools, `onStart` and `onClose` need.
 */
export interface RuntimeExtension<R = never> {
  /** The name in errors and logs, unique among the extensions of a runtime. */
  readonly name: string
  /** Returns the extension's tools. Called when the runtime is created and at each reconfiguration; it must have no other effect. */
  readonly tools?: (context: RuntimeContext) => ReadonlyArray<Tool<R>>
  /**
   * Sections for the prompted agent and those that it hands over to, behind their own; see `AgentOptions.sections`. Called like `tools`.
   */
  readonly sections?: (context: RuntimeContext) => ReadonlyArray<Section<R>>
  /**
   * Acquires what the tools need. Called once, in the order of the extensions, without a timeout. If it fails, the runtime is closed. What
   * an effect acquires in its scope is released when all extensions have been closed.
   */
  readonly onStart?: (context: RuntimeContext) => Awaitable<void, R>
  /**
   * Releases what `onStart` acquired. Called once, in reverse order, and only if the start reached this extension and its `onStart`, if
   * any, succeeded: after the runs have ended, or have been waited for up to `closeTimeout`. It may itself take up to `closeTimeout`. A
   * failure is logged; the other extensions are closed all the same.
   */
  readonly onClose?: (status: CloseStatus, context: RuntimeContext) => Awaitable<void, R>
}

/** The current selection of a runtime. A field that is left out follows from the profile or the agent. */
export interface Choice {
  /** The name of the capability profile. */
  readonly profile: string
  readonly mode?: string
  /** The name of the model profile, if one was chosen by name. */
  readonly model?: string
  /** Tools that replace the agent's own. */
  readonly tools?: ReadonlyArray<AnyTool>
}

/**
 * The names of tools that the rules of policies may have. A rule with another name, without `*`, would bind no call: it is refused, or a
 * warning is logged if `isOpen`.
 */
export interface RuleTools {
  readonly names: ReadonlySet<string>
  /** Whether tools of other names may be added. A rule for one is then not refused: a warning is logged. */
  readonly isOpen: boolean
  /** The names that a warning has been logged for. */
  readonly warned: Set<string>
}

/** The root run that needs a sandbox. */
export interface SandboxUser {
  readonly runId: RunId
  readonly sessionId: SessionId
  /** The run's sandbox, if it has one. */
  readonly sandbox?: SandboxRef | undefined
}

/** The open sandboxes of a runtime, which opens each once. */
export interface Sandboxes {
  readonly provider: SandboxProvider | undefined
  /** Whether the provider has this sandbox of a run or, without a reference, can make one. */
  readonly accepts: (ref: SandboxRef | undefined) => boolean
  /** The sandbox of a run, if it is open. */
  readonly find: (user: SandboxUser) => Sandbox | undefined
  /** The error of the last attempt to open the sandbox of a run; `undefined` if there is none. */
  readonly failureOf: (user: SandboxUser) => SandboxLost | SandboxUnavailable | undefined
  /** Opens the sandbox of a run, or returns the open one. An interrupted caller leaves the opening to the others and to the next attempt. */
  readonly open: (user: SandboxUser) => Effect.Effect<Sandbox, SandboxLost | SandboxUnavailable>
  /** The scope of what a run leaves in its open sandbox, such as commands in the background. */
  readonly runScope: (runId: RunId, sandbox: Sandbox) => Scope.Scope
  /** Stops what a cancelled run and the runs under it have left in their sandbox. */
  readonly cancelled: (runId: RunId) => Effect.Effect<void>
  /** Forgets an open sandbox that was found to be lost, so that the next call attaches anew. */
  readonly drop: (ref: SandboxRef) => Effect.Effect<void>
  /** Releases all sandboxes. Destroys none. */
  readonly close: Effect.Effect<void>
}

/** A run that a runtime drives. */
export interface LiveRun {
  readonly runId: string
  /** Whether a turn of the run, or of a sub-agent's run in it, has not ended: a model call is running, or the turn's calls are open. */
  readonly isMidTurn: () => boolean
  /** Cancels the run. If its runtime is closed and the run is stored, the run is suspended instead. */
  readonly cancel: (reason: string) => void
  /** Records an event before the run's next step, unless the run ends before. */
  readonly record?: (make: (at: Timestamp) => RunEvent) => void
}

/**
 * An agent that can run: bound to a model, a capability profile and services.
 *
 * @category models
 * @since 0.1.0
 */
export interface Runtime<Output = unknown> {
  /** Where the tools with the option `sandbox` act: on this machine, or in a remote sandbox. The other tools act in this program. */
  readonly kind: "local" | "remote"
  /** The options that the runtime was created with, with defaults. */
  readonly options: RuntimeOptions<unknown, Output>
  /** The agent as it was defined, without the changes of the profile. */
  readonly agent: Agent<unknown, Output>
  /** The agent with the current profile and tools. May change between turns. */
  readonly bound: BoundAgent.BoundAgent
  /** The model client. May change between turns. */
  readonly model: ModelClient["Service"]
  /** The name of the current capability profile. May change between turns. */
  readonly profileName: string
  /** The current mode. May change between turns. */
  readonly mode: string
  /** The selection from which `bound`, `model`, `profileName` and `mode` follow. May change between turns. */
  readonly choice: Choice
  /** All capability profiles, by name. */
  readonly profiles: ReadonlyMap<string, CapabilityProfile>
  /**
   * The services that user code runs with, captured when the runtime is made or its tools are replaced. The context of a run takes
   * precedence.
   */
  readonly services: AnyServices
  readonly contextPolicy: ContextPolicy
  /** The memory that the runs write and search. Absent if the runtime was created without the service `Memory`. */
  readonly memory?: MemoryOperations
  readonly tokenizer: Tokenizer
  readonly scrubber: Required<Scrubber>
  readonly secrets: Secrets
  /** The guarded client of the tools; see `WebAccess`. */
  readonly web: WebAccess
  readonly ids: RunIds
  /** The name under which the runtime claims stored runs. */
  readonly owner: string
  /** The session of prompts that name none, if the runtime is bound to one; see `forSession`. Default: each prompt begins a session. */
  readonly sessionId?: SessionId
  /** The runs that this runtime drives now. */
  readonly runs: Set<LiveRun>
  /**
   * Cancels the runs of this runtime. It is cancelled with the token in the option `cancellation`, and when the runtime is closed, which
   * suspends stored runs instead.
   */
  readonly cancellation: CancellationToken
  /** Starts the extensions, once; later calls wait for the same start. If an extension fails, the runtime is closed. */
  readonly start: Effect.Effect<void, RuntimeClosed | ExtensionFailed>
  /**
   * Closes the runtime: refuses new runs, suspends the stored runs and cancels the others, waits for them, and closes the extensions, each
   * wait up to `closeTimeout`. It happens once, with the first status; later calls wait for the same close.
   */
  readonly close: (status: CloseStatus) => Effect.Effect<void>
  /** Returns the status with which the runtime was closed; `undefined` before. */
  readonly closed: () => CloseStatus | undefined
  /** Suspends the stored runs of this runtime. It is cancelled when the runtime is closed, before `cancellation`. */
  readonly "~closing": CancellationToken
  /** The open sandboxes, and the provider that made them. */
  readonly "~sandboxes": Sandboxes
  /** The names that the rules of its policies may have. */
  readonly "~ruleTools": RuleTools
  /** Serializes reconfigurations. */
  readonly "~changing": Semaphore.Semaphore
}
