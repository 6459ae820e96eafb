import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { encode } from "../../src/domain/RunStateCodec.ts"
import { approve, deny } from "../../src/promise/decisions.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { isAlreadyDecided, isFermataClosed, isRunEnded, isSealBroken } from "../../src/promise/guards.ts"
import { openState, sealState } from "../../src/promise/seal.ts"
import * as Storeless from "../../src/promise/Storeless.ts"
import type { RunResult } from "../../src/run/RunResult.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { rejection } from "../helpers/rejection.ts"

const profiles = [{ name: "plan", mode: "planning", tools: { safety: ["readOnly"] } }] as const

/** A Fermata without a store whose model calls `pay` once in each run, and the payments. */
const open = async (options: Partial<Storeless.StorelessOptions> = {}) => {
  const paid: Array<string> = []
  const pay = tool("pay", { handler: (_, { runId }) => void paid.push(runId) })
  const model = ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [{ tool: "pay" }] } : "done"))
  const fermata = await Storeless.make({
    agents: [agent("clerk", { tools: [pay] }), agent("other")],
    model: model.client,
    profiles,
    ...options
  })
  return { fermata, paid, requests: model.requests }
}

const requestOf = (run: RunResult) =>
  run.status === "interrupted" ? run.interruptions[0]! : assert.fail(run.status)

describe("a Fermata without a store", () => {
  it("holds a run, and continues it from its state with a decision", async () => {
    const { fermata, paid } = await open({ by: "ana" })
    await using _ = fermata
    const held = await fermata.runPrompt("clerk", "Pay")
    assert.deepStrictEqual(paid, [])
    const done = await fermata.resume(held.state, {
      decisions: [{ request: requestOf(held), decision: approve() }]
    })
    assert.strictEqual(done.status, "completed")
    assert.deepStrictEqual(paid, [held.runId])
  })

  it("continues a run from the text of its state in another process, with the default author", async () => {
    const first = await open()
    const held = await first.fermata.runPrompt("clerk", "Pay")
    await first.fermata.close()
    const { fermata, paid } = await open({ by: "ana" })
    await using _ = fermata
    const text = encode(held.state)
    const done = await fermata.resume(text, {
      decisions: [{ request: requestOf(held), decision: deny("too much") }]
    })
    assert.strictEqual(done.status, "completed")
    assert.deepStrictEqual(paid, [])
    assert.include(JSON.stringify(done.state), `"by":"ana"`)
  })

  it("starts the next run of a session from the state of one that has ended", async () => {
    const { fermata, requests } = await open()
    await using _ = fermata
    const first = await fermata.runPrompt("other", "first")
    assert.isTrue(isRunEnded(await rejection(fermata.resume(first.state))))
    const second = await fermata.resume(first.state, { prompt: "second" })
    assert.strictEqual(second.sessionId, first.sessionId)
    const asked = requests.at(-1)?.messages.flatMap(({ content, role }) => (role === "user" ? [content] : []))
    assert.include(JSON.stringify(asked?.[0]), "first")
    assert.include(JSON.stringify(asked?.[1]), "second")
  })

  it("takes none of several decisions if one is refused", async () => {
    const { fermata, paid } = await open()
    await using _ = fermata
    const held = await fermata.runPrompt("clerk", "Pay")
    const request = requestOf(held)
    const error = await rejection(
      fermata.resume(held.state, {
        decisions: [
          { request, decision: approve() },
          { request: "req_unknown", decision: approve() }
        ]
      })
    )
    assert.strictEqual(error._tag, "RequestNotFound")
    assert.deepStrictEqual(paid, [])
  })

  it("decides a background run through its handle, once", async () => {
    const { fermata, paid } = await open()
    await using _ = fermata
    const handle = await fermata.dispatch("clerk", "Pay", { name: "invoice" })
    const request = requestOf(await handle.wait())
    await handle.decide(request, approve())
    assert.isTrue(isAlreadyDecided(await rejection(handle.decide(request, deny("no")))))
    assert.strictEqual((await handle.done()).status, "completed")
    assert.deepStrictEqual([handle.name, paid], ["invoice", [handle.runId]])
  })

  it("runs many prompts under a conductor, whose inbox has their requests", async () => {
    const { fermata, paid } = await open()
    await using _ = fermata
    await using conductor = await fermata.conductor({ concurrency: 2 })
    const handles = await Promise.all(["a", "b"].map((prompt) => conductor.dispatch("clerk", prompt)))
    await Promise.all(handles.map((handle) => handle.wait()))
    for (const entry of conductor.inbox()) await conductor.decide(entry, approve())
    const results = await conductor.all(handles)
    assert.deepStrictEqual(
      results.map(({ status }) => status),
      ["completed", "completed"]
    )
    assert.strictEqual(paid.length, 2)
  })

  it("captures a state with the configuration of its agent, which another process restores", async () => {
    const first = await open()
    await first.fermata.reconfigure({ agent: "other", profile: "plan" })
    const run = await first.fermata.runPrompt("other", "Plan")
    const text = await first.fermata.captureState(run.state)
    await first.fermata.close()
    const { fermata } = await open()
    await using _ = fermata
    const { problems, state } = await fermata.restoreState(text)
    assert.deepStrictEqual(problems.blocking, [])
    assert.deepStrictEqual(state, run.state)
    const now = await fermata.reconfigure({})
    assert.deepStrictEqual([now["other"]?.profile, now["clerk"]?.profile], ["plan", "default"])
  })

  it("reports what prevents a state from being continued", async () => {
    const { fermata } = await open()
    await using _ = fermata
    const held = await fermata.runPrompt("clerk", "Pay")
    assert.deepStrictEqual((await fermata.checkResume(held.state)).blocking, [])
    await fermata.reconfigure({ agent: "clerk", tools: [] })
    assert.strictEqual((await fermata.checkResume(encode(held.state))).blocking[0]?._tag, "ToolUnavailable")
    await fermata.reconfigure({ agents: [agent("new")] })
    assert.strictEqual((await fermata.checkResume(held.state)).blocking[0]?._tag, "AgentNotFound")
    assert.strictEqual((await rejection(fermata.resume(held.state)))._tag, "AgentNotFound")
  })

  it("cancels its runs when it is closed, after running operations had time to finish", async () => {
    const started = Effect.runSync(Deferred.make<void>())
    const wait = tool("wait", {
      safety: "readOnly",
      handler: () => Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
    })
    const { fermata } = await open({
      agents: [agent("waiter", { tools: [wait] })],
      model: ScriptedModel.make([{ calls: [{ tool: "wait" }] }]).client,
      drainTimeout: 10,
      cancelGrace: 10
    })
    const running = fermata.runPrompt("waiter", "Wait")
    await Effect.runPromise(Deferred.await(started))
    await fermata.close()
    assert.strictEqual((await running).status, "cancelled")
    assert.isTrue(isFermataClosed(await rejection(fermata.runPrompt("waiter", "again"))))
  })

  it("cancels the held runs of handles when it is closed", async () => {
    const { fermata } = await open()
    const handle = await fermata.dispatch("clerk", "Pay")
    await handle.wait()
    await fermata.close()
    assert.strictEqual(handle.status, "cancelled")
  })

  const misfits: ReadonlyArray<
    readonly [string, (fermata: Storeless.Storeless) => Promise<unknown>, string]
  > = [
    [
      "an option of stored runs",
      (f) => f.runPrompt("clerk", "Pay", { mayRepeat: true } as never),
      "mayRepeat"
    ],
    ["a misspelt option of resume", (f) => f.resume("{}", { decision: [] } as never), "decisions"],
    ["a text that is no state", (f) => f.resume("{}"), "not a run state"],
    ["the id of a run", (f) => f.resume("run_1"), "not a run state"],
    ["no state", (f) => f.resume(undefined as never), "not a run state"],
    ["a text that is no capture", (f) => f.restoreState("{}"), "not a capture"],
    [
      "a misspelt key of a decision",
      async (f) => {
        const held = await f.runPrompt("clerk", "Pay")
        const decision = { _tag: "approve", args: {} } as never
        return f.resume(held.state, { decisions: [{ request: requestOf(held), decision }] })
      },
      "arguments"
    ]
  ]
  for (const [what, ask, named] of misfits) {
    it(`refuses ${what}`, async () => {
      const { fermata } = await open()
      await using _ = fermata
      assert.include((await rejection(ask(fermata))).message, named)
    })
  }

  it("refuses the options of leases and of a store", async () => {
    for (const option of [{ leaseTtl: 1000 }, { owner: "me" }, { store: layerMemory }]) {
      const error = await rejection(open(option as never))
      assert.strictEqual(error._tag, "OptionsInvalid")
    }
  })
})

describe("a Fermata with a store", () => {
  it("captures a stored run with the configuration of its agent, and another one restores it", async () => {
    const model = ScriptedModel.make(() => "done")
    const make = () =>
      Fermata.make({ agents: [agent("a"), agent("b")], model: model.client, store: layerMemory, profiles })
    await using first = await make()
    await first.reconfigure({ profile: "plan", mode: "slow" })
    const { runId } = await first.runPrompt("b", "go")
    await using second = await make()
    const { state } = await second.restoreState(await first.captureState(runId))
    assert.strictEqual(state.runId, runId)
    const now = await second.reconfigure({})
    assert.deepStrictEqual([now["a"]?.mode, now["b"]?.mode], ["default", "slow"])
  })

  it("takes decisions of resume as `decideAll` takes them", async () => {
    const pay = tool("pay", { handler: () => "paid" })
    await using fermata = await Fermata.make({
      agents: [agent("clerk", { tools: [pay] })],
      model: ScriptedModel.make([{ calls: [{ tool: "pay" }] }, "done"]).client,
      store: layerMemory
    })
    const held = await fermata.runPrompt("clerk", "Pay")
    const done = await fermata.resume(held.runId, {
      decisions: [{ request: requestOf(held), decision: approve(), by: "ana", note: "small" }]
    })
    assert.strictEqual(done.status, "completed")
  })
})

describe("a sealed state", () => {
  const key = (id: string) => ({ id, secret: `${id} is a secret of 32 bytes or more` })

  it("is opened with its key among several, and continued", async () => {
    const { fermata, paid } = await open()
    await using _ = fermata
    const held = await fermata.runPrompt("clerk", "Pay")
    const text = await sealState(held.state, key("old"))
    const state = await openState(text, [key("new"), key("old")])
    await fermata.resume(state, { decisions: [{ request: requestOf(held), decision: approve() }] })
    assert.deepStrictEqual(paid, [held.runId])
  })

  it("is refused when it was changed, is no text, or has another key", async () => {
    const { fermata } = await open()
    await using _ = fermata
    const text = await sealState((await fermata.runPrompt("other", "go")).state, key("old"))
    for (const changed of [`${text}A`, undefined, {}]) {
      assert.isTrue(isSealBroken(await rejection(openState(changed as string, [key("old")]))))
    }
    assert.isTrue(isSealBroken(await rejection(openState(text, [{ ...key("new"), id: "old" }]))))
  })

  it("needs a key of 32 bytes, and the error does not show its secret", async () => {
    const { fermata } = await open()
    await using _ = fermata
    const { state } = await fermata.runPrompt("other", "go")
    const error = await rejection(sealState(state, { id: "old", secret: "hunter2" }))
    assert.strictEqual(error._tag, "SealKeyInvalid")
    assert.notInclude(JSON.stringify(error) + error.message, "hunter2")
  })
})
