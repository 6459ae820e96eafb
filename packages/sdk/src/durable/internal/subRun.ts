/**
 * Finds a sub-agent's run by its own id, in the journal of its root.
 */
import * as Effect from "effect/Effect"
import { lineOf, type RunId, type ToolCallId } from "../../domain/Id.ts"
import { childState } from "../../domain/internal/subAgents.ts"
import { next } from "../../domain/next.ts"
import { isEnded, type RunState, type Status } from "../../domain/RunState.ts"
import { notARun } from "../../store/internal/soundInput.ts"
import type { RunStore } from "../../store/RunStore.ts"
import { RunNotFound, type RunStoreError } from "../../store/RunStoreError.ts"
import type { StoredRun } from "../../store/RunStorePort.ts"
import { foldStored } from "./foldStored.ts"

/** A sub-agent's run, with its root. */
export interface SubRun {
  /** The root as it is stored. */
  readonly stored: StoredRun
  readonly root: RunState
  /** The calls that lead from the root to it. */
  readonly path: ReadonlyArray<ToolCallId>
  readonly state: RunState
}

/**
 * Finds a sub-agent's run, open or ended. Returns `undefined` if the id is not that of a sub-agent's run.
 *
 * **Errors**
 *
 * - `RunNotFound` — the store has no such root, or the root never had such a sub-agent.
 */
export const findSubRun = Effect.fnUntraced(function* (
  store: RunStore["Service"],
  runId: RunId
): Effect.fn.Return<SubRun | undefined, RunNotFound | RunStoreError> {
  if (typeof runId !== "string") return yield* notARun(runId)
  const line = lineOf(runId)
  if (line.path.length === 0) return undefined
  const notFound = new RunNotFound({ runId })
  const stored = yield* Effect.mapError(store.load(line.root), (error) =>
    error._tag === "RunNotFound" ? notFound : error
  )
  const root = yield* foldStored(stored)
  const state = childState(stored.events, line.path)
  if (state === undefined) return yield* notFound
  return { stored, root, path: line.path, state }
})

/**
 * The status of a sub-agent's run. It is not parked by itself: it counts as held if its root is held or it can only wait for a
 * decision.
 */
export const statusOfSubRun = (root: RunState, state: RunState): Status =>
  isEnded(state) ? state.status : root.status === "held" || next(state)._tag === "Hold" ? "held" : "running"
