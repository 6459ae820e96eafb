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
import type { ModelClient } from "../model/ModelClient.ts"
import type { Inferred } from "../tool/Tool.ts"
import type * as BoundAgent from "./BoundAgent.ts"
import { assemble } from "./internal/assemble.ts"
import type { Runtime as Definition, RuntimeOptions } from "./RuntimeDefinition.ts"
import { RuntimeClosed, type RuntimeOptionsInvalid } from "./RuntimeError.ts"
import { check } from "./RuntimeOptions.ts"

export type { Choice, LiveRun, RuntimeOptions } from "./RuntimeDefinition.ts"

/**
 * An agent that can run.
 *
 * @category models
 * @since 0.1.0
 */
export type Runtime<Output = unknown> = Definition<Output>

/**
 * A runtime as a service.
 *
 * **Example** (Creating it with the program)
 *
 * ```ts run
 * import { Agent, createRuntime, Runtime, runPrompt } from "@fermata/sdk"
 * import { ScriptedModel } from "@fermata/sdk/testing"
 * import { Effect, Layer } from "effect"
 *
 * const layer = Layer.effect(Runtime.Runtime, createRuntime({ agent: Agent.make("ops") }))
 * const program = Effect.gen(function* () {
 *   const runtime = yield* Runtime.Runtime
 *   return yield* runPrompt(runtime, { prompt: "Is everything up?" })
 * })
 * const services = Layer.provide(layer, ScriptedModel.make(["It is."]).layer)
 * console.log((await Effect.runPromise(Effect.provide(program, services))).status) // completed
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
export const make = <R, Output, Callback = never>(
  options: Omit<BindOptions<R, Output>, "approvalCallback"> &
    Pick<RuntimeOptions<Callback, Output>, "approvalCallback">
): Effect.Effect<
  Runtime<Output>,
  RuntimeOptionsInvalid | BoundAgent.DefinitionError,
  R | Inferred<Callback> | ModelClient
> =>
  Effect.gen(function* () {
    const checked = yield* check(options as BindOptions<R | Inferred<Callback>, Output>)
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
export const requireOpen = (runtime: Runtime): Effect.Effect<void, RuntimeClosed> =>
  Effect.suspend(() => {
    const status = runtime.closed()
    return status === undefined
      ? Effect.void
      : Effect.fail(new RuntimeClosed({ agent: runtime.agent.name, status }))
  })
