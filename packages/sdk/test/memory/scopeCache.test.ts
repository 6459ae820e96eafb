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
})
