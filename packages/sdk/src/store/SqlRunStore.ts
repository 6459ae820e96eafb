/**
 * Keeps runs in any SQL database.
 *
 * The layer needs a `SqlClient` and makes its tables (all named `fermata_…`) when it is built. An append is one transaction of
 * two statements: a fenced compare-and-set of the run's head, and one row of the journal that holds the whole batch. The contract
 * is tested on SQLite and on Postgres.
 *
 * Every operation is a transaction of its own. It must not be called inside a transaction of the same `SqlClient`: SQLite's
 * client has one connection, and the operation would wait for it for ever.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import { makeNotifier } from "./internal/notifier.ts"
import { withSoundInput } from "./internal/soundInput.ts"
import { makeAccess } from "./internal/sql/access.ts"
import { makeCheckpoints } from "./internal/sql/checkpoints.ts"
import { makeGrants } from "./internal/sql/grants.ts"
import { makeInspection } from "./internal/sql/inspection.ts"
import { makeJournal } from "./internal/sql/journal.ts"
import { makeMessages } from "./internal/sql/messages.ts"
import { makeRequests } from "./internal/sql/requests.ts"
import { makeRestore } from "./internal/sql/restore.ts"
import { makeCatalogue, makeLeases } from "./internal/sql/runs.ts"
import { migrate } from "./internal/sql/schema.ts"
import { RunStore } from "./RunStore.ts"
import type { RunStoreError } from "./RunStoreError.ts"

/** How the store behaves where the database leaves a choice. */
export interface Options {
  /**
   * How long an operation is tried while others hold a lock that it needs, waiting for a connection included. Default 10 seconds; then
   * `StoreBusy`.
   */
  readonly busyDeadline?: Duration.Input
  /**
   * Set this for Postgres when every connection has a `lock_timeout` of no more than `busyDeadline` by itself, and a `synchronous_commit`
   * that is not `off`: single statements then need no transaction that sets them.
   */
  readonly boundsLocks?: boolean
  /** Emits when another process may have given a waiting worker something to do. What this process does is notified anyway. */
  readonly changes?: Stream.Stream<void>
  /** Runs after something was deleted; for databases that keep what was deleted until they are asked not to. */
  readonly afterErase?: Effect.Effect<void>
}

/**
 * Makes the store, and its tables where they are missing.
 *
 * **Errors**
 *
 * - `RunStoreError` — `StoreUnreadable` when a newer Fermata made the tables; otherwise what the database reported.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function* (options?: Options) {
  const access = makeAccess(yield* SqlClient.SqlClient, {
    busyDeadline: options?.busyDeadline ?? "10 seconds",
    boundsLocks: options?.boundsLocks ?? false
  })
  yield* migrate(access)
  const grants = makeGrants(access)
  const requests = makeRequests(access, grants)
  const messages = makeMessages(access)
  const notifier = makeNotifier()
  const { afterErase = Effect.void, changes = Stream.empty } = options ?? {}
  const leases = makeLeases(access)
  const checkpoints = makeCheckpoints(access)
  const catalogue = makeCatalogue(access, checkpoints, grants)
  const journal = makeJournal(access, { requests, messages, checkpoints, grants })
  const restore = makeRestore(access, { requests, messages, checkpoints, grants })
  return withSoundInput({
    ...journal,
    park: (options) =>
      Effect.tap(journal.park(options), ({ parked }) => (parked ? notifier.notify : Effect.void)),
    restore: (...given) => Effect.tap(restore(...given), notifier.notify),
    ...leases,
    release: (lease) => Effect.tap(leases.release(lease), notifier.notify),
    requestCancel: (runId, reason) => Effect.tap(leases.requestCancel(runId, reason), notifier.notify),
    ...catalogue,
    ...makeInspection(access),
    remove: (runId) => Effect.tap(catalogue.remove(runId), afterErase),
    prune: (before) => Effect.tap(catalogue.prune(before), (count) => (count > 0 ? afterErase : Effect.void)),
    changes: Stream.merge(notifier.notifications, changes),
    decide: (input) => Effect.tap(requests.decide(input), notifier.notify),
    decideAll: (inputs) => Effect.tap(requests.decideAll(inputs), notifier.notify),
    decisions: Effect.fnUntraced(function* (runId) {
      const now = yield* Clock.currentTimeMillis
      return yield* access.query("decisions", requests.decisions("decisions", runId, now))
    }),
    send: (runId, message) => Effect.tap(messages.send(runId, message), notifier.notify),
    messages: (runId) => access.query("messages", messages.waiting("messages", runId)),
    grants: grants.grants,
    revokeGrant: grants.revokeGrant,
    request: requests.request,
    pending: requests.pending
  })
})

/**
 * The store in the database that the `SqlClient` is connected to.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer: Layer.Layer<RunStore, RunStoreError, SqlClient.SqlClient> = Layer.effect(RunStore, make())

/**
 * Like {@link layer}, with options.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerWith = (options: Options): Layer.Layer<RunStore, RunStoreError, SqlClient.SqlClient> =>
  Layer.effect(RunStore, make(options))

export {
  /**
   * What a database reported, as the error that a caller of the store sees. For layers that open a connection themselves.
   *
   * @category converting
   * @since 0.1.0
   */
  toStoreError
} from "./internal/sql/errors.ts"

export {
  /**
   * What is wrong with rows of the store's tables. For checks of a whole database.
   *
   * @category checking
   * @since 0.1.0
   */
  rowProblems
} from "./internal/sql/inspection.ts"

export {
  /**
   * The Postgres channel on which a store notifies the others that a run may have become ready. For layers that listen to it.
   *
   * @category notifications
   * @since 0.1.0
   */
  channel
} from "./internal/sql/dialect.ts"
