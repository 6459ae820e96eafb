/**
 * Connects the hooks of a runtime to the updates of a run.
 */
import * as Effect from "effect/Effect"
import type { RunState } from "../../domain/RunState.ts"
import type { Runtime } from "../RuntimeDefinition.ts"
import { observed } from "../RuntimeHooks.ts"
import type { RunUpdate } from "../RunUpdate.ts"
import { callHook } from "./userCode.ts"

/** Returns an `onUpdate` that first calls the hooks, in the context of the current fiber; the given `onUpdate` if no hook observes runs. */
export const observing = (
  runtime: Runtime,
  onUpdate: ((update: RunUpdate) => void) | undefined,
  before?: RunState
): Effect.Effect<((update: RunUpdate) => void) | undefined> => {
  const { hooks } = runtime.options
  if (hooks === undefined) return Effect.succeed(onUpdate)
  return Effect.withFiber(({ context }) =>
    Effect.succeed(observed(hooks, onUpdate, before, callHook(runtime, context)))
  )
}
