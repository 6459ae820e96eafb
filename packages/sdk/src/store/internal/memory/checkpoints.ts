/**
 * Checkpoints of the memory store. As in SQL, a run has only its newest checkpoint, and keeps all chunks that it ever wrote.
 */
import type { Revision, RunId } from "../../../domain/Id.ts"
import type { Checkpoint, NewCheckpoint } from "../../RunStorePort.ts"

/** The newest checkpoint of a run, with all chunks that the run ever wrote. */
export interface CheckpointEntry {
  readonly revision: number
  readonly version: number
  readonly base: NewCheckpoint["base"]
  /** The number of chunks, including those of the base. */
  readonly total: number
  readonly chunks: ReadonlyMap<number, { readonly version: number; readonly text: string }>
  readonly state: string
}

/** The checkpoint of a run after `given` is written at `revision`: the newer of the two. */
export const newestCheckpoint = (
  runId: RunId,
  known: CheckpointEntry | undefined,
  revision: number,
  given: NewCheckpoint
): CheckpointEntry | undefined => {
  const isOwn = given.base?.runId === runId
  if (known === undefined ? isOwn : known.revision > revision) return known
  const { state, version } = given
  const before = given.base?.chunks ?? 0
  const chunks = new Map(known?.chunks)
  given.chunks.forEach((text, index) => chunks.set(before + index, { version, text }))
  const base = isOwn ? known?.base : given.base
  return { revision, version, base, total: before + given.chunks.length, chunks, state }
}

/** Collects the chunks of a checkpoint and of those that it builds on; `undefined` if one is missing. */
export const assemble = (
  runId: RunId,
  kept: CheckpointEntry,
  find: (runId: RunId) => CheckpointEntry | undefined
): Checkpoint | undefined => {
  const { revision, state, total, version } = kept
  const chunks: Array<string> = []
  let current: CheckpointEntry | undefined = kept
  for (let left = total; left > 0;) {
    if (current === undefined) return undefined
    const first = Math.min(left, current.base?.chunks ?? 0)
    for (let place = first; place < left; place += 1) {
      const chunk = current.chunks.get(place)
      if (chunk?.version !== version) return undefined
      chunks[place] = chunk.text
    }
    current = current.base === undefined ? undefined : find(current.base.runId)
    left = first
  }
  return { runId, revision: revision as Revision, version, chunks, state }
}
