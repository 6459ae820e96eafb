import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { pipeline } from "node:stream/promises"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { approve } from "../../src/promise/decisions.ts"
import { agent, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { isOptionsInvalid, isRunNotFound } from "../../src/promise/guards.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { RunStoreError, StoreUnreadable } from "../../src/store/RunStoreError.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { rejection } from "../helpers/rejection.ts"

const pay = tool("pay", { handler: () => "paid" })

const open = (script: Parameters<typeof ScriptedModel.make>[0]) =>
  Fermata.make({
    agents: [agent("clerk", { tools: [pay] })],
    model: ScriptedModel.make(script).client,
    store: layerMemory,
    drainTimeout: 20
  })

interface Message {
  readonly id?: string
  readonly event?: string
  readonly data?: any
}

/** The messages of a body, as a browser reads them; comments are left out. */
const messagesOf = async function* (body: ReadableStream<Uint8Array> | null): AsyncGenerator<Message> {
  let unread = ""
  const decoder = new TextDecoder()
  for await (const bytes of body as unknown as AsyncIterable<Uint8Array>) {
    unread += decoder.decode(bytes, { stream: true })
    for (let end = unread.indexOf("\n\n"); end >= 0; end = unread.indexOf("\n\n")) {
      const lines = unread.slice(0, end).split("\n")
      unread = unread.slice(end + 2)
      const fields = lines.filter((line) => !line.startsWith(":")).map((line) => line.split(/: (.*)/s))
      if (fields.length === 0) continue
      const found = Object.fromEntries(fields) as Record<string, string>
      yield { ...found, ...(found["data"] === undefined ? {} : { data: JSON.parse(found["data"]) }) }
    }
  }
}

const all = async (response: Response): Promise<ReadonlyArray<Message>> => {
  const messages: Array<Message> = []
  for await (const message of messagesOf(response.body)) messages.push(message)
  return messages
}

const requestAfter = (id: number | string) => ({ headers: new Headers({ "last-event-id": String(id) }) })

describe("the events of a run as a response", () => {
  it("are server-sent events whose ids are the revisions, and end with the status", async () => {
    await using fermata = await open(["hello"])
    const { runId, state } = await fermata.runPrompt("clerk", "go")
    const response = await fermata.eventsResponse(runId)
    assert.strictEqual(response.status, 200)
    assert.strictEqual(response.headers.get("content-type"), "text/event-stream; charset=utf-8")
    const messages = await all(response)
    const end = messages.at(-1)
    assert.deepStrictEqual([end?.event, end?.data], ["end", { status: "completed" }])
    const events = messages.slice(0, -1)
    assert.deepStrictEqual(
      events.map(({ id }) => Number(id)),
      Array.from({ length: state.revision }, (_, index) => index + 1)
    )
    assert.deepStrictEqual(
      [events[0]?.data.event._tag, events.at(-1)?.data.event._tag],
      ["run.started", "run.completed"]
    )
  })

  it("go on after the header Last-Event-ID, and respond with 204 to a client that has all of an ended run", async () => {
    await using fermata = await open(["hello"])
    const { runId, state } = await fermata.runPrompt("clerk", "go")
    const rest = await all(await fermata.eventsResponse(runId, { request: requestAfter(2) }))
    assert.strictEqual(rest[0]?.id, "3")
    // A client that began behind an event, and reconnects.
    for (const [from, last] of [
      [1, 2],
      [2, 1]
    ] as const) {
      const [next] = await all(await fermata.eventsResponse(runId, { from, request: requestAfter(last) }))
      assert.strictEqual(next?.id, "3")
    }
    const nothing = await fermata.eventsResponse(runId, { request: requestAfter(state.revision) })
    assert.deepStrictEqual([nothing.status, nothing.body], [204, null])
    for (const odd of ["-1", "x", "1e9", ""]) {
      const [first] = await all(await fermata.eventsResponse(runId, { request: requestAfter(odd) }))
      assert.strictEqual(first?.id, "1")
    }
  })

  it("stay open while the run is held, and contain the text as it is written", async () => {
    await using fermata = await open([{ calls: [{ tool: "pay" }] }, { text: "One two", chunkSize: 4 }])
    const { runId } = await fermata.runPrompt("clerk", "go")
    const toHold = await all(await fermata.eventsResponse(runId, { until: "hold" }))
    assert.deepStrictEqual(toHold.at(-1)?.data, { status: "held" })
    const messages: Array<Message> = []
    for await (const message of messagesOf((await fermata.eventsResponse(runId)).body)) {
      messages.push(message)
      if (message.data?.event?._tag !== "run.held") continue
      await fermata.decide((await fermata.pending())[0]!, approve())
      void fermata.resume(runId)
    }
    const text = messages
      .flatMap(({ data }) => (data._tag === "delta" ? [data.part.delta ?? ""] : []))
      .join("")
    assert.strictEqual(text, "One two")
    assert.deepStrictEqual(messages.at(-1)?.data, { status: "completed" })
    assert.isUndefined(messages.find(({ data }) => data._tag === "delta")?.id)
  })

  it("contain no data that only the provider reads, also not of sub-agents", async () => {
    const secret = {
      _tag: "reasoning",
      text: "Hm.",
      provider: "test",
      payload: { signature: "secret" }
    } as const
    const lead = agent("lead", { subAgents: [agent("scout")], delegation: "delegate" })
    const model = ScriptedModel.make(({ agentPath, turn }) => ({
      content: [secret],
      ...(agentPath.length === 1 && turn === 1
        ? { calls: [{ tool: "delegate", arguments: { agent: "scout", prompt: "go", payload: "kept" } }] }
        : { text: "done" })
    }))
    await using fermata = await Fermata.make({ agents: [lead], model: model.client, store: layerMemory })
    const run = fermata.dispatch("lead", "go", { runId: "run" })
    await run
    const sent = JSON.stringify(await all(await fermata.eventsResponse("run")))
    assert.include(JSON.stringify(await fermata.state("run")), "secret")
    assert.notInclude(sent, "secret")
    assert.include(sent, "Hm.")
    const ofScout = await all(await fermata.eventsResponse("run.t1.1"))
    assert.deepStrictEqual([ofScout[0]?.id, ofScout.at(-1)?.data], ["1", { status: "completed" }])
    assert.notInclude(JSON.stringify(ofScout), "secret")
  })

  it("contain no data that a caller gave for a provider with a message", async () => {
    await using fermata = await open([{ calls: [{ tool: "pay" }] }])
    const part = { _tag: "text", text: "said", provider: "test", payload: { signature: "secret" } } as const
    const { runId } = await fermata.runPrompt("clerk", [part])
    await fermata.send(runId, [part])
    const sent = JSON.stringify(await all(await fermata.eventsResponse(runId, { until: "hold" })))
    assert.include(JSON.stringify(await fermata.state(runId)), "secret")
    assert.include(sent, "said")
    assert.notInclude(sent, "secret")
  })

  it("end with a message of the type error, instead of an errored body, when the store cannot read the run", async () => {
    const damaged = new Set<string>()
    const store = Layer.effect(
      RunStore,
      Effect.map(RunStore, (sound) => ({
        ...sound,
        events: (runId, options) =>
          damaged.has(runId)
            ? Effect.fail(new RunStoreError({ operation: "events", reason: unreadable }))
            : sound.events(runId, options)
      }))
    ).pipe(Layer.provide(layerMemory))
    const unreadable = new StoreUnreadable({ detail: "the journal is damaged." })
    const model = ScriptedModel.make(() => "hello").client
    await using fermata = await Fermata.make({ agents: [agent("clerk")], model, store })
    const { runId } = await fermata.runPrompt("clerk", "go")
    const other = await fermata.runPrompt("clerk", "go")
    damaged.add(runId)
    const [message, ...more] = await all(await fermata.eventsResponse(runId))
    const data = { message: "The store cannot be read: the journal is damaged.", code: "RunStoreError" }
    assert.deepStrictEqual([message, more], [{ event: "error", data }, []])
    const ofOther = await all(await fermata.eventsResponse(other.runId))
    assert.deepStrictEqual(ofOther.at(-1)?.data, { status: "completed" })
  })

  it("have a comment at the start and whenever nothing is sent for a while", async () => {
    await using fermata = await open([{ calls: [{ tool: "pay" }] }])
    const { runId, state } = await fermata.runPrompt("clerk", "go")
    const request = requestAfter(state.revision)
    const reader = (await fermata.eventsResponse(runId, { request, heartbeat: 1 })).body!.getReader()
    for (let beats = 0; beats < 3; beats += 1) {
      assert.strictEqual(new TextDecoder().decode((await reader.read()).value), ": \n\n")
    }
    await reader.cancel()
  })

  it("end when the client leaves, by the body or by the request's signal, and when the Fermata is closed", async () => {
    const fermata = await open([{ calls: [{ tool: "pay" }] }])
    const { runId } = await fermata.runPrompt("clerk", "go")
    const left = (await fermata.eventsResponse(runId)).body!.getReader()
    await left.read()
    await left.cancel()
    const controller = new AbortController()
    const aborted = await fermata.eventsResponse(runId, {
      request: { headers: new Headers(), signal: controller.signal }
    })
    const closed = await fermata.eventsResponse(runId)
    const read = [aborted, closed].map(async (response) => {
      const messages: Array<Message> = []
      for await (const message of messagesOf(response.body)) {
        messages.push(message)
        if (message.data?.event?._tag === "run.held") {
          if (response === aborted) controller.abort()
          else void fermata.close()
        }
      }
      return messages.at(-1)
    })
    // Neither is the end of the run, so that the client reconnects.
    for (const last of await Promise.all(read)) assert.strictEqual(last?.data.event._tag, "run.held")
  })

  it("end with the status removed when the run is removed, and are refused for an unknown run or option", async () => {
    await using fermata = await open([{ calls: [{ tool: "pay" }] }])
    const { runId } = await fermata.runPrompt("clerk", "go")
    const messages: Array<Message> = []
    for await (const message of messagesOf((await fermata.eventsResponse(runId)).body)) {
      messages.push(message)
      if (message.data?.event?._tag === "run.held") await fermata.remove(runId)
    }
    assert.deepStrictEqual(messages.at(-1)?.data, { status: "removed" })
    for (const id of [runId, "run.t1.1", undefined]) {
      assert.isTrue(isRunNotFound(await rejection(fermata.eventsResponse(id as string))))
    }
    for (const wrong of [
      { form: 1 },
      { from: -1 },
      { heartbeat: "soon" },
      { heartbeat: 0 },
      { until: "held" },
      { request: {} },
      { request: { headers: null } },
      { request: "/run" },
      { request: { headers: {}, signal: "abort" } }
    ]) {
      assert.isTrue(isOptionsInvalid(await rejection(fermata.eventsResponse(runId, wrong as never))))
    }
  })

  it("go on after the header of a request of a Node server", async () => {
    await using fermata = await open(["hello"])
    const { runId, state } = await fermata.runPrompt("clerk", "go")
    const after = (id: string | undefined) => ({ request: { headers: { "last-event-id": id } } })
    assert.strictEqual((await all(await fermata.eventsResponse(runId, after("2"))))[0]?.id, "3")
    assert.strictEqual((await all(await fermata.eventsResponse(runId, after(undefined))))[0]?.id, "1")
    const all204 = await fermata.eventsResponse(runId, after(String(state.revision)))
    assert.strictEqual(all204.status, 204)
  })

  it("reach a browser through node:http", async () => {
    await using fermata = await open([{ calls: [{ tool: "pay" }] }, "done"])
    const { runId } = await fermata.runPrompt("clerk", "go")
    const server = createServer((incoming, outgoing) => {
      const gone = new AbortController()
      outgoing.on("close", () => gone.abort())
      const options = { request: incoming, signal: gone.signal }
      void fermata.eventsResponse(runId, options).then(async (response) => {
        outgoing.writeHead(response.status, Object.fromEntries(response.headers))
        if (response.body === null) outgoing.end()
        else await pipeline(response.body, outgoing).catch(() => {})
      })
    })
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve)
    })
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    let last = "0"
    const first = await fetch(url)
    for await (const { data, id } of messagesOf(first.body)) {
      last = id ?? last
      // The client leaves, and comes back with the id of the last event.
      if (data.event._tag === "run.held") break
    }
    await fermata.decide((await fermata.pending())[0]!, approve())
    await fermata.resume(runId)
    const second = await all(await fetch(url, { headers: { "last-event-id": last } }))
    assert.strictEqual(Number(second[0]?.id), Number(last) + 1)
    assert.deepStrictEqual(second.at(-1)?.data, { status: "completed" })
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
})
