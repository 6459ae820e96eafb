/**
 * When a checkpoint is written, and what of it.
 *
 * A conversation pays for its own: the run that goes on with one writes what the run before it came to, since it has that in memory,
 * and nobody reads what nobody goes on with. A run that is held writes its own. Both write only what no checkpoint has yet, so that
 * all of them together are as long as the history, and only when enough of it has come.
 */
import * as Context from "effect/Context"
import { encode, version } from "../../domain/CheckpointCodec.ts"
import { settledChunks } from "../../domain/History.ts"
import type { RunId } from "../../domain/Id.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { NewCheckpoint } from "../../store/RunStorePort.ts"

/** How many chunks of the history a new checkpoint must have that the one before has not. With 0 there is always one. */
export const CheckpointEvery = Context.Reference<number>("@fermata/sdk/durable/CheckpointEvery", {
  defaultValue: () => 2
})

/** The newest checkpoint that a state builds on; `undefined` when the store has none. */
export type CheckpointBase = NewCheckpoint["base"]

/** A state that is stored, and what the store has for reading it. */
export interface CheckpointedState {
  readonly state: RunState
  /** `unknown` where the store was not read: then no checkpoint is written. */
  readonly saved: CheckpointBase | "unknown"
}

/** What is known of the checkpoints of a run that is being driven. */
export interface Checkpointing {
  readonly every: number
  saved: CheckpointedState["saved"]
}

/** What makes a checkpoint of a state, if it is worth one. Sub-agents at work would be written again each time. */
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

/** What a state builds on once its checkpoint is written. */
export const savedAs = (runId: RunId, { base, chunks }: NewCheckpoint): CheckpointBase => ({
  runId,
  chunks: (base?.chunks ?? 0) + chunks.length
})
