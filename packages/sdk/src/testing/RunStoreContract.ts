/**
 * What every run store promises, as tests: run it over a layer to prove that it keeps runs as Fermata needs them kept.
 *
 * The suite needs no test runner of its own; it is handed one, so that importing this module costs nothing outside of tests.
 *
 * @since 0.1.0
 */
import type * as Layer from "effect/Layer"
import type { RunStore } from "../store/RunStore.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import { batches } from "./internal/storeContract/batches.ts"
import { checkpoints } from "./internal/storeContract/checkpoints.ts"
import { copies } from "./internal/storeContract/copies.ts"
import { copyConflicts } from "./internal/storeContract/copyConflicts.ts"
import { decisions } from "./internal/storeContract/decisions.ts"
import { endings } from "./internal/storeContract/endings.ts"
import { grants } from "./internal/storeContract/grants.ts"
import { runGroups, type StoreHooks, type TestRunner } from "./internal/storeContract/group.ts"
import { inbox } from "./internal/storeContract/inbox.ts"
import { journal } from "./internal/storeContract/journal.ts"
import { clockSetBack, leases } from "./internal/storeContract/leases.ts"
import { messages } from "./internal/storeContract/messages.ts"
import { restoredGrants } from "./internal/storeContract/restoredGrants.ts"
import { deletion, forks, successors } from "./internal/storeContract/sessions.ts"
import { wakeUps } from "./internal/storeContract/wakeUps.ts"
import { work } from "./internal/storeContract/work.ts"

export type { StoreHooks, TestRunner } from "./internal/storeContract/group.ts"

/**
 * The contract's tests for one layer.
 *
 * **Details**
 *
 * Every test builds the layer anew and expects an empty store. Times that the store takes itself come from Effect's clock,
 * which the tests move; leases may use the database's. A test that sets the clock of the leases back needs a hook for it.
 *
 * **Example** (Proving a store)
 *
 * ```ts no-run vitest runs it
 * import { assert, describe, it } from "@effect/vitest"
 * import { RunStore } from "@fermata/sdk/store"
 * import { RunStoreContract } from "@fermata/sdk/testing"
 *
 * RunStoreContract.suite({ assert, describe, it })("memory", RunStore.layerMemory)
 * ```
 *
 * @category testing
 * @since 0.1.0
 */
export const suite = (
  runner: TestRunner
): ((name: string, layer: Layer.Layer<RunStore, RunStoreError>, hooks?: StoreHooks) => void) =>
  runGroups(runner, [
    journal,
    leases,
    clockSetBack,
    decisions,
    batches,
    endings,
    inbox,
    messages,
    grants,
    restoredGrants,
    wakeUps,
    work,
    forks,
    successors,
    copies,
    copyConflicts,
    checkpoints,
    deletion
  ])
