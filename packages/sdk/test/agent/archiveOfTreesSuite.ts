import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { afterAll, beforeAll, vi } from "vitest"
import { exportRun, importRun, type RunArchive } from "../../src/agent/archive.ts"
import { loadState } from "../../src/agent/loadState.ts"
import type { RunId } from "../../src/domain/Id.ts"
import { RunStore, type StoredRun } from "../../src/store/RunStore.ts"
import type { StoredGrant } from "../../src/store/StoredGrant.ts"
import { agentsOf, finish, randomOf, tell } from "./RandomTree.ts"

/** Makes a store with nothing in it. */
export type FreshStore = Effect.Effect<RunStore["Service"], unknown, Scope.Scope>

/** More stories with `FERMATA_ARCHIVE_TREES=2000`. */
const givenStories = process.env["FERMATA_ARCHIVE_TREES"]
const firstSeed = Number(process.env["FERMATA_ARCHIVE_SEED"] ?? 1)

vi.setConfig({ testTimeout: 300_000 + 3000 * Number(givenStories ?? 20) })

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
const throughText = <A>(value: A): A => JSON.parse(JSON.stringify(value)) as A

/** What a store has of runs, without what it gives by its own clock. */
const standing = Effect.fnUntraced(function* (runs: ReadonlyArray<RunId>) {
  const store = yield* RunStore
  const heads: Array<
    Pick<StoredRun, "decisions" | "messages"> & {
      readonly grants: ReadonlyArray<StoredGrant>
    } & Readonly<Record<string, unknown>>
  > = []
  for (const runId of runs) {
    const { createdAt: _, lease: __, updatedAt: ___, ...head } = yield* store.head(runId)
    const [decisions, messages] = [yield* store.decisions(runId), yield* store.messages(runId)]
    const [events, grants] = [yield* store.events(runId), yield* store.grants({ runId })]
    heads.push({ head, decisions, messages, events, grants, state: yield* loadState(runId) })
  }
  const isAmong = ({ runId }: { readonly runId: RunId }) => runs.includes(runId)
  const pending = (yield* store.pending({ limit: 1000 })).filter(isAmong)
  // Without the reason: what time has decided is a decision like any other in an archive.
  const ready = (yield* store.ready({ limit: 1000 })).filter(isAmong).map(({ runId }) => runId)
  return throughText({ heads, pending, ready: ready.toSorted() })
})

/** Sub-agents that run at the same time have their effects in any order. */
const inAnyOrder = (effects: Array<string>) => effects.splice(0).toSorted()

const none = {
  stories: 0,
  archives: 0,
  pending: 0,
  effects: 0,
  forks: 0,
  atWork: 0,
  decided: 0,
  mail: 0,
  grants: 0,
  revoked: 0,
  failed: 0,
  toBeCancelled: 0,
  logins: 0,
  limits: 0,
  inDoubt: 0
}

const count = (told: typeof none, { heads, pending }: Effect.Success<ReturnType<typeof standing>>) => {
  const grants = heads.flatMap(({ grants }) => grants)
  told.pending += pending.length
  told.decided += heads.flatMap(({ decisions }) => decisions).length
  told.mail += heads.flatMap(({ messages }) => messages).length
  told.grants += grants.length
  told.revoked += grants.filter(({ grant }) => grant.revoked !== undefined).length
}

/** A story, its store, and the archives of its runs, as text carries them. */
const storyOf = Effect.fnUntraced(function* (number: number, freshStore: FreshStore, told: typeof none) {
  const seed = `archive ${number}`
  const { effects, process, provider } = agentsOf(seed)
  const runtime = yield* process
  const store = yield* freshStore
  yield* inStore(store, tell(seed, runtime))
  provider.hasTrouble = false
  const heads = (yield* store.list({ limit: 1000 })).toReversed()
  const failed = heads.filter(({ status }) => status === "error")
  told.failed += failed.length
  told.toBeCancelled += failed.filter(({ cancelReason }) => cancelReason !== undefined).length
  for (const { request } of yield* store.pending({ limit: 1000 })) {
    if (request._tag === "login") told.logins += 1
    if (request._tag === "limit") told.limits += 1
    if (request._tag === "inDoubt") told.inDoubt += 1
  }
  const settled = heads.filter(({ status }) => status !== "running").map(({ runId }) => runId)
  const archives: Array<RunArchive> = []
  for (const runId of settled) archives.push(throughText(yield* inStore(store, exportRun(runId))))
  told.stories += 1
  told.archives += archives.length
  told.forks += heads.filter(({ parent }) => parent !== undefined).length
  told.atWork += heads.length - settled.length
  return { archives, effects, runtime, seed, settled, store }
})

/** Tests the archives that the stores of one kind give to those of another. */
export const archiveOfTrees = (
  title: string,
  { from, stories, to }: { readonly from: FreshStore; readonly to: FreshStore; readonly stories: number }
) => {
  const numStories = Number(givenStories ?? stories)
  describe(`the archive of a tree of runs (${title})`, () => {
    const told = { ...none }
    const story = (number: number) => storyOf(number, from, told)

    it.effect("waits in another store for what it waits for in its own, and comes to the same effects", () =>
      Effect.gen(function* () {
        for (let number = firstSeed; number < firstSeed + numStories; number++) {
          const { archives, effects, runtime, seed, settled, store } = yield* story(number)
          const archive = archives[randomOf(seed)(archives.length)]
          if (archive === undefined) continue
          const runs = archive.runs.map(({ runId }) => runId).filter((runId) => settled.includes(runId))
          const copy = yield* to
          yield* inStore(copy, importRun(archive))
          const before = yield* inStore(store, standing(runs))
          assert.deepStrictEqual(yield* inStore(copy, standing(runs)), before, seed)
          if (runs.length === archive.runs.length) {
            const again = throughText(yield* inStore(copy, exportRun(archive.runs.at(-1)!.runId)))
            assert.deepStrictEqual(again, archive, seed)
          }
          count(told, before)

          const earlier = inAnyOrder(effects)
          const refused = yield* inStore(store, finish(seed, runtime, runs))
          const there = inAnyOrder(effects)
          assert.deepStrictEqual(yield* inStore(copy, finish(seed, runtime, runs)), refused, seed)
          const here = inAnyOrder(effects)
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
          const copy = yield* to
          const random = randomOf(`order ${seed}`)
          const left = [...archives]
          while (left.length > 0) {
            const [archive] = left.splice(random(left.length), 1)
            yield* inStore(copy, importRun(archive))
          }
          const before = yield* inStore(store, standing(settled))
          assert.deepStrictEqual(yield* inStore(copy, standing(settled)), before, seed)
          count(told, before)
          effects.length = 0
          yield* inStore(store, finish(seed, runtime, settled))
          const there = inAnyOrder(effects)
          yield* inStore(copy, finish(seed, runtime, settled))
          assert.deepStrictEqual(inAnyOrder(effects), there, seed)
        }
        if (givenStories !== undefined) console.log(told)
        // The stories are such that there is something to see.
        if (numStories < 20) return
        for (const [what, count] of Object.entries(told)) assert.isAbove(count, 0, what)
      })
    )
  })
}
