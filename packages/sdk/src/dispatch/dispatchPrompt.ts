/**
 * Starts a run in the background, without a store.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import type { Runtime } from "../agent/Runtime.ts"
import { hasKey } from "../domain/internal/untyped.ts"
import { continueShape, startShape } from "../run/internal/shapes.ts"
import type { ContinueInput, StartInput } from "../run/runInput.ts"
import type { AgentHandle, HandleError } from "./AgentHandle.ts"
import type { DispatchOptions } from "./dispatchOptions.ts"
import { inCallerContext } from "./internal/handle/BaseHandle.ts"
import { UnstoredHandle } from "./internal/handle/UnstoredHandle.ts"
import { groupOfScope } from "./internal/HandleGroup.ts"
import { dispatchShape } from "./internal/shapes.ts"

/**
 * Runs a prompt in the background, or continues a run from its state, and returns the run's handle as soon as the run has started.
 *
 * **When to use**
 *
 * For runs that may end with the program. `dispatchPromptStored` starts runs that another process can resume.
 *
 * **Details**
 *
 * When the scope closes, the run is cancelled, even if it is held. A held run is a value in its handle; the run continues when a request of
 * it is decided through the handle, or expires.
 *
 * **Errors**
 *
 * - The errors of `runPrompt`. Those that prevent the start are errors of this effect; later ones are errors of `wait` and `done`.
 *
 * **Example** (Deciding a background run through its handle)
 *
 * ```ts run
 * import { Agent, dispatchPrompt, Runtime, Tool } from "@fermata/sdk"
 * import { ScriptedModel } from "@fermata/sdk/testing"
 * import { Effect } from "effect"
 *
 * const pay = Tool.make("pay", { handler: () => "paid" })
 * const program = Effect.gen(function* () {
 *   const runtime = yield* Runtime.make({ agent: Agent.make("clerk", { tools: [pay] }) })
 *   const handle = yield* dispatchPrompt(runtime, { prompt: "Pay the invoice." })
 *   yield* handle.wait
 *   for (const { requestId } of handle.interruptions()) {
 *     yield* handle.decide({ _tag: "approve", requestId, by: "ana" })
 *   }
 *   return yield* handle.done
 * })
 * const model = ScriptedModel.make([{ calls: [{ tool: "pay" }] }, "It is paid."]).layer
 * console.log((await Effect.runPromise(Effect.scoped(Effect.provide(program, model)))).status) // completed
 * ```
 *
 * @category running
 * @since 0.1.0
 */
export const dispatchPrompt: <Output>(
  runtime: Runtime<Output>,
  input: StartInput | ContinueInput,
  options?: DispatchOptions
) => Effect.Effect<AgentHandle<Output>, HandleError, Scope.Scope> = Effect.fnUntraced(function* <Output>(
  runtime: Runtime<Output>,
  given: StartInput | ContinueInput,
  options: DispatchOptions = {}
) {
  const shape = hasKey(given, "state") ? continueShape : startShape
  const input = yield* requireOptions("dispatchPrompt", given ?? null, shape)
  yield* requireOptions("dispatchPrompt", options, dispatchShape)
  const group = yield* groupOfScope
  const live = new UnstoredHandle(runtime, input, yield* inCallerContext({ group, ...options }))
  live.begin()
  // An interrupted caller never receives the handle, so the run is cancelled.
  yield* Effect.onInterrupt(live.beginning, () => live.close("The program that dispatched it was stopped."))
  return live
})
