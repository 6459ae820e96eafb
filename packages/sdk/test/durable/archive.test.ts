import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import * as Grant from "../../src/domain/Grant.ts"
import { grantId, requestId, type RunId, type SessionId } from "../../src/domain/Id.ts"
import { exportRun, importRun, type RunArchive } from "../../src/durable/archive.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, bind, call, expect, only, probe, rebind, transcript } from "../helpers/Fixture.ts"

const inOneStore = <A, E>(body: Effect.Effect<A, E, RunStore>) =>
  Effect.provide(body, Layer.fresh(layerMemory))

const agent = () => Agent.make("a", { tools: [probe("write").tool] })

/** The archive, through JSON, of a held run that continues another one. */
const archived = inOneStore(
  Effect.gen(function* () {
    const sessionId = "s" as SessionId
    const { model, runtime } = yield* bind(agent(), [
      "first answer",
      { calls: [call("write", "1")] },
      "second answer"
    ])
    yield* runPromptStored(runtime, { prompt: "one", sessionId })
    const held = yield* runPromptStored(runtime, { prompt: "two", sessionId })
    const state = yield* loadState(held.runId)
    const text = JSON.stringify(yield* exportRun(held.runId))
    return { model, request: only(held, "approval"), runId: held.runId, state, text }
  })
)

describe("an archive of a run", () => {
  it.effect("keeps a decision made in time when it is imported after the expiry", () =>
    Effect.gen(function* () {
      const expiring = () =>
        Agent.make("a", { tools: [probe("write", { approval: { expiresIn: "1 hour" } }).tool] })
      const { model, text } = yield* inOneStore(
        Effect.gen(function* () {
          const store = yield* RunStore
          const { model, runtime } = yield* bind(expiring(), [{ calls: [call("write", "1")] }, "done"])
          const held = yield* runPromptStored(runtime, { prompt: "go" })
          yield* store.decide(approve(only(held, "approval")))
          return { model, text: JSON.stringify(yield* exportRun(held.runId)) }
        })
      )
      yield* TestClock.adjust("2 hours")
      yield* inOneStore(
        Effect.gen(function* () {
          const runId = yield* importRun(JSON.parse(text))
          const { runtime } = yield* rebind(expiring(), model)
          const done = expect(yield* runPromptStored(runtime, { runId }), "completed")
          assert.include(transcript(done.state), "tool: write:1")
        })
      )
    })
  )

  for (const when of ["before", "after"]) {
    it.effect(
      `ends in the copy as the original does when its cancellation was requested ${when} it failed`,
      () =>
        Effect.gen(function* () {
          const { ran, tool } = probe("act", { needsApproval: false })
          const runId = "failed" as RunId
          const forkId = "fork" as RunId
          let store: RunStore["Service"] | undefined
          let isDown = true
          const ask = Effect.suspend(() => store!.requestCancel(runId, "stop it"))
          const model = ScriptedModel.make(({ turn }) =>
            turn === 2 ? { calls: [call("act", "1")] } : "done"
          )
          const client: typeof model.client = {
            ...model.client,
            stream: (request) =>
              isDown
                ? Stream.fromEffect(
                    Effect.andThen(when === "before" ? Effect.orDie(ask) : Effect.void, () => {
                      throw new Error("down")
                    })
                  )
                : model.client.stream(request)
          }
          const inProcess = rebind(Agent.make("a", { tools: [tool] }), { ...model, client })
          const [archive, ofFork] = yield* inOneStore(
            Effect.gen(function* () {
              store = yield* RunStore
              const { runtime } = yield* inProcess
              expect(yield* runPromptStored(runtime, { prompt: "go", runId }), "error")
              if (when === "after") yield* cancelRun(runId, "stop it")
              isDown = false
              yield* forkRun(runtime, { runId, prompt: "otherwise", newRunId: forkId })
              const archives = [yield* exportRun(runId), yield* exportRun(forkId)]
              ran.length = 0
              expect(yield* runPromptStored(runtime, { runId }), "cancelled")
              return archives.map((archive) => JSON.stringify(archive))
            })
          )
          for (const text of [archive, ofFork]) {
            yield* inOneStore(
              Effect.gen(function* () {
                yield* importRun(JSON.parse(text!))
                const { runtime } = yield* inProcess
                expect(yield* runPromptStored(runtime, { runId }), "cancelled")
              })
            )
          }
          assert.deepStrictEqual(ran, [])
        })
    )
  }

  it.effect("of a cancelled run is imported in one operation, and leaves no run to resume", () =>
    Effect.gen(function* () {
      const text = yield* inOneStore(
        Effect.gen(function* () {
          const { runtime } = yield* bind(agent(), [{ calls: [call("write", "1")] }])
          const { runId } = yield* runPromptStored(runtime, { prompt: "go" })
          yield* cancelRun(runId, "do not")
          return JSON.stringify(yield* exportRun(runId))
        })
      )
      yield* inOneStore(
        Effect.gen(function* () {
          const store = yield* RunStore
          const asked: Array<string> = []
          const view = new Proxy(store, {
            get: (target, name) => {
              const member: unknown = Reflect.get(target, name)
              if (typeof member === "function") asked.push(String(name))
              return member
            }
          })
          yield* Effect.provideService(importRun(JSON.parse(text)), RunStore, view)
          assert.deepStrictEqual(asked, ["restore"])
          assert.deepStrictEqual(yield* store.ready(), [])
        })
      )
    })
  )

  it.effect("resumes in another store as in its own", () =>
    Effect.gen(function* () {
      const { model, request, runId, state, text } = yield* archived
      yield* inOneStore(
        Effect.gen(function* () {
          const store = yield* RunStore
          assert.strictEqual(yield* importRun(JSON.parse(text)), runId)
          assert.deepStrictEqual(yield* loadState(runId), state)
          assert.deepStrictEqual(
            (yield* store.pending()).map(({ request }) => request),
            [request]
          )
          assert.deepStrictEqual((yield* store.list({ sessionId: "s" as SessionId })).length, 2)
          const { runtime } = yield* rebind(agent(), model)
          const done = yield* runPromptStored(runtime, { runId, decisions: [approve(request)] })
          assert.deepStrictEqual(transcript(expect(done, "completed").state), [
            "user: one",
            "assistant: first answer",
            "user: two",
            "assistant: (write)",
            "tool: write:1",
            "assistant: second answer"
          ])
          assert.deepStrictEqual(JSON.parse(JSON.stringify(yield* exportRun(runId))).runs.length, 2)
        })
      )
    })
  )

  it.effect("keeps a decision that has not been applied", () =>
    Effect.gen(function* () {
      const text = yield* inOneStore(
        Effect.gen(function* () {
          const store = yield* RunStore
          const { runtime } = yield* bind(agent(), [{ calls: [call("write", "1")] }])
          const held = yield* runPromptStored(runtime, { prompt: "go" })
          yield* store.decide(approve(only(held, "approval")))
          return JSON.stringify(yield* exportRun(held.runId))
        })
      )
      yield* inOneStore(
        Effect.gen(function* () {
          const store = yield* RunStore
          const runId = yield* importRun(JSON.parse(text))
          assert.deepStrictEqual(
            (yield* store.ready()).map(({ reason }) => reason),
            ["decided"]
          )
          assert.strictEqual((yield* store.decisions(runId))[0]?.by, "ann")
        })
      )
    })
  )

  it.effect("is imported once, and replaces no other run", () =>
    Effect.gen(function* () {
      const { model, request, runId, text } = yield* archived
      yield* inOneStore(
        Effect.gen(function* () {
          const store = yield* RunStore
          yield* importRun(JSON.parse(text))
          assert.strictEqual(yield* importRun(JSON.parse(text)), runId)
          assert.lengthOf(yield* store.list(), 2)
          // The copy continues, and the older archive does not replace it.
          const { runtime } = yield* rebind(agent(), model)
          expect(yield* runPromptStored(runtime, { runId, decisions: [approve(request)] }), "completed")
          const refused = yield* Effect.flip(importRun(JSON.parse(text)))
          assert.include(refused.message, "has everything that the archive contains of it")
          assert.strictEqual((yield* store.head(runId)).status, "completed")
        })
      )
      yield* inOneStore(
        Effect.gen(function* () {
          const { runtime } = yield* bind(agent(), ["other"])
          yield* runPromptStored(runtime, { prompt: "mine", sessionId: "s" as SessionId })
          const refused = yield* Effect.flip(importRun(JSON.parse(text)))
          assert.strictEqual(refused._tag, "SessionBusy")
          assert.include(refused.message, "nothing was imported")
        })
      )
    })
  )

  it.effect("is refused when it is inconsistent, and nothing is written", () =>
    Effect.gen(function* () {
      const { text } = yield* archived
      const archive = JSON.parse(text) as RunArchive
      const [first, second] = archive.runs as unknown as [RunArchive["runs"][0], RunArchive["runs"][0]]
      const wrong: ReadonlyArray<readonly [unknown, string]> = [
        [null, "does not have the form"],
        [{ ...archive, format: "other" }, "does not have the form"],
        [{ ...archive, version: 99 }, "newer Fermata"],
        [{ ...archive, runs: [second] }, "do not add up"],
        [{ ...archive, runs: [first, { ...second, runId: "run_x" }] }, "do not add up"],
        [{ ...archive, runs: [first, { ...second, events: second.events.slice(1) }] }, "4 events"],
        [{ ...archive, runs: [first, { ...second, events: second.events.slice(0, -1) }] }, "4 events"],
        [{ ...archive, runs: [{ ...first, revision: 9 }, second] }, "where it says that there are 9"],
        [
          { ...archive, runs: [first, { ...second, revision: 4, events: second.events.slice(1) }] },
          "has not made the call"
        ],
        [{ ...archive, runs: [first, { ...second, status: "completed" }] }, "is not completed"],
        [{ ...archive, runs: [first, { ...second, agent: "b" }] }, "another session or agent"],
        [{ ...archive, runs: [{ ...first, status: "cancelled" }, second] }, "is not cancelled"],
        [new Proxy(archive, { get: () => assert.fail("no") }), "is not JSON"],
        [new Proxy(archive, { ownKeys: () => assert.fail("it nests") }), "is not JSON"],
        [{ ...archive, toJSON: () => assert.fail("it nests") }, "is not JSON"],
        [JSON.parse(`${"[".repeat(401)}${"]".repeat(401)}`), "nests deeper than 400 levels"],
        [JSON.parse(`${"[".repeat(400)}${"]".repeat(400)}`), "does not have the form"],
        [
          {
            ...archive,
            runs: [{ ...first, revision: 6, events: [...first.events, ...first.events] }, second]
          },
          "do not add up"
        ]
      ]
      yield* inOneStore(
        Effect.gen(function* () {
          const store = yield* RunStore
          for (const [given, problem] of wrong) {
            const error = yield* Effect.flip(importRun(given))
            assert.strictEqual(error._tag, "ArchiveInvalid")
            assert.include(error.message, problem)
          }
          assert.deepStrictEqual(yield* store.list(), [])
        })
      )
    })
  )

  it.effect("is refused when its run id is that of a call, a sub-agent's run or a request", () =>
    Effect.gen(function* () {
      const { runId, text } = yield* archived
      yield* inOneStore(
        Effect.gen(function* () {
          for (const end of [".t1.1", ".t1.1.t2.1", ".r1", ".t1.1.r2"]) {
            const renamed: unknown = JSON.parse(text.replaceAll(`"${runId}`, `"${runId}${end}`))
            const error = yield* Effect.flip(importRun(renamed))
            assert.strictEqual(error._tag, "ArchiveInvalid")
            assert.include(error.message, `its run ${runId}${end} has the form of an id inside another run`)
          }
          assert.deepStrictEqual(yield* (yield* RunStore).list(), [])
          assert.strictEqual(yield* importRun(JSON.parse(text.replaceAll(runId, "moved.t1"))), "moved.t1")
        })
      )
    })
  )

  it.effect("keeps every revocation of a run with more than 1,000 grants", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const sessionId = "s" as SessionId
        const { runtime } = yield* bind(agent(), ["done"])
        const { runId } = yield* runPromptStored(runtime, { prompt: "go", sessionId })
        const grantIds = Array.from({ length: 1003 }, (_, index) => grantId(requestId(runId, index + 1)))
        for (const id of grantIds) {
          const definition = { agent: "a", tool: "write", safety: "sideEffecting" } as const
          const request = { scope: "session", arguments: {} } as const
          const grant = Grant.make({ id, definition, approved: {}, request, by: { by: "ada" }, at: 0 })
          const given = { grant, runId, sessionId }
          yield* store.revokeGrant({ grantId: id, revocation: { by: "ben", at: 1 }, given })
        }
        const { revoked = [] } = yield* exportRun(runId)
        assert.deepStrictEqual(revoked.map(({ grant }) => grant.id).sort(), grantIds.toSorted())
      })
    )
  )

  it.effect("of a working run is refused", () =>
    inOneStore(
      Effect.gen(function* () {
        const store = yield* RunStore
        const { runtime } = yield* bind(agent(), [{ calls: [call("write", "1")] }])
        const { runId } = yield* runPromptStored(runtime, { prompt: "go" })
        const lease = yield* store.claim({ runId, owner: "me", ttl: "1 minute" })
        const { revision } = yield* store.head(runId)
        const events = [{ _tag: "run.resumed", at: 5 }] as const
        yield* store.append({ lease, expected: revision, events, status: "running" })
        const archive = yield* exportRun(runId)
        const error = yield* Effect.flip(importRun({ ...archive, runs: [{ ...archive.runs[0] }] }))
        assert.include(error.message, "was running when it was exported")
      })
    )
  )

  it.effect("of an unknown run fails with RunNotFound", () =>
    inOneStore(
      Effect.gen(function* () {
        assert.strictEqual((yield* Effect.flip(exportRun("run_none" as RunId)))._tag, "RunNotFound")
      })
    )
  )
})
