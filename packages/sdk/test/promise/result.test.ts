import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { z } from "zod"
import { InvalidRequest } from "../../src/model/ModelError.ts"
import { approve } from "../../src/promise/decisions.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { isAgentNotFound, isModelFailed, isOptionsInvalid, isRunNotFound } from "../../src/promise/guards.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { rejection } from "../helpers/rejection.ts"

/** A store that several Fermatas share, like processes that share a file. */
const shared = () => Layer.succeed(RunStore, Effect.runSync(Effect.provide(RunStore, layerMemory)))

const pay = () => tool("pay", { handler: () => "paid" })
const toPay = { calls: [{ tool: "pay" }] }

const open = (
  agents: ReadonlyArray<Parameters<typeof agent>[0] | Fermata.FermataOptions["agents"][number]>,
  script: ReadonlyArray<ScriptedModel.Script> | ((request: never) => ScriptedModel.ScriptedAnswer | string),
  store: Fermata.FermataOptions["store"] = layerMemory
) => {
  const model = ScriptedModel.make(script as ReadonlyArray<ScriptedModel.Script>)
  const made = Fermata.make({
    agents: agents.map((one) => (typeof one === "string" ? agent(one, { tools: [pay()] }) : one)),
    model: model.client,
    store,
    drainTimeout: 20
  })
  return { model, made }
}

describe("the result of a stored run", () => {
  it("is what running the prompt returned, with the decoded output", async () => {
    const Poem = Schema.Struct({ line: Schema.String, feet: Schema.NumberFromString })
    const poet = agent("poet", { output: Poem })
    const store = shared()
    const { made } = open([poet], ['{"line":"Snow","feet":"5"}'], store)
    await using fermata = await made
    const run = await fermata.runPrompt(poet, "Write.")
    const read = await fermata.result(run.runId, { agent: poet })
    assert.deepStrictEqual<unknown>(read, run)
    assert.strictEqual(read.status === "completed" ? read.output.feet : read.status, 5)
    assert.deepStrictEqual<unknown>(await fermata.result(await fermata.attach(run.runId)), run)

    await using other = await open(["clerk"], [], store).made
    const stored = await other.result(run.runId)
    if (stored.status !== "completed") assert.fail(stored.status)
    // A program without the agent reads the stored JSON value.
    assert.deepStrictEqual(stored.output, { line: "Snow", feet: "5" })
    assert.isTrue(isAgentNotFound(await rejection(other.result(run.runId, { agent: poet }))))
  })

  it("never drives the run: a held run lists its requests, and a decided one is running until a process resumes it", async () => {
    const store = shared()
    const { made, model } = open(["clerk"], [toPay, "done"], store)
    await using fermata = await made
    const { runId } = await fermata.runPrompt("clerk", "go")
    const before = await fermata.runs()
    const held = await fermata.result(runId)
    if (held.status !== "interrupted") assert.fail(held.status)
    await fermata.decide(held.interruptions[0]!, approve())
    const decided = await fermata.result(runId)
    if (decided.status !== "running") assert.fail(decided.status)
    assert.deepStrictEqual([decided.interruptions, decided.workedOnBy], [[], undefined])
    assert.deepStrictEqual(await fermata.runs(), before)
    assert.strictEqual(model.requests.length, 1)
    await fermata.recover()
    assert.strictEqual((await fermata.result(runId)).status, "completed")
  })

  it("is running, with the owner of the lease, while a process drives it", async () => {
    const isAt = Promise.withResolvers<void>()
    const leave = Promise.withResolvers<string>()
    const look = tool("look", {
      safety: "readOnly",
      handler: () => {
        isAt.resolve()
        return leave.promise
      }
    })
    const { made } = open([agent("clerk", { tools: [look] })], [{ calls: [{ tool: "look" }] }, "seen"])
    await using fermata = await made
    const run = fermata.runPrompt("clerk", "go", { runId: "run" })
    await isAt.promise
    const read = await fermata.result("run")
    if (read.status !== "running") assert.fail(read.status)
    assert.isString(read.workedOnBy?.owner)
    leave.resolve("seen")
    const ended = await run
    assert.deepStrictEqual<unknown>(await fermata.result("run"), ended)
  })

  it("is running without an owner after the program that drove it was closed, and reading drives nothing", async () => {
    const store = shared()
    const isAt = Promise.withResolvers<void>()
    const wait = tool("wait", {
      safety: "readOnly",
      handler: async (_, { signal }) => {
        isAt.resolve()
        await new Promise((resolve) => {
          signal.addEventListener("abort", resolve)
        })
      }
    })
    const clerk = agent("clerk", { tools: [wait] })
    const first = await open([clerk], [{ calls: [{ tool: "wait" }] }], store).made
    const run = first.runPrompt("clerk", "go", { runId: "run" }).catch((error: unknown) => error)
    await isAt.promise
    await first.close()
    await run
    const { made, model } = open([clerk], ["done"], store)
    await using second = await made
    const read = await second.result("run")
    assert.deepStrictEqual([read.status, "workedOnBy" in read, model.requests.length], ["running", false, 0])
  })

  it("is what running returned for a run that was handed over, forked or imported", async () => {
    const store = shared()
    const poet = agent("poet", { output: z.object({ line: z.string() }) })
    const desk = agent("desk", { handoffs: [poet] })
    const script = [{ calls: [{ tool: "transfer_to_poet" }] }, '{"line":"Snow"}', '{"line":"Rain"}']
    await using fermata = await open([desk], script, store).made
    const run = await fermata.runPrompt("desk", "Write.")
    assert.strictEqual(run.status === "completed" ? run.text : run.status, '{"line":"Snow"}')
    assert.deepStrictEqual(await fermata.result(run.runId), run)
    const fork = await fermata.fork(run.runId, "Again.", { agent: desk })
    assert.deepStrictEqual(await fermata.result(fork.runId), fork)
    await using other = await open([desk], []).made
    await other.importRun(await fermata.exportRun(run.runId))
    assert.deepStrictEqual(await other.result(run.runId), run)
  })

  it("has the typed error of a failed run", async () => {
    const { made } = open(["clerk"], [{ error: new InvalidRequest({ description: "too long" }) }])
    await using fermata = await made
    const failed = await fermata.runPrompt("clerk", "go")
    const read = await fermata.result(failed.runId)
    if (read.status !== "error" || failed.status !== "error") assert.fail(read.status)
    assert.isTrue(isModelFailed(read.error))
    assert.strictEqual(read.error.message, failed.error.message)
  })

  it("is running from the acknowledgement of a cancellation until a process has ended the run", async () => {
    const store = shared()
    await using fermata = await open(["clerk"], [toPay], store).made
    const { runId } = await fermata.runPrompt("clerk", "go")
    const request = RunStore.use(({ requestCancel }) => requestCancel(runId, "no longer needed"))
    await Effect.runPromise(Effect.provide(request, store))
    const read = await fermata.result(runId)
    if (read.status !== "running") assert.fail(read.status)
    assert.deepStrictEqual(read.interruptions, [])
    await fermata.recover()
    const ended = await fermata.result(runId)
    assert.strictEqual(ended.status === "cancelled" ? ended.reason : ended.status, "no longer needed")
  })

  it("names the definitions that the program lacks", async () => {
    const store = shared()
    await using first = await open(["clerk"], [toPay], store).made
    const { runId } = await first.runPrompt("clerk", "go")
    await using second = await open([agent("clerk")], [], store).made
    const read = await second.result(runId)
    if (read.status !== "interrupted") assert.fail(read.status)
    assert.deepStrictEqual(
      [read.interruptions.length, read.missing?.map(({ _tag }) => _tag)],
      [1, ["ToolUnavailable"]]
    )
  })

  it("is read under the id of a sub-agent's run, held beside a lead that runs, ended, and cancelled", async () => {
    const delegate = (to: string) => ({
      tool: "delegate",
      arguments: { agent: to, prompt: "do", background: true }
    })
    const scout = agent("scout", { tools: [pay()], output: z.object({ found: z.number() }) })
    const lead = agent("lead", {
      subAgents: [scout, agent("writer", { tools: [pay()] })],
      delegation: "delegate"
    })
    const { made } = open([lead], (({
      agentPath,
      turn
    }: {
      agentPath: ReadonlyArray<string>
      turn: number
    }) => {
      if (turn > 1) return agentPath.at(-1) === "scout" ? '{"found":3}' : `${agentPath.at(-1)} is done`
      return { calls: agentPath.length === 1 ? [delegate("scout"), delegate("writer")] : [{ tool: "pay" }] }
    }) as never)
    await using fermata = await made
    await fermata.runPrompt("lead", "go", { runId: "run" })
    const held = await fermata.result("run.t1.1", { agent: scout })
    if (held.status !== "interrupted") assert.fail(held.status)
    assert.deepStrictEqual(
      held.interruptions.map(({ runId }) => String(runId)),
      ["run.t1.1"]
    )
    await fermata.decide(held.interruptions[0]!, approve())
    assert.strictEqual((await fermata.result("run")).status, "interrupted")
    await fermata.recover()
    const ended = await fermata.result("run.t1.1", { agent: scout })
    assert.strictEqual(ended.status === "completed" ? ended.output.found : ended.status, 3)
    assert.strictEqual(String(ended.runId), "run.t1.1")

    await fermata.cancel("run.t1.2", "not needed")
    assert.strictEqual((await fermata.result("run.t1.2")).status, "running")
    await fermata.recover()
    const cancelled = await fermata.result("run.t1.2")
    assert.strictEqual(cancelled.status === "cancelled" ? cancelled.reason : cancelled.status, "not needed")

    assert.isTrue(isRunNotFound(await rejection(fermata.result("run.t1.9"))))
    const wrong = await rejection(fermata.result("run.t1.1", { agent: lead }))
    assert.isTrue(isAgentNotFound(wrong) && wrong.agent === "scout")
  })

  it("is refused for an unknown id, for what is no id, and with an unknown option", async () => {
    await using fermata = await open(["clerk"], []).made
    for (const id of ["nothing", "", undefined, null, 7, {}]) {
      assert.isTrue(isRunNotFound(await rejection(fermata.result(id as string))), String(id))
    }
    const error = await rejection(fermata.result("run", { agnet: "clerk" } as never))
    assert.isTrue(isOptionsInvalid(error) && error.message.includes("agent"))
  })
})

describe("the agent of a stored run", () => {
  it("is checked before the run is resumed, attached to or read", async () => {
    const [clerk, guide] = [agent("clerk", { tools: [pay()] }), agent("guide", { aliases: ["lotse"] })]
    const { made, model } = open([clerk, guide], [toPay, "done"])
    await using fermata = await made
    const { runId } = await fermata.runPrompt(clerk, "go")
    for (const wrong of [guide, "guide", "lotse", "nobody", null] as ReadonlyArray<typeof guide>) {
      for (const name of ["resume", "attach", "result"] as const) {
        const error = await rejection(fermata[name](runId, { agent: wrong }))
        assert.isTrue(isAgentNotFound(error), name)
      }
    }
    assert.strictEqual(model.requests.length, 1)
    await fermata.decide((await fermata.pending())[0]!, approve())
    const resumed = await fermata.resume(runId, { agent: clerk })
    assert.strictEqual(resumed.status === "completed" ? resumed.text : resumed.status, "done")
    const done = await (await fermata.attach(runId, { agent: "clerk" })).done()
    assert.strictEqual(done.status, "completed")
  })

  it("is taken by a conductor's dispatch as a definition, too", async () => {
    const poet = agent("poet", { output: z.object({ line: z.string() }) })
    await using fermata = await open([poet], ['{"line":"Snow"}']).made
    await using conductor = await fermata.conductor()
    const done = await (await conductor.dispatch(poet, "Write.")).done()
    assert.strictEqual(done.status === "completed" ? done.output.line : done.status, "Snow")
  })
})
