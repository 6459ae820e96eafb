/**
 * Making a handle of a run that is in a store.
 */
import * as Effect from "effect/Effect"
import { answersTo } from "../../agent/BoundAgent.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import type { RunId } from "../../domain/Id.ts"
import { AgentNotFound } from "../../domain/RunError.ts"
import type { StoredFault } from "../AgentHandle.ts"
import { Stored, type StoredOptions } from "./Stored.ts"

/** Loads the run, and goes on with it or watches it, as it stands. */
export const attachTo = Effect.fnUntraced(function* (
  runtimes: ReadonlyArray<Runtime<any>>,
  runId: RunId,
  options: StoredOptions
): Effect.fn.Return<Stored<unknown>, AgentNotFound | StoredFault> {
  const stored = yield* options.store.load(runId)
  const { agent, sessionId } = stored.head
  const runtime = runtimes.find(({ bound }) => answersTo(bound.agent, agent))
  if (runtime === undefined) {
    return yield* new AgentNotFound({ agent, known: runtimes.map(({ agent }) => agent.name) })
  }
  const live = new Stored<unknown>(runtime, { runId, sessionId }, options)
  yield* Effect.onError(live.adopt(stored), () => live.close("It could not be attached to."))
  return live
})
