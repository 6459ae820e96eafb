/**
 * Reads the state of a session's last run.
 */
import * as Effect from "effect/Effect"
import type { SessionId } from "../../domain/Id.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { RunStore } from "../../store/RunStore.ts"
import type { RunStoreError } from "../../store/RunStoreError.ts"
import { loadRun } from "./loadRun.ts"
import { rememberedState } from "./remembered.ts"

/** The state of a session's last run. If that run is removed in between, the one before it is the last. */
export const lastState = Effect.fnUntraced(function* (
  store: RunStore["Service"],
  sessionId: SessionId
): Effect.fn.Return<RunState | undefined, RunStoreError> {
  const last = yield* store.latest(sessionId)
  if (last === undefined) return undefined
  const remembered = rememberedState(store, last)
  if (remembered !== undefined) return remembered.state
  const loading = Effect.map(loadRun(store, last.runId), ({ state }): RunState | undefined => state)
  return yield* Effect.catchTag(loading, "RunNotFound", () => lastState(store, sessionId))
})
