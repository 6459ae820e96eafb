import { once } from "node:events"
import { connect } from "node:net"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { connectFermata } from "@fermata/node/http"
import { raw, served, statusOf } from "./serving.ts"

/**
 * The attacks of a page in a browser, of another program on the machine and of a client with half a mind: none of them changes anything. Each
 * sends the decision that would let the clerk pay.
 */
describe("an attack on the HTTP server", () => {
  let at: Awaited<ReturnType<typeof served>>
  let requestId = ""

  beforeAll(async () => {
    at = await served({
      maxBodyBytes: 10_000,
      rateLimit: { perSecond: 1000, burst: 1500 }
    })
    await using client = await connectFermata(at.server)
    await client.submit({ _tag: "SubmitPrompt", prompt: "Pay the invoice." })
    for await (const { event } of client.events())
      if (event._tag === "tool.approvalRequired") {
        requestId = event.request.requestId
        break
      }
  })

  afterAll(async () => {
    // Nothing was decided, the runtime works, and the owner of the token can still decide.
    await using client = await connectFermata(at.server)
    assert.deepStrictEqual(
      (await client.inbox()).map(({ request }) => request.requestId as string),
      [requestId]
    )
    assert.strictEqual((await client.runs()).length, 1)
    assert.deepStrictEqual(at.paid, [])
    await client.decide(requestId, { decision: { _tag: "approve" } })
    for await (const { event } of client.events()) if (event._tag === "task.completed") break
    assert.deepStrictEqual(at.paid, [20])
    await at[Symbol.asyncDispose]()
  })

  const approval = JSON.stringify({ decision: { _tag: "approve" } })

  /** A request on a socket. A header that is `undefined` is left out; a list gives it several times. */
  const attack = (
    headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>> = {},
    {
      body = approval,
      method = "POST",
      path = `/v1/inbox/${requestId}`
    }: { readonly body?: string; readonly method?: string; readonly path?: string } = {}
  ) => {
    const all: typeof headers = {
      host: `127.0.0.1:${at.port}`,
      authorization: `Bearer ${at.server.token}`,
      "content-type": "application/json",
      "content-length": String(Buffer.byteLength(body)),
      connection: "close",
      ...headers
    }
    const lines = Object.entries(all).flatMap(([name, value]) =>
      value === undefined ? [] : [value].flat().map((one) => `${name}: ${one}`)
    )
    return raw(at.port, `${method} ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n${body}`)
  }

  const refused = async (status: number, ...given: Parameters<typeof attack>) => {
    const answer = await attack(...given)
    assert.strictEqual(statusOf(answer), status, answer)
    assert.notMatch(answer, /access-control/i)
    return answer
  }

  for (const host of [
    "evil.example",
    "127.0.0.1.nip.io",
    "127.0.0.1",
    "127.0.0.1:1",
    "localhost.evil.example",
    "127.0.0.1@evil.example",
    "[::1]"
  ]) {
    it(`is refused with the host ${host}`, () => refused(403, { host }))
  }

  it("is refused with a host whose name is rebound to this machine, on its port", () =>
    refused(403, { host: `evil.example:${at.port}` }))

  it("is refused without a host", async () => {
    assert.include([400, 403], statusOf(await attack({ host: undefined })))
  })

  it("is refused with two hosts", async () => {
    const hosts = [`127.0.0.1:${at.port}`, "evil.example"]
    assert.include([400, 403], statusOf(await attack({ host: hosts })))
  })

  it("is refused with a foreign origin, with null and with another port, also for reading and for the events", async () => {
    for (const origin of [
      "https://evil.example",
      "null",
      "http://127.0.0.1:1",
      `https://127.0.0.1:${at.port}`
    ]) {
      await refused(403, { origin })
      await refused(403, { origin }, { method: "GET", path: "/v1/inbox", body: "" })
      await refused(403, { origin }, { method: "GET", path: "/v1/events", body: "" })
    }
  })

  it("is refused if the browser says that another site sends it", async () => {
    await refused(403, { "sec-fetch-site": "cross-site" })
    await refused(403, { "sec-fetch-site": "same-site" })
  })

  it("is refused as a form, which a page can send without asking", async () => {
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
      await refused(415, { "content-type": type })
    await refused(415, { "content-type": undefined })
  })

  it("is refused as a GET", () => refused(404, {}, { method: "GET" }))

  it("gets no answer to a preflight that would let it through", async () => {
    const asking = {
      origin: "https://evil.example",
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization"
    }
    await refused(403, asking, { method: "OPTIONS", body: "" })
    await refused(405, {}, { method: "OPTIONS", body: "" })
  })

  it("is refused by other methods", async () => {
    for (const method of ["PUT", "DELETE", "PATCH", "HEAD"]) await refused(405, {}, { method })
  })

  it("cannot put an answer into a frame, or have its type guessed", async () => {
    const answer = await attack({}, { method: "GET", path: "/v1/snapshot", body: "" })
    assert.strictEqual(statusOf(answer), 200)
    assert.match(answer, /content-security-policy: default-src 'none'; frame-ancestors 'none'/i)
    assert.match(answer, /x-content-type-options: nosniff/i)
    assert.match(answer, /cache-control: no-store/i)
  })

  it("is refused as the upgrade to a web socket", async () => {
    const upgrade = {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="
    }
    const answer = await attack(upgrade, { method: "GET", path: "/v1/ws", body: "" })
    assert.strictEqual(statusOf(answer), 404)
  })

  it("is refused with a wrong token, a thousand times, and then does not take the owner's place", async () => {
    await refused(401, { authorization: undefined })
    await refused(401, { authorization: `Basic ${at.server.token}` })
    await refused(401, { authorization: at.server.token! })
    await refused(401, { authorization: `Bearer ${at.server.token}x` })
    await refused(401, { authorization: `Bearer ${at.server.token!.slice(0, -1)}` })
    const statuses = new Set<number>()
    await Promise.all(
      Array.from({ length: 10 }, async (_, worker) => {
        for (let index = 0; index < 100; index += 1) {
          const response = await fetch(`${at.server.url}/v1/inbox/${requestId}`, {
            method: "POST",
            headers: { authorization: `Bearer ${worker}-${index}`, "content-type": "application/json" },
            body: approval
          })
          statuses.add(response.status)
          await response.arrayBuffer()
        }
      })
    )
    assert.isTrue([...statuses].every((status) => status === 401 || status === 429))
    const own = await attack({}, { method: "GET", path: "/v1/inbox", body: "" })
    assert.strictEqual(statusOf(own), 200)
  })

  it("is refused with the token in the address", () =>
    refused(401, { authorization: undefined }, { path: `/v1/inbox/${requestId}?token=${at.server.token}` }))

  it("is refused with a path that has several spellings, or names another server", async () => {
    for (const path of [
      `//v1/inbox/${requestId}`,
      `/v1//inbox/${requestId}`,
      `/v1/runs/../inbox/${requestId}`,
      `/v1/runs/%2e%2e/inbox/${requestId}`,
      `/v1/inbox%2F${requestId}`,
      `/v1\\inbox\\${requestId}`,
      `http://evil.example/v1/inbox/${requestId}`,
      "*"
    ])
      await refused(400, {}, { path })
  })

  it("is refused with a large body, whether or not it states its length", async () => {
    const large = `{"decision":{"_tag":"approve"},"x":"${"a".repeat(20_000)}"}`
    await refused(413, {}, { body: large })
    await refused(413, { "content-length": String(100 * 1024 * 1024) })
    const chunk = "a".repeat(1000)
    const chunks = `${`3e8\r\n${chunk}\r\n`.repeat(200)}0\r\n\r\n`
    await refused(413, { "content-length": undefined, "transfer-encoding": "chunked" }, { body: chunks })
  })

  it("is refused with a body that is no JSON, no object, or has other fields", async () => {
    for (const body of ["", "{", "null", "[]", '"approve"']) {
      const answer = await attack({}, { body })
      assert.include([400, 422], statusOf(answer), answer)
    }
    await refused(422, {}, { body: JSON.stringify({ decision: { _tag: "approve" }, principal: "ana" }) })
    await refused(422, {}, { body: JSON.stringify({ decision: { _tag: "approve", by: "ana" } }) })
    await refused(
      422,
      {},
      {
        path: "/v1/commands",
        body: JSON.stringify({ _tag: "SubmitPrompt", prompt: "Pay", by: "ana" })
      }
    )
  })

  it("loses its connection if it sends a request slowly", async () => {
    await using slow = await served({ requestTimeout: "400 millis" })
    const head = await raw(slow.port, `POST /v1/commands HTTP/1.1\r\nhost: 127.0.0.1:${slow.port}\r\n`)
    const body = await raw(
      slow.port,
      `POST /v1/commands HTTP/1.1\r\nhost: 127.0.0.1:${slow.port}\r\nauthorization: Bearer ${slow.server.token}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{`
    )
    assert.strictEqual(statusOf(head), 408)
    assert.strictEqual(statusOf(body), 408)
    assert.deepStrictEqual(await slow.fermata.runs(), [])
  })

  it("learns nothing of the host from an error", async () => {
    const answer = await attack({}, { method: "GET", path: "/v1/runs/%00", body: "" })
    assert.notMatch(answer, /node_modules|\.ts|\/work|\/home|at \w+ \(/)
  })

  it("cannot hold the server by not reading an event stream", async () => {
    const socket = connect(at.port, "127.0.0.1")
    socket.pause()
    await once(socket, "connect")
    socket.write(
      `GET /v1/events HTTP/1.1\r\nhost: 127.0.0.1:${at.port}\r\nauthorization: Bearer ${at.server.token}\r\n\r\n`
    )
    const own = await attack({}, { method: "GET", path: "/v1/inbox", body: "" })
    assert.strictEqual(statusOf(own), 200)
    socket.destroy()
  })
})

describe("the limits of a caller", () => {
  it("refuse requests above the rate with 429, and event streams above their number", async () => {
    await using at = await served({ rateLimit: { perSecond: 0.001, burst: 4 }, maxStreams: 1 })
    const get = (path: string) =>
      fetch(`${at.server.url}${path}`, { headers: { authorization: `Bearer ${at.server.token}` } })
    const stream = await get("/v1/events")
    assert.strictEqual(stream.status, 200)
    assert.strictEqual((await get("/v1/events")).status, 429)
    await stream.body?.cancel()
    assert.strictEqual((await get("/v1/inbox")).status, 200)
    assert.strictEqual((await get("/v1/inbox")).status, 200)
    const refused = await get("/v1/inbox")
    assert.strictEqual(refused.status, 429)
    assert.isAbove(Number(refused.headers.get("retry-after")), 0)
  })
})
