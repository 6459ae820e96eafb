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
import type * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { withoutUndefined } from "../domain/internal/untyped.ts"
import type { ModelClient } from "../model/ModelClient.ts"
import type { Inferred } from "../tool/Tool.ts"
import type * as BoundAgent from "./BoundAgent.ts"
import {
  createRuntime,
  type CreateRuntimeError,
  type CreateRuntimeOptions,
  type RuntimeServices
} from "./createRuntime.ts"
import { assemble } from "./internal/assemble.ts"
import { readConfig } from "./internal/readConfig.ts"
import type {
  AnyExtension,
  Runtime as Definition,
  RuntimeExtension,
  RuntimeOptions
} from "./RuntimeDefinition.ts"
import { RuntimeClosed, RuntimeOptionsInvalid } from "./RuntimeError.ts"
import type { RuntimeHooks } from "./RuntimeHooks.ts"
import { check } from "./RuntimeOptions.ts"
import type { RuntimeSettings } from "./RuntimeSettings.ts"

export type { Choice, LiveRun, RuntimeOptions } from "./RuntimeDefinition.ts"

/**
 * An agent that can run, because it is bound to a model, a capability profile and services. Pass it to the functions that run prompts, such
 * as `runPrompt`, `runPromptStored` and `dispatchPrompt`.
 *
 * @category models
 * @since 0.1.0
 */
export type Runtime<Output = unknown> = Definition<Output>

/**
 * A runtime as a service, for programs with one runtime that create it in a layer. {@link Service} makes services of several runtimes, with
 * their layers and the types of their outputs.
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

/** Settings of which each may be `undefined`, for a `Config` with that default. */
type Settings = { readonly [Key in keyof RuntimeSettings]: RuntimeSettings[Key] | undefined }

/** The class of a runtime that is a service of its own, with its layers, as {@link Service} makes it. */
export interface ServiceClass<Self, Id extends string, Output, R> extends Context.ServiceClass<
  Self,
  Id,
  Runtime<Output>
> {
  /** Creates the runtime, and closes it with the layer; see `createRuntime`. */
  readonly layer: Layer.Layer<Self, CreateRuntimeError, R>
  /**
   * Like `layer`, with settings from the `ConfigProvider`, such as `{ model: Config.String("MODEL") }`. Each replaces the setting of the
   * class; one whose value is `undefined` does not.
   */
  readonly layerConfig: (
    settings: Config.Wrap<Settings>
  ) => Layer.Layer<Self, CreateRuntimeError | Config.ConfigError, R>
}

/**
 * Makes the class of a runtime that is a service: its type is in the context of the programs that use it, with the output of its agent, and
 * several runtimes can be in one context.
 *
 * **Example** (A runtime as a service)
 *
 * ```ts run
 * import { Agent, Runtime, runPrompt } from "@fermata/sdk"
 * import { ScriptedModel } from "@fermata/sdk/testing"
 * import { Effect, Layer } from "effect"
 *
 * class Ops extends Runtime.Service<Ops>()("app/Ops", { agent: Agent.make("ops") }) {}
 *
 * const program = Effect.gen(function* () {
 *   const { status } = yield* runPrompt(yield* Ops, { prompt: "Is everything up?" })
 *   return status
 * })
 * const services = Layer.provide(Ops.layer, ScriptedModel.make(["It is."]).layer)
 * console.log(await Effect.runPromise(Effect.provide(program, services))) // completed
 * ```
 *
 * **Errors**
 *
 * The layers fail with the errors of `createRuntime`, and `layerConfig` also with `ConfigError`.
 *
 * @category services
 * @since 0.2.0
 */
export const Service =
  <Self>() =>
  <
    const Id extends string,
    R,
    Output,
    Callback = never,
    const Hooks extends RuntimeHooks = {},
    const Extensions extends ReadonlyArray<AnyExtension> = ReadonlyArray<RuntimeExtension>
  >(
    id: Id,
    options: CreateRuntimeOptions<R, Output, Callback, Hooks, Extensions>
  ): ServiceClass<Self, Id, Output, RuntimeServices<R, Callback, Hooks, Extensions>> => {
    const service = Context.Service<Self, Runtime<Output>>()(id)
    return Object.assign(service, {
      layer: Layer.effect(service, createRuntime(options)),
      layerConfig: (settings: Config.Wrap<Settings>) =>
        Layer.effect(
          service,
          Effect.flatMap(readConfig(settings), (given) =>
            createRuntime({ ...options, ...withoutUndefined(given) })
          )
        )
    })
  }

/** The options of {@link make}. `createRuntime` takes all options. */
export type BindOptions<R, Output> = Pick<
  RuntimeOptions<R, Output>,
  "agent" | "peers" | "approvalCallback" | "interactive" | "owner" | "leaseTtl" | "cancelGrace"
>

const bindOptions = {
  agent: true,
  peers: true,
  approvalCallback: true,
  interactive: true,
  owner: true,
  leaseTtl: true,
  cancelGrace: true
} satisfies { readonly [Key in keyof BindOptions<never, unknown>]-?: true }

/**
 * Makes a runtime: checks the agent's definition, and binds the agent to the model and the services in the context.
 *
 * **When to use**
 *
 * For a runtime without profiles, extensions and hooks. It needs no scope and no close; `createRuntime` makes one with all options.
 *
 * **Errors**
 *
 * - `RuntimeOptionsInvalid` — names the invalid and unknown options, and those that only `createRuntime` takes; also if the service
 *   `ModelClient` is no client.
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
    const problems = Object.keys(checked)
      .filter((knob) => !Object.hasOwn(bindOptions, knob))
      .map((knob) => ({ knob, problem: `"${knob}" is an option of createRuntime, not of Runtime.make` }))
    if (problems.length > 0) return yield* new RuntimeOptionsInvalid({ problems })
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
