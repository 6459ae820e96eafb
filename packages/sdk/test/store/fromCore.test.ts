import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Struct from "effect/Struct"
import { fromCore, layerMemory, RunStore } from "../../src/store/RunStore.ts"
import type { RunStoreError } from "../../src/store/RunStoreError.ts"
import type { Derived } from "../../src/store/RunStorePort.ts"
import { a, b, rev, said, session } from "../../src/testing/internal/storeContract/events.ts"
import { started } from "../../src/testing/internal/storeContract/stored.ts"
import { suite } from "../../src/testing/RunStoreContract.ts"

const derived = {
  head: true,
  events: true,
  decisions: true,
  messages: true,
  latest: true,
  sessions: true,
  damaged: true,
  nextDue: true,
  changes: true,
  prune: true
} satisfies Record<Derived, true>

const layer = Layer.effect(
  RunStore,
  Effect.map(RunStore, (store) => fromCore(Struct.omit(store, Struct.keys(derived))))
).pipe(Layer.provide(Layer.fresh(layerMemory)))

suite({ assert, describe, it })("derived from its core", layer)

describe("a store without contents", () => {
  it.effect("refuses references, also to contents that its core would accept", () =>
    Effect.gen(function* () {
      const core = yield* RunStore
      const ref = yield* core.blobs!.put(Stream.make(new Uint8Array([1])))
      const store = fromCore(Struct.omit(core, ["blobs"]))
      const content = [{ _tag: "file", mediaType: "image/png", source: { _tag: "stored", ...ref } } as const]
      const showing = { _tag: "message.queued", at: 1, content } as const
      const copy = { runId: b, sessionId: session("s"), agent: "root", status: "held" } as const
      const lease = yield* started(store, a)
      const options = { lease, expected: rev(1), events: [showing], status: "running" } as const
      for (const write of [
        started(store, b, { events: [said("0"), showing] }),
        store.append(options),
        store.park(options),
        store.send(a, { content }),
        store.restore([{ ...copy, events: [showing] }], [], []),
        store.restore([{ ...copy, events: [said("0")] }], [], [{ messageId: "m1", content, at: 1 }])
      ]) {
        const { reason } = (yield* Effect.flip<unknown, unknown, never>(write)) as RunStoreError
        assert.strictEqual(reason._tag, "BlobMissing")
      }
      assert.strictEqual((yield* store.head(a)).revision, 1)
    }).pipe(Effect.provide(Layer.fresh(layerMemory)))
  )
})
