/**
 * Looks after the stored runs that this process does not work on and has a handle for: those that are held, and those that another
 * process works on. One fiber for all of a store, as long as there are any.
 */
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
  /** Whether another process works on it, which nobody tells. */
  readonly isElsewhere: boolean
  /** It needs somebody. */
  readonly onReady: () => void
  /** How it stands. */
  readonly onHead: (head: RunHead) => void
  /** It was removed. */
  readonly onRemoved: () => void
}

/** What is looked after in one store. */
interface StoreWatch {
  readonly watched: Set<Watched>
  /** Where the next look begins. */
  at: number
  fiber: Fiber.Fiber<unknown, unknown> | undefined
}

const watches = new WeakMap<Store, StoreWatch>()

/** Looks after a run from now on. Returns how to stop. */
export const watch = (
  store: Store,
  watched: Watched,
  fork: (effect: Effect.Effect<unknown>) => Fiber.Fiber<unknown>
): (() => void) => {
  const it = watches.get(store) ?? { watched: new Set<Watched>(), at: 0, fiber: undefined }
  watches.set(store, it)
  it.watched.add(watched)
  it.fiber ??= fork(looking(store, it))
  return () => {
    it.watched.delete(watched)
    if (it.watched.size > 0) return
    it.fiber?.interruptUnsafe()
    it.fiber = undefined
  }
}

const looking = Effect.fnUntraced(function* (store: Store, it: StoreWatch) {
  const wake = yield* Queue.sliding<void>(1)
  // A store that stops telling is still looked at now and then.
  const told = Effect.exit(Stream.runForEach(store.changes, () => Queue.offer(wake, undefined)))
  const ticks = Effect.forever(
    Effect.andThen(
      Effect.suspend(() => Effect.sleep(pollMs(it))),
      Queue.offer(wake, undefined)
    )
  )
  const look = Effect.andThen(Queue.take(wake), lookAt(store, it))
  return yield* Effect.all([told, ticks, Effect.forever(look)], { concurrency: "unbounded" })
})

/** How long until it is looked at again for what nobody tells. */
const pollMs = ({ watched }: StoreWatch): number => {
  for (const { isElsewhere } of watched) if (isElsewhere) return 500
  return 2000
}

/** Heads that are read in one look, at least. All are read within twenty looks. */
const headsAtOnce = 100

const lookAt = Effect.fnUntraced(
  function* (store: Store, it: StoreWatch) {
    const needSomebody = yield* ready(store, it)
    for (const one of Array.from(it.watched)) if (needSomebody.has(one.runId)) one.onReady()
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
  // Whatever it is, the next look may find more.
  Effect.catchCause((cause) => Effect.logWarning("The store cannot be asked how its runs are.", cause))
)

/** The runs of these agents that need somebody. */
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
