/**
 * Starting a run in the background, with a store; and finding one again.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import type { Runtime } from "../agent/Runtime.ts"
import { lineOf, type RunId } from "../domain/Id.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import type { AgentNotFound } from "../domain/RunError.ts"
import { storedStartShape } from "../durable/internal/shapes.ts"
import type { StoredStartInput } from "../durable/storedInput.ts"
import { checkLimitsAndPolicy, checkIds } from "../run/internal/staging.ts"
import { notARun } from "../store/internal/soundInput.ts"
import { RunStore } from "../store/RunStore.ts"
import type { AgentHandle, HandleError, StoredFault } from "./AgentHandle.ts"
import type { StoredDispatchOptions } from "./dispatchOptions.ts"
import { inCallerContext } from "./internal/handle/BaseHandle.ts"
import { attachTo, attachToSubAgent, newStored } from "./internal/handle/storedHandles.ts"
import { ownerOfScope } from "./internal/Owner.ts"
import { storedDispatchShape } from "./internal/shapes.ts"

/**
 * Runs a prompt in the background with every step in the store, and returns a handle as soon as the run is there.
 *
 * **Details**
 *
 * A held run goes on by itself when it is decided, in whichever process: through the handle, or through the store by
 * another process. If another process takes it up, the handle watches that, and takes it up when that process has died. When the
 * scope closes the run is suspended: `done` then fails with `RunSuspended`, and {@link attach} finds the run again.
 *
 * **Errors**
 *
 * - Those of `runPromptStored`. What keeps a run from beginning fails here, what comes later fails `wait` and `done`.
 *
 * @category running
 * @since 0.1.0
 */
export const dispatchPromptStored: <Output>(
  runtime: Runtime<Output>,
  input: StoredStartInput,
  options?: StoredDispatchOptions
) => Effect.Effect<AgentHandle<Output, StoredFault>, HandleError | StoredFault, Scope.Scope | RunStore> =
  Effect.fnUntraced(function* <Output>(
    runtime: Runtime<Output>,
    given: StoredStartInput,
    options: StoredDispatchOptions = {}
  ) {
    const input = yield* requireOptions("dispatchPromptStored", given, storedStartShape)
    yield* requireOptions("dispatchPromptStored", options, storedDispatchShape)
    yield* checkIds(input)
    const taken = yield* checkLimitsAndPolicy(input)
    const live = newStored(runtime, taken, yield* optionsOf(options))
    live.begin()
    // Who is stopped here will never have the handle.
    yield* Effect.onInterrupt(live.beginning, () =>
      Effect.ignore(live.cancel("The program that dispatched it was stopped."))
    )
    return live
  })

/**
 * Finds a stored run again by its id: after a restart, or in another process.
 *
 * **Details**
 *
 * The handle of a run that is over has its result. A held one is watched, and goes on when it is decided. One that another process works on is
 * watched too, and decided, sent messages and cancelled through the store. One that was left at work is taken up.
 *
 * With the run of a sub-agent the handle is that one's: it has its status, its requests and its end, what is sent is said to it, and
 * cancelling ends it and what is under it. The run that it lies in is attached to as well, and goes on by itself. It cannot be forked by
 * itself (`SubAgentNotForked`), and the parts of its answers are among the updates of the run that it lies in.
 *
 * **Errors**
 *
 * - `RunNotFound` — check the id.
 * - `OptionsInvalid` — a key that there is not; the error names the nearest one.
 * - `AgentNotFound` — pass the runtime of its agent, or name it in another agent's aliases.
 * - `RunStoreError` — try again.
 *
 * @category running
 * @since 0.1.0
 */
export const attach: (
  runtimes: ReadonlyArray<Runtime>,
  runId: RunId,
  options?: StoredDispatchOptions
) => Effect.Effect<
  AgentHandle<unknown, StoredFault>,
  AgentNotFound | OptionsInvalid | StoredFault,
  Scope.Scope | RunStore
> = Effect.fnUntraced(function* (
  runtimes: ReadonlyArray<Runtime>,
  runId: RunId,
  options: StoredDispatchOptions = {}
) {
  yield* requireOptions("attach", options, storedDispatchShape)
  if (typeof runId !== "string") return yield* notARun(runId)
  const given = yield* optionsOf(options)
  return lineOf(runId).path.length === 0
    ? yield* attachTo(runtimes, runId, given)
    : yield* attachToSubAgent(runtimes, runId, given)
})

const optionsOf = Effect.fnUntraced(function* (options: StoredDispatchOptions) {
  return yield* inCallerContext({ owner: yield* ownerOfScope, store: yield* RunStore, ...options })
})
