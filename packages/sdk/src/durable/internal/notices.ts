/**
 * Notifies the runs that this process drives of their mail and of requested cancellations, also while they commit nothing.
 *
 * Each store has one fiber for all of its driven runs, as long as there are some.
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import * as Scheduler from "effect/Scheduler"
import * as Stream from "effect/Stream"
import type { RunId } from "../../domain/Id.ts"
import type { RunStore } from "../../store/RunStore.ts"
import type { RunNotice } from "../../store/RunStorePort.ts"
import { spaced } from "./spaced.ts"

type Store = RunStore["Service"]

/** A driven run. */
interface Driven {
  readonly runId: RunId
  /** Called with each notice about the run, repeatedly until the run has acted on it. */
  readonly onNotice: (notice: Omit<RunNotice, "runId">) => void
}

/** The driven runs of one store. */
interface Subscription {
  readonly driven: Set<Driven>
  /** Lets the fiber read the notices. */
  readonly wake: Queue.Queue<void>
  fiber: Fiber.Fiber<unknown, unknown> | undefined
}

const subscriptions = new WeakMap<Store, Subscription>()

/** Notifies a run of what there is already and of what comes. Returns a function that ends this. */
export const subscribe = Effect.fnUntraced(function* (store: Store, clock: Clock.Clock, driven: Driven) {
  const it: Subscription = subscriptions.get(store) ?? {
    driven: new Set(),
    wake: yield* Queue.sliding<void>(1),
    fiber: undefined
  }
  subscriptions.set(store, it)
  it.driven.add(driven)
  Queue.offerUnsafe(it.wake, undefined)
  const context = Context.add(
    Context.make(Clock.Clock, clock),
    Scheduler.Scheduler,
    yield* Scheduler.Scheduler
  )
  // Without the rest of the context of the run that happens to be the first.
  it.fiber ??= Effect.runForkWith(context)(reading(store, it))
  return () => {
    it.driven.delete(driven)
    if (it.driven.size > 0) return
    it.fiber?.interruptUnsafe()
    it.fiber = undefined
  }
})

/** Reads the notices after each change of the store. If that fails, the runs read theirs with their commits and renewals. */
const reading = (store: Store, it: Subscription): Effect.Effect<unknown> => {
  const changes = Effect.exit(Stream.runForEach(store.changes, () => Queue.offer(it.wake, undefined)))
  const look = Effect.andThen(Queue.take(it.wake), spaced(Effect.ignore(read(store, it)), 0))
  return Effect.all([changes, Effect.forever(look)], { concurrency: "unbounded", discard: true })
}

/** The largest number of runs of one query. */
const mostRuns = 1000

const read = Effect.fnUntraced(function* (store: Store, { driven }: Subscription) {
  if (store.notices === undefined) return driven.forEach(({ onNotice }) => onNotice({ hasMail: true }))
  for (const some of Arr.chunksOf(driven, mostRuns)) {
    const notices = yield* store.notices(some.map(({ runId }) => runId))
    for (const { runId, ...notice } of notices)
      for (const one of some) if (one.runId === runId && driven.has(one)) one.onNotice(notice)
  }
})
