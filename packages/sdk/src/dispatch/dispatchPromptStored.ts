/**
 * Starts a stored run in the background, and attaches to stored runs.
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
import { checkCallerOptions, checkIds } from "../run/internal/staging.ts"
import { notARun } from "../store/internal/soundInput.ts"
import { RunStore } from "../store/RunStore.ts"
import type { AgentHandle, HandleError, StoredFault } from "./AgentHandle.ts"
import type { AttachOptions, StoredDispatchOptions } from "./dispatchOptions.ts"
import { inCallerContext } from "./internal/handle/BaseHandle.ts"
import { attachTo, attachToSubAgent, newStored } from "./internal/handle/storedHandles.ts"
import { groupOfScope } from "./internal/HandleGroup.ts"
import { attachShape, storedDispatchShape } from "./internal/shapes.ts"

/**
 * Runs a prompt in the background with every event in the store, and returns the run's handle as soon as the run is stored.
 *
 * **Details**
 *
 * A held run continues when a request of it is decided, through the handle or by another process through the store, or expires. If another
 * process drives the run, the handle follows the run through the store, and drives it if that process dies. When the scope closes, the run
 * is cancelled if `onClose` is `cancel`. Otherwise the run is suspended: `done` fails with `RunSuspended`, and {@link attach} creates a new
 * handle.
 *
 * **Errors**
 *
 * - The errors of `runPromptStored`. Those that prevent the start are errors of this effect; later ones are errors of `wait` and `done`.
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
    const read = yield* requireOptions("dispatchPromptStored", given ?? null, storedStartShape)
    // Without the key, the input would continue the run of its id.
    const input = { ...read, prompt: read.prompt }
    yield* requireOptions("dispatchPromptStored", options, storedDispatchShape)
    yield* checkIds(input)
    const taken = yield* checkCallerOptions(input, runtime)
    const live = newStored(runtime, taken, yield* optionsOf(options))
    live.begin()
    // An interrupted caller never receives the handle, so the run is cancelled.
    yield* Effect.onInterrupt(live.beginning, () =>
      Effect.ignore(live.cancel("The program that dispatched it was stopped."))
    )
    return live
  })

/**
 * Creates a handle for a stored run by its id, for example after a restart or in another process.
 *
 * **Details**
 *
 * The handle of a run that has ended has its result. A held run continues when a request of it is decided or expires. A run that another
 * process drives is followed through the store; decisions, messages and cancellations reach it through the store. This program drives an
 * orphaned run, and a held one with a decision, a message or an expired request that no process has acted on. The close of the scope has
 * the same effect as for {@link dispatchPromptStored}.
 *
 * With the id of a sub-agent's run, the handle is about that run: its status, requests and result. Messages are sent to the sub-agent, and
 * a cancellation ends its run and the runs under it. Unless the sub-agent's run has ended, the root is attached to as well and is driven if
 * necessary. A sub-agent's run cannot be forked (`SubAgentNotForked`).
 *
 * **Errors**
 *
 * - `RunNotFound` — check the id.
 * - `OptionsInvalid` — an option is unknown or has a wrong value; for a misspelt key, the error names the nearest one.
 * - `AgentNotFound` — pass the runtime of the run's agent, or add that agent's name to the aliases of another. Also if the run was started
 *   with another agent than `agent`.
 * - `RunStoreError` — the store failed, or the journal is damaged; see its `reason`.
 *
 * @category running
 * @since 0.1.0
 */
export const attach: <Output = unknown>(
  runtimes: ReadonlyArray<Runtime>,
  runId: string,
  options?: AttachOptions<Output>
) => Effect.Effect<
  AgentHandle<Output, StoredFault>,
  AgentNotFound | OptionsInvalid | StoredFault,
  Scope.Scope | RunStore
> = Effect.fnUntraced(function* <Output>(
  runtimes: ReadonlyArray<Runtime>,
  id: string,
  options: AttachOptions<Output> = {}
) {
  const runId = id as RunId
  yield* requireOptions("attach", options, attachShape)
  if (typeof runId !== "string") return yield* notARun(runId)
  const { agent, ...others } = options
  const given = { agent, ...(yield* optionsOf(others)) }
  const attaching = lineOf(runId).path.length === 0 ? attachTo : attachToSubAgent
  return (yield* attaching(runtimes, runId, given)) as AgentHandle<Output, StoredFault>
})

const optionsOf = Effect.fnUntraced(function* (options: StoredDispatchOptions) {
  return yield* inCallerContext({ group: yield* groupOfScope, store: yield* RunStore, ...options })
})
