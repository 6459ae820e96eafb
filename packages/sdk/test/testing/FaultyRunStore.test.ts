import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { Sha256 } from "../../src/domain/Blob.ts"
import * as RunStore from "../../src/store/RunStore.ts"
import type { RunStoreError } from "../../src/store/RunStoreError.ts"
import * as FaultyRunStore from "../../src/testing/FaultyRunStore.ts"
import { run, said, session } from "../../src/testing/internal/storeContract/events.ts"
import { started } from "../../src/testing/internal/storeContract/stored.ts"
import * as RunStoreContract from "../../src/testing/RunStoreContract.ts"

/** The SHA-256 of the byte 2. */
const two = "dbc1b4c900ffe48d575b5da5c638040125f65db0fe3e24494b76ea986457d986"

const over = (hooks: FaultyRunStore.Hooks) => Layer.provide(FaultyRunStore.layer(hooks), RunStore.layerMemory)

RunStoreContract.suite({ assert, describe, it })("faulty, without a fault", over({}))

describe("FaultyRunStore", () => {
  const append = {
    expected: 1 as never,
    events: [said("1")],
    status: "running"
  } as const

  const failing = (when: "before" | "after", fault: FaultyRunStore.Fault) =>
    Effect.gen(function* () {
      const store = yield* RunStore.RunStore
      const lease = yield* started(store, run("r"))
      const error = yield* Effect.flip(store.append({ lease, ...append }))
      return { error, revision: (yield* store.head(run("r"))).revision }
    }).pipe(
      Effect.provide(
        over({
          [when]: (operation: FaultyRunStore.Operation) =>
            operation === "append" ? Effect.fail(FaultyRunStore.error(operation, fault)) : Effect.void
        })
      )
    )

  it.effect("does nothing when it fails before the operation", () =>
    Effect.gen(function* () {
      const { error, revision } = yield* failing("before", "full")
      assert.strictEqual(error._tag, "RunStoreError")
      assert.isTrue(
        error._tag === "RunStoreError" && error.reason._tag === "StorageFull" && error.isRetryable
      )
      assert.strictEqual<number>(revision, 1)
    })
  )

  it.effect("has performed the operation when it fails after it", () =>
    Effect.gen(function* () {
      const { error, revision } = yield* failing("after", "connectionLost")
      assert.isTrue(error._tag === "RunStoreError" && error.reason._tag === "StoreFault" && error.isRetryable)
      assert.strictEqual<number>(revision, 2)
    })
  )

  it.effect("calls its hooks before and after an operation, and only before a refused one", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      const note = (when: string) => (operation: string) =>
        Effect.sync(() => {
          asked.push(`${when} ${operation}`)
        })
      yield* Effect.gen(function* () {
        const store = yield* RunStore.RunStore
        yield* started(store, run("r"), { sessionId: session("s") })
        yield* Effect.flip(store.claim({ runId: run("r"), owner: "another", ttl: "1 second" }))
      }).pipe(Effect.provide(over({ before: note("before"), after: note("after") })))
      assert.deepStrictEqual(asked, ["before create", "after create", "before claim"])
    })
  )

  it.effect("lists all operations of a store", () =>
    Effect.gen(function* () {
      const store = yield* RunStore.RunStore
      const operations = Object.keys(store).filter(
        (name) => !["blobs", "changes", "memory", "notices", "nextDue"].includes(name)
      )
      const onBlobs = Object.keys(store.blobs!).filter((name) => name !== "damaged")
      assert.sameMembers(
        [...operations, ...onBlobs.map((name) => `blobs.${name}`)],
        [...FaultyRunStore.operations]
      )
    }).pipe(Effect.provide(RunStore.layerMemory))
  )

  it.effect("fails before and after the operations on contents", () =>
    Effect.gen(function* () {
      const failures = new Map<string, FaultyRunStore.Operation>()
      const hook = (when: "before" | "after") => (operation: FaultyRunStore.Operation) =>
        failures.get(when) === operation
          ? Effect.fail(FaultyRunStore.error(operation, "connectionLost"))
          : Effect.void
      const sound = yield* Effect.provide(RunStore.RunStore, RunStore.layerMemory)
      const blobs = FaultyRunStore.make(sound, { before: hook("before"), after: hook("after") }).blobs!
      const ref = yield* blobs.put(Stream.make(new Uint8Array([1])))
      const stored = Effect.map(sound.blobs!.find([Sha256.make(two)]), ({ length }) => length)
      const operations: Record<string, Effect.Effect<unknown, RunStoreError>> = {
        "blobs.find": blobs.find([]),
        "blobs.uses": blobs.uses([]),
        "blobs.sweep": blobs.sweep({ storedBefore: 0 }),
        "blobs.putAll": blobs.putAll([]),
        "blobs.read": Stream.runDrain(blobs.read(ref.sha256)),
        "blobs.put": blobs.put(Stream.make(new Uint8Array([2])))
      }
      for (const when of ["before", "after"])
        for (const [operation, effect] of Object.entries(operations)) {
          failures.set(when, operation as FaultyRunStore.Operation)
          const error = yield* Effect.flip(effect)
          assert.deepStrictEqual([error.operation, error.reason._tag], [operation, "StoreFault"])
          if (operation === "blobs.put") assert.strictEqual(yield* stored, when === "after" ? 1 : 0)
          failures.clear()
        }
    })
  )
})
