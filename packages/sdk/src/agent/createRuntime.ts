/**
 * Making a runtime for as long as a scope lasts.
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
import type { Runtime } from "./Runtime.ts"
import type { AnyExtension, RuntimeExtension, RuntimeOptions } from "./RuntimeDefinition.ts"
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

/** What keeps a runtime from being created. */
export type CreateRuntimeError =
  | RuntimeOptionsInvalid
  | CapabilityProfileNotFound
  | ModelProfileNotFound
  | RegistryError
  | RuntimeClosed

/**
 * Makes a runtime, starts it, and closes it with the scope.
 *
 * **Details**
 *
 * The options are checked, the tools are built from the capability profile and the extensions, the extensions are started. When the
 * scope closes, the runs on it are cancelled, and the extensions are closed: as `completed`, `cancelled` or `error`, as the scope was.
 *
 * **Errors**
 *
 * - `RuntimeOptionsInvalid` — names every option that is wrong or unknown, and what it takes.
 * - `CapabilityProfileNotFound`, `ModelProfileNotFound` — name the ones there are.
 * - `ToolNameTaken`, `ToolDefinitionError`, `AgentDefinitionError` — mend the definition.
 * - `ExtensionFailed` — an extension could not make its tools or start; those that had started were closed again.
 * - `RuntimeClosed` — an extension has closed it while it was being started.
 *
 * **Example** (An agent that begins by planning)
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
  options: Omit<RuntimeOptions<R, Output>, "approvalCallback" | "extensions" | "hooks"> &
    Pick<RuntimeOptions<Callback, Output>, "approvalCallback"> & {
      readonly hooks?: Hooks & RuntimeHooks & Record<Exclude<keyof Hooks, keyof RuntimeHooks>, never>
      readonly extensions?: Extensions
    }
): Effect.Effect<
  Runtime<Output>,
  CreateRuntimeError,
  | R
  | Inferred<Callback>
  | HookServices<Hooks>
  | ExtensionServices<Extensions[number]>
  | ModelClient
  | Scope.Scope
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
