/**
 * Appends events to a stored run that no process drives, under a short lease.
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { lines, messageOf, sentence } from "../../domain/Display.ts"
import { evolveAll } from "../../domain/evolve.ts"
import type { RunId } from "../../domain/Id.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import { RunStore } from "../../store/RunStore.ts"
import { type LoadedRun, loadRun } from "./loadRun.ts"
import { checkReadable } from "./storeJournal.ts"

/** The length of the lease, which is released after the append. */
const ttl = "15 seconds"

/** Claims a run, appends the events that `make` returns for its state, and releases the lease. */
export const appendOnce = Effect.fnUntraced(function* (
  runId: RunId,
  make: (
    loaded: Pick<LoadedRun, "decisions" | "state">,
    at: number,
    cancelReason: string | undefined
  ) => ReadonlyArray<RunEvent>
) {
  const store = yield* RunStore
  const clock = yield* Clock.Clock
  const lease = yield* store.claim({
    runId,
    owner: `append-${globalThis.crypto.randomUUID().slice(0, 8)}`,
    ttl
  })
  const append = Effect.gen(function* () {
    const loaded = yield* loadRun(store, runId)
    const { state } = loaded
    const { cancelReason } = yield* store.renew(lease, ttl)
    const events = make(loaded, clock.currentTimeMillisUnsafe(), cancelReason)
    if (!Arr.isReadonlyArrayNonEmpty(events)) return
    yield* checkReadable(events)
    const status = evolveAll(state, events)?.status ?? state.status
    // These events never resume an ended run, so its session is never busy.
    yield* Effect.catchTag(
      store.append({ lease, expected: state.revision, events, status }),
      "SessionBusy",
      Effect.die
    )
  })
  yield* Effect.ensuring(append, Effect.ignore(store.release(lease)))
})

/** Runs a step that follows an acknowledged write. A failure is logged, and the run's next owner takes the step. */
export const bestEffort = <E extends { readonly message: string }, R>(
  step: Effect.Effect<void, E, R>,
  what: string
): Effect.Effect<void, never, R> => {
  const warn = (why: string) => Effect.ignoreCause(Effect.logWarning(sentence`${what}: ${lines(why)}`))
  const failed = Effect.catch(step, ({ message }) => warn(message))
  return Effect.catchDefect(failed, (defect) => warn(messageOf(defect)))
}
