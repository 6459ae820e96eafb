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
import { batches } from "./internal/storeBatches.ts"
import { checkpoints } from "./internal/storeCheckpoints.ts"
import { endings } from "./internal/storeEndings.ts"
import { clockSetBack } from "./internal/storeClock.ts"
import { copies } from "./internal/storeCopies.ts"
import { runGroups, type StoreHooks, type TestRunner } from "./internal/storeFixtures.ts"
import { forks } from "./internal/storeForks.ts"
import { successors } from "./internal/storeSuccessors.ts"
import { grants } from "./internal/storeGrants.ts"
import { decisions, inbox } from "./internal/storeInbox.ts"
import { journal } from "./internal/storeJournal.ts"
import { deletion, leases } from "./internal/storeLeases.ts"
import { messages } from "./internal/storeMessages.ts"
import { wakeUps } from "./internal/storeWakeUps.ts"
import { work } from "./internal/storeWork.ts"

export type { StoreHooks, TestRunner } from "./internal/storeFixtures.ts"

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
 * ```ts
 * import { assert, describe, it } from "@effect/vitest"
 *
 * RunStoreContract.suite({ assert, describe, it })("mine", layer)
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
    wakeUps,
    work,
    forks,
    successors,
    copies,
    checkpoints,
    deletion
  ])
