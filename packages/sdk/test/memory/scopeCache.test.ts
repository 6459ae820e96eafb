import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { encodeTerms } from "../../src/memory/internal/encodedTerms.ts"
import * as Memory from "../../src/memory/Memory.ts"
import type { MemoryPort, MemoryRow } from "../../src/store/MemoryPort.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"

const rows = (count: number): ReadonlyArray<MemoryRow> =>
  Array.from({ length: count }, (_, index) => {
    const text = `heron ${index}`
    return {
      id: `m${index}`,
      scope: "global",
      kind: "message",
      text,
      terms: encodeTerms(text),
      version: 1,
      at: index
    }
  })

describe("the indexes of searched scopes", () => {
  it.effect("are read once, extended by later rows, and go on where an interrupted search stopped", () =>
    Effect.gen(function* () {
      const port = (yield* RunStore).memory!
      const read: Array<number> = []
      let stopAfter = 3
      const counted: MemoryPort = {
        ...port,
        list: (filter) => {
          if (filter.kind === "message" && read.length >= stopAfter) return Effect.interrupt
          return Effect.tap(port.list(filter), (found) =>
            Effect.sync(() => filter.kind === "message" && read.push(found.length))
          )
        }
      }
      yield* port.write(rows(1100))
      const memory = yield* Memory.make({ memory: counted })
      yield* Effect.exit(memory.recall("heron", { limit: 1 }))
      assert.deepStrictEqual(read, [250, 250, 250])
      stopAfter = Infinity
      assert.strictEqual((yield* memory.recall("1099", { limit: 1 })).length, 1)
      assert.deepStrictEqual(read, [250, 250, 250, 250, 100])
      yield* memory.recall("heron", { limit: 1 })
      assert.strictEqual(read.length, 5)
      yield* port.write(rows(1103))
      assert.strictEqual((yield* memory.recall("1102", { limit: 1 })).length, 1)
      assert.deepStrictEqual(read.slice(5), [3])
      // What was forgotten is read again, without it.
      yield* memory.forget("m1102")
      assert.strictEqual((yield* memory.recall("1102", { limit: 1 })).length, 0)
      assert.strictEqual(
        read.slice(6).reduce((sum, count) => sum + count, 0),
        1103
      )
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("are extended from the mark on, also if the scope has no row of their kind", () =>
    Effect.gen(function* () {
      const port = (yield* RunStore).memory!
      const after: Array<number | undefined> = []
      const counted: MemoryPort = {
        ...port,
        list: (filter) => {
          if (filter.kind === "fact") after.push(filter.after)
          return port.list(filter)
        }
      }
      yield* port.write(rows(10))
      const memory = yield* Memory.make({ memory: counted })
      yield* memory.recall("heron")
      const [mark] = yield* port.marks(["global"])
      yield* port.write(rows(12))
      assert.strictEqual((yield* memory.recall("11")).length, 1)
      assert.strictEqual(after.at(-1), mark!.next - 1)
      // A fact that comes later is found.
      yield* memory.remember({ text: "An egret." })
      assert.strictEqual((yield* memory.recall("egret")).length, 1)
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("are built anew for a scope that was deleted and written again at the same time", () =>
    Effect.gen(function* () {
      const memory = yield* Memory.make(yield* RunStore)
      yield* memory.remember({ text: "An egret." })
      assert.strictEqual((yield* memory.recall("egret")).length, 1)
      yield* memory.forget({ scope: "global" })
      yield* memory.remember({ text: "A heron." })
      assert.strictEqual((yield* memory.recall("heron")).length, 1)
    }).pipe(Effect.provide(layerMemory))
  )

  it.effect("find what is not left out, however many better items are left out", () =>
    Effect.gen(function* () {
      const store = yield* RunStore
      const text = "heron"
      yield* store.memory!.write([
        ...rows(250).map((row, sequence) => ({ ...row, text, terms: encodeTerms(text), sequence })),
        ...rows(251)
          .slice(250)
          .map((row) => ({
            ...row,
            terms: encodeTerms("heron and a long tail of other words"),
            sequence: 250
          }))
      ])
      const memory = yield* Memory.make(store)
      const found = yield* memory.recall("heron", { "~leftOut": ({ sequence = 0 }) => sequence < 250 })
      assert.deepStrictEqual(
        found.map(({ item }) => item.id),
        ["m250"]
      )
    }).pipe(Effect.provide(layerMemory))
  )
})
