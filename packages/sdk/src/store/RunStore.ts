/**
 * Durable storage of runs, and the in-memory layer.
 *
 * A `RunStore` is the boundary between the pure run and a database. It stores each run's journal (an append-only list of events),
 * head, lease, checkpoint, requests, messages and grants. An append is atomic and needs a lease and the expected revision; each request
 * is decided once, by the first caller or by its expiry. A store never folds a journal. `SqlRunStore` provides the layer for any
 * `SqlClient` of SQLite or Postgres; `@fermata/node` provides layers with drivers.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import { refusingReferences } from "./internal/blobs.ts"
import { derived } from "./internal/derived.ts"
import { makeMemory } from "./internal/memory/memory.ts"
import { withSoundInput } from "./internal/soundInput.ts"
import type { RunStoreCore, RunStorePort } from "./RunStorePort.ts"

export type {
  Appended,
  Checkpoint,
  DamagedRun,
  DueFilter,
  Lease,
  ListFilter,
  NewCheckpoint,
  PendingFilter,
  PendingRequest,
  ReadyFilter,
  ReadyRun,
  RestoredRun,
  RunBroadcast,
  RunHead,
  RunPublisher,
  RunSignal,
  Derived,
  RunStoreCore,
  RunStorePort,
  SessionFilter,
  SessionHead,
  StoredRun
} from "./RunStorePort.ts"

/**
 * The service that stores runs; {@link RunStorePort} documents its operations.
 *
 * **When to use**
 *
 * Provide one of the layers: `runPromptStored`, `dispatchPromptStored` and workers require this service. Yield it to read runs, the inbox
 * and grants, to decide, and to send messages. All processes that use one database share its runs.
 *
 * @category services
 * @since 0.1.0
 */
export class RunStore extends Context.Service<RunStore, RunStorePort>()("@fermata/sdk/store/RunStore") {}

/**
 * Makes a store from its core operations, and adds the operations that it lacks. Checks the arguments of all of them.
 *
 * **When to use**
 *
 * For a store of your own, on a database that Fermata does not have. Prove it with `RunStoreContract.suite`.
 *
 * **Details**
 *
 * If `core` lacks them, `head`, `events`, `decisions` and `messages` are derived from `load`; `latest`, `sessions` and `prune` are derived
 * from `list` and `remove`, and the last two read the heads of all runs; `nextDue` is derived from `pending`, and reads all requests that
 * expire; `damaged` is empty; and `changes` emits for operations of this store object alone, so that workers in other processes poll. Give
 * those that your database does better. `notices`, `blobs`, `memory` and `broadcast` may be missing, and are not added.
 *
 * **Example** (Deriving what a store leaves out)
 *
 * ```ts run
 * import { RunStore } from "@fermata/sdk/store"
 * import { Effect, Layer, Struct } from "effect"
 *
 * const layer = Layer.effect(
 *   RunStore.RunStore,
 *   // The core of your store; here that of the store in memory.
 *   Effect.map(RunStore.RunStore, (store) => RunStore.fromCore(Struct.omit(store, ["head", "latest", "sessions"])))
 * ).pipe(Layer.provide(RunStore.layerMemory))
 * const sessions = Effect.flatMap(RunStore.RunStore, (store) => store.sessions())
 * console.log(await Effect.runPromise(Effect.provide(sessions, layer))) // []
 * ```
 *
 * @category constructors
 * @since 0.2.0
 */
export const fromCore = (core: RunStoreCore): RunStore["Service"] =>
  RunStore.of(withSoundInput(refusingReferences(derived(core))))

/**
 * Stores runs in memory. Everything is lost when the process ends.
 *
 * **When to use**
 *
 * Use it for tests, examples, and runs that need not survive the process.
 *
 * **Details**
 *
 * Each build of the layer makes an empty store. Events are stored as JSON text, as in a database. Leases end by Effect's clock, so
 * `TestClock` can let them expire.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemory: Layer.Layer<RunStore> = Layer.sync(RunStore, () =>
  RunStore.of(withSoundInput(makeMemory()))
)
