/**
 * A runtime: an agent whose definition was checked, configured by a capability profile, and bound to a model and to the services that its
 * tools need.
 *
 * A runtime has no state of a run. It can run any number of prompts at the same time, and continue a run that another process started, if
 * its agent has the recorded name or alias. It is a live object: `reconfigureRuntime` changes its profile, tools, model and mode between
 * turns, and each turn reads them anew.
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
 * An agent that can run. Pass it to `runPrompt` and `dispatchPrompt`.
 *
 * @category models
 * @since 0.1.0
 */
export type Runtime<Output = unknown> = Definition<Output>

/**
 * A runtime as a service, for programs that create their runtime in a layer.
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

/** The options of {@link make}. `createRuntime` takes all options. */
export type BindOptions<R, Output> = Pick<
  RuntimeOptions<R, Output>,
  "agent" | "peers" | "approvalCallback" | "interactive" | "owner" | "leaseTtl" | "cancelGrace"
>

/**
 * Binds an agent to the model and the services in the context.
 *
 * **When to use**
 *
 * For a runtime without profiles, extensions and hooks. It needs no scope and no close; `createRuntime` makes one with all options.
 *
 * **Errors**
 *
 * - `RuntimeOptionsInvalid` — names the invalid and unknown options, and what they take; also if the service `ModelClient` is no client.
 * - `ToolNameTaken`, `ToolDefinitionError`, `AgentDefinitionError` — correct the definition.
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
    // The options name no profile and no extension, so these errors cannot occur.
    return yield* Effect.catchTag(
      assemble(checked),
      ["CapabilityProfileNotFound", "ModelProfileNotFound", "ExtensionFailed"],
      Effect.die
    )
  })

/**
 * Fails if the runtime was closed.
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
