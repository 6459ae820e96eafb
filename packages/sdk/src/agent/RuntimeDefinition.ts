/**
 * The types of a runtime: what it is created from, what extends it, and what it is.
 *
 * They are in one file because each knows the others. `Runtime`, `RuntimeOptions` and `RuntimeExtension` are the modules to use.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as Semaphore from "effect/Semaphore"
import type { ContextPolicy } from "../context/ContextPolicy.ts"
import type { DecisionInput } from "../domain/Decision.ts"
import type { Interruption } from "../domain/Interruption.ts"
import type { ModelClient } from "../model/ModelClient.ts"
import type { Tokenizer } from "../model/Tokenizer.ts"
import type { Scrubber } from "../tool/Scrubber.ts"
import type { AnyServices, AnyTool, Tool } from "../tool/Tool.ts"
import type { Awaitable } from "../tool/ToolOptions.ts"
import type { Agent, Any } from "./AgentDefinition.ts"
import type { CancellationToken } from "./Cancellation.ts"
import type { CapabilityProfile } from "./CapabilityProfile.ts"
import type * as BoundAgent from "./Entry.ts"
import type { RunIds } from "./RunIds.ts"
import type { CloseStatus, ExtensionFailed, RuntimeClosed } from "./RuntimeError.ts"
import type { RuntimeHooks } from "./RuntimeHooks.ts"
import type { RuntimeSettings } from "./RuntimeSettings.ts"

/** What a runtime is told when it is created. `R` are the services that its agent and its callbacks need. */
export interface RuntimeOptions<R, Output> extends RuntimeSettings {
  readonly agent: Agent<R, Output>
  /**
   * Decides requests as they come up, without holding the run: return a decision, or `undefined` to hold. A callback that fails
   * holds the run, and so does a decision about another request than the one it was asked about. It is asked about what is open
   * whenever somebody goes on with a run. Default: every request holds the run.
   */
  readonly approvalCallback?: (request: Interruption) => Awaitable<DecisionInput | undefined, R>
  /** Adds tools that need to know the runtime, and what is opened and closed with it. Default: none. */
  readonly extensions?: ReadonlyArray<RuntimeExtension<R>>
  /** Told what happens in the runs. Default: nobody. */
  readonly hooks?: RuntimeHooks
  /** Cancels all runs of the runtime. Default: the token of whatever is going on where it is created. */
  readonly cancellation?: CancellationToken
}

/** What an extension is told about the runtime that it is in. */
export interface RuntimeContext {
  /** As it was defined, whatever the profile leaves of it. */
  readonly agent: Any
  readonly profile: CapabilityProfile
  readonly mode: string
  /** The services that user code runs with, as they were when the runtime was made. What the context of a run has wins. */
  readonly services: AnyServices
  /** Cancelled when the runtime is closed. */
  readonly cancellation: CancellationToken
  /**
   * The runtime itself, to run or dispatch something on it. Ask for it in a handler or in `onStart`: while the tools of a new runtime
   * are being made, there is none yet.
   */
  readonly runtime: () => Runtime
}

/** An extension, whatever its tools need. */
export type AnyExtension = RuntimeExtension<unknown>

/** Adds tools to a runtime. `R` are the services that these, and opening and closing, need. */
export interface RuntimeExtension<R = never> {
  /** For errors and logs; no two extensions of a runtime have the same. */
  readonly name: string
  /** Its tools. Asked when the runtime is created and whenever it is reconfigured; it must do nothing else. */
  readonly tools?: (context: RuntimeContext) => ReadonlyArray<Tool<R>>
  /** Opens what its tools need; once, in the order of the extensions. */
  readonly onStart?: (context: RuntimeContext) => Awaitable<void, R>
  /** Closes it; once, after the runs have ended, in the opposite order, and only what was opened. */
  readonly onClose?: (status: CloseStatus, context: RuntimeContext) => Awaitable<void, R>
}

/** What somebody has chosen for a runtime. What is left out follows from the profile, or from the agent. */
export interface Choice {
  /** The name of the capability profile. */
  readonly profile: string
  readonly mode?: string
  /** The name of the model profile. */
  readonly model?: string
  /** In the place of the agent's own. */
  readonly tools?: ReadonlyArray<AnyTool>
}

/** A run that is being driven. */
export interface LiveRun {
  readonly runId: string
  /** Whether a call of it is open, or a model is being asked. */
  readonly isMidTurn: () => boolean
  /** Stops it, with a reason. */
  readonly cancel: (reason: string) => void
}

/**
 * An agent that can run.
 *
 * @category models
 * @since 0.1.0
 */
export interface Runtime<Output = unknown> {
  /** Where its tools act: in this program, or in a remote sandbox. */
  readonly kind: "local" | "remote"
  /** What it was created with, defaults filled in. */
  readonly options: RuntimeOptions<unknown, Output>
  /** As it was defined, whatever the profile leaves of it. */
  readonly agent: Agent<unknown, Output>
  /** What the agent can do now. May change between turns. */
  readonly bound: BoundAgent.BoundAgent
  /** May change between turns. */
  readonly model: ModelClient["Service"]
  /** The name of the capability profile in force. May change between turns. */
  readonly profileName: string
  /** A word for how the agent works now. May change between turns. */
  readonly mode: string
  /** What was chosen, of which the rest follows. May change between turns. */
  readonly choice: Choice
  /** The capability profiles to choose from, by name. */
  readonly profiles: ReadonlyMap<string, CapabilityProfile>
  /** The services that user code runs with, as they were when the runtime was made. What the context of a run has wins. */
  readonly services: AnyServices
  readonly contextPolicy: ContextPolicy
  readonly tokenizer: Tokenizer
  readonly scrubber: Scrubber
  readonly ids: RunIds
  readonly owner: string
  /** The runs that are being driven right now. */
  readonly runs: Set<LiveRun>
  /** Cancelled when it is closed; the runs on it are cancelled with it. */
  readonly cancellation: CancellationToken
  /** Opens what the extensions need; once, however often it is asked for. One that fails closes the runtime. */
  readonly start: Effect.Effect<void, RuntimeClosed | ExtensionFailed>
  /**
   * Cancels the runs on it, waits for them to end, and closes what the extensions have opened; once, however often it is asked for,
   * with the status of the first time. Runs are refused afterwards.
   */
  readonly close: (status: CloseStatus) => Effect.Effect<void>
  /** How it was closed; `undefined` while it was not. */
  readonly closed: () => CloseStatus | undefined
  /** One reconfiguration at a time. */
  readonly "~changing": Semaphore.Semaphore
}
