/**
 * An agent that can run: its definition checked, and bound to a model and to whatever its tools need.
 *
 * A runtime holds no run. The same one can run any number of prompts at the same time, and continue runs that another process
 * has started, as long as the agent has the same name.
 *
 * @since 0.1.0
 */
import type * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { DecisionInput } from "../domain/Decision.ts"
import type { Interruption } from "../domain/Interruption.ts"
import { ContextPolicy } from "../context/ContextPolicy.ts"
import { ModelClient } from "../model/ModelClient.ts"
import { Tokenizer } from "../model/Tokenizer.ts"
import { Scrubber } from "../tool/Scrubber.ts"
import type { Awaitable } from "../tool/Tool.ts"
import type { Agent } from "./Agent.ts"
import * as BoundAgent from "./BoundAgent.ts"
import { RunIds } from "./RunIds.ts"

/** How an agent is bound. */
export interface RuntimeOptions<R, Output> {
  readonly agent: Agent<R, Output>
  /**
   * Decides requests as they come up, without holding the run: return a decision, or `undefined` to hold. A callback that fails
   * holds the run.
   */
  readonly approvalCallback?: (request: Interruption) => Awaitable<DecisionInput | undefined>
  /**
   * Whether somebody can be asked. Default: yes. With `false`, a call that needs approval is denied, and a question, a used-up
   * budget or a login ends as an error instead of holding the run.
   */
  readonly interactive?: boolean
  /** Who drives the stored runs, for whoever finds them busy. Default: a name made of chance. */
  readonly owner?: string
  /** How long a stored run stays claimed without a sign of life. Default: 15 seconds. */
  readonly leaseTtl?: Duration.Input
  /** How long a tool that was told to stop may take to do so. Default: 2 seconds. */
  readonly cancelGrace?: Duration.Input
}

/**
 * An agent that can run.
 *
 * @category models
 * @since 0.1.0
 */
export interface Runtime<Output = unknown> {
  readonly options: RuntimeOptions<any, Output>
  readonly bound: BoundAgent.BoundAgent
  readonly model: ModelClient["Service"]
  /** The services that handlers run with. */
  readonly services: Context.Context<any>
  readonly contextPolicy: ContextPolicy
  readonly tokenizer: Tokenizer
  readonly scrubber: Scrubber
  readonly ids: RunIds
  readonly owner: string
}

/**
 * Binds an agent to the model and the services at hand.
 *
 * **Errors**
 *
 * - `ToolNameTaken`, `ToolDefinitionError`, `AgentDefinitionError` — mend the definition.
 */
export const make = <R, Output>(
  options: RuntimeOptions<R, Output>
): Effect.Effect<Runtime<Output>, BoundAgent.DefinitionError, R | ModelClient> =>
  Effect.gen(function* () {
    return {
      options,
      bound: yield* BoundAgent.make(options.agent),
      model: yield* ModelClient,
      services: yield* Effect.context<R>(),
      contextPolicy: yield* ContextPolicy,
      tokenizer: yield* Tokenizer,
      scrubber: yield* Scrubber,
      ids: yield* RunIds,
      owner: options.owner ?? `worker-${globalThis.crypto.randomUUID().slice(0, 8)}`
    }
  })
