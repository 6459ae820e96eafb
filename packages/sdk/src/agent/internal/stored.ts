/**
 * A run in a store while this process works on it: the lease, its heartbeat, and the journal under it.
 */
import type * as Arr from "effect/Array"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { evolveAll } from "../../domain/evolve.ts"
import type { Revision, RunId } from "../../domain/Id.ts"
import { type RunEvent, RunEvents } from "../../domain/RunEvent.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { Lease, RunStore, StoredRun } from "../../store/RunStore.ts"
import type { LeaseLost, RunConflict } from "../../store/RunStoreError.ts"
import { RunStoreError, StoreFault, StoreUnreadable } from "../../store/RunStoreError.ts"
import type * as Cancellation from "../Cancellation.ts"
import type { Journal } from "./Drive.ts"

type Store = RunStore["Service"]

/** What can go wrong while a stored run is being driven. */
export type JournalError = RunConflict | LeaseLost | RunStoreError

const isReadable: (events: unknown) => boolean = Schema.is(RunEvents)

/** What could not be read back is not written: a run that nobody can load is a pending approval that nobody can act on. */
export const checkReadable = (events: ReadonlyArray<RunEvent>): Effect.Effect<void, RunStoreError> =>
  Effect.suspend(() => {
    if (isReadable(events)) return Effect.void
    const unreadable = events.find((event) => !isReadable([event]))?._tag ?? "event"
    const detail = `what a caller or a model gave for ${unreadable} is not of its type, and was not written`
    return Effect.fail(
      new RunStoreError({ operation: "append", reason: new StoreFault({ detail, retryable: false }) })
    )
  })

/** The journal of a run that is held under `lease`. */
export const storeJournal = (store: Store, lease: Lease, ttl: Duration.Input): Journal<JournalError> => {
  const options = (events: ReadonlyArray<RunEvent>, state: RunState) => ({
    lease,
    expected: (state.revision - events.length) as Revision,
    events: events as Arr.NonEmptyReadonlyArray<RunEvent>,
    status: state.status
  })
  return {
    append: (events, state) => Effect.andThen(checkReadable(events), store.append(options(events, state))),
    park: (events, state) =>
      Effect.andThen(
        checkReadable(events),
        Effect.map(store.park(options(events, state)), ({ parked }) => parked)
      ),
    decisions: store.decisions(lease.runId),
    pulse: store.renew(lease, ttl)
  }
}

/**
 * Keeps a lease alive while `use` runs, and gives it back afterwards. A lease that is lost stops `use` before its next effect:
 * the token is cancelled, and nothing more can be written.
 */
export const underLease = <A, E>(
  store: Store,
  lease: Lease,
  ttl: Duration.Input,
  token: Cancellation.CancellationToken,
  use: Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  Effect.gen(function* () {
    const beat = Effect.gen(function* () {
      yield* Effect.sleep(Duration.divideUnsafe(Duration.fromInputUnsafe(ttl), 3))
      const { cancelReason } = yield* store.renew(lease, ttl)
      if (cancelReason !== undefined) token.cancel(cancelReason)
    }).pipe(
      // A store that fails for a moment is tried again until the lease itself is gone.
      Effect.catchTag("RunStoreError", () => Effect.void),
      Effect.forever,
      Effect.catchTag("LeaseLost", () => Effect.sync(() => token.cancel("The lease was lost.")))
    )
    yield* Effect.forkScoped(beat)
    return yield* use
  }).pipe(Effect.scoped, Effect.ensuring(Effect.ignore(store.release(lease))))

/** The state of a stored run. */
export const foldStored = (stored: StoredRun): Effect.Effect<RunState, RunStoreError> =>
  Effect.suspend(() => {
    try {
      const state = evolveAll(undefined, stored.events)
      if (state !== undefined) return Effect.succeed(state)
    } catch {
      // Told below: a journal that cannot be folded is as unreadable as one that cannot be parsed.
    }
    return Effect.fail(unreadable(stored.head.runId))
  })

const unreadable = (runId: RunId): RunStoreError =>
  new RunStoreError({
    operation: "load",
    reason: new StoreUnreadable({ detail: `the journal of ${runId} does not begin with the start of a run` })
  })
