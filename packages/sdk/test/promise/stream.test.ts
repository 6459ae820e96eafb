import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { ConnectionLost, InvalidRequest } from "../../src/model/ModelError.ts"
import { approve } from "../../src/promise/decisions.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { isAgentNotFound, isModelFailed, isOptionsInvalid } from "../../src/promise/guards.ts"
import * as Storeless from "../../src/promise/Storeless.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { rejection } from "../helpers/rejection.ts"

const look = tool("look", { safety: "readOnly", handler: () => "seen" })
const pay = tool("pay", { handler: () => "paid" })

const open = (script: Parameters<typeof ScriptedModel.make>[0]) =>
  Fermata.make({
    agents: [agent("clerk", { tools: [look, pay] })],
    model: ScriptedModel.make(script).client,
    store: layerMemory,
    drainTimeout: 20
  })

/** The pieces, and the error that the iteration threw. */
const read = async (stream: AsyncIterable<string>) => {
  const pieces: Array<string> = []
  try {
    for await (const piece of stream) pieces.push(piece)
    return { pieces, text: pieces.join(""), error: undefined }
  } catch (error) {
    return { pieces, text: pieces.join(""), error: error as unknown }
  }
}

describe("a stream of a run's text", () => {
  it("yields the text of every turn as it is written, and has the result at its end", async () => {
    const isRead = Promise.withResolvers<string>()
    const wait = tool("wait", { safety: "readOnly", handler: () => isRead.promise })
    const script = [
      { text: "One moment. ", chunkSize: 4, calls: [{ tool: "wait" }] },
      { text: "It is clear.", chunkSize: 4 }
    ]
    await using fermata = await Fermata.make({
      agents: [agent("clerk", { tools: [wait] })],
      model: ScriptedModel.make(script).client,
      store: layerMemory
    })
    const seen: Array<string> = []
    const stream = fermata.stream("clerk", "How is the sky?", {
      onUpdate: ({ _tag }) => seen.push(_tag)
    })
    let text = ""
    for await (const piece of stream) {
      text += piece
      if (text === "One moment. ") isRead.resolve("seen")
    }
    assert.strictEqual(text, "One moment. It is clear.")
    const result = await stream.result
    assert.strictEqual(result.status === "completed" ? result.text : result.status, "It is clear.")
    assert.strictEqual(String(result.runId), stream.runId)
    assert.include(seen, "delta")
    assert.deepStrictEqual(await read(stream), { pieces: [], text: "", error: undefined })
  })

  it("continues in another process after a decision, with the text that follows", async () => {
    const model = ScriptedModel.make([
      { text: "I ask first. ", calls: [{ tool: "pay" }] },
      { text: "It is paid.", chunkSize: 3 }
    ])
    const context = await Effect.runPromise(Layer.buildWithScope(layerMemory, Scope.makeUnsafe()))
    const store = Layer.succeedContext(context)
    const process = () =>
      Fermata.make({ agents: [agent("clerk", { tools: [look, pay] })], model: model.client, store })
    await using first = await process()
    const started = first.stream("clerk", "Pay.")
    assert.strictEqual((await read(started)).text, "I ask first. ")
    const held = await started.result
    if (held.status !== "interrupted") return assert.fail(held.status)
    await using second = await process()
    await second.decide(held.interruptions[0]!, approve(), { by: "ann" })
    const seen: Array<string> = []
    const stream = second.resumeStream(held.runId, { onUpdate: ({ _tag }) => seen.push(_tag) })
    assert.strictEqual(stream.runId, held.runId)
    const { pieces, text } = await read(stream)
    assert.strictEqual(text, "It is paid.")
    assert.isAbove(pieces.length, 0)
    assert.strictEqual((await stream.result).status, "completed")
    assert.include(seen, "delta")
    const unknown = await read(second.resumeStream(held.runId, { promt: "go" } as never))
    assert.isTrue(isOptionsInvalid(unknown.error), String(unknown.error))
  })

  it("continues a state without a store", async () => {
    const model = ScriptedModel.make([{ calls: [{ tool: "pay" }] }, "It is paid."])
    await using storeless = await Storeless.make({
      agents: [agent("clerk", { tools: [pay] })],
      model: model.client
    })
    const held = await storeless.runPrompt("clerk", "Pay.")
    if (held.status !== "interrupted") return assert.fail(held.status)
    const [request] = held.interruptions
    const decisions = [{ request: request!, decision: approve() }]
    const stream = storeless.resumeStream(JSON.stringify(held.state), { decisions })
    assert.strictEqual((await read(stream)).text, "It is paid.")
    assert.strictEqual((await stream.result).status, "completed")
  })

  it("yields all of the text to a reader that begins late, in one piece", async () => {
    await using fermata = await open([{ text: "One two three", chunkSize: 4 }])
    const stream = fermata.stream("clerk", "Count.")
    await stream.result
    assert.deepStrictEqual((await read(stream)).pieces, ["One two three"])
  })

  it("yields the text of an answer that was not streamed", async () => {
    await using fermata = await open([
      { text: "One two", errorOnlyStreaming: true, error: new ConnectionLost({ description: "reset" }) }
    ])
    assert.strictEqual((await read(fermata.stream("clerk", "Count."))).text, "One two")
  })

  it("leaves out the text of sub-agents", async () => {
    const lead = agent("lead", { subAgents: [agent("scout")], delegation: "delegate" })
    const model = ScriptedModel.make(({ agentPath, turn }) =>
      agentPath.length > 1
        ? "scouted"
        : turn === 1
          ? { calls: [{ tool: "delegate", arguments: { agent: "scout", prompt: "go" } }] }
          : "led"
    )
    await using fermata = await Fermata.make({ agents: [lead], model: model.client, store: layerMemory })
    assert.strictEqual((await read(fermata.stream(lead, "go"))).text, "led")
  })

  it("ends when the run is held, with the requests in its result", async () => {
    await using fermata = await open([{ text: "I will pay.", calls: [{ tool: "pay" }] }, "done"])
    const stream = fermata.stream("clerk", "Pay.", { runId: "run" })
    assert.deepStrictEqual(await read(stream), {
      pieces: ["I will pay."],
      text: "I will pay.",
      error: undefined
    })
    const held = await stream.result
    if (held.status !== "interrupted") assert.fail(held.status)
    await fermata.decide(held.interruptions[0]!, approve())
    assert.strictEqual((await fermata.resume("run")).status, "completed")
  })

  it("throws the error of a run that failed, after the text before it, and the result has the same error", async () => {
    const script = [
      { text: "One two", chunkSize: 4, error: new InvalidRequest({ description: "cut off" }), failAfter: 1 }
    ]
    await using fermata = await open(script)
    const stream = fermata.stream("clerk", "Count.")
    const { error, text } = await read(stream)
    const result = await stream.result
    assert.deepStrictEqual([text, result.status], ["One ", "error"])
    assert.isTrue(isModelFailed(error))
    assert.strictEqual<unknown>(result.status === "error" && result.error, error)
  })

  it("ends when its signal cancels the run, and the result is cancelled", async () => {
    await using fermata = await open([{ hang: true }])
    const controller = new AbortController()
    const stream = fermata.stream("clerk", "go", {
      signal: controller.signal,
      onUpdate: ({ _tag }) => _tag === "event" && controller.abort()
    })
    assert.strictEqual((await read(stream)).error, undefined)
    assert.strictEqual((await stream.result).status, "cancelled")
  })

  it("can be left: the run continues, and its result resolves", async () => {
    await using fermata = await open([{ text: "One two three", chunkSize: 4 }])
    const stream = fermata.stream("clerk", "Count.")
    for await (const _ of stream) break
    const result = await stream.result
    assert.strictEqual(result.status === "completed" ? result.text : result.status, "One two three")
    assert.deepStrictEqual((await read(stream)).pieces, [])
  })

  it("throws the errors of runPrompt, of which no one is unhandled", async () => {
    await using fermata = await open([])
    const unhandled: Array<unknown> = []
    const listen = (error: unknown) => unhandled.push(error)
    process.on("unhandledRejection", listen)
    const wrong = fermata.stream("nobody", "go")
    assert.isTrue(isAgentNotFound((await read(wrong)).error))
    assert.isTrue(isAgentNotFound(await rejection(wrong.result)))
    const misspelt = fermata.stream("clerk", "go", { sesionId: "s" } as never)
    const { error } = await read(misspelt)
    assert.isTrue(isOptionsInvalid(error) && error.message.includes("sessionId"))
    fermata.stream("nobody", "go")
    await new Promise((resolve) => setImmediate(resolve))
    process.off("unhandledRejection", listen)
    assert.deepStrictEqual(unhandled, [])
  })

  it("works without a store", async () => {
    const model = ScriptedModel.make([{ text: "One two", chunkSize: 4 }])
    await using fermata = await Storeless.make({ agents: [agent("clerk")], model: model.client })
    const stream = fermata.stream("clerk", "Count.")
    assert.strictEqual((await read(stream)).text, "One two")
    assert.strictEqual((await stream.result).status, "completed")
  })
})
