/**
 * Keeps runs across restarts.
 *
 * `RunStore` is the boundary between the pure run and a database. It keeps each run's journal (an append-only list of events),
 * a small head for listing, the lease of its owner, and the requests that wait for a decision. Appending is atomic,
 * at an expected revision and under a lease; a decision is taken once per request, by the first caller. The store never
 * folds a journal: it keeps what it is given. This module also holds the in-memory layer; `SqlRunStore` provides the layer for
 * any `SqlClient`.
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
  RunHead,
  RunStorePort,
  StoredRun
} from "./RunStorePort.ts"

/**
 * Durable storage of runs.
 *
 * @category services
 * @since 0.1.0
 */
export class RunStore extends Context.Service<RunStore, RunStorePort>()("@fermata/sdk/store/RunStore") {}

/**
 * Keeps runs in memory, for as long as the layer lives. For tests, examples and runs that may be lost.
 *
 * **Details**
 *
 * Events are kept as the JSON text that a database would hold, and leases end by Effect's clock.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemory: Layer.Layer<RunStore> = Layer.sync(RunStore, () =>
  RunStore.of(withSoundInput(makeMemory()))
)
