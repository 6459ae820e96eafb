/**
 * The contract of run stores as a test suite. Run it over a layer to prove that the layer is a correct `RunStore`.
 *
 * The caller passes the test runner, so this module imports none.
 *
 * @since 0.1.0
 */
import type * as Layer from "effect/Layer"
import type { RunStore } from "../store/RunStore.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import { batches } from "./internal/storeContract/batches.ts"
import { blobs } from "./internal/storeContract/blobs.ts"
import { checkpoints } from "./internal/storeContract/checkpoints.ts"
import { copies } from "./internal/storeContract/copies.ts"
import { copyConflicts } from "./internal/storeContract/copyConflicts.ts"
import { decisions } from "./internal/storeContract/decisions.ts"
import { dueTimes } from "./internal/storeContract/dueTimes.ts"
import { endings } from "./internal/storeContract/endings.ts"
import { grants } from "./internal/storeContract/grants.ts"
import { runGroups, type StoreHooks, type TestRunner } from "./internal/storeContract/group.ts"
import { inbox } from "./internal/storeContract/inbox.ts"
import { journal } from "./internal/storeContract/journal.ts"
import { clockSetBack, leases } from "./internal/storeContract/leases.ts"
import { memory } from "./internal/storeContract/memory.ts"
import { messages } from "./internal/storeContract/messages.ts"
import { restoredGrants } from "./internal/storeContract/restoredGrants.ts"
import { sessions } from "./internal/storeContract/sessionList.ts"
import { deletion, forks, successors } from "./internal/storeContract/sessions.ts"
import { wakeUps } from "./internal/storeContract/wakeUps.ts"
import { work } from "./internal/storeContract/work.ts"

export type { StoreHooks, TestRunner } from "./internal/storeContract/group.ts"

/**
 * Makes the function that declares the contract's tests for a layer.
 *
 * **When to use**
 *
 * Use it to test a store of your own.
 *
 * **Details**
 *
 * Each test builds the layer anew and expects an empty store. The times that a store records must come from Effect's clock, which the
 * tests move; leases may use the database's clock. A test that sets the clock of leases back runs only if `hooks` has `setBack`.
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
    dueTimes,
    forks,
    sessions,
    successors,
    copies,
    copyConflicts,
    checkpoints,
    memory,
    blobs,
    deletion
  ])

/**
 * Makes the function that declares the part of the contract about contents, for a store that has passed the {@link suite} and can keep its
 * contents in another place.
 *
 * @category testing
 * @since 0.2.0
 */
export const contentsSuite = (
  runner: TestRunner
): ((name: string, layer: Layer.Layer<RunStore, RunStoreError>, hooks?: StoreHooks) => void) =>
  runGroups(runner, [copies, copyConflicts, blobs, deletion])
