/**
 * Makes the handles of stored runs: of new ones, and of those that are in the store.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Any } from "../../../agent/AgentDefinition.ts"
import { answersTo } from "../../../agent/BoundAgent.ts"
import type { Runtime } from "../../../agent/Runtime.ts"
import type { RunId } from "../../../domain/Id.ts"
import { type AgentNotFound, RunSuspended } from "../../../domain/RunError.ts"
import { isEnded } from "../../../domain/RunState.ts"
import { type LoadedRun, loadRun } from "../../../durable/internal/loadRun.ts"
import { notAmong, requireAgent, startedAs } from "../../../durable/internal/requireAgent.ts"
import { findSubRun } from "../../../durable/internal/subRun.ts"
import type { StoredStartInput } from "../../../durable/storedInput.ts"
import { inSession } from "../../../run/internal/startOptions.ts"
import { RunNotFound } from "../../../store/RunStoreError.ts"
import type { StoredRun } from "../../../store/RunStorePort.ts"
import type { StoredFault } from "../../AgentHandle.ts"
import { newIds } from "./BaseHandle.ts"
import type { PrepareStored, StoredOptions } from "./QueueHandle.ts"
import { StoredHandle } from "./StoredHandle.ts"
import { SubAgentHandle } from "./SubAgentHandle.ts"

/** Makes the handle of a run that is not in the store yet. */
export const newStored = <Output>(
  runtime: Runtime<Output>,
  input: StoredStartInput,
  options: StoredOptions,
  prepare?: PrepareStored
): StoredHandle<Output> => {
  const ids = newIds(runtime, inSession(runtime, input), options)
  return new StoredHandle(runtime, ids, options, { input: { ...input, ...ids }, prepare })
}

/** What an attachment is given: also the agent with which the run has to have been started. */
interface Attachment extends StoredOptions {
  readonly agent?: string | Any | undefined
}

/** Loads a run and makes its handle, which drives the run if it needs a worker, and otherwise watches it until it has ended. */
export const attachTo = Effect.fnUntraced(function* (
  runtimes: ReadonlyArray<Runtime>,
  runId: RunId,
  { agent, ...options }: Attachment
): Effect.fn.Return<StoredHandle<unknown>, AgentNotFound | StoredFault> {
  const stored = yield* loadRun(options.store, runId)
  if (agent !== undefined) yield* requireAgent(agent, stored.head.agent)
  return yield* follow(liveOf(yield* runtimeOf(runtimes, stored), runId, stored, options), stored)
})

/** Lets a new handle take over its run. */
export const follow = (live: StoredHandle<unknown>, stored: LoadedRun) =>
  Effect.as(
    Effect.onError(live.adopt(stored), () => live.close("It could not be attached to.")),
    live
  )

/** Makes the handle of a sub-agent's run by its id. If that run has ended, its root is not driven. */
export const attachToSubAgent = Effect.fnUntraced(function* (
  runtimes: ReadonlyArray<Runtime>,
  runId: RunId,
  { agent, ...options }: Attachment
): Effect.fn.Return<SubAgentHandle, AgentNotFound | StoredFault> {
  const found = yield* findSubRun(options.store, runId)
  if (found === undefined) return yield* new RunNotFound({ runId })
  const { path, root, state, stored } = found
  if (agent !== undefined) yield* requireAgent(agent, startedAs(state))
  const live = liveOf(yield* runtimeOf(runtimes, stored), root.runId, stored, options)
  const handle = new SubAgentHandle(live, path, { state, revision: stored.head.revision })
  live.subAgent = handle
  if (isEnded(state)) {
    live.begun = true
    live.finish(Exit.fail(new RunSuspended({ runId: root.runId })))
  } else {
    const { decisions, head, messages } = stored
    const adopting = live.adopt({ head, decisions, messages, state: root, saved: "unknown" })
    yield* Effect.onError(adopting, () => live.close("It could not be attached to."))
  }
  handle.look()
  return handle
})

/** The runtime of the agent with which a run was started. */
export const runtimeOf = (
  runtimes: ReadonlyArray<Runtime>,
  { head: { agent } }: Pick<StoredRun, "head">
): Effect.Effect<Runtime, AgentNotFound> => {
  const runtime = runtimes.find(({ bound }) => answersTo(bound.agent, agent))
  return runtime === undefined ? notAmong(runtimes, agent) : Effect.succeed(runtime)
}

/** Makes the handle of a stored run. */
export const liveOf = (
  runtime: Runtime,
  runId: RunId,
  { head: { sessionId } }: Pick<StoredRun, "head">,
  options: StoredOptions,
  prepare?: PrepareStored
) => new StoredHandle<unknown>(runtime, { runId, sessionId }, options, { prepare })
