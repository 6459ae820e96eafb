/**
 * What a store needs that was restored from a backup: its runs stand where they stood when the backup was made, and what they did
 * since is lost.
 *
 * @since 0.1.0
 */
import type * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { lines, sentence } from "../domain/Display.ts"
import type { RunId, Timestamp } from "../domain/Id.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type { Status } from "../domain/RunState.ts"
import { RunStore } from "../store/RunStore.ts"
import type { LeaseLost, RunBusy, RunConflict, RunStoreError } from "../store/RunStoreError.ts"
import type { Lease, RunHead } from "../store/RunStorePort.ts"

/**
 * Marks every run of the store that can go on: a side effect that it has not started may have happened since the backup was made.
 *
 * **When to use**
 *
 * Once, on a database that was restored from a backup, before any process works on it. `SqliteStore.restore` includes it.
 *
 * **Details**
 *
 * Before such a call is started for the first time, the tool's `reconcile` is asked, or an `inDoubt` request is opened: run it, or
 * record what became of it. Calls that only read, and idempotent ones, run as usual. The mark ends with the run. Runs that ended
 * with an answer or were cancelled are left as they are. A lease that a process held when the backup was made is waited for.
 * Returns the runs that were marked. One that cannot be read is passed over with a warning: nothing of it is executed. When it is
 * interrupted, call it again.
 *
 * **Errors**
 *
 * - `RunBusy`, `RunConflict`, `LeaseLost` — a process works on the restored store already: end it, and call this again.
 * - `RunStoreError` — see its `reason`; then call it again.
 *
 * @category running
 * @since 0.1.0
 */
export const doubtLaterEffects: Effect.Effect<
  ReadonlyArray<RunId>,
  RunBusy | RunConflict | LeaseLost | RunStoreError,
  RunStore
> = Effect.gen(function* () {
  const store = yield* RunStore
  const marked: Array<RunId> = []
  for (const status of canGoOn) {
    for (const { runId } of yield* allOf(store, status)) {
      yield* mark(store, runId).pipe(
        Effect.tap(() => Effect.sync(() => marked.push(runId))),
        // A run that was removed meanwhile needs no mark.
        Effect.catchTag("RunNotFound", () => Effect.void),
        Effect.catchIf(isDamage, ({ message }) =>
          Effect.logWarning(
            sentence`The run ${runId} is not marked, since it cannot be read, and nothing of it is executed: ${lines(message)}`
          )
        )
      )
    }
  }
  return marked
})

type Store = RunStore["Service"]

/** A failed run may be taken up again with larger limits. */
const canGoOn = ["running", "held", "error"] as const satisfies ReadonlyArray<Status>

const allOf = Effect.fnUntraced(function* (store: Store, status: Status) {
  const heads: Array<RunHead> = []
  while (true) {
    const after = heads.at(-1)?.runId
    const page = yield* store.list({ status, limit: 1000, ...(after === undefined ? {} : { after }) })
    heads.push(...page)
    if (page.length < 1000) return heads
  }
})

const mark = Effect.fnUntraced(function* (store: Store, runId: RunId) {
  const lease = yield* claim(store, runId)
  yield* Effect.ensuring(append(store, lease), Effect.ignore(store.release(lease)))
})

const append = Effect.fnUntraced(function* (store: Store, lease: Lease) {
  const { runId } = lease
  const { revision, status, updatedAt } = yield* store.head(runId)
  const at = yield* Clock.currentTimeMillis
  const restored: RunEvent = { _tag: "run.restored", at, since: updatedAt }
  // The end of a run stays its last event.
  const failed = status === "error" ? (yield* store.events(runId)).findLast(isFailure) : undefined
  const events: Arr.NonEmptyReadonlyArray<RunEvent> =
    failed === undefined ? [restored] : [{ _tag: "run.resumed", at }, restored, { ...failed, at }]
  // One that failed has failed again when this is stored.
  yield* Effect.catchTag(
    store.append({ lease, expected: revision, events, status }),
    "SessionBusy",
    Effect.die
  )
})

const isDamage = (error: { readonly _tag: string }): error is RunStoreError =>
  error._tag === "RunStoreError" && (error as RunStoreError).reason._tag === "StoreUnreadable"

const isFailure = (event: RunEvent) => event._tag === "run.failed"

/** Takes the lease of a run, after the one that the backup holds has ended. One that is renewed belongs to a process at work. */
const claim = (store: Store, runId: RunId, seen?: Timestamp): ReturnType<Store["claim"]> =>
  Effect.catchTag(store.claim({ runId, owner: "restore", ttl: "1 minute" }), "RunBusy", (busy) =>
    seen !== undefined && busy.until > seen
      ? Effect.fail(busy)
      : Effect.delay(claim(store, runId, busy.until), "1 second")
  )
