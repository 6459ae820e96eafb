/**
 * The stream of envelopes of one subscriber: first what it missed, from memory and from the journals, then live events.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { reading } from "../../dispatch/internal/events/Reader.ts"
import type { RunId } from "../../domain/Id.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { RunStore } from "../../store/RunStore.ts"
import type { RunNotFound, RunStoreError } from "../../store/RunStoreError.ts"
import type { EventCursor } from "../EventCursor.ts"
import type { RuntimeEvent } from "../RuntimeEvent.ts"
import { type RuntimeEventEnvelope, version } from "../RuntimeEventEnvelope.ts"
import { type Entry, envelopeOf, type EventHistory } from "./EventHistory.ts"
import { isOfPlane, type PlaneContext } from "./planeContext.ts"
import type { ProjectionOptions } from "./Projection.ts"
import { RunProjection } from "./projectRun.ts"

/** The history, the store and the functions from which subscriptions read. */
export interface Sources {
  readonly epoch: string
  readonly history: EventHistory
  readonly store: RunStore["Service"] | undefined
  /** The first event of the epoch, for subscribers of an earlier epoch. */
  readonly started: RuntimeEvent
  readonly now: () => number
  readonly projection: ProjectionOptions
  /** The context of the plane, whose runs alone are replayed. */
  readonly context: PlaneContext | undefined
}

/** The number of envelopes on a page of a subscription. */
const pageSize = 1024

/** The envelopes after `seq`. If the history has dropped some of them, a warning `eventsDropped` comes in their place. */
export const eventsAfter = (
  sources: Sources,
  seq: number
): Stream.Stream<RuntimeEventEnvelope, RunStoreError> =>
  reading(
    () => {
      const subscriber = new Subscriber(sources, seq)
      return [subscriber, () => sources.history.unsubscribe(subscriber.cursor)]
    },
    (subscriber) => subscriber.read
  )

/**
 * The envelopes after a cursor. For a cursor of another epoch: the events that the journals of its tasks hold beyond its revisions, the
 * event that announces this epoch, and the live events from then on.
 */
export const eventsAfterCursor = (
  sources: Sources,
  cursor: EventCursor
): Stream.Stream<RuntimeEventEnvelope, RunStoreError> => {
  if (cursor.epoch === sources.epoch) return eventsAfter(sources, cursor.seq)
  return Stream.unwrap(
    Effect.sync(() => {
      const { history, started, store } = sources
      // Subscribed before the journals are read, so that no event falls between.
      const head = history.seq
      const read = new Map<string, number>()
      const replayed = Stream.flatMap(
        Stream.fromIterable(Object.entries(cursor.revisions)),
        ([id, revision]) => {
          const runId = id as RunId
          const missed =
            store === undefined ? Effect.succeed([]) : replayOf(sources, store, runId, revision, head)
          return Stream.unwrap(
            Effect.map(missed, (envelopes) => {
              read.set(runId, envelopes.at(-1)?.journal?.revision ?? revision)
              return Stream.fromIterable(envelopes)
            })
          )
        }
      )
      const event: RuntimeEventEnvelope = {
        v: version,
        seq: head,
        tsUnixMs: sources.now(),
        event: started,
        replayed: true
      }
      const live = Stream.filter(
        eventsAfter(sources, head),
        ({ journal }) => journal === undefined || journal.revision > (read.get(journal.runId) ?? 0)
      )
      return Stream.concat(Stream.concat(replayed, Stream.succeed(event)), live)
    })
  )
}

/** The durable events of a run after a revision, from its journal. A run that does not exist any more has none. */
const replayOf = (
  sources: Sources,
  store: RunStore["Service"],
  runId: RunId,
  revision: number,
  seq: number
): Effect.Effect<ReadonlyArray<RuntimeEventEnvelope>, RunStoreError> =>
  Effect.map(
    Effect.catchTag(ownEvents(sources, store, runId), "RunNotFound", () => Effect.succeed([])),
    (events) => {
      const projection = new RunProjection(sources.projection)
      return events.flatMap((event, index) => {
        const at = index + 1
        const projected = projection.project(event, at)
        if (at <= revision) return []
        return projected.map((one, part): RuntimeEventEnvelope => {
          const committed = part === projected.length - 1 ? { committed: true as const } : {}
          const journal = { runId, revision: at, part, ...committed }
          return { v: version, seq, tsUnixMs: event.at, event: one, journal, replayed: true }
        })
      })
    }
  )

/** The journal of a run. A run that is none of the plane's has no events, even if a cursor names it. */
const ownEvents = (
  { context }: Sources,
  store: RunStore["Service"],
  runId: RunId
): Effect.Effect<ReadonlyArray<RunEvent>, RunNotFound | RunStoreError> =>
  Effect.flatMap(isOfPlane(context, store, runId), (isOwn) =>
    isOwn ? store.events(runId) : Effect.succeed([])
  )

/** One subscriber of the history. */
class Subscriber {
  readonly cursor: { seq: number }
  private readonly sources: Sources
  /** The projections of runs whose journals are being read again. */
  private readonly rereading = new Map<RunId, Rereading>()

  constructor(sources: Sources, seq: number) {
    this.sources = sources
    this.cursor = sources.history.subscribe(Math.max(0, Math.min(seq, sources.history.seq)))
  }

  /** Reads the next page. An empty list means none yet, `undefined` the end. */
  readonly read: Effect.Effect<ReadonlyArray<RuntimeEventEnvelope> | undefined, RunStoreError> =
    Effect.suspend(() => {
      const { history } = this.sources
      const entries = history.after(this.cursor.seq, pageSize)
      if (entries.length > 0) return this.page(entries)
      if (history.isOver) return Effect.succeed(undefined)
      return Effect.as(this.next, [])
    })

  private readonly next: Effect.Effect<void> = Effect.callback((resume) => {
    const cancel = this.sources.history.onNext(() => resume(Effect.void))
    return Effect.sync(cancel)
  })

  private page(
    entries: ReadonlyArray<Entry>
  ): Effect.Effect<ReadonlyArray<RuntimeEventEnvelope>, RunStoreError> {
    const { history } = this.sources
    const out: Array<RuntimeEventEnvelope> = []
    if (this.cursor.seq + 1 < history.first) {
      out.push(this.dropped(history.first - 1))
      this.cursor.seq = history.first - 1
    }
    for (const [index, entry] of entries.entries()) {
      const { event } = entry
      if (event === undefined) {
        // The events before it are returned first.
        return index > 0 || out.length > 0 ? Effect.succeed(out) : this.reread(entries)
      }
      out.push(envelopeOf(entry, event, this.cursor.seq))
      this.cursor.seq = entry.seq
    }
    return Effect.succeed(out)
  }

  /** Reads the events at the beginning of a page from their journals. */
  private reread(
    entries: ReadonlyArray<Entry>
  ): Effect.Effect<ReadonlyArray<RuntimeEventEnvelope>, RunStoreError> {
    return Effect.gen({ self: this }, function* () {
      const out: Array<RuntimeEventEnvelope> = []
      for (const entry of entries) {
        const { journal } = entry
        if (entry.event !== undefined || journal === undefined) break
        const { part, revision, runId } = journal
        let rereading = this.rereading.get(runId)
        if (rereading === undefined || rereading.revision > revision) {
          rereading = new Rereading(new RunProjection(this.sources.projection))
          this.rereading.set(runId, rereading)
        }
        const event = yield* rereading.at(this.sources.store, runId, revision, part)
        // A run that was deleted meanwhile has no journal.
        const lost = event ?? lostEvent(runId)
        out.push(envelopeOf(entry, lost, this.cursor.seq))
        this.cursor.seq = entry.seq
      }
      return out
    })
  }

  private dropped(seq: number): RuntimeEventEnvelope {
    const message = `The events up to ${seq} are no longer kept: read the snapshot, and the sessions from the store.`
    const event: RuntimeEvent = { family: "Warning", _tag: "warning.raised", code: "eventsDropped", message }
    return { v: version, seq, tsUnixMs: this.sources.now(), event, merged: seq - this.cursor.seq }
  }
}

const lostEvent = (runId: RunId): RuntimeEvent => ({
  family: "Warning",
  _tag: "warning.raised",
  code: "eventLost",
  message: `An event of the task ${runId} cannot be read again, because its session was deleted.`,
  taskId: runId
})

/** The journal of one run, read again from its beginning, a page at a time. */
class Rereading {
  revision = 0
  private events: ReadonlyArray<RuntimeEvent> = []
  private page: ReadonlyArray<Parameters<RunProjection["project"]>[0]> = []
  private from = 0
  private readonly projection: RunProjection

  constructor(projection: RunProjection) {
    this.projection = projection
  }

  at(
    store: RunStore["Service"] | undefined,
    runId: RunId,
    revision: number,
    part: number
  ): Effect.Effect<RuntimeEvent | undefined, RunStoreError> {
    return Effect.gen({ self: this }, function* () {
      while (this.revision < revision) {
        if (this.revision - this.from >= this.page.length) {
          this.from = this.revision
          const read = store?.events(runId, { from: this.from, limit: 256 }) ?? Effect.succeed([])
          this.page = yield* Effect.catchTag(read, "RunNotFound", () => Effect.succeed([]))
          if (this.page.length === 0) return undefined
        }
        const event = this.page[this.revision - this.from]!
        this.revision += 1
        this.events = this.projection.project(event, this.revision)
      }
      return this.events[part]
    })
  }
}
