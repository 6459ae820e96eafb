/**
 * The guarded client against real servers on loopback addresses, with stub answers of a resolver.
 */
import type { Socket } from "node:net"
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from "node:tls"
import { brotliCompressSync, constants, gzipSync } from "node:zlib"
import { assert, describe, it } from "@effect/vitest"
import { WebGuard } from "@fermata/node"
import * as WebClient from "@fermata/node/guard/WebClient"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as HttpBody from "effect/http/HttpBody"
import type * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Stream from "effect/Stream"
import { makeConnector } from "../../src/guard/internal/connector.ts"
import { certificateOf } from "./certificate.ts"
import { serveWeb, socketsClosed } from "./webServer.ts"

/** What a request fails with. */
const causeOf = (error: HttpClientError.HttpClientError): unknown =>
  "cause" in error.reason ? error.reason.cause : undefined

const failureOf = (client: HttpClient.HttpClient, url: string) =>
  Effect.map(Effect.flip(Effect.flatMap(client.get(url), ({ text }) => text)), (error) => {
    const cause = causeOf(error)
    if (cause instanceof WebGuard.UrlRefused) return `refused ${cause.reason} ${cause.url}`
    return cause instanceof WebClient.RequestFailed ? `${cause.reason} (${cause.detail})` : String(cause)
  })

describe("WebClient", () => {
  it.live("reads a page of a listed private host, and refuses every other", () =>
    Effect.gen(function* () {
      const server = yield* serveWeb((_, response) => response.end("hello"))
      const other = yield* serveWeb((_, response) => response.end("secret"))
      const client = yield* WebClient.make({ privateHosts: [server.authority] })
      const response = yield* client.get(`${server.url}/a?b=c`)
      assert.strictEqual(yield* response.text, "hello")
      assert.strictEqual(server.requests[0]?.url, "/a?b=c")
      assert.strictEqual(server.requests[0]?.headers.host, server.authority)
      assert.strictEqual(
        yield* failureOf(client, `http://ana:pw@${other.authority}/`),
        `refused credentials ${other.url}/`
      )
      assert.strictEqual(yield* failureOf(client, `${other.url}/`), `refused privateHost ${other.url}/`)
      assert.deepStrictEqual(other.sockets, [])
    })
  )

  it.live("shows no credentials of a URL in its error", () =>
    Effect.gen(function* () {
      const client = yield* WebClient.make()
      const error = yield* Effect.flip(client.get("https://ana:hunter2@example.com/"))
      assert.notInclude(
        `${error.message}${JSON.stringify(error)}${JSON.stringify(causeOf(error))}`,
        "hunter2"
      )
    })
  )

  it.live("connects to the address that was checked, although the name has another one a moment later", () =>
    Effect.gen(function* () {
      const checked = yield* serveWeb((_, response) => response.end("public"))
      const inner = yield* serveWeb((_, response) => response.end("internal"), {
        host: "127.0.0.2",
        port: checked.port
      })
      const answers = [["127.0.0.1"], ["127.0.0.2"]]
      const asked: Array<string> = []
      const client = yield* WebClient.make({
        privateHosts: [`rebind.test-site.com:${checked.port}`],
        resolve: (host) => {
          asked.push(host)
          return Promise.resolve(answers[asked.length - 1] ?? [])
        }
      })
      const response = yield* client.get(`http://rebind.test-site.com:${checked.port}/`)
      assert.strictEqual(yield* response.text, "public")
      assert.deepStrictEqual(asked, ["rebind.test-site.com"])
      assert.strictEqual(checked.requests[0]?.headers.host, `rebind.test-site.com:${checked.port}`)
      assert.deepStrictEqual(inner.sockets, [])
    })
  )

  it("dials the checked addresses of a name and no other, for each connection anew", async () => {
    const answers = [["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"], ["127.0.0.1"]]
    const dialed: Array<ReadonlyArray<string>> = []
    const connector = makeConnector(
      WebGuard.make(),
      () => Promise.resolve(answers.shift() ?? []),
      1000,
      ({ addresses }) => {
        dialed.push(addresses)
        throw new Error("no network")
      }
    )
    const connect = (hostname: string) =>
      new Promise<Error | Socket | null>((resolve) =>
        connector.connect({ hostname, protocol: "https:", port: "" }, (...[error, socket]) =>
          resolve(error ?? socket)
        )
      )
    assert.match(String(await connect("rebind.test-site.com")), /no network/)
    assert.deepStrictEqual(dialed, [["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"]])
    // The second answer is not public. Address literals are judged, too, and so are the names.
    for (const host of ["rebind.test-site.com", "127.0.0.1", "::1", "169.254.169.254", "localhost"])
      assert.instanceOf(await connect(host), WebGuard.UrlRefused, host)
    assert.strictEqual(dialed.length, 1)
  })

  it.live("checks the certificate of a TLS server for the name, and sends the name", () =>
    Effect.gen(function* () {
      const tls = certificateOf("tls.test-site.com")
      const server = yield* serveWeb(
        ({ headers, socket }, response) =>
          response.end(
            `${headers.host} ${String((socket as TLSSocket & { servername?: string }).servername)}`
          ),
        { tls }
      )
      const { port } = server
      const client = yield* WebClient.make({
        privateHosts: [`tls.test-site.com:${port}`, `other.test-site.com:${port}`, server.authority],
        resolve: () => Promise.resolve(["127.0.0.1"])
      })
      const url = `https://tls.test-site.com:${port}/`
      assert.strictEqual(yield* failureOf(client, url), "connection (DEPTH_ZERO_SELF_SIGNED_CERT)")
      const trusted = getCACertificates("default")
      yield* Effect.acquireRelease(
        Effect.sync(() => setDefaultCACertificates([...trusted, tls.cert])),
        () => Effect.sync(() => setDefaultCACertificates(trusted))
      )
      const { text } = yield* client.get(url)
      assert.strictEqual(yield* text, `tls.test-site.com:${port} tls.test-site.com`)
      for (const other of [`https://other.test-site.com:${port}/`, server.url])
        assert.strictEqual(yield* failureOf(client, other), "connection (ERR_TLS_CERT_ALTNAME_INVALID)")
    })
  )

  it.live("refuses a redirect to a private address, and to a name that has one", () =>
    Effect.gen(function* () {
      const inner = yield* serveWeb((_, response) => response.end("internal"))
      const targets = [
        `${inner.url}/`,
        `//[::1]:${inner.port}/`,
        `http://inner.test-site.com:${inner.port}/`,
        "file:///etc/passwd",
        "http://user@10.0.0.1/",
        "http://["
      ]
      const server = yield* serveWeb(({ url = "" }, response) =>
        response.writeHead(302, { location: targets[Number(url.slice(1))] }).end()
      )
      const client = yield* WebClient.make({
        privateHosts: [server.authority],
        resolve: () => Promise.resolve(["127.0.0.1"])
      })
      const failures: Array<string> = []
      for (const index of targets.keys()) failures.push(yield* failureOf(client, `${server.url}/${index}`))
      assert.deepStrictEqual(failures, [
        `refused privateHost ${inner.url}/`,
        `refused privateHost http://[::1]:${inner.port}/`,
        `refused privateHost http://inner.test-site.com:${inner.port}/`,
        "refused scheme file:///etc/passwd",
        "refused credentials http://10.0.0.1/",
        "refused malformed http://["
      ])
      assert.deepStrictEqual(inner.sockets, [])
    })
  )

  it.live("follows five redirects, and not six, and no loop", () =>
    Effect.gen(function* () {
      const server = yield* serveWeb(({ url = "" }, response) => {
        const left = Number(url.slice(1))
        if (left === 0) response.end("arrived")
        else response.writeHead(307, { location: url === "/loop" ? "/loop" : `/${left - 1}` }).end()
      })
      const client = yield* WebClient.make({ privateHosts: [server.authority] })
      const response = yield* client.get(`${server.url}/5`)
      assert.strictEqual(yield* response.text, "arrived")
      assert.strictEqual(yield* failureOf(client, `${server.url}/6`), "redirects (more than 5)")
      const before = server.requests.length
      assert.strictEqual(yield* failureOf(client, `${server.url}/loop`), "redirects (more than 5)")
      assert.strictEqual(server.requests.length - before, 6)
    })
  )

  it.live("sends credentials to no other origin, also after a redirect back", () =>
    Effect.gen(function* () {
      const first = yield* serveWeb(({ url }, response) => {
        if (url === "/start") response.writeHead(302, { location: `${second.url}/middle` }).end()
        else if (url === "/same") response.writeHead(302, { location: "/end" }).end()
        else response.end()
      })
      const second = yield* serveWeb((_, response) =>
        response.writeHead(302, { location: `${first.url}/end` }).end()
      )
      const client = yield* WebClient.make({ privateHosts: [first.authority, second.authority] })
      const headers = {
        accept: "text/html",
        authorization: "Bearer key",
        cookie: "session=1",
        "x-api-key": "key",
        host: "internal.test-site.com"
      }
      yield* client.get(`${first.url}/start`, { headers })
      yield* client.get(`${first.url}/same`, { headers })
      const has = ({ headers }: { readonly headers: object }) =>
        ["accept", "authorization", "cookie", "x-api-key"].filter((name) => name in headers)
      assert.deepStrictEqual(first.requests.map(has), [
        ["accept", "authorization", "cookie", "x-api-key"],
        ["accept"],
        ["accept", "authorization", "cookie", "x-api-key"],
        ["accept", "authorization", "cookie", "x-api-key"]
      ])
      assert.deepStrictEqual(second.requests.map(has), [["accept"]])
      for (const { headers } of first.requests) assert.strictEqual(headers.host, first.authority)
    })
  )

  it.live("repeats a request after 307, and makes a GET of a POST after 303", () =>
    Effect.gen(function* () {
      const bodies: Array<string> = []
      const server = yield* serveWeb((request, response) => {
        let body = ""
        request.on("data", (chunk) => (body += chunk))
        request.on("end", () => {
          bodies.push(`${request.method} ${request.headers["content-type"] ?? ""} ${body}`)
          const [, status, rest = ""] = /^\/(\d+)(.*)$/.exec(request.url ?? "") ?? []
          if (status === undefined) response.end()
          else response.writeHead(Number(status), { location: `/${rest}` }).end()
        })
      })
      const client = yield* WebClient.make({ privateHosts: [server.authority] })
      const post = HttpClientRequest.bodyJsonUnsafe({ a: 1 })
      for (const status of [307, 303])
        yield* client.execute(post(HttpClientRequest.post(`${server.url}/${status}`)))
      const sent = 'POST application/json {"a":1}'
      assert.deepStrictEqual(bodies, [sent, sent, sent, "GET  "])
      const stream = HttpClientRequest.post(`${server.url}/308`).pipe(
        HttpClientRequest.setBody(HttpBody.stream(Stream.make(new Uint8Array([97]))))
      )
      const error = yield* Effect.flip(client.execute(stream))
      assert.match(String(causeOf(error)), /cannot be sent twice/)
    })
  )

  it.live("ends a body at its limit, also one that grows when it is decompressed", () =>
    Effect.gen(function* () {
      const zeros = Buffer.alloc(20_000_000)
      const bodies: Readonly<Record<string, readonly [Buffer, string]>> = {
        "/plain": [Buffer.alloc(200_000), ""],
        "/gzip": [gzipSync(zeros), "gzip"],
        "/br": [brotliCompressSync(zeros, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }), "br"],
        "/twice": [gzipSync(gzipSync(zeros)), "gzip, gzip"],
        "/fits": [gzipSync(Buffer.from("hello ".repeat(1000))), "gzip"]
      }
      const server = yield* serveWeb(({ url = "" }, response) => {
        const [body, encoding] = bodies[url]!
        response.writeHead(200, encoding === "" ? {} : { "content-encoding": encoding }).end(body)
      })
      const client = yield* WebClient.make({ privateHosts: [server.authority], maxBodySize: 100_000 })
      for (const path of ["/plain", "/gzip", "/br", "/twice"])
        assert.strictEqual(
          yield* failureOf(client, `${server.url}${path}`),
          "tooLarge (a body of more than 100000 bytes)",
          path
        )
      const fits = yield* client.get(`${server.url}/fits`)
      assert.strictEqual((yield* fits.text).length, 6000)
    })
  )

  it.live("refuses a body in a coding that it did not ask for, or in three", () =>
    Effect.gen(function* () {
      const server = yield* serveWeb(({ url = "" }, response) =>
        response
          .writeHead(200, { "content-encoding": decodeURIComponent(url.slice(1)) })
          .end(gzipSync("hello"))
      )
      const client = yield* WebClient.make({ privateHosts: [server.authority] })
      for (const encoding of ["compress", "gzip,gzip,gzip"])
        assert.strictEqual(
          yield* failureOf(client, `${server.url}/${encodeURIComponent(encoding)}`),
          "malformed (an unknown content-encoding)"
        )
      assert.strictEqual(
        yield* failureOf(client, `${server.url}/br`),
        "malformed (ERR__ERROR_FORMAT_CL_SPACE)"
      )
    })
  )

  it.live("ends a response whose headers do not end", () =>
    Effect.gen(function* () {
      const server = yield* serveWeb((_, response) => {
        const { socket } = response
        socket!.on("error", () => {})
        socket!.write("HTTP/1.1 200 OK\r\n")
        const more = () => {
          while (socket!.writable && socket!.write(`x-header: ${"a".repeat(1000)}\r\n`)) {
            // Writes until the buffer is full.
          }
          if (socket!.writable) socket!.once("drain", more)
        }
        more()
      })
      const client = yield* WebClient.make({ privateHosts: [server.authority] })
      assert.strictEqual(yield* failureOf(client, server.url), "tooLarge (headers of more than 32768 bytes)")
      yield* socketsClosed(server)
    })
  )

  it.live("ends a body that stops, and one that never ends", () =>
    Effect.gen(function* () {
      const server = yield* serveWeb(({ url }, response) => {
        response.writeHead(200).write("a")
        if (url !== "/drip") return
        const timer = setInterval(() => response.write("a"), 20)
        response.on("close", () => clearInterval(timer))
      })
      const privateHosts = [server.authority]
      const impatient = yield* WebClient.make({ privateHosts, idleTimeout: "100 millis" })
      assert.strictEqual(
        yield* failureOf(impatient, `${server.url}/stop`),
        "timedOut (nothing was received for 100 ms)"
      )
      const brief = yield* WebClient.make({ privateHosts, timeout: "300 millis" })
      assert.strictEqual(yield* failureOf(brief, `${server.url}/drip`), "timedOut (more than 300 ms)")
      yield* socketsClosed(server)
    })
  )

  it.live("ends a resolver that does not answer", () =>
    Effect.gen(function* () {
      const client = yield* WebClient.make({ timeout: "50 millis", resolve: () => new Promise(() => {}) })
      assert.strictEqual(
        yield* failureOf(client, "https://slow.test-site.com/"),
        "timedOut (more than 50 ms)"
      )
    })
  )

  it.live("closes the connection of a request that is interrupted", () =>
    Effect.gen(function* () {
      const received = Promise.withResolvers<void>()
      const server = yield* serveWeb(() => received.resolve())
      const client = yield* WebClient.make({ privateHosts: [server.authority] })
      const fiber = yield* Effect.forkChild(client.get(server.url))
      yield* Effect.promise(() => received.promise)
      yield* Fiber.interrupt(fiber)
      yield* socketsClosed(server)
    })
  )

  it.live("closes its connections with its scope", () =>
    Effect.gen(function* () {
      const server = yield* serveWeb((_, response) => response.end("hello"))
      yield* Effect.scoped(
        Effect.gen(function* () {
          const client = yield* WebClient.make({ privateHosts: [server.authority] })
          yield* Effect.flatMap(client.get(server.url), ({ text }) => text)
        })
      )
      yield* socketsClosed(server)
    })
  )

  it.live("uses a proxy that it is given, and none that the environment names", () =>
    Effect.gen(function* () {
      const server = yield* serveWeb((_, response) => response.end("direct"))
      const proxy = yield* serveWeb(({ url }, response) => response.end(`by proxy: ${url}`))
      const variables = ["HTTP_PROXY", "http_proxy", "NODE_USE_ENV_PROXY"]
      const values = variables.map((name) => process.env[name])
      yield* Effect.acquireRelease(
        Effect.sync(() => variables.forEach((name) => (process.env[name] = proxy.url))),
        () =>
          Effect.sync(() =>
            variables.forEach((name, index) => {
              if (values[index] === undefined) delete process.env[name]
              else process.env[name] = values[index]
            })
          )
      )
      const text = (client: HttpClient.HttpClient, url: string) =>
        Effect.flatMap(client.get(url), ({ text }) => text)
      const plain = yield* WebClient.make({ privateHosts: [server.authority] })
      assert.strictEqual(yield* text(plain, server.url), "direct")
      const proxied = yield* WebClient.make({ proxy: proxy.url })
      assert.strictEqual(yield* text(proxied, "http://example.com/a"), "by proxy: http://example.com/a")
      assert.match(yield* failureOf(proxied, `${server.url}/`), /^refused privateHost/)
    })
  )

  it.live("fails for options that it would have to ignore", () =>
    Effect.gen(function* () {
      for (const options of [
        { redirects: 1 },
        { timeout: "0 seconds" },
        { timeout: "soon" },
        { idleTimeout: "2 days" },
        { maxBodySize: 0 },
        { maxRedirects: 1.5 },
        { proxy: "localhost:3128" },
        { allow: ["https://example.com"] }
      ]) {
        const error = yield* Effect.flip(WebClient.make(options as never))
        assert.match(error.message, /The options of WebClient.make are invalid/)
      }
    })
  )
})
