/**
 * Marks the runs of a store that was restored from a backup: what they did after the backup is not in their journals.
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
 * Marks every run of the store that is neither completed nor cancelled, failed ones too, since they can be resumed: its unstarted side
 * effects may have happened after the backup was made.
 *
 * **When to use**
 *
 * Once, on a database that was restored from a backup, before any process drives its runs. `SqliteStore.restore` includes it.
 *
 * **Details**
 *
 * Before a call with side effects starts for the first time in a marked run, the tool's `reconcile` determines the call's outcome, or an
 * `inDoubt` request is opened: run the call, or record its outcome. Read-only and idempotent calls run as usual. A run keeps the mark until
 * it is completed or cancelled, also if it fails in between. If the backup contains a lease in force, the function waits until that lease
 * ends. The function returns the ids of the marked runs. A run that cannot be read is skipped with a warning; none of its calls can run. If
 * the function is interrupted, call it again.
 *
 * **Errors**
 *
 * - `RunBusy`, `RunConflict`, `LeaseLost` — a process already drives a restored run: stop it, and call this function again.
 * - `RunStoreError` — see its `reason`; then call this function again.
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
            sentence`The run ${runId} cannot be read and is not marked; none of its calls can run: ${lines(message)}`
          )
        )
      )
    }
  }
  return marked
})

type Store = RunStore["Service"]

/** The statuses of runs that can continue: a failed run can be resumed, with larger limits for example. */
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
  // The last event of a failed run stays `run.failed`: the run is resumed and fails again.
  const failed = status === "error" ? (yield* store.events(runId)).findLast(isFailure) : undefined
  const events: Arr.NonEmptyReadonlyArray<RunEvent> =
    failed === undefined ? [restored] : [{ _tag: "run.resumed", at }, restored, { ...failed, at }]
  // The status of a failed run stays `error`, so the append does not resume a run of a busy session.
  yield* Effect.catchTag(
    store.append({ lease, expected: revision, events, status }),
    "SessionBusy",
    Effect.die
  )
})

const isDamage = (error: { readonly _tag: string }): error is RunStoreError =>
  error._tag === "RunStoreError" && (error as RunStoreError).reason._tag === "StoreUnreadable"

const isFailure = (event: RunEvent) => event._tag === "run.failed"

/** Claims a run, after the lease in the backup has ended. A lease that is renewed meanwhile belongs to a live process. */
const claim = (store: Store, runId: RunId, seen?: Timestamp): ReturnType<Store["claim"]> =>
  Effect.catchTag(store.claim({ runId, owner: "restore", ttl: "1 minute" }), "RunBusy", (busy) =>
    seen !== undefined && busy.until > seen
      ? Effect.fail(busy)
      : Effect.delay(claim(store, runId, busy.until), "1 second")
  )
