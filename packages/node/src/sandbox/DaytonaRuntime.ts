/**
 * A runtime whose tools act in Daytona sandboxes. `createRuntime` returns one if its provider is a {@link daytonaSandbox}: the one that the
 * option `sandboxes` has under the name of the capability profile, or that of the option `sandbox`.
 *
 * @since 0.2.0
 */
import type { Runtime, SandboxProvider } from "@fermata/sdk"

/**
 * A runtime whose tools act in Daytona sandboxes.
 *
 * **Details**
 *
 * The first call of a run that needs a sandbox creates it; later calls, and later runs of the session, use it. When the runtime closes, its
 * sandboxes are kept, stopped or deleted, as `onRelease` of the provider says. The runtime cannot be reconfigured to a profile with another
 * provider: create another runtime.
 *
 * @category models
 * @since 0.2.0
 */
export interface DaytonaRuntime<Output = unknown> extends Runtime.Runtime<Output> {
  readonly kind: "remote"
}

/**
 * Whether the tools of a runtime act in Daytona sandboxes.
 *
 * **Example** (Choosing by the profile)
 *
 * ```ts run
 * import { Agent, createRuntime, daytonaSandbox, isDaytonaRuntime } from "@fermata/node"
 * import { ScriptedModel } from "@fermata/node/testing"
 * import { Effect } from "effect"
 *
 * const sandboxes = { daytona: daytonaSandbox({ apiKey: "key" }) }
 * const program = Effect.gen(function* () {
 *   const agent = Agent.make("coder")
 *   const here = yield* createRuntime({ agent, sandboxes })
 *   const there = yield* createRuntime({ agent, sandboxes, profile: "daytona" })
 *   console.log(isDaytonaRuntime(here), isDaytonaRuntime(there)) // false true
 * })
 * await Effect.runPromise(Effect.scoped(Effect.provide(program, ScriptedModel.make([]).layer)))
 * ```
 *
 * @category predicates
 * @since 0.2.0
 */
export const isDaytonaRuntime = <Output>(
  runtime: Runtime.Runtime<Output>
): runtime is DaytonaRuntime<Output> =>
  runtime?.kind === "remote" && providerOf(runtime)?.backend === "daytona"

/** A live runtime keeps the provider that it was created with, so the current profile names it. */
const providerOf = ({ options, profileName }: Runtime.Runtime): SandboxProvider.Shape | undefined => {
  const { sandbox, sandboxes = {} } = options
  return Object.hasOwn(sandboxes, profileName) ? sandboxes[profileName] : sandbox
}
