/**
 * A run store that injects faults before and after the operations of another store.
 *
 * The hooks of a test decide which operations fail. A failure before an operation means that it was not performed. A failure after it
 * means that it was performed without an acknowledgement, as when a connection is lost during a commit. Rehearsals use this store; use
 * it directly to test a program that has a store of its own.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Struct from "effect/Struct"
import type { BlobPort } from "../store/BlobPort.ts"
import { RunStore } from "../store/RunStore.ts"
import { RunStoreError, StorageFull, StoreBusy, StoreFault } from "../store/RunStoreError.ts"

type Store = RunStore["Service"]

/**
 * An operation of a run store, or one on its contents, such as `blobs.put`. `changes`, `notices`, `nextDue` and `broadcast` are none, because
 * notifications guarantee nothing that a fault could break. Neither is `blobs.damaged`, a check, nor are those on memory.
 */
export type Operation =
  | Exclude<keyof Store, "changes" | "notices" | "nextDue" | "broadcast" | "blobs" | "memory">
  | `blobs.${Exclude<keyof BlobPort, "damaged">}`

/** The names of all operations of a run store for which a hook runs; see {@link Operation}. */
export const operations: ReadonlyArray<Operation> = Struct.keys({
  create: true,
  append: true,
  park: true,
  load: true,
  events: true,
  head: true,
  claim: true,
  renew: true,
  release: true,
  decide: true,
  decideAll: true,
  decisions: true,
  send: true,
  messages: true,
  grants: true,
  revokeGrant: true,
  request: true,
  withToken: true,
  pending: true,
  list: true,
  sessions: true,
  ready: true,
  restore: true,
  latest: true,
  requestCancel: true,
  remove: true,
  prune: true,
  damaged: true,
  "blobs.put": true,
  "blobs.putAll": true,
  "blobs.read": true,
  "blobs.find": true,
  "blobs.uses": true,
  "blobs.sweep": true
} satisfies Record<Operation, true>)

/** Effects that run around each operation. If a hook fails, the operation fails with its error. */
export interface Hooks {
  /** Runs before the operation. If it fails, the operation is not performed. */
  readonly before?: (operation: Operation) => Effect.Effect<void, RunStoreError>
  /** Runs after the operation succeeded, before its acknowledgement. */
  readonly after?: (operation: Operation) => Effect.Effect<void, RunStoreError>
}

/** A failure of the database: locked for too long, no space left, or a lost connection. */
export type Fault = "busy" | "full" | "connectionLost"

/** The error with which a store fails for a fault. */
export const error = (operation: Operation, fault: Fault): RunStoreError =>
  new RunStoreError({ operation, reason: reasonOf(fault) })

const reasonOf = (fault: Fault): RunStoreError["reason"] => {
  switch (fault) {
    case "busy":
      return new StoreBusy({ waitedMs: 10_000 })
    case "full":
      return new StorageFull({ detail: "the disk, or a limit on the file, is full" })
    case "connectionLost":
      return new StoreFault({
        detail: "the connection to the database was lost. Try again.",
        retryable: true
      })
  }
}

/**
 * Wraps a store with hooks, which run around its operations and can make them fail.
 *
 * **Example** (Losing the first acknowledgement)
 *
 * ```ts run
 * import { RunStore } from "@fermata/sdk/store"
 * import { FaultyRunStore } from "@fermata/sdk/testing"
 * import { Effect, Layer } from "effect"
 *
 * const faulty = Effect.gen(function* () {
 *   const sound = yield* RunStore.RunStore
 *   let isLost = false
 *   return FaultyRunStore.make(sound, {
 *     after: (operation) => {
 *       if (operation !== "append" || isLost) return Effect.void
 *       isLost = true
 *       return Effect.fail(FaultyRunStore.error("append", "connectionLost"))
 *     }
 *   })
 * })
 * const store = Layer.effect(RunStore.RunStore, faulty).pipe(Layer.provide(RunStore.layerMemory))
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (store: Store, hooks: Hooks): Store => {
  const { before = () => Effect.void, after = () => Effect.void } = hooks
  const around = <A, E, R>(operation: Operation, run: Effect.Effect<A, E, R>) =>
    Effect.flatMap(
      Effect.suspend(() => before(operation)),
      () => Effect.tap(run, () => after(operation))
    )
  const onBlobs = (blobs: BlobPort): BlobPort => ({
    put: (content) => around("blobs.put", blobs.put(content)),
    putAll: (contents) => around("blobs.putAll", blobs.putAll(contents)),
    read: (...asked) =>
      Stream.unwrap(
        Effect.as(
          Effect.suspend(() => before("blobs.read")),
          Stream.concat(
            blobs.read(...asked),
            Stream.fromEffectDrain(Effect.suspend(() => after("blobs.read")))
          )
        )
      ),
    find: (contents) => around("blobs.find", blobs.find(contents)),
    uses: (runIds) => around("blobs.uses", blobs.uses(runIds)),
    sweep: (options) => around("blobs.sweep", blobs.sweep(options)),
    damaged: blobs.damaged
  })
  const behind = (operation: Operation, given: unknown) => {
    if (Effect.isEffect(given)) return around(operation, given as Effect.Effect<unknown, unknown>)
    const run = given as (...args: ReadonlyArray<unknown>) => Effect.Effect<unknown, unknown>
    return (...args: ReadonlyArray<unknown>) =>
      around(
        operation,
        Effect.suspend(() => run(...args))
      )
  }
  const wrapped = Object.fromEntries(
    operations.flatMap((operation) =>
      operation in store ? [[operation, behind(operation, store[operation as keyof Store])]] : []
    )
  )
  return { ...store, ...wrapped, ...(store.blobs === undefined ? {} : { blobs: onBlobs(store.blobs) }) }
}

/**
 * Wraps the store of the context with hooks, as {@link make} does.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (hooks: Hooks): Layer.Layer<RunStore, never, RunStore> =>
  Layer.effect(
    RunStore,
    Effect.map(RunStore, (store) => make(store, hooks))
  )
