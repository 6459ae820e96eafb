import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import * as Cancellation from "../../src/agent/Cancellation.ts"
import type { RunId, SessionId } from "../../src/domain/Id.ts"
import { exportRun, importRun } from "../../src/durable/archive.ts"
import { forkRun, rewindPoints } from "../../src/durable/forkRun.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { recover } from "../../src/durable/recover.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as RunChecker from "../../src/testing/RunChecker.ts"
import {
  approve,
  assertValid,
  bind,
  call,
  expect,
  only,
  probe,
  rebind,
  results,
  safe,
  transcript
} from "../helpers/Fixture.ts"

const inOneStore = <A, E>(body: Effect.Effect<A, E, RunStore>) =>
  Effect.provide(body, Layer.fresh(layerMemory))

const original = "original" as RunId
const fork = "fork" as RunId

/** Asserts that the checker finds no fault in the store. */
const assertSound = Effect.gen(function* () {
  const store = yield* RunStore
  const heads = yield* store.list()
  const journals = yield* Effect.forEach(heads, (head) =>
    Effect.map(store.events(head.runId), (events) => ({ ...head, events }))
  )
  const inbox = { open: yield* store.pending(), undelivered: [], messages: [] }
  assert.deepStrictEqual(RunChecker.check({ journals, inbox }), [])
})

/** A run with two reads, an approved write and two answers. */
const told = Effect.gen(function* () {
  const read = safe("read")
  const write = probe("write")
  const agent = () => Agent.make("a", { tools: [read.tool, write.tool] })
  const { runtime } = yield* bind(agent(), [
    { text: "I look first.", calls: [call("read", "1"), call("read", "2")] },
    { calls: [call("write", "3")] },
    "It is done."
  ])
  const held = yield* runPromptStored(runtime, { prompt: "Do it.", runId: original })
  const done = yield* runPromptStored(runtime, {
    runId: original,
    decisions: [approve(only(held, "approval"))]
  })
  expect(done, "completed")
  return { agent, read, runtime, write }
})

describe("forkRun", () => {
  it.effect("continues from the end of a run in a new session, and does not change the run", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const { agent, read, write } = yield* told
        const before = yield* store.load(original)
        const { runtime } = yield* bind(agent(), ["Another answer."])
        const result = expect(
          yield* forkRun(runtime, { runId: original, prompt: "And now?", newRunId: fork }),
          "completed"
        )
        assert.deepStrictEqual(transcript(result.state), [
          "user: Do it.",
          "assistant: I look first.(read, read)",
          "tool: read:1",
          "tool: read:2",
          "assistant: (write)",
          "tool: write:3",
          "assistant: It is done.",
          "user: And now?",
          "assistant: Another answer."
        ])
        assert.deepStrictEqual([read.ran, write.ran], [["1", "2"], ["3"]])
        assert.deepStrictEqual(yield* store.load(original), before)
        const head = yield* store.head(fork)
        assert.deepStrictEqual(head.parent, { runId: original, revision: before.head.revision })
        assert.notStrictEqual(head.sessionId, before.head.sessionId)
        assert.deepStrictEqual(yield* loadState(fork), result.state)
        assert.strictEqual(result.usage.turns, 1)
        yield* assertSound
      })
    )
  )

  it.effect("continues from any revision, gives open calls a synthetic result, and runs none of them", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const { agent, read, write } = yield* told
        const { revision: latest } = yield* store.head(original)
        const whole = transcript(yield* loadState(original))
        for (let revision = 1; revision <= latest; revision += 1) {
          const { runtime } = yield* bind(agent(), ["Another answer."])
          const { state } = expect(
            yield* forkRun(runtime, { runId: original, revision, prompt: "And now?" }),
            "completed"
          )
          assertValid(state)
          const shared = transcript(state).slice(0, -2)
          for (const [index, message] of shared.entries()) {
            if (!/has not run|was started|still waiting/.test(message))
              assert.strictEqual(message, whole[index])
          }
        }
        assert.deepStrictEqual([read.ran, write.ran], [["1", "2"], ["3"]])
        yield* assertSound
      })
    )
  )

  it.effect("appends its prompt after an equal one that the run has not answered, as any other", () =>
    inOneStore(
      Effect.gen(function* () {
        const { agent } = yield* told
        const { runtime } = yield* bind(agent(), ["Once more."])
        const forked = yield* forkRun(runtime, { runId: original, revision: 1, prompt: "Do it." })
        assert.deepStrictEqual(transcript(expect(forked, "completed").state), [
          "user: Do it.",
          "user: Do it.",
          "assistant: Once more."
        ])
      })
    )
  )

  it.effect("starts before the open turn by default, and leaves its request to the original", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const write = probe("write")
        const agent = Agent.make("a", { tools: [write.tool] })
        const { runtime } = yield* bind(agent, [
          "Hello.",
          { calls: [call("write", "1")] },
          "I leave it.",
          "Written."
        ])
        const sessionId = "s" as SessionId
        yield* runPromptStored(runtime, { prompt: "Hi.", sessionId })
        const held = yield* runPromptStored(runtime, { prompt: "Write it.", sessionId, runId: original })
        const result = expect(
          yield* forkRun(runtime, { runId: original, prompt: "Do not.", newRunId: fork }),
          "completed"
        )
        assert.deepStrictEqual(transcript(result.state), [
          "user: Hi.",
          "assistant: Hello.",
          "user: Write it.",
          "user: Do not.",
          "assistant: I leave it."
        ])
        assert.strictEqual((yield* store.pending()).length, 1)
        assert.strictEqual((yield* store.latest(sessionId))?.runId, original)
        yield* assertSound
        const decisions = [approve(only(held, "approval"))]
        expect(yield* runPromptStored(runtime, { runId: original, decisions }), "completed")
        assert.deepStrictEqual(write.ran, ["1"])
        yield* assertSound
      })
    )
  )

  it.effect("forks a run that another process drives, also with another agent", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        yield* told
        yield* store.claim({ runId: original, owner: "another", ttl: "1 hour" })
        const { runtime } = yield* bind(Agent.make("b"), ["I am b."])
        const result = yield* forkRun(runtime, { runId: original, prompt: "Who are you?" })
        assert.strictEqual(expect(result, "completed").text, "I am b.")
        assert.strictEqual((yield* store.head(result.runId)).agent, "b")
        assert.strictEqual((yield* store.head(original)).lease?.owner, "another")
      })
    )
  )

  it.effect("forks a fork, whose own session continues", () =>
    inOneStore(
      Effect.gen(function* () {
        const { runtime } = yield* bind(Agent.make("a"), ["1", "2", "3", "4"])
        yield* runPromptStored(runtime, { prompt: "one", runId: original })
        const sessionId = "other" as SessionId
        yield* forkRun(runtime, { runId: original, prompt: "two", newRunId: fork, sessionId })
        const third = yield* forkRun(runtime, { runId: fork, revision: 2, prompt: "three" })
        assert.deepStrictEqual(transcript(expect(third, "completed").state), [
          "user: one",
          "assistant: 1",
          "user: two",
          "assistant: 2",
          "user: three",
          "assistant: 3"
        ])
        const next = yield* runPromptStored(runtime, { prompt: "four", sessionId })
        assert.deepStrictEqual(transcript(expect(next, "completed").state), [
          "user: one",
          "assistant: 1",
          "user: two",
          "assistant: 2",
          "user: four",
          "assistant: 4"
        ])
        assert.strictEqual(next.state.parent?.runId, fork)
        yield* assertSound
      })
    )
  )

  it.effect("copies session grants, and no run grants", () =>
    inOneStore(
      Effect.gen(function* () {
        for (const scope of ["session", "run"] as const) {
          const write = probe("write")
          const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
            { calls: [call("write", "1")] },
            "Written.",
            { calls: [call("write", "2")] },
            "Written again."
          ])
          const held = yield* runPromptStored(runtime, { prompt: "go" })
          const decisions = [approve(only(held, "approval"), { grant: { scope, arguments: {} } })]
          yield* runPromptStored(runtime, { runId: held.runId, decisions })
          const forked = yield* forkRun(runtime, { runId: held.runId, prompt: "again" })
          assert.strictEqual(forked.status, scope === "session" ? "completed" : "interrupted")
          assert.deepStrictEqual(write.ran, scope === "session" ? ["1", "2"] : ["1"])
        }
      })
    )
  )

  // `leaving` is the option's earlier name.
  it.effect.each(["suspension", "leaving"] as const)(
    "holds, suspends (%s) and recovers the fork like any other run",
    (option) =>
      inOneStore(
        Effect.gen(function* () {
          yield* told
          const write = probe("write")
          const agent = () => Agent.make("a", { tools: [write.tool] })
          const { model, runtime } = yield* bind(agent(), [{ calls: [call("write", "9")] }, "Done."])
          const suspension = { soon: Cancellation.make(), now: Cancellation.make() }
          suspension.soon.cancel("The program ends.")
          const given = { runId: original, prompt: "Write more.", newRunId: fork }
          const left = yield* Effect.flip(forkRun(runtime, given, { [option]: suspension }))
          assert.strictEqual(left._tag, "RunSuspended")
          const { runtime: other } = yield* rebind(agent(), model)
          const [taken] = yield* recover([other])
          assert.deepStrictEqual([taken?.runId, taken?.reason, taken?.status], [fork, "orphaned", "held"])
          const [waiting] = yield* (yield* RunStore).pending({ runId: fork })
          const done = yield* runPromptStored(other, { runId: fork, decisions: [approve(waiting!.request)] })
          expect(done, "completed")
          assert.deepStrictEqual(write.ran, ["9"])
          yield* assertSound
        })
      )
  )

  it.effect("refuses an unknown revision, an unknown run and an empty prompt, and starts nothing", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const { runtime } = yield* told
        const { revision: latest } = yield* store.head(original)
        for (const revision of [0, -1, 1.5, latest + 1, Number.NaN, "2"]) {
          const error = yield* Effect.flip(
            forkRun(runtime, { runId: original, prompt: "go", revision: revision as number })
          )
          assert.strictEqual(error._tag, "RevisionNotFound")
          assert.include(error.message, `choose one from 1 to ${latest}`)
        }
        const gone = forkRun(runtime, { runId: "gone" as RunId, prompt: "go" })
        assert.strictEqual((yield* Effect.flip(gone))._tag, "RunNotFound")
        const blank = forkRun(runtime, { runId: original, prompt: " " })
        assert.strictEqual((yield* Effect.flip(blank))._tag, "EmptyPrompt")
        assert.strictEqual((yield* store.list()).length, 1)
      })
    )
  )

  it.effect("refuses a session with runs, and an id that is taken or invalid", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const { runtime } = yield* told
        const { sessionId } = yield* store.head(original)
        const other = "other" as SessionId
        const { runtime: again } = yield* bind(Agent.make("a"), ["Hello."])
        yield* runPromptStored(again, { prompt: "hi", sessionId: other, runId: "first" as RunId })
        const given = { runId: original, prompt: "go" }
        for (const [taken, by] of [
          [sessionId, original],
          [other, "first"]
        ] as const) {
          const error = yield* Effect.flip(forkRun(runtime, { ...given, sessionId: taken }))
          assert.strictEqual(
            error.message,
            `The session ${taken} has the run ${by}, and a fork begins a session of its own: choose another sessionId, or leave it out.`
          )
        }
        const exists = yield* Effect.flip(forkRun(runtime, { ...given, newRunId: original }))
        assert.strictEqual(exists._tag, "RunExists")
        for (const ids of [{ newRunId: "a.t1.1" as RunId }, { sessionId: "" as SessionId }]) {
          assert.strictEqual((yield* Effect.flip(forkRun(runtime, { ...given, ...ids })))._tag, "IdInvalid")
        }
        assert.strictEqual((yield* store.list()).length, 2)
      })
    )
  )

  it.effect("makes a run that is exported and imported with its original", () =>
    Effect.gen(function* () {
      const write = probe("write")
      const agent = () => Agent.make("a", { tools: [write.tool] })
      const archives = yield* inOneStore(
        Effect.gen(function* () {
          const { runtime } = yield* bind(agent(), [{ calls: [call("write", "1")] }])
          yield* runPromptStored(runtime, { prompt: "go", runId: original })
          const { revision: latest } = yield* (yield* RunStore).head(original)
          const texts: Array<string> = []
          for (let revision = 1; revision <= latest; revision += 1) {
            const { runtime } = yield* bind(agent(), [{ calls: [call("write", "2")] }])
            const { runId } = yield* forkRun(runtime, { runId: original, revision, prompt: "no" })
            const states = [yield* loadState(original), yield* loadState(runId)]
            texts.push(JSON.stringify({ archive: yield* exportRun(runId), states }))
          }
          return texts
        })
      )
      for (const text of archives) {
        const { archive, states } = JSON.parse(text)
        yield* inOneStore(
          Effect.gen(function* () {
            const store = yield* RunStore
            const runId = yield* importRun(archive)
            const imported = [yield* loadState(original), yield* loadState(runId)]
            assert.deepStrictEqual(JSON.parse(JSON.stringify(imported)), states)
            assert.deepStrictEqual(yield* store.ready(), [])
            yield* assertSound
            for (const waits of [runId, original]) {
              const [waiting, ...more] = yield* store.pending({ runId: waits })
              assert.deepStrictEqual(more, [])
              const { runtime } = yield* bind(agent(), ["Done."])
              const decisions = [approve(waiting!.request)]
              expect(yield* runPromptStored(runtime, { runId: waits, decisions }), "completed")
              yield* assertSound
            }
          })
        )
      }
      assert.deepStrictEqual(
        write.ran,
        archives.flatMap(() => ["2", "1"])
      )
      // Several forks of one run share the imported original.
      yield* inOneStore(
        Effect.gen(function* () {
          for (const text of archives.toReversed()) yield* importRun(JSON.parse(text).archive)
          const store = yield* RunStore
          assert.strictEqual((yield* store.list()).length, archives.length + 1)
          assert.strictEqual((yield* store.pending({ runId: original })).length, 1)
          yield* assertSound
        })
      )
    })
  )
})

describe("rewindPoints", () => {
  it.effect("lists the ends of turns with the next step, and each can be forked", () =>
    inOneStore(
      Effect.gen(function* () {
        const { agent } = yield* told
        const points = yield* rewindPoints(original)
        assert.deepStrictEqual(
          points.map(({ preview, turn }) => [turn, preview]),
          [
            [1, "write"],
            [2, "It is done."],
            [3, ""]
          ]
        )
        const whole = transcript(yield* loadState(original))
        for (const [index, { revision }] of points.entries()) {
          const { runtime } = yield* bind(agent(), ["Well."])
          const forked = yield* forkRun(runtime, { runId: original, revision, prompt: "And now?" })
          assert.deepStrictEqual(transcript(expect(forked, "completed").state), [
            ...whole.slice(0, [4, 6, 7][index]),
            "user: And now?",
            "assistant: Well."
          ])
          assert.strictEqual(
            results(forked.state).some((text) => text.includes("not run")),
            false
          )
        }
      })
    )
  )

  it.effect("shows the start of a long message on one line", () =>
    inOneStore(
      Effect.gen(function* () {
        const write = probe("write")
        const { runtime } = yield* bind(Agent.make("a", { tools: [write.tool] }), [
          { calls: [call("write", "1")] },
          `A long\n\n  answer ${"🎼".repeat(300)}`,
          "The end."
        ])
        const sessionId = "s" as SessionId
        const held = yield* runPromptStored(runtime, { prompt: "one", sessionId })
        const decisions = [approve(only(held, "approval"))]
        yield* runPromptStored(runtime, { runId: held.runId, decisions, message: "two" })
        const next = yield* runPromptStored(runtime, { prompt: "three", sessionId })
        const points = yield* rewindPoints(held.runId)
        // Messages sent meanwhile are in the history with the last result.
        assert.deepStrictEqual(
          points.map(({ preview }) => preview),
          [`A long answer ${"🎼".repeat(105)}…`, ""]
        )
        assert.deepStrictEqual(
          (yield* rewindPoints(next.runId)).map(({ preview, turn }) => [turn, preview]),
          [[1, ""]]
        )
        const gone = yield* Effect.flip(rewindPoints("gone" as RunId))
        assert.strictEqual(gone._tag, "RunNotFound")
      })
    )
  )
})
