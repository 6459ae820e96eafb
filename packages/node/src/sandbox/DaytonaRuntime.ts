/**
 * A runtime whose tools act in Daytona sandboxes: what `createRuntime` returns with the capability profile `daytona`, if the option
 * `sandboxes` has a {@link daytonaSandbox} of that name, or with one as the option `sandbox`.
 *
 * @since 0.2.0
 */
import type { Runtime, SandboxProvider } from "@fermata/sdk"

/**
 * A runtime whose tools act in Daytona sandboxes.
 *
 * **Details**
 *
 * Its sandboxes are created by the first call that needs one, used by the later calls and runs, and at the close of the runtime kept, stopped
 * or deleted, as the option `onRelease` of its provider says. It cannot be reconfigured to a profile with another provider: that needs
 * another runtime.
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

/** A live runtime keeps its provider, so that the current profile has the one it was created with. */
const providerOf = ({ options, profileName }: Runtime.Runtime): SandboxProvider.Shape | undefined => {
  const { sandbox, sandboxes = {} } = options
  return Object.hasOwn(sandboxes, profileName) ? sandboxes[profileName] : sandbox
}
