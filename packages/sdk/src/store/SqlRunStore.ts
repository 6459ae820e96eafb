/**
 * A run store for SQLite and Postgres, over Effect's `SqlClient`.
 *
 * The layer creates its tables (all named `fermata_…`) when it is built. An append is one transaction, usually of two statements: a
 * fenced compare-and-set of the run's head, and the insertion of one journal row that contains the whole batch.
 *
 * Inside a transaction of the same `SqlClient` (`sql.withTransaction`), an operation joins it as a savepoint: a submitted run, a decision or
 * a message is committed or rolled back together with the caller's own rows, and waiting processes are notified after the commit. An
 * operation that drives a run is refused there with the reason `InTransaction`.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import * as Stream from "effect/Stream"
import type { RunId } from "../domain/Id.ts"
import { type BlobFiles, graceTime } from "./BlobPort.ts"
import { isTakingUp } from "./internal/journal.ts"
import { makeNotifier } from "./internal/notifier.ts"
import { withSoundInput } from "./internal/soundInput.ts"
import { makeAccess } from "./internal/sql/access.ts"
import { type FiledStore, filedStore } from "./internal/sql/blobFiles.ts"
import { makeBlobPort } from "./internal/sql/blobPort.ts"
import { makeBlobRows } from "./internal/sql/blobs.ts"
import { makeCheckpoints } from "./internal/sql/checkpoints.ts"
import { setPages } from "./internal/sql/filePages.ts"
import { makeGrants } from "./internal/sql/grants.ts"
import { makeInspection } from "./internal/sql/inspection.ts"
import { makeJournal, type Notice } from "./internal/sql/journal.ts"
import { makeMemoryRows } from "./internal/sql/memory.ts"
import { makeMessages } from "./internal/sql/messages.ts"
import { makeRequests } from "./internal/sql/requests.ts"
import { makeRestore } from "./internal/sql/restore.ts"
import { makeCatalogue, makeLeases } from "./internal/sql/runs.ts"
import { migrate } from "./internal/sql/schema.ts"
import { RunStore } from "./RunStore.ts"
import type { RunStoreError } from "./RunStoreError.ts"
import type { RunBroadcast, RunStorePort } from "./RunStorePort.ts"

export type { FiledStore } from "./internal/sql/blobFiles.ts"
export type { Notice } from "./internal/sql/journal.ts"

/** Options of the SQL store. */
export interface Options {
  /**
   * How long an operation waits and is retried while the database is locked or cannot be reached. The time counts from the first attempt,
   * with its wait for a connection, or from the loss of that attempt's connection. The operation then fails: with `StoreBusy` if the
   * database was locked. Default: 10 seconds.
   */
  readonly busyDeadline?: Duration.Input
  /**
   * Set this on Postgres if every connection already has a `lock_timeout` of at most `busyDeadline` and a `synchronous_commit` other than
   * `off`. Single statements then need no transaction that sets both. Default: false.
   */
  readonly boundsLocks?: boolean
  /** Wraps each connection that the store uses, also that of a caller's transaction: for a database that refuses some values. */
  readonly mapConnection?: (connection: Connection) => Connection
  /** Emits when another process may have made a run ready. The store itself notifies about operations of this process. */
  readonly changes?: Stream.Stream<void>
  /** Passes updates of watched runs between processes. */
  readonly broadcast?: RunBroadcast
  /** Returns the notification that the transaction of an append sends on Postgres, if a process may watch the run. */
  readonly notice?: (runId: RunId, revision: number) => Notice | undefined
  /**
   * Runs after each `remove`, and after each `prune` and `blobs.sweep` that deleted something. For databases that keep deleted data until
   * asked to erase it.
   */
  readonly afterErase?: Effect.Effect<void>
  /** Opens the files in which the store keeps contents of more than 32 KiB. Without it, all contents are in the database. */
  readonly files?: (store: FiledStore) => Effect.Effect<BlobFiles, RunStoreError>
}

/**
 * Makes the store in the database that the `SqlClient` is connected to, and creates or migrates its tables.
 *
 * **Errors**
 *
 * - `RunStoreError` — `StoreUnreadable` if a newer version of Fermata wrote the tables: update. Otherwise the database's failure.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function* (options?: Options) {
  const access = makeAccess(yield* SqlClient.SqlClient, {
    busyDeadline: options?.busyDeadline ?? "10 seconds",
    boundsLocks: options?.boundsLocks ?? false,
    ...(options?.mapConnection === undefined ? {} : { mapConnection: options.mapConnection })
  })
  yield* setPages(access)
  yield* migrate(access)
  const grants = makeGrants(access)
  const blobs = makeBlobRows(access)
  const requests = makeRequests(access, grants, blobs)
  const files = options?.files === undefined ? undefined : yield* options.files(yield* filedStore(access))
  const contents = makeBlobPort(access, blobs, files)
  const messages = makeMessages(access, blobs)
  const notifier = makeNotifier()
  const notify = access.afterCommit(notifier.notify)
  const { afterErase = Effect.void, broadcast, changes = Stream.empty, notice } = options ?? {}
  const leases = makeLeases(access)
  const checkpoints = makeCheckpoints(access)
  const catalog = makeCatalogue(access, checkpoints, grants, blobs)
  const memory = makeMemoryRows(access, afterErase)
  const journal = makeJournal(access, { requests, messages, checkpoints, grants, blobs, memory, notice })
  const restore = makeRestore(access, { requests, messages, checkpoints, grants, blobs, memory })
  const erased = Effect.andThen(contents.clean, afterErase)
  const store: RunStorePort = {
    ...journal,
    append: (options) =>
      Effect.tap(journal.append(options), ({ revoked }) =>
        revoked === undefined && isTakingUp(options.events, options.status) ? notify : Effect.void
      ),
    park: (options) => Effect.tap(journal.park(options), ({ parked }) => (parked ? notify : Effect.void)),
    restore: (...given) => Effect.tap(restore(...given), notify),
    ...leases,
    release: (lease) => Effect.tap(leases.release(lease), notify),
    requestCancel: (runId, reason) => Effect.tap(leases.requestCancel(runId, reason), notify),
    ...catalog,
    ...makeInspection(access),
    remove: (runId) => Effect.tap(Effect.tap(catalog.remove(runId), notify), access.afterCommit(erased)),
    prune: Effect.fnUntraced(function* (before) {
      const count = yield* catalog.prune(before)
      const dropped = yield* blobs.dropOrphans("prune")
      const swept = yield* contents.sweep("prune", (yield* Clock.currentTimeMillis) - graceTime)
      if (count + dropped + swept > 0) yield* access.afterCommit(erased)
      return count
    }),
    blobs: {
      ...contents.port,
      sweep: ({ storedBefore }) =>
        Effect.tap(contents.sweep("blobs.sweep", storedBefore), (count) =>
          count > 0 ? access.afterCommit(afterErase) : Effect.void
        )
    },
    memory: memory.port,
    changes: Stream.merge(notifier.notifications, changes),
    ...(broadcast === undefined ? {} : { broadcast }),
    decide: (input) => Effect.tap(requests.decide(input), notify),
    decideAll: (inputs) => Effect.tap(requests.decideAll(inputs), notify),
    decisions: Effect.fnUntraced(function* (runId) {
      const now = yield* Clock.currentTimeMillis
      return yield* access.query("decisions", requests.decisions("decisions", runId, now))
    }),
    send: (runId, message) => Effect.tap(messages.send(runId, message), notify),
    messages: (runId) => access.query("messages", messages.waiting("messages", runId)),
    grants: grants.grants,
    revokeGrant: grants.revokeGrant,
    request: requests.request,
    withToken: requests.withToken,
    pending: requests.pending
  }
  return withSoundInput(store)
})

/**
 * Provides the store in the database that the `SqlClient` is connected to. Creates or migrates its tables when it is built; fails as {@link
 * make} does.
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
   * Converts an error of the database to the error that a caller of the store receives. A lock conflict becomes a `StoreFault`, since only
   * an operation knows how long it waited (`StoreBusy`). For layers that open a connection themselves.
   *
   * @category converting
   * @since 0.1.0
   */
  toStoreError
} from "./internal/sql/errors.ts"

export {
  /**
   * Returns the contents to which messages refer. For checks of a whole database.
   *
   * @category checking
   * @since 0.2.0
   */
  blobsIn,
  /**
   * Returns the contents to which events of a run refer. For checks of a whole database.
   *
   * @category checking
   * @since 0.2.0
   */
  blobsOf
} from "./internal/blobs.ts"

export {
  /**
   * Returns a sentence for each row of a table of the store that cannot be read. For checks of a whole database.
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
