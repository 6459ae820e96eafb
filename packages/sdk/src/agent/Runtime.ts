/**
 * An agent that can run: its definition checked, narrowed to a capability profile, and bound to a model and to whatever its tools
 * need.
 *
 * A runtime holds no run. The same one can run any number of prompts at the same time, and continue runs that another process
 * has started, as long as the agent has the same name. It is a live object: what a turn is run with may be replaced between turns, see
 * `reconfigureRuntime`; each turn reads it anew.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Semaphore from "effect/Semaphore"
import type { ContextPolicy } from "../context/ContextPolicy.ts"
import type { ModelClient } from "../model/ModelClient.ts"
import type { Tokenizer } from "../model/Tokenizer.ts"
import type { Scrubber } from "../tool/Scrubber.ts"
import type { Tool } from "../tool/Tool.ts"
import type { Agent } from "./Agent.ts"
import type * as BoundAgent from "./BoundAgent.ts"
import type * as Cancellation from "./Cancellation.ts"
import type { CapabilityProfile } from "./CapabilityProfile.ts"
import { assemble } from "./internal/assemble.ts"
import type { RunIds } from "./RunIds.ts"
import {
  type CloseStatus,
  type ExtensionFailed,
  RuntimeClosed,
  type RuntimeOptionsInvalid
} from "./RuntimeError.ts"
import { check, type RuntimeOptions } from "./RuntimeOptions.ts"

export type { RuntimeOptions } from "./RuntimeOptions.ts"

/** What somebody has chosen for a runtime. What is left out follows from the profile, or from the agent. */
export interface Choice {
  /** The name of the capability profile. */
  readonly profile: string
  readonly mode?: string
  /** The name of the model profile. */
  readonly model?: string
  /** In the place of the agent's own. */
  readonly tools?: ReadonlyArray<Tool<any>>
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
  readonly options: RuntimeOptions<any, Output>
  /** As it was defined, whatever the profile leaves of it. */
  readonly agent: Agent<any, Output>
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
  /** The services that handlers run with. */
  readonly services: Context.Context<any>
  readonly contextPolicy: ContextPolicy
  readonly tokenizer: Tokenizer
  readonly scrubber: Scrubber
  readonly ids: RunIds
  readonly owner: string
  /** The runs that are being driven right now. */
  readonly runs: Set<LiveRun>
  /** Cancelled when it is closed; the runs on it are cancelled with it. */
  readonly cancellation: Cancellation.CancellationToken
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

/**
 * A runtime as a service.
 *
 * **Example** (Creating it with the program)
 *
 * ```ts
 * const layer = Layer.effect(Runtime.Runtime, createRuntime({ agent }))
 * ```
 *
 * @category services
 * @since 0.1.0
 */
export const Runtime = Context.Service<Runtime>("@fermata/sdk/agent/Runtime")

/** What {@link make} takes: options that need no building, starting or closing. */
export type BindOptions<R, Output> = Pick<
  RuntimeOptions<R, Output>,
  "agent" | "peers" | "approvalCallback" | "interactive" | "owner" | "leaseTtl" | "cancelGrace"
>

/**
 * Binds an agent to the model and the services at hand, with all that its definition says. For profiles, extensions and a beginning and
 * an end, see `createRuntime`.
 *
 * **Errors**
 *
 * - `RuntimeOptionsInvalid` — names every option that is wrong or unknown, and what it takes.
 * - `ToolNameTaken`, `ToolDefinitionError`, `AgentDefinitionError` — mend the definition.
 */
export const make = <R, Output>(
  options: BindOptions<R, Output>
): Effect.Effect<Runtime<Output>, RuntimeOptionsInvalid | BoundAgent.DefinitionError, R | ModelClient> =>
  Effect.gen(function* () {
    const checked = yield* check<R, Output>(options)
    // Nothing that could bring these about is among the options.
    return yield* Effect.catchTag(
      assemble(checked),
      ["CapabilityProfileNotFound", "ModelProfileNotFound", "ExtensionFailed"],
      Effect.die
    )
  })

/**
 * Whether a runtime still takes runs.
 *
 * **Errors**
 *
 * - `RuntimeClosed` — create another one.
 */
export const requireOpen = (runtime: Runtime<any>): Effect.Effect<void, RuntimeClosed> =>
  Effect.suspend(() => {
    const status = runtime.closed()
    return status === undefined
      ? Effect.void
      : Effect.fail(new RuntimeClosed({ agent: runtime.agent.name, status }))
  })
