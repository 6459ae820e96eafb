/**
 * Watches the stored runs that have a handle in this process and are not driven by it: held runs, and runs that another process drives.
 * Also wakes readers of events. Each store has one watching fiber, as long as it has watched runs or listeners.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import type { Runtime } from "../../../agent/Runtime.ts"
import type { RunId } from "../../../domain/Id.ts"
import { wakeWhenDue } from "../../../durable/internal/dueTimes.ts"
import { spaced } from "../../../durable/internal/spaced.ts"
import { cursorAfter, pageSize, readyPage } from "../../../durable/recover.ts"
import type { RunStore } from "../../../store/RunStore.ts"
import type { ReadyRun, RunHead, RunSignal } from "../../../store/RunStorePort.ts"

type Store = RunStore["Service"]

/** A watched run. */
export interface Watched {
  readonly runId: RunId
  readonly runtime: Runtime
  /** Whether another process drives it. */
  readonly isElsewhere: boolean
  /** When the held run becomes ready by itself. */
  readonly dueAt?: number | undefined
  /** Called when the run is ready. */
  readonly onReady: () => void
  /** Called with the run's head after each look. */
  readonly onHead: (head: RunHead) => void
  /** Called when the run was removed. */
  readonly onRemoved: () => void
  /** Called with the texts of the process that drives the run. */
  readonly onSignal: (signal: RunSignal) => void
}

/** A reader of a run's events. */
export interface Listener {
  readonly runId: RunId
  /** Whether its consumer waits for the next update. The run's head is read only then. */
  readonly isWaiting: () => boolean
  /** Called when the store may have more than what the reader has read. */
  readonly onChange: () => void
  /** Called with the signals of other processes about the run. */
  readonly onSignal: (signal: RunSignal) => void
}

/** The subscription of a listener. One whose consumer stays away ends by itself. */
export interface Listening {
  /** Subscribes again, if the subscription has ended. */
  readonly resume: () => void
  readonly stop: () => void
}

/** The watches of one store. */
interface StoreWatch {
  readonly watched: Set<Watched>
  readonly listeners: Set<ListenerState>
  /** Lets the fiber look at the watched runs. */
  wake: () => void
  /** Lets the fiber read the heads for the listeners. */
  wakeListeners: () => void
  /** Called when a run with a due time is added. */
  onDueTime: () => void
  /** The index of the held run with which the next look begins. */
  at: number
  fiber: Fiber.Fiber<unknown, unknown> | undefined
}

interface ListenerState extends Listener {
  /** The head at the last look, as a key; `undefined` before the first. */
  seen: string | undefined
  /** The time since which its consumer has been busy. */
  busySince: number | undefined
  /** Ends the watch over the store's broadcast. */
  unwatch: (() => void) | undefined
}

type Fork = (effect: Effect.Effect<unknown>) => Fiber.Fiber<unknown, unknown>

const watches = new WeakMap<Store, StoreWatch>()

/** Watches a run. Returns a function that stops it. */
export const watch = (store: Store, watched: Watched, fork: Fork): (() => void) => {
  const it = watchOf(store)
  it.watched.add(watched)
  const onSignal = (signal: RunSignal) => {
    if (signal.text === undefined) it.wake()
    else watched.onSignal(signal)
  }
  const unwatch = watched.isElsewhere ? store.broadcast?.watch(watched.runId, onSignal) : undefined
  start(store, it, fork)
  if (watched.dueAt !== undefined) it.onDueTime()
  // The process that drives the run may have ended it before it knew of this watch.
  if (watched.isElsewhere) it.wake()
  return () => {
    unwatch?.()
    it.watched.delete(watched)
    stopIfUnused(it)
  }
}

/** Calls a listener when its run has changed in the store, and at the first look. */
export const listen = (store: Store, listener: Listener, fork: Fork): Listening => {
  const it = watchOf(store)
  const state: ListenerState = { ...listener, seen: undefined, busySince: undefined, unwatch: undefined }
  const onSignal = (signal: RunSignal) => {
    if (signal.revision === undefined && signal.text === undefined) it.wakeListeners()
    else listener.onSignal(signal)
  }
  const resume = () => {
    if (it.listeners.has(state)) return
    state.seen = undefined
    state.busySince = undefined
    it.listeners.add(state)
    state.unwatch = store.broadcast?.watch(listener.runId, onSignal)
    start(store, it, fork)
    it.wakeListeners()
  }
  resume()
  return {
    resume,
    stop: () => {
      remove(it, state)
      stopIfUnused(it)
    }
  }
}

const watchOf = (store: Store): StoreWatch => {
  const it = watches.get(store) ?? {
    watched: new Set(),
    listeners: new Set(),
    wake: () => {},
    wakeListeners: () => {},
    onDueTime: () => {},
    at: 0,
    fiber: undefined
  }
  watches.set(store, it)
  return it
}

const start = (store: Store, it: StoreWatch, fork: Fork): void => {
  it.fiber ??= fork(looking(store, it))
}

const remove = (it: StoreWatch, listener: ListenerState): void => {
  it.listeners.delete(listener)
  listener.unwatch?.()
  listener.unwatch = undefined
}

const stopIfUnused = (it: StoreWatch): void => {
  if (it.watched.size > 0 || it.listeners.size > 0) return
  it.fiber?.interruptUnsafe()
  it.fiber = undefined
  it.wake = () => {}
  it.wakeListeners = () => {}
  it.onDueTime = () => {}
}

const looking = Effect.fnUntraced(function* (store: Store, it: StoreWatch) {
  const wake = yield* Queue.sliding<void>(1)
  const wakeListeners = yield* Queue.sliding<void>(1)
  const changed = yield* Queue.sliding<void>(1)
  it.wake = () => void Queue.offerUnsafe(wake, undefined)
  it.wakeListeners = () => void Queue.offerUnsafe(wakeListeners, undefined)
  it.onDueTime = () => void Queue.offerUnsafe(changed, undefined)
  const due = wakeWhenDue({ next: nextDueOf(it), changed, wake: Queue.offer(wake, undefined) })
  const wakeAll = Effect.andThen(Queue.offer(wakeListeners, undefined), Queue.offer(wake, undefined))
  // If the notifications end or fail, the polls continue.
  const notified = Effect.exit(Stream.runForEach(store.changes, () => wakeAll))
  const ticks = Effect.forever(
    Effect.andThen(
      Effect.suspend(() => Effect.sleep(pollMs(it))),
      wakeAll
    )
  )
  const look = Effect.andThen(Queue.take(wake), spaced(lookAtWatched(store, it), 0))
  const lookForListeners = Effect.andThen(
    Queue.take(wakeListeners),
    spaced(lookAtListened(store, it), leastPauseMs)
  )
  const loops = [due, notified, ticks, Effect.forever(look), Effect.forever(lookForListeners)]
  return yield* Effect.all(loops, { concurrency: "unbounded" })
})

/** The earliest time after a given one at which a watched run becomes ready by itself. */
const nextDueOf =
  ({ watched }: StoreWatch) =>
  (after: number) =>
    Effect.sync(() => {
      let due: number | undefined
      for (const { dueAt } of watched)
        if (dueAt !== undefined && dueAt > after && dueAt < (due ?? Infinity)) due = dueAt
      return due
    })

/** The poll interval, for changes that send no notification. */
const pollMs = ({ listeners, watched }: StoreWatch): number => {
  if (listeners.size > 0) return 500
  for (const { isElsewhere } of watched) if (isElsewhere) return 500
  return 2000
}

/** The minimal pause between two looks for the listeners. */
const leastPauseMs = 40

/** How long a consumer may be busy before its subscription ends: it may never come back. */
const longestBusyMs = 5000

const lookAtListened = Effect.fnUntraced(
  function* (store: Store, it: StoreWatch) {
    const now = yield* Clock.currentTimeMillis
    const waiting: Array<ListenerState> = []
    for (const listener of it.listeners) {
      if (listener.isWaiting()) {
        listener.busySince = undefined
        waiting.push(listener)
      } else {
        // It reads the head itself, when its consumer comes back.
        listener.onChange()
        listener.busySince ??= now
        if (now - listener.busySince >= longestBusyMs) remove(it, listener)
      }
    }
    stopIfUnused(it)
    const heads = yield* readHeads(
      store,
      waiting.map(({ runId }) => runId)
    )
    for (const listener of waiting) {
      const head = heads.get(listener.runId)
      const key = head === undefined ? "removed" : `${head.revision} ${head.status}`
      if (key === listener.seen || !it.listeners.has(listener)) continue
      listener.seen = key
      listener.onChange()
    }
  },
  Effect.catchCause((cause) => warn(cause))
)

/** The minimal number of heads of held runs that are read in one look. All are read within twenty looks. */
const headsAtOnce = 100

const lookAtWatched = Effect.fnUntraced(
  function* (store: Store, it: StoreWatch) {
    if (it.watched.size === 0) return
    const needWorker = yield* ready(store, it)
    for (const one of Array.from(it.watched)) if (needWorker.has(one.runId)) one.onReady()
    const held = [...it.watched].filter(({ isElsewhere }) => !isElsewhere)
    const count = Math.max(headsAtOnce, Math.ceil(held.length / 20))
    const from = it.at < held.length ? it.at : 0
    it.at = from + count
    const others = [...it.watched].filter(({ isElsewhere }) => isElsewhere)
    const looked = [...others, ...held.slice(from, from + count)]
    const heads = yield* readHeads(
      store,
      looked.map(({ runId }) => runId)
    )
    for (const one of looked) {
      if (!it.watched.has(one)) continue
      // One that the list leaves out may be damaged.
      const head = heads.get(one.runId) ?? (yield* headOf(store, one.runId))
      if (!it.watched.has(one)) continue
      if (head === undefined) one.onRemoved()
      else one.onHead(head)
    }
  },
  Effect.catchCause((cause) => warn(cause))
)

// The next look may succeed.
const warn = (cause: unknown) =>
  Effect.logWarning("The watched runs could not be read from the store.", cause)

const headOf = (store: Store, runId: RunId) =>
  Effect.catchTag(store.head(runId), "RunNotFound", () => Effect.succeed(undefined))

/** The heads of the runs that can be read. */
const readHeads = Effect.fnUntraced(function* (store: Store, runIds: ReadonlyArray<RunId>) {
  const distinct = [...new Set(runIds)]
  const heads = new Map<RunId, RunHead>()
  for (let start = 0; start < distinct.length; start += mostHeads) {
    const page = distinct.slice(start, start + mostHeads)
    for (const head of yield* store.list({ runIds: page, limit: mostHeads })) heads.set(head.runId, head)
  }
  return heads
})

/** The size of the largest page of a list. */
const mostHeads = 1000

/** The ready runs of the agents of the watched runs. */
const ready = Effect.fnUntraced(function* (store: Store, { watched }: StoreWatch) {
  const runtimes = [...new Set([...watched].map(({ runtime }) => runtime))]
  const found = new Set<RunId>()
  let after: string | undefined
  do {
    const page: ReadonlyArray<ReadyRun> = yield* readyPage(runtimes, store, pageSize, after)
    for (const { runId } of page) found.add(runId)
    after = cursorAfter(page, pageSize)
  } while (after !== undefined)
  return found
})
