import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import { afterAll, beforeAll, vi } from "vitest"
import type { GrantId, RunId } from "../../src/domain/Id.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import { exportRun, importRun, type RunArchive } from "../../src/durable/archive.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { revokeGrant } from "../../src/durable/revokeGrant.ts"
import { RunStore } from "../../src/store/RunStore.ts"
import { type StoredRun } from "../../src/store/RunStorePort.ts"
import type { StoredGrant } from "../../src/store/StoredGrant.ts"
import { agentsOf, finish, playStory, randomOf } from "../helpers/RandomTree.ts"

/** Makes an empty store. */
export type FreshStore = Effect.Effect<RunStore["Service"], unknown, Scope.Scope>

/** Set `FERMATA_ARCHIVE_TREES=2000` for more stories. */
const givenStories = process.env["FERMATA_ARCHIVE_TREES"]
const firstSeed = Number(process.env["FERMATA_ARCHIVE_SEED"] ?? 1)

vi.setConfig({ testTimeout: 300_000 + 3000 * Number(givenStories ?? 20) })

// A step that yields to the event loop after some milliseconds changes the order of concurrent agents. Time stands still here, so
// that both stores see the same order.
beforeAll(() => {
  vi.spyOn(performance, "now").mockReturnValue(0)
})
afterAll(() => {
  vi.restoreAllMocks()
})

const inStore = <A, E>(store: RunStore["Service"], body: Effect.Effect<A, E, RunStore>) =>
  Effect.provideService(body, RunStore, store)
const throughText = <A>(value: A): A => JSON.parse(JSON.stringify(value)) as A

/** The content of a store for these runs, without the parts that depend on its clock. */
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
  // Without the reason: an archive keeps a denial by expiry as a decision.
  const ready = (yield* store.ready({ limit: 1000 })).filter(isAmong).map(({ runId }) => runId)
  return throughText({ heads, pending, ready: ready.toSorted() })
})

/** Concurrent sub-agents have their effects in any order, so the effects are sorted. */
const inAnyOrder = (effects: Array<string>) => effects.splice(0).toSorted()

/** An archive that a test can change. */
interface Changeable {
  runs: Array<{
    runId: RunId
    revision?: number
    events: Array<RunEvent>
    since?: { revision?: number; events: Array<RunEvent> }
  }>
}

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

/** A story, its store, and the archives of its runs as JSON. */
const storyOf = Effect.fnUntraced(function* (number: number, freshStore: FreshStore, told: typeof none) {
  const seed = `archive ${number}`
  const { effects, process, provider } = agentsOf(seed)
  const runtime = yield* process
  const store = yield* freshStore
  yield* inStore(store, playStory(seed, runtime))
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

/** Tests archives exported from one kind of store and imported into another. */
export const archiveOfTrees = (
  title: string,
  { from, stories, to }: { readonly from: FreshStore; readonly to: FreshStore; readonly stories: number }
) => {
  const numStories = Number(givenStories ?? stories)
  describe(`the archive of a tree of runs (${title})`, () => {
    const told = { ...none }
    const story = (number: number) => storyOf(number, from, told)

    it.effect("waits for the same requests in another store as in its own, and has the same effects", () =>
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

    it.effect("brings every later revocation to a store that already has its run", () =>
      Effect.gen(function* () {
        let numRevoked = 0
        let numRefused = 0
        for (let number = firstSeed; number < firstSeed + numStories; number++) {
          const { archives, effects, runtime, seed, settled, store } = yield* story(number)
          const random = randomOf(`revoked ${seed}`)
          const copy = yield* to
          for (const archive of archives) yield* inStore(copy, importRun(archive))
          const isWorkedOn = number % 2 === 0
          if (isWorkedOn) yield* inStore(copy, finish(seed, runtime, settled))
          const given = (yield* store.grants({ limit: 1000 })).filter(({ runId }) => settled.includes(runId))
          const revoked: Array<string> = []
          for (const { grant, runId } of given.filter(() => random(3) > 0)) {
            yield* inStore(store, revokeGrant(runId, grant.id, "ben"))
            revoked.push(grant.id)
          }
          for (const runId of settled) {
            const archive = throughText(yield* inStore(store, exportRun(runId)))
            const imported = yield* Effect.result(inStore(copy, importRun(archive)))
            if (Result.isSuccess(imported)) continue
            assert.isTrue(isWorkedOn, seed)
            assert.strictEqual(imported.failure._tag, "RunExists", seed)
            numRefused += 1
          }
          const here = new Map((yield* copy.grants({ limit: 1000 })).map(({ grant }) => [grant.id, grant]))
          for (const id of revoked) assert.isDefined(here.get(id as GrantId)?.revoked, `${seed} ${id}`)
          numRevoked += revoked.length
          if (isWorkedOn) continue
          const before = yield* inStore(store, standing(settled))
          assert.deepStrictEqual(yield* inStore(copy, standing(settled)), before, seed)
          effects.length = 0
          yield* inStore(store, finish(seed, runtime, settled))
          const there = inAnyOrder(effects)
          yield* inStore(copy, finish(seed, runtime, settled))
          assert.deepStrictEqual(inAnyOrder(effects), there, seed)
        }
        if (numStories < 20) return
        assert.isAbove(numRevoked, 0)
        assert.isAbove(numRefused, 0)
      })
    )

    it.effect(
      "is refused without one of its events; without the counts it is refused or can be resumed",
      () =>
        Effect.gen(function* () {
          const outcomes = { refused: 0, resumed: 0 }
          for (let number = firstSeed; number < firstSeed + numStories; number++) {
            const { archives, runtime, seed } = yield* story(number)
            const random = randomOf(`gap ${seed}`)
            for (const archive of archives) {
              const gapped = structuredClone(archive) as unknown as Changeable
              const run = gapped.runs[random(gapped.runs.length)]!
              const { since } = run
              const list =
                since !== undefined && since.events.length > 0 && random(2) === 0 ? since.events : run.events
              const [missing] = list.splice(random(list.length), 1)
              const copy = yield* to
              const refusal = yield* Effect.flip(inStore(copy, importRun(gapped)))
              assert.strictEqual(refusal._tag, "ArchiveInvalid", seed)
              for (const one of gapped.runs) {
                delete one.revision
                if (one.since !== undefined) delete one.since.revision
              }
              const imported = yield* Effect.result(inStore(copy, importRun(gapped)))
              if (Result.isFailure(imported)) {
                assert.strictEqual(imported.failure._tag, "ArchiveInvalid", seed)
                assert.deepStrictEqual(yield* copy.list(), [], seed)
                outcomes.refused += 1
                continue
              }
              const runs = gapped.runs.map(({ runId }) => runId)
              const refusals = yield* inStore(copy, finish(seed, runtime, runs))
              assert.notInclude(refusals.join(), "RunStoreError", `${seed} without ${missing?._tag}`)
              for (const runId of runs) yield* inStore(copy, loadState(runId))
              outcomes.resumed += 1
            }
          }
          if (numStories < 20) return
          for (const [what, count] of Object.entries(outcomes)) assert.isAbove(count, 0, what)
        })
    )

    it.effect("is imported in any order among the archives of related runs", () =>
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
        // The stories have covered each case.
        if (numStories < 20) return
        for (const [what, count] of Object.entries(told)) assert.isAbove(count, 0, what)
      })
    )
  })
}
