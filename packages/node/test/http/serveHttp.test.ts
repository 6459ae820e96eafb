import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, assert, describe, it } from "@effect/vitest"
import type { Interruption } from "@fermata/node"
import { type ConnectedFermata, connectFermata, FermataApi } from "@fermata/node/http"
import { serveHttp } from "@fermata/node/http"
import { clerk, served } from "./serving.ts"

const directory = mkdtempSync(join(tmpdir(), "fermata-http-"))
afterAll(() => rmSync(directory, { recursive: true }))

const tagOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "resolved",
    (error: { readonly _tag?: string }) => error._tag ?? String(error)
  )

/** Reads events until one has a tag, and returns that one. */
const until = async <Tag extends string>(client: Pick<ConnectedFermata, "events">, tag: Tag) => {
  for await (const { event } of client.events())
    if (event._tag === tag) return event as Extract<typeof event, { readonly _tag: Tag }>
  return assert.fail(`The events ended without ${tag}`)
}

/** Submits a prompt, and returns the request that it is held on. */
const held = async (client: ConnectedFermata): Promise<Interruption.Interruption> => {
  const answer = await client.submit({ _tag: "SubmitPrompt", prompt: "Pay the invoice." })
  if (answer._tag !== "TaskStarted") return assert.fail(answer._tag)
  for await (const { event } of client.events())
    if (event._tag === "tool.approvalRequired" && event.taskId === answer.taskId) return event.request
  return assert.fail("The events ended")
}

describe("serveHttp", () => {
  it("runs a prompt, shows its approval and continues after the decision", async () => {
    await using at = await served({ by: { id: "ana", kind: "person", authenticated: "token" } })
    await using client = await connectFermata(at.server)
    const request = await held(client)
    assert.deepStrictEqual(at.paid, [])
    assert.deepStrictEqual(
      (await client.inbox()).map(({ request }) => request.requestId),
      [request.requestId]
    )
    const decision = await client.decide(request.requestId, { decision: { _tag: "approve" } })
    assert.strictEqual(decision.by, "ana")
    assert.deepStrictEqual(decision.principal, { id: "ana", kind: "person", authenticated: "token" })
    const done = await until(client, "task.completed")
    assert.strictEqual(done.text, "It is paid.")
    assert.deepStrictEqual(at.paid, [20])
    const [run] = await client.runs()
    if (run === undefined) return assert.fail("There is no run")
    assert.strictEqual(run.status, "completed")
    assert.deepStrictEqual(await client.run(run.runId), run)
    const messages = await client.messages(run.runId)
    assert.deepStrictEqual(
      messages.map(({ role }) => role),
      ["user", "assistant", "tool", "assistant"]
    )
    assert.deepStrictEqual(await client.sessionMessages(run.sessionId, { limit: 1 }), messages.slice(-1))
    assert.deepStrictEqual(
      (await client.sessions()).map(({ last }) => last.runId),
      [run.runId]
    )
  })

  it("answers the second of two decisions with 409 and who decided", async () => {
    await using at = await served({
      principals: [
        { token: "a".repeat(32), principal: "ana" },
        { token: "b".repeat(32), principal: "bo" }
      ]
    })
    const url = at.server.url
    await using ana = await connectFermata({ url, token: "a".repeat(32) })
    await using bo = await connectFermata({ url, token: "b".repeat(32) })
    const { requestId } = await held(ana)
    const both = await Promise.allSettled([
      ana.decide(requestId, { decision: { _tag: "approve" } }),
      bo.decide(requestId, { decision: { _tag: "deny", message: "No." } })
    ])
    const won = both.find((one) => one.status === "fulfilled")
    const lost = both.find((one) => one.status === "rejected")
    assert.strictEqual(lost?.reason._tag, "AlreadyDecided")
    assert.strictEqual(lost?.reason.by, won?.value.by)
    assert.strictEqual(lost?.reason.decision._tag, won?.value._tag)
    const response = await fetch(`${url}/v1/inbox/${requestId}`, {
      method: "POST",
      headers: { authorization: `Bearer ${"b".repeat(32)}`, "content-type": "application/json" },
      body: JSON.stringify({ decision: { _tag: "deny" } })
    })
    assert.strictEqual(response.status, 409)
    const body = (await response.json()) as Record<string, unknown>
    assert.strictEqual(body.by, won?.value.by)
    assert.match(String(body.message), /was decided \((approve|deny)\) by (ana|bo)/)
  })

  it("answers the decision on an expired request with 410", async () => {
    await using at = await served({}, { expiresIn: "50 millis" })
    await using client = await connectFermata(at.server)
    const { requestId } = await held(client)
    await until(client, "tool.approvalSettled")
    const response = await fetch(`${at.server.url}/v1/inbox/${requestId}`, {
      method: "POST",
      headers: { authorization: `Bearer ${at.server.token}`, "content-type": "application/json" },
      body: JSON.stringify({ decision: { _tag: "approve" } })
    })
    assert.strictEqual(response.status, 410)
    assert.strictEqual(((await response.json()) as { readonly by: string }).by, "expiry")
    assert.deepStrictEqual(at.paid, [])
  })

  it("refuses arguments that do not fit with 422, and the request stays open", async () => {
    await using at = await served()
    await using client = await connectFermata(at.server)
    const { requestId } = await held(client)
    const edited = client.decide(requestId, {
      decision: { _tag: "approve", arguments: { amount: "much" } }
    })
    assert.strictEqual(await tagOf(edited), "EditedArgumentsInvalid")
    const approve = { _tag: "approve", by: "eve" } as const
    assert.strictEqual(await tagOf(client.decide(requestId, { decision: approve as never })), "SchemaError")
    const response = await fetch(`${at.server.url}/v1/inbox/${requestId}`, {
      method: "POST",
      headers: { authorization: `Bearer ${at.server.token}`, "content-type": "application/json" },
      body: JSON.stringify({ decision: approve })
    })
    assert.strictEqual(response.status, 422)
    assert.match(await response.text(), /"decision.by\\?"/)
    assert.strictEqual((await client.inbox()).length, 1)
    assert.deepStrictEqual(at.paid, [])
  })

  it("records several decisions all or not at all", async () => {
    await using at = await served()
    await using client = await connectFermata(at.server)
    await client.submit({ _tag: "SessionNew" })
    const first = await held(client)
    await client.submit({ _tag: "SessionNew" })
    const second = await held(client)
    const approve = { _tag: "approve" } as const
    const bad = client.decideAll([
      { requestId: first.requestId, decision: approve },
      { requestId: second.requestId, decision: { _tag: "answer", answer: "Yes." } }
    ])
    assert.strictEqual(await tagOf(bad), "DecisionNotApplicable")
    assert.strictEqual((await client.inbox()).length, 2)
    const decided = await client.decideAll([
      { requestId: first.requestId, decision: approve },
      { requestId: second.requestId, decision: approve }
    ])
    assert.strictEqual(decided.length, 2)
  })

  it("rejects commands with the errors of the in-process interface", async () => {
    await using at = await served()
    await using client = await connectFermata(at.server)
    await held(client)
    assert.strictEqual(await tagOf(client.submit({ _tag: "SubmitPrompt", prompt: "More" })), "TaskActive")
    assert.strictEqual(
      await tagOf(client.submit({ _tag: "CancelTask", taskId: "t_no" as never })),
      "TaskNotActive"
    )
    assert.strictEqual(await tagOf(client.run("run_no")), "RunNotFound")
    assert.strictEqual(
      await tagOf(client.decide("run_no.r0", { decision: { _tag: "approve" } })),
      "RequestNotFound"
    )
  })

  it("takes a command once for its id", async () => {
    await using at = await served()
    await using client = await connectFermata(at.server)
    const command = { _tag: "SubmitPrompt", commandId: "c1", prompt: "Pay the invoice." } as const
    const first = await client.submit(command)
    const again = await client.submit(command)
    assert.deepStrictEqual(again, { ...first, repeated: true })
    assert.strictEqual((await client.runs()).length, 1)
  })

  it("cancels, forks and sends messages to runs", async () => {
    await using at = await served()
    await using client = await connectFermata(at.server)
    await held(client)
    const [run] = await client.runs()
    if (run === undefined) return assert.fail()
    const receipt = await client.send(run.runId, { prompt: "By noon.", messageId: "m1" })
    assert.strictEqual(receipt.messageId, "m1")
    assert.deepStrictEqual(await client.send(run.runId, { prompt: "By noon.", messageId: "m1" }), receipt)
    const fork = await client.fork(run.runId, { prompt: "Pay the other one." })
    assert.notStrictEqual(fork, run.runId)
    assert.deepStrictEqual(
      (await client.runs()).map(({ runId }) => runId as string).sort(),
      [fork, run.runId].sort()
    )
    await client.cancel(run.runId, "It is not due.")
    assert.strictEqual((await until(client, "task.cancelled")).reason, "It is not due.")
  })

  it("describes itself by OpenAPI 3.1 with every path and its statuses", async () => {
    await using at = await served()
    const response = await fetch(`${at.server.url}/v1/openapi.json`, {
      headers: { authorization: `Bearer ${at.server.token}` }
    })
    const spec = (await response.json()) as Record<string, any>
    assert.match(spec.openapi, /^3\.1/)
    assert.deepStrictEqual(spec, JSON.parse(JSON.stringify(FermataApi.openApi())))
    assert.deepStrictEqual(Object.keys(spec.paths).sort(), [
      "/v1/commands",
      "/v1/events",
      "/v1/inbox",
      "/v1/inbox/{requestId}",
      "/v1/runs",
      "/v1/runs/{runId}",
      "/v1/runs/{runId}/cancel",
      "/v1/runs/{runId}/fork",
      "/v1/runs/{runId}/messages",
      "/v1/sessions",
      "/v1/sessions/{sessionId}/messages",
      "/v1/snapshot"
    ])
    const statuses = Object.keys(spec.paths["/v1/inbox/{requestId}"].post.responses)
    for (const status of ["200", "401", "404", "409", "410", "422"]) assert.include(statuses, status)
    assert.deepStrictEqual(spec.security, [{ token: [] }])
  })

  it("continues after a restart of the server behind the client's last event", async () => {
    const store = join(directory, "restart.db")
    const options = { token: "t".repeat(40) }
    const first = await clerk({ store })
    const server = await serveHttp(first.fermata, options)
    const port = Number(new URL(server.url).port)
    await using client = await connectFermata({ url: server.url, token: options.token })
    const seen: Array<string> = []
    const reading = (async () => {
      for await (const { event, journal } of client.events()) {
        if (journal !== undefined) seen.push(`${journal.runId} ${journal.revision} ${journal.part}`)
        if (event._tag === "task.completed") return event.text
      }
      return "ended"
    })()
    const { requestId } = await held(client)
    await server.close()
    await first.fermata.close()

    const second = await clerk({ store })
    await using _ = second.fermata
    await using again = await serveHttp(second.fermata, { ...options, port })
    assert.strictEqual(again.url, server.url)
    await client.submit({ _tag: "SessionResumeLast" })
    await client.decide(requestId, { decision: { _tag: "approve" } })
    assert.strictEqual(await reading, "It is paid.")
    assert.deepStrictEqual(second.paid, [20])
    assert.deepStrictEqual(new Set(seen).size, seen.length, "an event arrived twice")
    const [run] = await client.runs()
    const revisions = new Set(seen.map((place) => Number(place.split(" ")[1])))
    assert.isAtMost(Math.max(...revisions), run!.revision)
  })

  it("continues behind Last-Event-ID, without the events before it", async () => {
    await using at = await served()
    await using client = await connectFermata(at.server)
    await held(client)
    const ids: Array<string> = []
    const seqs: Array<number> = []
    const read = async (lastId: string | undefined) => {
      const response = await fetch(`${at.server.url}/v1/events`, {
        headers: {
          authorization: `Bearer ${at.server.token}`,
          ...(lastId === undefined ? {} : { "last-event-id": lastId })
        }
      })
      let text = ""
      for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
        text += chunk
        const [, id, data] = /^id: (.+)\ndata: (.+)\n\n/m.exec(text) ?? []
        if (id === undefined || data === undefined) continue
        ids.push(id)
        seqs.push((JSON.parse(data) as { readonly seq: number }).seq)
        return
      }
    }
    for (let index = 0; index < 4; index += 1) await read(ids.at(-1))
    assert.deepStrictEqual(seqs, [1, 2, 3, 4])
  })

  it("names the caller as the author of commands", async () => {
    await using at = await served({ by: "ana" })
    await using client = await connectFermata(at.server)
    const { requestId } = await held(client)
    const decided = await client.submit({
      _tag: "Approve",
      approvalId: requestId,
      decision: { _tag: "approve" }
    })
    assert.strictEqual(decided._tag === "Decided" && decided.decision.by, "ana")
  })

  it("sends the last events of a stopped runtime before it closes, so that a client ends and does not connect again", async () => {
    const { fermata } = await clerk()
    await using _ = fermata
    const plane = await fermata.controlPlane()
    const server = await serveHttp(fermata, { plane })
    await using client = await connectFermata(server)
    const seen: Array<string> = []
    const reading = (async () => {
      for await (const { event } of client.events()) seen.push(event._tag)
    })()
    await until(client, "lifecycle.started")
    const stopped = plane.submit({ _tag: "Shutdown" })
    // As a program that ends with its runtime.
    for await (const { event } of plane.events()) if (event._tag === "lifecycle.stopped") break
    await server.close()
    await stopped
    await reading
    assert.deepStrictEqual(seen.slice(-2), ["lifecycle.stopping", "lifecycle.stopped"])
  })

  it("answers a client that has all events of a stopped runtime with 204, and its commands with 503", async () => {
    await using at = await served()
    await using client = await connectFermata(at.server)
    await client.submit({ _tag: "Shutdown" })
    let seq = 0
    for await (const envelope of client.events()) seq = envelope.seq
    const headers = { authorization: `Bearer ${at.server.token}` }
    const response = await fetch(`${at.server.url}/v1/events?from=${seq + 1}`, { headers })
    assert.strictEqual(response.status, 204)
    assert.strictEqual(await tagOf(client.submit({ _tag: "SessionNew" })), "RuntimeStopped")
  })

  it("closes within a second while event streams are open", async () => {
    const at = await served()
    await using client = await connectFermata(at.server)
    const open = Array.from({ length: 5 }, () => client.events()[Symbol.asyncIterator]())
    await Promise.all(open.map((one) => one.next()))
    const before = performance.now()
    await at.server.close()
    assert.isBelow(performance.now() - before, 1000)
    await client.close()
    await at.fermata.close()
  })
})
