/**
 * The method `events` of a Fermata. Updates of runs that this Fermata drives are published to its readers at once. Events of other
 * processes are read from the store, and their live text comes with the store's broadcast, if it has one.
 */
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import type { CancellationToken } from "../../agent/Cancellation.ts"
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import type { Reader } from "../../dispatch/internal/events/Reader.ts"
import { readStored } from "../../dispatch/internal/events/readEvents.ts"
import { type Piece, piecesOf } from "../../dispatch/internal/events/signals.ts"
import { subAgentEvents, SubAgentProjection } from "../../dispatch/internal/events/subAgentEvents.ts"
import { listen } from "../../dispatch/internal/watch/StoreWatch.ts"
import { lineOf, type RunId } from "../../domain/Id.ts"
import type { Status } from "../../domain/RunState.ts"
import { findSubRun, type SubRun } from "../../durable/internal/subRun.ts"
import type { RunStore } from "../../store/RunStore.ts"
import type { RunSignal } from "../../store/RunStorePort.ts"
import { Backlog } from "./Backlog.ts"
import { FermataClosed } from "./FermataClosed.ts"
import { iterable } from "./iterable.ts"
import type { EventsOptions } from "./options.ts"
import { RunReaders } from "./RunReaders.ts"

/** The parts of a Fermata that its readers need. */
export interface Watched {
  readonly store: RunStore["Service"]
  readonly fork: (effect: Effect.Effect<unknown>) => Fiber.Fiber<unknown, unknown>
  /** Cancelled when the Fermata is closed. */
  readonly closed: CancellationToken
}

/** Makes the publisher of a Fermata's updates, and the iterables of its readers. */
export const makeWatch = ({ closed, fork, store }: Watched) => {
  const isClosed = () => closed.reason() !== undefined
  const readers = new RunReaders<Reader<Piece>>()
  const addReader = (runId: RunId, reader: Reader<Piece>) => {
    if (isClosed()) {
      reader.end()
      return () => {}
    }
    // The reader may have all events already. Then only the run's head shows that it is held or has ended.
    reader.poke()
    const remove = readers.add(runId, reader)
    const listener = {
      runId,
      isWaiting: () => reader.isWaiting,
      onChange: () => reader.poke(),
      onSignal: (signal: RunSignal) => {
        for (const piece of piecesOf(runId, signal)) reader.push(piece)
      }
    }
    const listening = listen(store, listener, fork)
    reader.onWait = listening.resume
    const stop = () => {
      unlink()
      reader.onWait = undefined
      listening.stop()
      remove()
    }
    const unlink = closed.onCancel(() => {
      stop()
      reader.end()
    })
    return stop
  }
  const whileOpen = <A, E>(effect: Effect.Effect<A, E>) =>
    Effect.suspend((): Effect.Effect<A, E | FermataClosed> =>
      isClosed() ? Effect.fail(new FermataClosed()) : effect
    )
  return {
    publish: (update: RunUpdate): void => {
      for (const reader of readers.of(update.runId)) reader.push(update)
    },
    /** Lets the readers of a run read the store at once, after a change that this process did not publish. */
    poke: (runId: RunId): void => {
      for (const reader of readers.of(lineOf(runId).root)) reader.poke()
    },
    /** Iterates over the updates of a run or of a sub-agent's run: first the stored events, then the live updates. */
    events: (
      runId: RunId,
      { from = 0, signal, until = "hold" }: EventsOptions = {}
    ): AsyncIterable<RunUpdate> => {
      // The store takes a natural number. A value that is not a finite number is passed on, because the store refuses it with an error.
      const first = Number.isFinite(from) ? Math.max(0, Math.trunc(from)) : from
      const isAtRest = (status: Status | undefined) =>
        status !== undefined && status !== "running" && (status !== "held" || until !== "end")
      const read = (runId: RunId, from: number, isEnd: (status: Status | undefined) => boolean) =>
        readStored(() => ({
          runId,
          from,
          buffer: new Backlog(),
          addReader: (reader) => addReader(runId, reader),
          hasBegun: () => true,
          read: (from, limit) => whileOpen(store.events(runId, { from, limit })),
          head: whileOpen(store.head(runId)),
          isEnd
        }))
      const ofSubAgent = (found: SubRun | undefined) => {
        if (found === undefined) return read(runId, first, isAtRest)
        const projection = new SubAgentProjection(runId, found.path, first)
        const isEnd = (status: Status | undefined) =>
          isAtRest(status) || (until === "hold" && projection.isHeld)
        return subAgentEvents(read(found.root.runId, Number.isFinite(from) ? 0 : from, isEnd), projection)
      }
      const updates = Stream.unwrap(Effect.map(whileOpen(findSubRun(store, runId)), ofSubAgent))
      // The cast removes `Skipped`, which a backlog never emits.
      return iterable(updates as Stream.Stream<RunUpdate, unknown>, { signal })
    }
  }
}
