/**
 * Creates a runtime that is closed with its scope.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import type { ModelClient } from "../model/ModelClient.ts"
import type { Inferred } from "../tool/Tool.ts"
import type { RegistryError } from "./buildRuntimeRegistry.ts"
import { assemble } from "./internal/assemble.ts"
import type { AnyExtension, Runtime, RuntimeExtension, RuntimeOptions } from "./RuntimeDefinition.ts"
import type {
  CapabilityProfileNotFound,
  CloseStatus,
  ModelProfileNotFound,
  RuntimeClosed,
  RuntimeOptionsInvalid
} from "./RuntimeError.ts"
import type { ExtensionServices } from "./RuntimeExtension.ts"
import type { HookServices, RuntimeHooks } from "./RuntimeHooks.ts"
import { check } from "./RuntimeOptions.ts"

/** The errors of {@link createRuntime}. */
export type CreateRuntimeError =
  | RuntimeOptionsInvalid
  | CapabilityProfileNotFound
  | ModelProfileNotFound
  | RegistryError
  | RuntimeClosed

/** The options of {@link createRuntime}. */
export type CreateRuntimeOptions<
  R,
  Output,
  Callback,
  Hooks extends RuntimeHooks,
  Extensions extends ReadonlyArray<AnyExtension>
> = Omit<RuntimeOptions<R, Output>, "approvalCallback" | "extensions" | "hooks"> &
  Pick<RuntimeOptions<Callback, Output>, "approvalCallback"> & {
    readonly hooks?: Hooks & RuntimeHooks & Record<Exclude<keyof Hooks, keyof RuntimeHooks>, never>
    readonly extensions?: Extensions
  }

/** The services that a runtime of these options needs. */
export type RuntimeServices<
  R,
  Callback,
  Hooks extends RuntimeHooks,
  Extensions extends ReadonlyArray<AnyExtension>
> = R | Inferred<Callback> | HookServices<Hooks> | ExtensionServices<Extensions[number]> | ModelClient

/**
 * Creates a runtime, starts its extensions, and closes it with the scope.
 *
 * **When to use**
 *
 * For a runtime with capability profiles, extensions or hooks, or whose runs must end with a scope. `Runtime.make` needs no scope.
 *
 * **Details**
 *
 * When the scope closes, the runtime refuses new runs, suspends the stored runs that it drives (another process can resume them), cancels
 * the others, and closes its extensions with the status `completed`, `cancelled` or `error`, according to the exit of the scope.
 *
 * **Errors**
 *
 * - `RuntimeOptionsInvalid` — names the invalid and unknown options, and what they take; also if the service `ModelClient` is no client.
 * - `CapabilityProfileNotFound`, `ModelProfileNotFound` — name the existing profiles.
 * - `ToolNameTaken`, `ToolDefinitionError`, `AgentDefinitionError` — correct the definition.
 * - `ExtensionFailed` — an extension failed to make its tools or to start; the extensions that had started were closed again.
 * - `RuntimeClosed` — an extension closed the runtime while it was starting.
 *
 * **Example** (Planning under a profile, then acting)
 *
 * ```ts run
 * import { Agent, createRuntime, reconfigureRuntime, runPrompt, Tool } from "@fermata/sdk"
 * import { ScriptedModel } from "@fermata/sdk/testing"
 * import { Effect } from "effect"
 *
 * const read = Tool.make("read", { safety: "readOnly", handler: () => "export const answer = 41" })
 * const write = Tool.make("write", { handler: () => "written" })
 * const program = Effect.gen(function* () {
 *   const runtime = yield* createRuntime({
 *     agent: Agent.make("coder", { tools: [read, write] }),
 *     profiles: [{ name: "plan", mode: "plan", tools: { safety: ["readOnly"] } }],
 *     profile: "plan"
 *   })
 *   const plan = yield* runPrompt(runtime, { prompt: "How would you do it?" })
 *   yield* reconfigureRuntime(runtime, { profile: "default" })
 *   return yield* runPrompt(runtime, { state: plan.state, prompt: "Do it." })
 * })
 * const model = ScriptedModel.make(["With one change.", "Done."]).layer
 * console.log((await Effect.runPromise(Effect.scoped(Effect.provide(program, model)))).status) // completed
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const createRuntime = <
  R,
  Output,
  Callback = never,
  const Hooks extends RuntimeHooks = {},
  const Extensions extends ReadonlyArray<AnyExtension> = ReadonlyArray<RuntimeExtension>
>(
  options: CreateRuntimeOptions<R, Output, Callback, Hooks, Extensions>
): Effect.Effect<
  Runtime<Output>,
  CreateRuntimeError,
  RuntimeServices<R, Callback, Hooks, Extensions> | Scope.Scope
> =>
  Effect.gen(function* () {
    const checked = yield* check(options as RuntimeOptions<R | Inferred<Callback>, Output>)
    const runtime = yield* Effect.acquireRelease(assemble(checked), ({ close }, exit) =>
      close(statusOf(exit))
    )
    yield* runtime.start
    return runtime
  })

const statusOf = (exit: Exit.Exit<unknown, unknown>): CloseStatus =>
  Exit.isSuccess(exit) ? "completed" : Cause.hasInterruptsOnly(exit.cause) ? "cancelled" : "error"
