/**
 * Reading everything that happens in a stored run: what is in the journal first, then what is told here, and the journal again where
 * the reader was too slow or another process works on the run.
 */
import * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { RunUpdate } from "../../../agent/RunUpdate.ts"
import type { RunId } from "../../../domain/Id.ts"
import { sizeOf } from "../../../run/internal/updateSize.ts"
import type { RunStore } from "../../../store/RunStore.ts"
import { RunNotFound } from "../../../store/RunStoreError.ts"
import type { HandleUpdate, StoredFault } from "../../AgentHandle.ts"
import { Reader, reading } from "./readers.ts"

/** Where it is read from. */
export interface Source {
  readonly runId: RunId
  readonly store: RunStore["Service"]
  readonly addReader: (reader: Reader<RunUpdate>) => () => void
  readonly hasBegun: () => boolean
}

/** Events that are read from the journal at once. */
const pageSize = 256

/** Updates that a reader may be behind. */
const readerRoom = 256

export const readStored = (source: Source): Stream.Stream<HandleUpdate, StoredFault> => {
  const { hasBegun, runId, store } = source
  return reading(
    () => {
      const reader = new Reader<RunUpdate>({
        most: readerRoom,
        counts: ({ _tag }) => _tag !== "event",
        sizeOf
      })
      reader.stale = true
      const stop = source.addReader(reader)
      return [new Progress(reader), stop]
    },
    (progress) =>
      Effect.suspend((): Effect.Effect<ReadonlyArray<HandleUpdate> | undefined, StoredFault> => {
        const { reader } = progress
        if (!hasBegun()) return reader.ended ? Effect.succeed(undefined) : Effect.as(reader.news, [])
        if (reader.stale) {
          // What is told from here on makes it so again.
          reader.stale = false
          const reading = store.events(runId, { from: progress.revision, limit: pageSize })
          return Effect.map(orRemoved(reading, runId), (events) => {
            if (events.length === pageSize) reader.stale = true
            return events.map((event) => {
              progress.revision += 1
              return { _tag: "event", runId, revision: progress.revision, event } as const
            })
          })
        }
        const pieces = progress.next(runId)
        if (pieces.length > 0 || reader.stale) return Effect.succeed(pieces)
        if (!reader.ended) return Effect.as(reader.news, [])
        if (progress.isLast) return Effect.succeed(undefined)
        progress.isLast = true
        reader.stale = true
        return Effect.succeed([])
      })
  )
}

/** The same of a run that was there: one that is not found was removed. */
export const orRemoved = <A, E>(
  effect: Effect.Effect<A, E | RunNotFound>,
  runId: RunId
): Effect.Effect<A, E | RunNotFound> =>
  Effect.mapError(effect, (error) =>
    error instanceof RunNotFound && error.runId === runId ? new RunNotFound({ runId, removed: true }) : error
  )

/** How far one reader is. */
class Progress {
  readonly reader: Reader<RunUpdate>
  revision = 0
  /** Whether the journal has been read after the end. */
  isLast = false
  /** What was told and waits until the journal has been read up to it. */
  private rest: ReadonlyArray<RunUpdate> = []

  constructor(reader: Reader<RunUpdate>) {
    this.reader = reader
  }

  /** What was told and follows on what was read. */
  next(runId: RunId): ReadonlyArray<HandleUpdate> {
    const { pieces, skipped } = this.reader.take()
    if (skipped === 0 && this.rest.length === 0 && pieces.every(({ _tag }) => _tag !== "event")) return pieces
    const all = [...this.rest, ...pieces]
    // What went before an event that was read already is as old as that.
    const known = all.findLastIndex((update) => update._tag === "event" && update.revision <= this.revision)
    const told = all.slice(known + 1)
    this.rest = []
    const read: Array<HandleUpdate> = skipped === 0 ? [] : [{ _tag: "skipped", runId, updates: skipped }]
    for (const [index, update] of told.entries()) {
      if (update._tag !== "event") read.push(update)
      else if (update.revision === this.revision + 1) {
        this.revision = update.revision
        read.push(update)
      } else {
        this.rest = told.slice(index)
        this.reader.stale = true
        break
      }
    }
    return read
  }
}
