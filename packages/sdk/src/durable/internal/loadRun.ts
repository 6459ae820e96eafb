/**
 * Loads a stored run and its state: from its newest checkpoint and the events after it.
 *
 * The journal counts, not the checkpoint. If a checkpoint cannot be read, or the events after it do not lead to the run in the head,
 * all events are read.
 */
import * as Effect from "effect/Effect"
import { decode, version } from "../../domain/CheckpointCodec.ts"
import { evolveAll } from "../../domain/evolve.ts"
import type { RunId } from "../../domain/Id.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { RunStore } from "../../store/RunStore.ts"
import type { RunNotFound, RunStoreError } from "../../store/RunStoreError.ts"
import type { StoredRun } from "../../store/RunStorePort.ts"
import type { CheckpointedState } from "./checkpoints.ts"
import { foldStored, isStateOf } from "./foldStored.ts"

type Store = RunStore["Service"]

/** A run with its state and its mail. */
export interface LoadedRun extends CheckpointedState, Omit<StoredRun, "checkpoint" | "events"> {}

/**
 * Reads a run.
 *
 * **Errors**
 * - `RunNotFound` — check the id.
 * - `RunStoreError` — the store failed, or the run cannot be read; see its `reason`.
 */
export const loadRun = (store: Store, runId: RunId): Effect.Effect<LoadedRun, RunNotFound | RunStoreError> =>
  Effect.flatMap(store.load(runId, { checkpointVersion: version }), (stored) => {
    if (stored.checkpoint === undefined) return folded(stored)
    const state = fromCheckpoint(stored.checkpoint, stored)
    if (state === undefined) return Effect.flatMap(store.load(runId), folded)
    const { chunks, runId: of } = stored.checkpoint
    return Effect.succeed(loaded(stored, { state, saved: { runId: of, chunks: chunks.length } }))
  })

const folded = (stored: StoredRun): Effect.Effect<LoadedRun, RunStoreError> =>
  Effect.map(foldStored(stored), (state) => loaded(stored, { state, saved: undefined }))

/** Omits the checkpoint and the events, which would stay in memory for as long as the run is driven. */
const loaded = (
  { decisions, head, messages }: StoredRun,
  { saved, state }: CheckpointedState
): LoadedRun => ({
  head,
  state,
  saved,
  decisions,
  messages
})

const fromCheckpoint = (
  checkpoint: NonNullable<StoredRun["checkpoint"]>,
  { events, head }: StoredRun
): RunState | undefined => {
  const from = decode(checkpoint)
  if (from === undefined) return undefined
  // The first event after the checkpoint of another run names the revision that the next run builds on.
  const [next] = events
  if (
    next?._tag === "run.started" &&
    (next.parent?.runId !== from.runId || next.parent.revision !== from.revision)
  ) {
    return undefined
  }
  try {
    const state = evolveAll(from, events)
    return state !== undefined && isStateOf(state, head) ? state : undefined
  } catch {
    // If the events are at fault, the fold of all events reports it.
    return undefined
  }
}
