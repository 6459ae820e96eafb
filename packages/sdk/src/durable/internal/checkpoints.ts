/**
 * Decides when a checkpoint is written, and what it contains.
 *
 * The next run of a session writes the checkpoint of the run before it, because it has that run's state in memory; a run that no run
 * follows costs nothing. A held run writes its own checkpoint. A checkpoint contains only what no earlier checkpoint has, and is
 * written only when there is enough of it, so that all checkpoints of a session together are as long as its history.
 */
import * as Context from "effect/Context"
import { encode, version } from "../../domain/CheckpointCodec.ts"
import { settledChunks } from "../../domain/History.ts"
import type { RunId } from "../../domain/Id.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { NewCheckpoint } from "../../store/RunStorePort.ts"

/** The number of new chunks of the history from which a checkpoint is written. With 0, every checkpoint is written. */
export const CheckpointEvery = Context.Reference<number>("@fermata/sdk/durable/CheckpointEvery", {
  defaultValue: () => 2
})

/** The newest checkpoint that a state builds on; `undefined` if the store has none. */
export type CheckpointBase = NewCheckpoint["base"]

/** A stored state, and the checkpoint that it builds on. */
export interface CheckpointedState {
  readonly state: RunState
  /** `unknown` if the store was not read; then no checkpoint is written. */
  readonly saved: CheckpointBase | "unknown"
}

/** The checkpointing of a run that is being driven. */
export interface Checkpointing {
  readonly every: number
  saved: CheckpointedState["saved"]
}

/**
 * The new part of a state's checkpoint; `undefined` if it is too small to be written. A state with open sub-agents gets no checkpoint,
 * because their states would be written again each time.
 */
export const checkpointOf = (
  { saved, state }: CheckpointedState,
  every: number
): NewCheckpoint | undefined => {
  const from = saved === undefined || saved === "unknown" ? 0 : saved.chunks
  if (saved === "unknown" || settledChunks(state.history) - from < every) return undefined
  if (state.calls.some(({ child }) => child !== undefined)) return undefined
  if (state.background?.some(({ child }) => child !== undefined) === true) return undefined
  const pieces = encode(state, from)
  if (pieces === undefined) return undefined
  const added = pieces.chunks.reduce((sum, { length }) => sum + length, 0)
  if (every > 0 && pieces.state.length > added) return undefined
  return { version, ...(saved === undefined ? {} : { base: saved }), ...pieces }
}

/** The checkpoint on which a state builds after this one is written. */
export const savedAs = (runId: RunId, { base, chunks }: NewCheckpoint): CheckpointBase => ({
  runId,
  chunks: (base?.chunks ?? 0) + chunks.length
})
