/**
 * Untrusted results in stored runs: over processes, sessions, forks, archives and changes of the runtime.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import { createRuntime } from "../../src/agent/createRuntime.ts"
import { reconfigureRuntime } from "../../src/agent/reconfigureRuntime.ts"
import type { RunId, SessionId } from "../../src/domain/Id.ts"
import { exportRun, importRun, type RunArchive } from "../../src/durable/archive.ts"
import { explain } from "../../src/durable/explain.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { loadState } from "../../src/durable/loadState.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { approve, bind, call, expect, only, probe, rebind, safe } from "../helpers/Fixture.ts"

const inOneStore = <A, E, R>(body: Effect.Effect<A, E, R>) => Effect.provide(body, Layer.fresh(layerMemory))

const original = "original" as RunId
const sessionId = "s" as SessionId

/** A program with a tool that reads pages and one that sends, which its policy permits. */
const program = () => {
  const send = probe("send")
  const fetch = safe("fetch", { untrusted: true })
  return { send, agent: Agent.make("a", { tools: [fetch.tool, send.tool], policy: { mode: "all" } }) }
}

/** A completed run that has fetched a page and sent nothing, in its session. */
const readPage = (then: ReadonlyArray<ScriptedModel.Script>) =>
  Effect.gen(function* () {
    const { agent, send } = program()
    const { model, runtime } = yield* bind(agent, [{ calls: [call("fetch", "page")] }, "read", ...then])
    expect(yield* runPromptStored(runtime, { prompt: "Read.", runId: original, sessionId }), "completed")
    return { agent, model, runtime, send }
  })

const sending = { calls: [call("send", "x")] }

describe("an untrusted result of a stored run", () => {
  it.effect("binds the later runs of its session, in another process, too", () =>
    inOneStore(
      Effect.gen(function* () {
        const { model } = yield* readPage([sending, "sent"])
        const other = program()
        const { runtime } = yield* rebind(other.agent, model)
        const held = yield* runPromptStored(runtime, { prompt: "Send.", sessionId })
        const request = only(expect(held, "interrupted"), "approval")
        assert.deepStrictEqual(
          request.untrusted?.map(({ tool }) => tool),
          ["fetch"]
        )
        const { text, untrusted } = yield* explain(held.runId)
        assert.include(text, "It has read untrusted results of fetch.")
        assert.deepStrictEqual(untrusted, request.untrusted)
        const last = program()
        const { runtime: third } = yield* rebind(last.agent, model)
        const decisions = [approve(request)]
        expect(yield* runPromptStored(third, { runId: held.runId, decisions }), "completed")
        assert.deepStrictEqual(last.send.ran, ["x"])
      })
    )
  )

  it.effect("does not bind another session", () =>
    inOneStore(
      Effect.gen(function* () {
        const { runtime, send } = yield* readPage([sending, "sent"])
        expect(yield* runPromptStored(runtime, { prompt: "Send." }), "completed")
        assert.deepStrictEqual(send.ran, ["x"])
      })
    )
  )

  it.effect("binds a fork after it, and none before it", () =>
    inOneStore(
      Effect.gen(function* () {
        const { runtime, send } = yield* readPage([sending, sending, "sent"])
        const after = yield* forkRun(runtime, { runId: original, prompt: "Send." })
        expect(after, "interrupted")
        assert.deepStrictEqual(send.ran, [])
        const before = yield* forkRun(runtime, { runId: original, revision: 1, prompt: "Send." })
        expect(before, "completed")
        assert.deepStrictEqual(send.ran, ["x"])
      })
    )
  )

  it.effect("is in an archive, and binds the run where it is imported", () =>
    Effect.gen(function* () {
      const { archive, model } = yield* inOneStore(
        Effect.gen(function* () {
          const { model } = yield* readPage([sending, "sent"])
          return { model, archive: JSON.stringify(yield* exportRun(original)) }
        })
      )
      yield* inOneStore(
        Effect.gen(function* () {
          yield* importRun(JSON.parse(archive) as RunArchive)
          const { agent, send } = program()
          const { runtime } = yield* rebind(agent, model)
          expect(yield* runPromptStored(runtime, { prompt: "Send.", sessionId }), "interrupted")
          assert.deepStrictEqual(send.ran, [])
        })
      )
    })
  )

  it.effect("is the same in the state that is folded from the journal", () =>
    inOneStore(
      Effect.gen(function* () {
        yield* readPage([])
        const state = yield* loadState(original)
        const store = yield* RunStore
        const marked = (yield* store.events(original)).filter((event) => "untrusted" in event)
        assert.deepStrictEqual(
          marked.map(({ _tag }) => _tag),
          ["tool.completed"]
        )
        assert.strictEqual(state.untrusted?.length, 1)
      })
    )
  )

  it.effect("binds the run after the runtime was reconfigured", () =>
    inOneStore(
      Effect.gen(function* () {
        const { agent, send } = program()
        const model = ScriptedModel.make([{ calls: [call("fetch", "page")] }, "read", sending, "sent"])
        const runtime = yield* Effect.provideService(
          createRuntime({ agent, profiles: [{ name: "act", policy: { mode: "all" } }] }),
          ModelClient,
          model.client
        )
        expect(yield* runPromptStored(runtime, { prompt: "Read.", sessionId }), "completed")
        yield* reconfigureRuntime(runtime, { profile: "act" })
        expect(yield* runPromptStored(runtime, { prompt: "Send.", sessionId }), "interrupted")
        assert.deepStrictEqual(send.ran, [])
      })
    )
  )

  it.effect("is covered by a session's grant that was given after it, in the next run", () =>
    inOneStore(
      Effect.gen(function* () {
        const { runtime, send } = yield* readPage([sending, "sent", sending, "again"])
        const held = yield* runPromptStored(runtime, { prompt: "Send.", sessionId })
        const decisions = [approve(only(held, "approval"), { grant: { scope: "session", arguments: {} } })]
        expect(yield* runPromptStored(runtime, { runId: held.runId, decisions }), "completed")
        expect(yield* runPromptStored(runtime, { prompt: "Send.", sessionId }), "completed")
        assert.deepStrictEqual(send.ran, ["x", "x"])
      })
    )
  )
})
