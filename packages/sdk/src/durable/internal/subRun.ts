/**
 * The run of a sub-agent, found by its own id in the stored run that it lies in.
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

/** A sub-agent's run, and where it lies. */
export interface SubRun {
  /** The run that it lies in, as it is stored. */
  readonly stored: StoredRun
  readonly root: RunState
  /** The calls that lead from the root to it. */
  readonly path: ReadonlyArray<ToolCallId>
  readonly state: RunState
}

/**
 * The sub-agent's run of this id, at work, held or over; `undefined` of an id that is nobody's sub-agent's.
 *
 * **Errors**
 *
 * - `RunNotFound` — there never was such a sub-agent.
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

/** How a sub-agent's run stands. It is not parked by itself: it is held while nothing of it can happen before somebody decides. */
export const statusOfSubRun = (root: RunState, state: RunState): Status =>
  isEnded(state) ? state.status : root.status === "held" || next(state)._tag === "Hold" ? "held" : "running"
