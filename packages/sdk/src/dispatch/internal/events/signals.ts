/**
 * What the processes of a store pass on to each other about a run, as pieces for its readers.
 */
import type { RunUpdate } from "../../../agent/RunUpdate.ts"
import type { RunId } from "../../../domain/Id.ts"
import { decodeLiveText } from "../../../durable/internal/LiveText.ts"
import type { RunSignal } from "../../../store/RunStorePort.ts"

/**
 * A place in the updates of another process. With `isStored`, the run has that revision in the store. Otherwise the transient updates that
 * follow were published at that revision.
 */
export interface Mark {
  readonly _tag: "mark"
  readonly revision: number
  readonly isStored: boolean
}

/** A piece for a reader: an update, or a mark between updates. */
export type Piece = RunUpdate | Mark

/** The pieces of a signal. A text that cannot be read, such as one of another version, has none. */
export const piecesOf = (runId: RunId, { revision, text }: RunSignal): ReadonlyArray<Piece> => {
  if (revision !== undefined) return [{ _tag: "mark", revision, isStored: true }]
  const live = text === undefined ? undefined : decodeLiveText(runId, text)
  return live === undefined
    ? []
    : [{ _tag: "mark", revision: live.revision, isStored: false }, ...live.updates]
}
