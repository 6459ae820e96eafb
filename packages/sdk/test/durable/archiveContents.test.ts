import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { exportRun, importRun } from "../../src/durable/archive.ts"
import { exportRunLines, importRunLines } from "../../src/durable/archiveLines.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { bind } from "../helpers/Fixture.ts"
import { fileOf, imageOf } from "./attachmentsSuite.ts"

const inStore = <A, E>(body: Effect.Effect<A, E, RunStore>) => Effect.provide(body, Layer.fresh(layerMemory))

/** A run with two files, in both forms of its archive. */
const archived = inStore(
  Effect.gen(function* () {
    const { runtime } = yield* bind(Agent.make("eye"), ["Two cats."])
    const { runId } = yield* runPromptStored(runtime, {
      prompt: [fileOf(imageOf(3000)), fileOf(imageOf(600_000, 2))]
    })
    const value = yield* exportRun(runId)
    return { runId, value, lines: Array.from(yield* Stream.runCollect(exportRunLines(runId))) }
  })
)

describe("an archive with contents", () => {
  it.effect("in lines has no line with more than a piece of 256 KiB of a file", () =>
    Effect.gen(function* () {
      const { lines } = yield* archived
      assert.strictEqual(lines.length, 1 + 1 + 3 + 1)
      assert.isAtMost(Math.max(...lines.map(({ length }) => length)), 350_000)
      assert.isBelow(lines[0]!.length, 5000)
    })
  )

  it.effect("is refused, and no run stored, if a content is changed, missing, cut or not JSON", () =>
    Effect.gen(function* () {
      const { lines, runId, value } = yield* archived
      const [head, ...rest] = lines
      const last = rest.pop()
      const first = rest.find((line) => JSON.parse(line).base64.length === 4000)!
      const [second, third, fourth] = rest.filter((line) => line !== first)
      const of = (...given: ReadonlyArray<string | undefined>) =>
        importRunLines(Stream.fromIterable(given.map(String)))
      const other = JSON.stringify({ ...JSON.parse(first!), base64: "AAAA" })
      const refused: Record<string, Effect.Effect<unknown, { readonly message: string }, RunStore>> = {
        "have another SHA-256": of(head, other, "\n", second, third, fourth, last),
        "another SHA-256": of(head, first, second, fourth, third, last),
        "ends before its last line": of(head, first, second, third, fourth),
        "it has 1 contents": of(head, first, last),
        "not JSON": of(head, first!.slice(0, 100)),
        "no piece of a content": of(head, "{}"),
        "ends before": of(),
        "the form of an archive": of(last),
        "the bytes of its content": importRun({
          ...value,
          contents: value.contents!.map((content) => ({ ...content, base64: "AAAA" }))
        })
      }
      for (const [problem, importing] of Object.entries(refused)) {
        yield* inStore(
          Effect.gen(function* () {
            const error = yield* Effect.flip(importing)
            assert.include(error.message, problem)
            const store = yield* RunStore
            assert.strictEqual((yield* Effect.flip(store.head(runId)))._tag, "RunNotFound")
          })
        )
      }
      const { contents: _, ...without } = value
      const missing = yield* Effect.flip(inStore(importRun(without)))
      assert.deepInclude(missing, { _tag: "RunStoreError", operation: "restore" })
    })
  )

  it.effect("stores no content to which its runs do not refer", () =>
    Effect.gen(function* () {
      const { lines, value } = yield* archived
      const bare = yield* inStore(
        Effect.gen(function* () {
          const { runtime } = yield* bind(Agent.make("eye"), ["No cat."])
          return yield* exportRun((yield* runPromptStored(runtime, { prompt: "None" })).runId)
        })
      )
      const digests = value.contents!.map(({ sha256 }) => sha256)
      for (const importing of [
        importRun({ ...bare, contents: value.contents }),
        importRunLines(Stream.fromIterable([`${JSON.stringify(bare)}\n`, ...lines.slice(1)]))
      ]) {
        yield* inStore(
          Effect.gen(function* () {
            yield* importing
            assert.deepStrictEqual(yield* (yield* RunStore).blobs!.find(digests), [])
          })
        )
      }
    })
  )

  it.effect("in one value has at most 64 MiB of files", () =>
    inStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const { runtime } = yield* bind(Agent.make("eye"), ["A cat."])
        const { runId } = yield* runPromptStored(runtime, { prompt: [fileOf(imageOf(3000))] })
        const blobs = {
          ...store.blobs!,
          uses: (ids: ReadonlyArray<RunId>) =>
            Effect.map(store.blobs!.uses(ids), (uses) =>
              uses.map((use) => ({ ...use, ref: { ...use.ref, bytes: 64 * 1024 * 1024 + 1 } }))
            )
        }
        const error = yield* Effect.flip(
          Effect.provideService(exportRun(runId), RunStore, { ...store, blobs })
        )
        assert.deepInclude(error, { _tag: "ArchiveTooLarge", runId, bytes: 67_108_865 })
        assert.include(error.message, "exportRunLines")
      })
    )
  )
})
