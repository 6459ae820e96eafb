import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { approve } from "../../src/promise/decisions.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { isAlreadyDecided, isArchiveInvalid, isFermataClosed } from "../../src/promise/guards.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"

const shared = () => Layer.succeed(RunStore, Effect.runSync(Effect.provide(RunStore, layerMemory)))

const asked = { calls: [{ tool: "deploy" }] }
const make = (store: ReturnType<typeof shared>, script: ReadonlyArray<ScriptedModel.Script>) => {
  const deployed: Array<string> = []
  const deploy = tool("deploy", {
    handler: (_, { idempotencyKey }) => {
      deployed.push(idempotencyKey)
      return "deployed"
    }
  })
  const model = ScriptedModel.make(script).client
  return Effect.runPromise(
    Effect.map(
      Effect.promise(() =>
        Fermata.make({ agents: [agent("ops", { tools: [deploy] })], model, store, by: "ann" })
      ),
      (fermata) => ({ fermata, deployed })
    )
  )
}

describe("a working Fermata", () => {
  it("resumes runs that another Fermata has decided, until its signal aborts", async () => {
    const store = shared()
    const inbox = await make(store, [asked, asked])
    const worker = await make(store, ["done"])
    const stop = new AbortController()
    const first = Promise.withResolvers<unknown>()
    const working = worker.fermata.work({ signal: stop.signal, onTakenUp: first.resolve })
    const { runId } = await inbox.fermata.runPrompt("ops", "go")
    const [pending] = await inbox.fermata.pending()
    await inbox.fermata.decide(pending!, approve())
    assert.deepInclude(await first.promise, { runId, reason: "decided", status: "completed" })
    assert.strictEqual(worker.deployed.length, 1)
    stop.abort()
    await working
    const held = await inbox.fermata.runPrompt("ops", "again")
    await inbox.fermata.decide((await inbox.fermata.pending())[0]!, approve())
    assert.deepStrictEqual(
      (await worker.fermata.runs({ status: "held" })).map(({ runId }) => runId),
      [held.runId]
    )
    await inbox.fermata.close()
    await worker.fermata.close()
  })

  it("stops when it is closed, and does not start with an aborted signal", async () => {
    const { fermata } = await make(shared(), [])
    const working = fermata.work()
    await fermata.work({ signal: AbortSignal.abort() })
    await fermata.close()
    await working
    for (const late of [fermata.work(), fermata.runs(), fermata.recover(), fermata.runPrompt("ops", "go")]) {
      assert.isTrue(isFermataClosed(await late.catch((error: unknown) => error)))
    }
    await fermata.close()
  })

  it("suspends its runs when it is closed, also if the store does not write their last events in time", async () => {
    const memory = Effect.runSync(Effect.provide(RunStore, layerMemory))
    const begun = Promise.withResolvers<void>()
    const appending = Promise.withResolvers<void>()
    const fast = Promise.withResolvers<void>()
    const released = Promise.withResolvers<void>()
    let isSlow = false
    const slow = RunStore.of({
      ...memory,
      append: (options) =>
        Effect.andThen(
          Effect.promise(async () => {
            if (!isSlow) return
            appending.resolve()
            await fast.promise
          }),
          memory.append(options)
        ),
      release: (lease) => Effect.tap(memory.release(lease), () => Effect.sync(released.resolve))
    })
    const wait = tool("wait", {
      safety: "readOnly",
      handler: (_, { signal }) => {
        begun.resolve()
        return new Promise((resolve) => signal.addEventListener("abort", () => resolve("late")))
      }
    })
    const fermata = await Fermata.make({
      agents: [agent("ops", { tools: [wait] })],
      model: ScriptedModel.make([{ calls: [{ tool: "wait" }] }]).client,
      store: Layer.succeed(RunStore, slow),
      drainTimeout: 1,
      cancelGrace: 1,
      closeTimeout: 1
    })
    const { runId } = await fermata.submit("ops", "go")
    const working = fermata.work()
    await begun.promise
    isSlow = true
    const closing = fermata.close()
    await appending.promise
    await closing
    await working
    fast.resolve()
    await released.promise
    assert.strictEqual((await Effect.runPromise(memory.head(runId))).status, "running")
  })

  it("recovers ready runs once, and returns their outcomes", async () => {
    const store = shared()
    const inbox = await make(store, [asked])
    const { runId } = await inbox.fermata.runPrompt("ops", "go")
    const other = await make(store, ["done"])
    assert.deepStrictEqual(await other.fermata.recover(), [])
    await inbox.fermata.decide((await inbox.fermata.pending())[0]!, approve())
    assert.deepStrictEqual(await other.fermata.recover(), [
      { runId, agent: "ops", reason: "decided", status: "completed" }
    ])
  })

  it("acknowledges a decision repeated with its key, and rejects another one", async () => {
    const { fermata } = await make(shared(), [asked])
    await fermata.runPrompt("ops", "go")
    const [pending] = await fermata.pending()
    const first = await fermata.decide(pending!, approve(), { idempotencyKey: "click" })
    assert.deepStrictEqual(await fermata.decide(pending!, approve(), { idempotencyKey: "click" }), first)
    const late = await fermata.decide(pending!, approve(), { by: "bob" }).catch((error: unknown) => error)
    assert.isTrue(isAlreadyDecided(late) && late.by === "ann")
  })

  it("explains a run, and copies it to another store", async () => {
    const first = await make(shared(), [asked])
    const { runId } = await first.fermata.runPrompt("ops", "go")
    const { text, waitsFor } = await first.fermata.explain(runId)
    assert.strictEqual(waitsFor[0]?.what, "for approval of deploy")
    assert.include(text, `The run ${runId} of ops is held.`)
    const archive = JSON.parse(JSON.stringify(await first.fermata.exportRun(runId))) as unknown
    const second = await make(shared(), ["done"])
    assert.strictEqual(await second.fermata.importRun(archive), runId)
    const wrong = await second.fermata.importRun({ runId }).catch((error: unknown) => error)
    assert.isTrue(isArchiveInvalid(wrong))
    const decided = await second.fermata.resume(runId, {
      decisions: [{ _tag: "approve", requestId: waitsFor[0]!.requestId, by: "ann" }]
    })
    assert.strictEqual(decided.status, "completed")
    assert.deepStrictEqual(second.deployed.length, 1)
    assert.deepStrictEqual(first.deployed, [])
  })
})
