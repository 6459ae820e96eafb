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
import { makeMemory } from "./internal/memory/memory.ts"
import { withSoundInput } from "./internal/soundInput.ts"
import type { RunStorePort } from "./RunStorePort.ts"

export type {
  Appended,
  Checkpoint,
  DamagedRun,
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
