/**
 * Looks after the stored runs that this process does not work on and has a handle for: those that are held, and those that another
 * process works on; and wakes who reads the events of others. One fiber for all of a store, as long as there are any.
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

/** A run that is looked after. */
export interface Watched {
  readonly runId: RunId
  readonly runtime: Runtime
  /** Whether another process works on it, whose commits send no notification. */
  readonly isElsewhere: boolean
  /** It needs a worker. */
  readonly onReady: () => void
  /** How it stands. */
  readonly onHead: (head: RunHead) => void
  /** It was removed. */
  readonly onRemoved: () => void
}

/** What is looked after in one store. */
interface StoreWatch {
  readonly watched: Set<Watched>
  readonly listeners: Set<() => void>
  /** When the listeners were called last. */
  calledAt: number
  /** Where the next look begins. */
  at: number
  fiber: Fiber.Fiber<unknown, unknown> | undefined
}

type Fork = (effect: Effect.Effect<unknown>) => Fiber.Fiber<unknown, unknown>

const watches = new WeakMap<Store, StoreWatch>()

/** Looks after a run from now on. Returns how to stop. */
export const watch = (store: Store, watched: Watched, fork: Fork): (() => void) =>
  join(store, fork, ({ watched }) => watched, watched)

/**
 * Calls `listener` when the runs of a store may have changed, at most every {@link callEveryMs}, and at each poll. Returns how to stop.
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
  // A store that stops notifying is still looked at now and then.
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

/** A notification does not say which run has changed: each call costs every listener a read, however few runs it is about. */
const callEveryMs = 250

const callListeners = (it: StoreWatch, afterMs: number): Effect.Effect<void> =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    if (now - it.calledAt < afterMs) return
    it.calledAt = now
    for (const listener of it.listeners) listener()
  })

/** How long until the next look for what sends no notification. */
const pollMs = ({ listeners, watched }: StoreWatch): number => {
  if (listeners.size > 0) return 500
  for (const { isElsewhere } of watched) if (isElsewhere) return 500
  return 2000
}

/** Heads that are read in one look, at least. All are read within twenty looks. */
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
  // The next look may find more.
  Effect.catchCause((cause) => Effect.logWarning("The store cannot be asked how its runs are.", cause))
)

/** The runs of these agents that need a worker. */
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
