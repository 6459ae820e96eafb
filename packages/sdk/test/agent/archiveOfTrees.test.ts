import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { afterAll, beforeAll, vi } from "vitest"
import { exportRun, importRun, type RunArchive } from "../../src/agent/archive.ts"
import { loadState } from "../../src/agent/loadState.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { layerMemory, RunStore, type StoredRun } from "../../src/store/RunStore.ts"
import { agentsOf, finish, randomOf, tell } from "./RandomTree.ts"

/** Stories; more with `FERMATA_ARCHIVE_TREES=2000`. */
const numStories = Number(process.env["FERMATA_ARCHIVE_TREES"] ?? 20)
const firstSeed = Number(process.env["FERMATA_ARCHIVE_SEED"] ?? 1)

vi.setConfig({ testTimeout: 60_000 + 3000 * numStories })

// A step that waits for a turn of the event loop, after some milliseconds, changes the order among agents that work beside each other.
// Both stores are to see the same order, so no time passes here.
beforeAll(() => {
  vi.spyOn(performance, "now").mockReturnValue(0)
})
afterAll(() => {
  vi.restoreAllMocks()
})

const inStore = <A, E>(store: RunStore["Service"], body: Effect.Effect<A, E, RunStore>) =>
  Effect.provideService(body, RunStore, store)
const freshStore = Effect.provide(RunStore, Layer.fresh(layerMemory))

const throughText = <A>(value: A): A => JSON.parse(JSON.stringify(value)) as A

/** What a store has of runs, without what is told by its own clock. */
const standing = Effect.fnUntraced(function* (runs: ReadonlyArray<RunId>) {
  const store = yield* RunStore
  const heads: Array<Pick<StoredRun, "decisions" | "messages"> & Readonly<Record<string, unknown>>> = []
  for (const runId of runs) {
    const { createdAt: _, lease: __, updatedAt: ___, ...head } = yield* store.head(runId)
    const [decisions, messages] = [yield* store.decisions(runId), yield* store.messages(runId)]
    heads.push({ head, decisions, messages, state: yield* loadState(runId) })
  }
  const isAmong = ({ runId }: { readonly runId: RunId }) => runs.includes(runId)
  const pending = (yield* store.pending({ limit: 1000 })).filter(isAmong)
  // Without the reason: what time has decided is a decision like any other in an archive.
  const ready = (yield* store.ready({ limit: 1000 })).filter(isAmong).map(({ runId }) => runId)
  return throughText({ heads, pending, ready: ready.toSorted() })
})

const told = { stories: 0, archives: 0, pending: 0, effects: 0, forks: 0, atWork: 0, decided: 0, mail: 0 }

/** A story, its store, and the archives of its runs, as text carries them. */
const story = Effect.fnUntraced(function* (number: number) {
  const seed = `archive ${number}`
  const { effects, process } = agentsOf(seed)
  const runtime = yield* process
  const store = yield* freshStore
  yield* inStore(store, tell(seed, runtime))
  const heads = (yield* store.list({ limit: 1000 })).toReversed()
  const settled = heads.filter(({ status }) => status !== "running").map(({ runId }) => runId)
  const archives: Array<RunArchive> = []
  for (const runId of settled) archives.push(throughText(yield* inStore(store, exportRun(runId))))
  told.stories += 1
  told.archives += archives.length
  told.forks += heads.filter(({ parent }) => parent !== undefined).length
  told.atWork += heads.length - settled.length
  return { archives, effects, runtime, seed, settled, store }
})

describe("the archive of a tree of runs", () => {
  it.effect("waits in another store for what it waits for in its own, and comes to the same effects", () =>
    Effect.gen(function* () {
      for (let number = firstSeed; number < firstSeed + numStories; number++) {
        const { archives, effects, runtime, seed, settled, store } = yield* story(number)
        const archive = archives[randomOf(seed)(archives.length)]
        if (archive === undefined) continue
        const runs = archive.runs.map(({ runId }) => runId).filter((runId) => settled.includes(runId))
        const copy = yield* freshStore
        yield* inStore(copy, importRun(archive))
        const before = yield* inStore(store, standing(runs))
        assert.deepStrictEqual(yield* inStore(copy, standing(runs)), before, seed)
        if (runs.length === archive.runs.length) {
          const again = throughText(yield* inStore(copy, exportRun(archive.runs.at(-1)!.runId)))
          assert.deepStrictEqual(again, archive, seed)
        }
        told.pending += before.pending.length
        told.decided += before.heads.flatMap(({ decisions }) => decisions).length
        told.mail += before.heads.flatMap(({ messages }) => messages).length

        const earlier = effects.splice(0)
        const refused = yield* inStore(store, finish(seed, runtime, runs))
        const there = effects.splice(0)
        assert.deepStrictEqual(yield* inStore(copy, finish(seed, runtime, runs)), refused, seed)
        const here = effects.splice(0)
        assert.deepStrictEqual(here, there, seed)
        assert.strictEqual(new Set([...earlier, ...here]).size, earlier.length + here.length, seed)
        told.effects += here.length
        const after = yield* inStore(store, standing(runs))
        assert.deepStrictEqual(yield* inStore(copy, standing(runs)), after, seed)
      }
    })
  )

  it.effect("is imported in any order among those of its relatives", () =>
    Effect.gen(function* () {
      for (let number = firstSeed; number < firstSeed + numStories; number++) {
        const { archives, effects, runtime, seed, settled, store } = yield* story(number)
        const copy = yield* freshStore
        const random = randomOf(`order ${seed}`)
        const left = [...archives]
        while (left.length > 0) {
          const [archive] = left.splice(random(left.length), 1)
          yield* inStore(copy, importRun(archive))
        }
        assert.deepStrictEqual(
          yield* inStore(copy, standing(settled)),
          yield* inStore(store, standing(settled)),
          seed
        )
        effects.length = 0
        yield* inStore(store, finish(seed, runtime, settled))
        const there = effects.splice(0)
        yield* inStore(copy, finish(seed, runtime, settled))
        assert.deepStrictEqual(effects.splice(0), there, seed)
      }
      if (process.env["FERMATA_ARCHIVE_TREES"] !== undefined) console.log(told)
      // The stories are such that there is something to see.
      for (const [what, count] of Object.entries(told)) assert.isAbove(count, 0, what)
    })
  )
})
