/**
 * Watches the stored runs that have a handle in this process and are not driven by it: held runs, and runs that another process drives. Also
 * wakes readers of events. Each store has one watching fiber, as long as it has watched runs or listeners.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import type { Runtime } from "../../../agent/Runtime.ts"
import type { RunId } from "../../../domain/Id.ts"
import { pageSize, readyPage } from "../../../durable/recover.ts"
import type { RunStore } from "../../../store/RunStore.ts"
import type { ReadyRun, RunHead } from "../../../store/RunStorePort.ts"

type Store = RunStore["Service"]

/** A watched run. */
export interface Watched {
  readonly runId: RunId
  readonly runtime: Runtime
  /** Whether another process drives it. Most commits of a drive send no notification. */
  readonly isElsewhere: boolean
  /** Called when the run is ready. */
  readonly onReady: () => void
  /** Called with the run's head after each look. */
  readonly onHead: (head: RunHead) => void
  /** Called when the run was removed. */
  readonly onRemoved: () => void
}

/** The watch of one store. */
interface StoreWatch {
  readonly watched: Set<Watched>
  readonly listeners: Set<() => void>
  /** The time of the last call of the listeners. */
  calledAt: number
  /** The index of the held run at which the next look begins. */
  at: number
  fiber: Fiber.Fiber<unknown, unknown> | undefined
}

type Fork = (effect: Effect.Effect<unknown>) => Fiber.Fiber<unknown, unknown>

const watches = new WeakMap<Store, StoreWatch>()

/** Watches a run. Returns a function that stops it. */
export const watch = (store: Store, watched: Watched, fork: Fork): (() => void) =>
  join(store, fork, ({ watched }) => watched, watched)

/**
 * Calls `listener` when the runs of a store may have changed, at most every {@link callEveryMs}, and at each poll. Returns a function that
 * removes it.
 */
export const listen = (store: Store, listener: () => void, fork: Fork): (() => void) =>
  join(store, fork, ({ listeners }) => listeners, listener)

const join = <A>(store: Store, fork: Fork, of: (it: StoreWatch) => Set<A>, one: A): (() => void) => {
  const it = watches.get(store) ?? {
    watched: new Set(),
    listeners: new Set(),
    calledAt: -Infinity,
    at: 0,
    fiber: undefined
  }
  watches.set(store, it)
  of(it).add(one)
  it.fiber ??= fork(looking(store, it))
  return () => {
    of(it).delete(one)
    if (it.watched.size > 0 || it.listeners.size > 0) return
    it.fiber?.interruptUnsafe()
    it.fiber = undefined
  }
}

const looking = Effect.fnUntraced(function* (store: Store, it: StoreWatch) {
  const wake = yield* Queue.sliding<void>(1)
  // If the notifications end or fail, the polls continue.
  const notified = Effect.exit(
    Stream.runForEach(store.changes, () =>
      Effect.andThen(callListeners(it, callEveryMs), Queue.offer(wake, undefined))
    )
  )
  const ticks = Effect.forever(
    Effect.andThen(
      Effect.suspend(() => Effect.sleep(pollMs(it))),
      Effect.andThen(callListeners(it, 0), Queue.offer(wake, undefined))
    )
  )
  const look = Effect.andThen(Queue.take(wake), lookAt(store, it))
  return yield* Effect.all([notified, ticks, Effect.forever(look)], { concurrency: "unbounded" })
})

/** The minimal interval of calls. A notification does not name a run, so each call costs every listener a read. */
const callEveryMs = 250

const callListeners = (it: StoreWatch, afterMs: number): Effect.Effect<void> =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    if (now - it.calledAt < afterMs) return
    it.calledAt = now
    for (const listener of it.listeners) listener()
  })

/** The poll interval, for changes that send no notification. */
const pollMs = ({ listeners, watched }: StoreWatch): number => {
  if (listeners.size > 0) return 500
  for (const { isElsewhere } of watched) if (isElsewhere) return 500
  return 2000
}

/** The minimal number of heads of held runs that are read in one look. All are read within twenty looks. */
const headsAtOnce = 100

const lookAt = Effect.fnUntraced(
  function* (store: Store, it: StoreWatch) {
    if (it.watched.size === 0) return
    const needWorker = yield* ready(store, it)
    for (const one of Array.from(it.watched)) if (needWorker.has(one.runId)) one.onReady()
    const held = [...it.watched].filter(({ isElsewhere }) => !isElsewhere)
    const count = Math.max(headsAtOnce, Math.ceil(held.length / 20))
    const from = it.at < held.length ? it.at : 0
    it.at = from + count
    const others = [...it.watched].filter(({ isElsewhere }) => isElsewhere)
    for (const one of [...others, ...held.slice(from, from + count)]) {
      if (!it.watched.has(one)) continue
      const head = yield* Effect.catchTag(store.head(one.runId), "RunNotFound", () =>
        Effect.succeed(undefined)
      )
      if (!it.watched.has(one)) continue
      if (head === undefined) one.onRemoved()
      else one.onHead(head)
    }
  },
  // The next look may succeed.
  Effect.catchCause((cause) => Effect.logWarning("The watched runs could not be read from the store.", cause))
)

/** The ready runs of the agents of the watched runs. */
const ready = Effect.fnUntraced(function* (store: Store, { watched }: StoreWatch) {
  const runtimes = [...new Set([...watched].map(({ runtime }) => runtime))]
  const found = new Set<RunId>()
  let after: RunId | undefined
  do {
    const page: ReadonlyArray<ReadyRun> = yield* readyPage(runtimes, store, pageSize, after)
    for (const { runId } of page) found.add(runId)
    after = page.length < pageSize ? undefined : page.at(-1)?.runId
  } while (after !== undefined)
  return found
})
