/**
 * Imports, prompts and forks that race with the removal of the runs that they build on, in processes that share only the store.
 */
import { assert } from "@effect/vitest"
import type { Id } from "@fermata/sdk"
import { Agent, Runtime } from "@fermata/sdk/agent"
import { exportRun, forkRun, importRun, loadState, runPromptStored } from "@fermata/sdk/durable"
import { ModelClient } from "@fermata/sdk/model"
import { RunStore } from "@fermata/sdk/store"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"

type Store = RunStore.RunStore["Service"]
type Open = Effect.Effect<Store, unknown, Scope.Scope>

const inStore = <A, E>(store: Store, effect: Effect.Effect<A, E, RunStore.RunStore>) =>
  Effect.provideService(effect, RunStore.RunStore, store)

const answering = Effect.provideService(
  Runtime.make({ agent: Agent.make("a", {}) }),
  ModelClient.ModelClient,
  ScriptedModel.make(() => "done").client
)

const tagOf = (error: unknown): string =>
  typeof error === "object" && error !== null && "_tag" in error ? String(error._tag) : String(error)

/** How often the import came first, which refuses the removal, and how often the removal, which the import then undoes. */
interface Outcome {
  readonly refused: number
  readonly restored: number
}

/** Imports the second run of a session while another process removes the first, by `remove` or by `prune`. */
export const importBesideRemoval: (
  open: Open,
  rounds: number
) => Effect.Effect<Outcome, unknown, Scope.Scope> = Effect.fnUntraced(function* (open, rounds) {
  const [importer, remover] = yield* Effect.all([open, open])
  const runtime = yield* answering
  const outcome = { refused: 0, restored: 0 }
  for (let round = 0; round < rounds; round++) {
    const [sessionId, one, two] = [`s${round}`, `one-${round}`, `two-${round}`] as unknown as [
      Id.SessionId,
      Id.RunId,
      Id.RunId
    ]
    yield* inStore(importer, runPromptStored(runtime, { prompt: "one", sessionId, runId: one }))
    yield* inStore(importer, runPromptStored(runtime, { prompt: "two", sessionId, runId: two }))
    const archive = yield* inStore(importer, exportRun(two))
    yield* importer.remove(two)
    const wait = yield* Random.nextIntBetween(0, 12)
    const removal = Effect.gen(function* () {
      for (let steps = wait; steps > 0; steps--) yield* Effect.yieldNow
      // The second run has ended, too.
      if (round % 2 === 0) return yield* remover.prune({ endedBefore: Date.now() + 60_000 })
      yield* remover.remove(one)
    })
    const [imported, removed] = yield* Effect.all(
      [Effect.result(inStore(importer, importRun(archive))), Effect.result(removal)],
      { concurrency: "unbounded" }
    )
    assert.isTrue(Result.isSuccess(imported), `round ${round}`)
    const isRefused = Result.isFailure(removed)
    if (isRefused) assert.strictEqual(tagOf(removed.failure), "RunContinued")
    outcome[isRefused ? "refused" : "restored"] += 1
    for (const { runId } of yield* importer.list({ sessionId })) {
      // Read by the process that has not driven the run.
      yield* inStore(remover, loadState(runId))
    }
    yield* inStore(remover, runPromptStored(runtime, { prompt: "three", sessionId }))
    yield* remover.prune({ endedBefore: Date.now() + 60_000 })
  }
  return outcome
})

/** Errors that concurrent work on the same runs may return. A failure of the store is not among them. */
const situations = ["SessionBusy", "RunRemoved", "RunNotFound", "RunContinued", "RunBusy", "RunExists"]

/**
 * Prompts, forks, moves, removes and prunes the same few sessions concurrently, each `rounds` times. Fails unless all remaining runs
 * are whole; returns how often each operation had each outcome.
 */
export const everythingAtOnce: (
  open: Open,
  rounds: number
) => Effect.Effect<ReadonlyMap<string, number>, unknown, Scope.Scope> = Effect.fnUntraced(
  function* (open, rounds) {
    const runtime = yield* answering
    const sessions = ["s1", "s2", "s3"] as unknown as ReadonlyArray<Id.SessionId>
    const seen = new Map<string, number>()
    const count = (what: string) => seen.set(what, (seen.get(what) ?? 0) + 1)
    const one = <A>(items: ReadonlyArray<A>) =>
      Effect.map(Random.nextIntBetween(0, items.length - 1), (index) => items[index]!)

    const prompting = (store: Store) =>
      Effect.flatMap(one(sessions), (sessionId) =>
        inStore(store, runPromptStored(runtime, { prompt: "go", sessionId }))
      )
    const withRun = (store: Store, use: (runId: Id.RunId) => Effect.Effect<unknown, unknown>) =>
      Effect.flatMap(store.list({ limit: 12 }), (heads) =>
        heads.length === 0 ? Effect.void : Effect.flatMap(one(heads), ({ runId }) => use(runId))
      )
    const forking = (store: Store) =>
      withRun(store, (runId) => inStore(store, forkRun(runtime, { runId, prompt: "else" })))
    const moving = (store: Store) =>
      withRun(store, (runId) =>
        Effect.gen(function* () {
          const archive = yield* inStore(store, exportRun(runId))
          // A run at work cannot be moved.
          if (archive.runs.at(-1)?.status === "running") return
          yield* store.remove(runId)
          yield* inStore(store, importRun(archive))
        })
      )
    const removing = (store: Store) => withRun(store, store.remove)
    const pruning = (store: Store) => store.prune({ endedBefore: Date.now() })

    const work = Effect.fnUntraced(function* (
      name: string,
      act: (store: Store) => Effect.Effect<unknown, unknown>
    ) {
      const store = yield* open
      for (let round = 0; round < rounds; round++) {
        const done = yield* Effect.result(act(store))
        const tag = Result.isSuccess(done) ? "done" : tagOf(done.failure)
        count(`${name}: ${tag}`)
        assert.include(["done", ...situations], tag, Result.isFailure(done) ? String(done.failure) : name)
      }
    })
    yield* Effect.all(
      [
        work("prompt", prompting),
        work("prompt", prompting),
        work("fork", forking),
        work("move", moving),
        work("move", moving),
        work("remove", removing),
        work("prune", pruning)
      ],
      { concurrency: "unbounded" }
    )

    const store = yield* open
    for (const { runId } of yield* store.list({ limit: 1000 })) {
      yield* inStore(store, loadState(runId))
      yield* inStore(store, exportRun(runId))
    }
    for (const sessionId of sessions) {
      yield* inStore(store, runPromptStored(runtime, { prompt: "again", sessionId }))
    }
    return seen
  }
)
