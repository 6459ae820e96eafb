import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunId, SessionId } from "../../src/domain/Id.ts"
import { exportRun, importRun, type RunArchive } from "../../src/durable/archive.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as FaultyRunStore from "../../src/testing/FaultyRunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Scrubber from "../../src/tool/Scrubber.ts"
import { approve, call, expect, probe, rebind, transcript } from "../helpers/Fixture.ts"

const inOneStore = <A, E>(body: Effect.Effect<A, E, RunStore>) =>
  Effect.provide(body, Layer.fresh(layerMemory))

const sessionId = "s" as SessionId
const first = "first" as RunId
const original = "original" as RunId
const fork = "fork" as RunId

/** An agent whose `write` call needs approval, for any number of processes. */
const writing = () => {
  const write = probe("write")
  const model = ScriptedModel.make(({ messages }) => {
    const last = messages.at(-1)
    const [part] = last?.role === "user" ? last.content : []
    return part?._tag === "text" && part.text.startsWith("write ")
      ? { calls: [call("write", part.text.slice(6))] }
      : "done"
  })
  const process = Effect.map(
    rebind(Agent.make("a", { tools: [write.tool] }), model),
    ({ runtime }) => runtime
  )
  return { process, ran: write.ran }
}

/** A session of two runs, the second held, and a fork of it; the archives of all three as JSON. */
const forked = Effect.fnUntraced(function* (after: Effect.Effect<unknown, unknown, RunStore> = Effect.void) {
  const { process, ran } = writing()
  const archives = yield* inOneStore(
    Effect.gen(function* () {
      const runtime = yield* process
      yield* runPromptStored(runtime, { prompt: "hello", sessionId, runId: first })
      yield* runPromptStored(runtime, { prompt: "write 1", sessionId, runId: original })
      yield* forkRun(runtime, { runId: original, prompt: "write 2", newRunId: fork })
      yield* after
      const archive = (runId: RunId) => Effect.map(exportRun(runId), (given) => JSON.stringify(given))
      return { first: yield* archive(first), original: yield* archive(original), fork: yield* archive(fork) }
    })
  )
  return { archives, process, ran }
})

const importText = (text: string) => importRun(JSON.parse(text))

const pending = Effect.flatMap(RunStore, (store) =>
  Effect.map(store.pending(), (all) => all.map(({ request }) => request.requestId).toSorted())
)

describe("the archives of a fork and its original", () => {
  it.effect("are imported in any order, and each request is decided and applied once", () =>
    Effect.gen(function* () {
      const orders: ReadonlyArray<ReadonlyArray<"first" | "original" | "fork">> = [
        ["fork"],
        ["fork", "original"],
        ["original", "fork"],
        ["first", "original", "fork"],
        ["first", "fork", "original"],
        ["fork", "first", "original"]
      ]
      for (const order of orders) {
        const { archives, process, ran } = yield* forked()
        yield* inOneStore(
          Effect.gen(function* () {
            for (const name of order) assert.strictEqual(yield* importText(archives[name]), name as RunId)
            assert.deepStrictEqual(yield* pending, ["fork.r1", "original.r1"])
            const runtime = yield* process
            for (const runId of [original, fork]) {
              const [asked] = yield* (yield* RunStore).pending({ runId })
              const decisions = [approve(asked!.request)]
              expect(yield* runPromptStored(runtime, { runId, decisions }), "completed")
              // The older archive does not reset it.
              assert.strictEqual(
                (yield* Effect.flip(importText(archives[runId as "fork"])))._tag,
                "RunExists"
              )
              expect(yield* runPromptStored(runtime, { runId }), "completed")
            }
            assert.deepStrictEqual(ran, ["1", "2"])
            assert.deepStrictEqual(yield* pending, [])
          })
        )
      }
    })
  )

  it.effect("keep the session busy while its run is held", () =>
    Effect.gen(function* () {
      const { archives, process } = yield* forked()
      yield* inOneStore(
        Effect.gen(function* () {
          yield* importText(archives.fork)
          const refused = yield* Effect.flip(runPromptStored(yield* process, { prompt: "more", sessionId }))
          assert.strictEqual(refused._tag, "SessionBusy")
        })
      )
    })
  )

  it.effect("keep the decision, message and cancellation that the original has not applied", () =>
    Effect.gen(function* () {
      const mailed = Effect.gen(function* () {
        const store = yield* RunStore
        const [asked] = yield* store.pending({ runId: original })
        yield* store.decide(approve(asked!.request))
        yield* sendMessage(original, "and be quick", { messageId: "m1" })
        yield* store.requestCancel(original, "never mind")
        yield* store.requestCancel(fork, "nor this")
      })
      const { archives, process, ran } = yield* forked(mailed)
      for (const name of ["fork", "original"] as const) {
        yield* inOneStore(
          Effect.gen(function* () {
            const store = yield* RunStore
            yield* importText(archives[name])
            assert.deepStrictEqual(
              JSON.parse(JSON.stringify(yield* exportRun(name as RunId))),
              JSON.parse(archives[name])
            )
            const { decisions, head, messages } = yield* store.load(original)
            assert.deepStrictEqual(
              decisions.map(({ by }) => by),
              ["ann"]
            )
            assert.deepStrictEqual(
              messages.map(({ messageId }) => messageId),
              ["m1"]
            )
            assert.strictEqual(head.cancelReason, "never mind")
            const runtime = yield* process
            expect(yield* runPromptStored(runtime, { runId: original }), "cancelled")
            if (name === "fork") expect(yield* runPromptStored(runtime, { runId: fork }), "cancelled")
          })
        )
      }
      assert.deepStrictEqual(ran, [])
    })
  )

  it.effect("redact the pending mail of the original as its journal", () =>
    Effect.gen(function* () {
      const secret = `ghp_${"a1B2".repeat(9)}`
      const { archives } = yield* forked(
        Effect.gen(function* () {
          const store = yield* RunStore
          yield* store.requestCancel(original, `because of ${secret}`)
          yield* store.send(original, { content: [{ _tag: "text", text: secret }] })
        })
      )
      yield* inOneStore(
        Effect.gen(function* () {
          yield* importText(archives.fork)
          assert.notInclude(JSON.stringify(yield* exportRun(fork)), secret)
          assert.include((yield* (yield* RunStore).head(original)).cancelReason, "because of ")
        })
      ).pipe(Effect.provideService(Scrubber.Scrubber, Scrubber.make()))
    })
  )

  it.effect("of earlier versions, with a part of the original, are imported before the original", () =>
    Effect.gen(function* () {
      const { archives, process, ran } = yield* forked()
      const archive = JSON.parse(archives.fork) as RunArchive
      const before = { ...archive, runs: archive.runs.map((run) => ({ ...run, since: undefined })) }
      yield* inOneStore(
        Effect.gen(function* () {
          const store = yield* RunStore
          yield* importRun(before)
          assert.deepStrictEqual(yield* pending, ["fork.r1"])
          assert.strictEqual((yield* store.head(original)).status, "cancelled")
          yield* importText(archives.original)
          assert.deepStrictEqual(yield* pending, ["fork.r1", "original.r1"])
          const [asked] = yield* store.pending({ runId: original })
          const runtime = yield* process
          yield* decideStored([runtime], approve(asked!.request))
          const done = expect(yield* runPromptStored(runtime, { runId: original }), "completed")
          assert.deepStrictEqual(transcript(done.state), [
            "user: hello",
            "assistant: done",
            "user: write 1",
            "assistant: (write)",
            "tool: write:1",
            "assistant: done"
          ])
          assert.deepStrictEqual(ran, ["1"])
        })
      )
    })
  )

  it.effect("make a prompt on the part retryable when the original arrives meanwhile", () =>
    Effect.gen(function* () {
      const { archives, process } = yield* forked()
      const archive = JSON.parse(archives.fork) as RunArchive
      const before = { ...archive, runs: archive.runs.map((run) => ({ ...run, since: undefined })) }
      yield* inOneStore(
        Effect.gen(function* () {
          const store = yield* RunStore
          yield* importRun(before)
          const arrival = Effect.provideService(importText(archives.original), RunStore, store)
          const beside = FaultyRunStore.make(store, {
            before: (operation) =>
              operation === "create" ? Effect.asVoid(Effect.orDie(arrival)) : Effect.void
          })
          const prompt = runPromptStored(yield* process, { prompt: "more", sessionId })
          const refused = yield* Effect.flip(Effect.provideService(prompt, RunStore, beside))
          assert.deepInclude({ ...refused }, { _tag: "RunRemoved", runId: original, isRetryable: true })
          assert.strictEqual((yield* Effect.flip(prompt))._tag, "SessionBusy")
          assert.deepStrictEqual(yield* pending, ["fork.r1", "original.r1"])
        })
      )
    })
  )

  it.effect("make a fork or prompt retryable when its original is removed meanwhile", () =>
    Effect.gen(function* () {
      const { process } = writing()
      yield* inOneStore(
        Effect.gen(function* () {
          const store = yield* RunStore
          const runtime = yield* process
          for (const operation of ["load", "create"] as const) {
            yield* runPromptStored(runtime, { prompt: "hello", sessionId, runId: first })
            // A process that has not driven the run has to read it.
            const elsewhere = FaultyRunStore.make(store, {
              before: (asked) => (asked === operation ? Effect.ignore(store.remove(first)) : Effect.void)
            })
            const prompt = runPromptStored(runtime, { prompt: "more", sessionId, runId: original })
            const refused = yield* Effect.flip(Effect.provideService(prompt, RunStore, elsewhere))
            assert.deepInclude({ ...refused }, { _tag: "RunRemoved", runId: first, isRetryable: true })
            assert.include(refused.message, "start again")
            expect(yield* prompt, "completed")
            yield* store.remove(original)
          }
          yield* runPromptStored(runtime, { prompt: "hello", sessionId, runId: first })
          const beside = FaultyRunStore.make(store, {
            before: (operation) => (operation === "create" ? Effect.ignore(store.remove(first)) : Effect.void)
          })
          const forking = forkRun(runtime, { runId: first, prompt: "else" })
          const refused = yield* Effect.flip(Effect.provideService(forking, RunStore, beside))
          assert.deepInclude({ ...refused }, { _tag: "RunRemoved", runId: first, isRetryable: true })
          assert.strictEqual((yield* Effect.flip(forking))._tag, "RunNotFound")
        })
      )
    })
  )

  it.effect("contain only the shared part of a working original", () =>
    Effect.gen(function* () {
      const atWork = Effect.gen(function* () {
        const store = yield* RunStore
        const lease = yield* store.claim({ runId: original, owner: "me", ttl: "1 minute" })
        const { revision } = yield* store.head(original)
        const events = [{ _tag: "run.resumed", at: 5 }] as const
        yield* store.append({ lease, expected: revision, events, status: "running" })
      })
      const { archives } = yield* forked(atWork)
      const { archives: later } = yield* forked()
      yield* inOneStore(
        Effect.gen(function* () {
          const store = yield* RunStore
          yield* importText(archives.fork)
          assert.deepStrictEqual(yield* pending, ["fork.r1"])
          assert.strictEqual((yield* store.head(original)).status, "cancelled")
          assert.deepStrictEqual(yield* store.ready(), [])
          // Once it is held again, its own archive replaces the part.
          yield* importText(later.original)
          assert.deepStrictEqual(yield* pending, ["fork.r1", "original.r1"])
        })
      )
    })
  )

  it.effect("bring the copy up to date with the original, and repeat no call", () =>
    Effect.gen(function* () {
      const { process, ran } = writing()
      const [early, late] = yield* inOneStore(
        Effect.gen(function* () {
          const runtime = yield* process
          yield* runPromptStored(runtime, { prompt: "write 1", sessionId, runId: original })
          yield* forkRun(runtime, { runId: original, prompt: "write 2", newRunId: fork })
          const early = JSON.stringify(yield* exportRun(fork))
          const [asked] = yield* (yield* RunStore).pending({ runId: original })
          yield* runPromptStored(runtime, { runId: original, decisions: [approve(asked!.request)] })
          return [early, JSON.stringify(yield* exportRun(original))] as const
        })
      )
      yield* inOneStore(
        Effect.gen(function* () {
          yield* importText(early)
          assert.deepStrictEqual(yield* pending, ["fork.r1", "original.r1"])
          yield* importText(late)
          assert.deepStrictEqual(yield* pending, ["fork.r1"])
          assert.strictEqual((yield* loadState(original)).status, "completed")
          expect(yield* runPromptStored(yield* process, { runId: original }), "completed")
          assert.deepStrictEqual(ran, ["1"])
        })
      )
    })
  )

  it.effect("are refused when the part after the fork is inconsistent, and nothing is written", () =>
    Effect.gen(function* () {
      const { archives } = yield* forked()
      const archive = JSON.parse(archives.fork) as RunArchive
      const [one, two, last] = archive.runs as unknown as [
        RunArchive["runs"][0],
        RunArchive["runs"][0],
        RunArchive["runs"][0]
      ]
      const since = two.since!
      const wrong: ReadonlyArray<readonly [unknown, string]> = [
        [
          { ...archive, runs: [one, { ...two, since: { ...since, status: "completed" } }, last] },
          "continue as it says"
        ],
        [
          { ...archive, runs: [one, { ...two, since: { ...since, status: "running" } }, last] },
          "continue as it says"
        ],
        [
          {
            ...archive,
            runs: [one, { ...two, since: { ...since, events: since.events.slice(0, -1) } }, last]
          },
          "4 events where it says that there are 5"
        ],
        [
          {
            ...archive,
            runs: [one, { ...two, since: { ...since, revision: 4, events: since.events.slice(0, -1) } }, last]
          },
          "continue as it says"
        ],
        [{ ...archive, runs: [one, { ...two, since: { ...since, events: [{}] } }, last] }, "the form"],
        [{ ...archive, runs: [one, one, two, last] }, "twice"],
        [
          {
            ...archive,
            runs: [
              one,
              {
                ...two,
                since: { ...since, revision: two.events.length + last.events.length, events: last.events }
              },
              last
            ]
          },
          "continue as it says"
        ],
        [
          { ...archive, runs: [one, two, { ...last, since: { ...since, events: [] } }] },
          "continue as it says"
        ],
        [{ ...archive, runs: [one, { ...two, since: { ...since, decisions: 1 } }, last] }, "the form"],
        [
          {
            ...archive,
            runs: [
              one,
              {
                ...two,
                since: {
                  ...since,
                  decisions: [{ _tag: "approve", requestId: "original.r9", by: "ann", at: 0 }]
                }
              },
              last
            ]
          },
          "the run original has not asked the request original.r9"
        ]
      ]
      yield* inOneStore(
        Effect.gen(function* () {
          for (const [given, problem] of wrong) {
            const error = yield* Effect.flip(importRun(given))
            assert.strictEqual(error._tag, "ArchiveInvalid")
            assert.include(error.message, problem)
          }
          assert.deepStrictEqual(yield* (yield* RunStore).list(), [])
        })
      )
    })
  )
})
