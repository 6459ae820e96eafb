/**
 * Reads the updates of a stored run: first the journal, then the updates that this process publishes, and the journal again if the reader
 * was too slow or another process drives the run. Used by `events` of handles and of a Fermata.
 */
import * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { RunUpdate } from "../../../agent/RunUpdate.ts"
import type { RunId } from "../../../domain/Id.ts"
import type { RunEvent } from "../../../domain/RunEvent.ts"
import type { Status } from "../../../domain/RunState.ts"
import { RunNotFound } from "../../../store/RunStoreError.ts"
import type { RunHead } from "../../../store/RunStorePort.ts"
import type { HandleUpdate } from "../../AgentHandle.ts"
import { type Buffer, Reader, reading } from "./Reader.ts"
import type { Piece } from "./signals.ts"

/** The sources of the updates of one run. */
export interface Source<E> {
  readonly runId: RunId
  /** The number of events that the reader already has. */
  readonly from: number
  readonly buffer: Buffer<Piece>
  /** Adds a reader of the updates that this process publishes. Returns a function that removes it. */
  readonly addReader: (reader: Reader<Piece>) => () => void
  /** Whether the run is in the store. */
  readonly hasBegun: () => boolean
  /** Reads a page of the journal. */
  readonly read: (from: number, limit: number) => Effect.Effect<ReadonlyArray<RunEvent>, E>
  readonly head: Effect.Effect<RunHead, E>
  /**
   * Whether the stream ends at this status of the run; the status is `undefined` unless the last event read has held or ended the run.
   * Default: the stream ends with its reader.
   */
  readonly isEnd?: (status: Status | undefined) => boolean
}

/** The number of events on a page of the journal. */
const pageSize = 256

export const readStored = <E>(source: () => Source<E>): Stream.Stream<HandleUpdate, E> =>
  reading(
    () => {
      const from = source()
      const reader = new Reader(from.buffer)
      return [new Progress(from, reader), from.addReader(reader)]
    },
    (progress) => progress.read
  )

/** Sets `removed` in a `RunNotFound` error, for a run that is known to have existed. */
export const failWhenRemoved = <A, E>(
  effect: Effect.Effect<A, E | RunNotFound>,
  runId: RunId
): Effect.Effect<A, E | RunNotFound> =>
  Effect.mapError(effect, (error) =>
    error instanceof RunNotFound && error.runId === runId ? new RunNotFound({ runId, removed: true }) : error
  )

type Updates = ReadonlyArray<HandleUpdate>

/** The progress of one reader. */
class Progress<E> {
  private readonly source: Source<E>
  private readonly reader: Reader<Piece>
  private revision: number
  private last: RunEvent | undefined
  /** Whether the journal has to be read before the published updates. */
  private isBehind = true
  /** The published updates that wait until the journal has been read up to them. */
  private rest: ReadonlyArray<Piece> = []
  /** Whether the transient updates that follow are older than an event that was read. */
  private isOld = false

  constructor(source: Source<E>, reader: Reader<Piece>) {
    this.source = source
    this.reader = reader
    this.revision = source.from
  }

  /** Reads the next updates. An empty list means none yet, `undefined` the end. */
  readonly read: Effect.Effect<Updates | undefined, E> = Effect.suspend(() => {
    const { reader, source } = this
    if (!source.hasBegun()) return reader.ended ? ended : this.wait
    if (this.isBehind) return this.page
    const published = this.published()
    if (published.length > 0 || this.isBehind) return Effect.succeed(published)
    const status = this.last === undefined ? undefined : statusAfter(this.last)
    if (source.isEnd?.(status) === true) return ended
    if (reader.isStale) return this.look
    return reader.ended ? ended : this.wait
  })

  private get wait(): Effect.Effect<Updates> {
    return Effect.as(this.reader.news, [])
  }

  private get page(): Effect.Effect<Updates, E> {
    const { reader, source } = this
    return Effect.flatMap(source.read(this.revision, pageSize), (events): Effect.Effect<Updates> => {
      const { runId } = source
      const isMissing = events.length === 0 && this.rest.length > 0
      if (isMissing && !reader.ended) return Effect.as(untilCommitted(reader), [])
      if (isMissing) this.rest = []
      this.isBehind = events.length === pageSize
      return Effect.succeed(
        events.map((event) => this.pass({ _tag: "event", runId, revision: this.revision + 1, event }))
      )
    })
  }

  /** Reads the head, to find out whether the store has more events than were published here. */
  private get look(): Effect.Effect<Updates | undefined, E> {
    this.reader.isStale = false
    return Effect.map(this.source.head, ({ revision, status }) => {
      this.isBehind = revision > this.revision
      return !this.isBehind && this.source.isEnd?.(status) === true ? undefined : []
    })
  }

  /** Takes the published updates that directly follow the last event read. */
  private published(): Updates {
    const { runId } = this.source
    const { pieces, skipped } = this.reader.take()
    const all = this.rest.length === 0 ? pieces : [...this.rest, ...pieces]
    // Updates before an event that was already read are outdated, too.
    const known = all.findLastIndex((update) => update._tag === "event" && update.revision <= this.revision)
    const read: Array<HandleUpdate> = skipped === 0 ? [] : [{ _tag: "skipped", runId, updates: skipped }]
    this.rest = []
    for (let index = known + 1; index < all.length; index += 1) {
      const update = all[index]!
      if (update._tag === "mark") {
        this.isOld = !update.isStored && update.revision < this.revision
        if (!update.isStored || update.revision <= this.revision) continue
        this.rest = all.slice(index + 1)
        this.isBehind = true
        break
      }
      if (update._tag !== "event") {
        if (!this.isOld) read.push(update)
        continue
      }
      if (update.revision !== this.revision + 1) {
        this.rest = all.slice(index)
        this.isBehind = true
        break
      }
      read.push(this.pass(update))
    }
    return read
  }

  private pass(update: Extract<RunUpdate, { readonly _tag: "event" }>): HandleUpdate {
    this.revision = update.revision
    this.last = update.event
    this.isOld = false
    return update
  }
}

/** Waits before the journal is read again: some events are published before they are committed, and so may not be stored yet. */
const untilCommitted = (reader: Reader<Piece>): Effect.Effect<void> =>
  Effect.raceFirst(reader.next, Effect.sleep("100 millis"))

const ended = Effect.succeed(undefined)

/** The status of a run after this event, if the event held or ended it. */
const statusAfter = ({ _tag }: RunEvent): Status | undefined => {
  switch (_tag) {
    case "run.held":
      return "held"
    case "run.completed":
      return "completed"
    case "run.cancelled":
      return "cancelled"
    case "run.failed":
      return "error"
    default:
      return undefined
  }
}
