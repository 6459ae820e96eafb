/**
 * The listener: a server of `node:http` that checks, limits and authenticates requests, and passes them to a handler of web requests.
 *
 * Its limits bound what one client can take: the size and the time of a request, the number of requests and of event streams.
 */
import { once } from "node:events"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import * as Context from "effect/Context"
import { RequestRefused } from "../RequestRefused.ts"
import { bearerOf, type KnownCaller } from "./authenticate.ts"
import { check, type Places, placesOf } from "./gate.ts"
import { CurrentCaller } from "./handlers.ts"
import { OpenStreams } from "./OpenStreams.ts"
import { problemOf } from "./problems.ts"
import { RateLimiter } from "./RateLimiter.ts"
import type { Settings } from "./settings.ts"

/** Answers a request of an authenticated caller. */
export type Handler = (request: Request, context: Context.Context<CurrentCaller>) => Promise<Response>

/** How long open connections may take when the server closes. */
const drainMs = 300

/** The longest head of a request: cursors of many tasks are long. */
const maxHeaderSize = 64 * 1024

const commonHeaders = {
  "cache-control": "no-store",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff"
}

const refuse = (status: number, reason: string, problem: string) =>
  new RequestRefused({ status, reason, problem })

export class HttpListener {
  private readonly settings: Settings
  private readonly handler: Handler
  private readonly report: (error: unknown) => void
  private readonly server: Server
  private readonly limiter: RateLimiter
  private readonly streams: OpenStreams
  private places: Places | undefined
  private isClosing = false

  constructor(settings: Settings, handler: Handler, report: (error: unknown) => void) {
    this.settings = settings
    this.handler = handler
    this.report = report
    this.limiter = new RateLimiter(settings.rateLimit)
    this.streams = new OpenStreams(settings.maxStreams)
    const { requestTimeoutMs } = settings
    this.server = createServer(
      {
        headersTimeout: requestTimeoutMs,
        requestTimeout: requestTimeoutMs,
        connectionsCheckingInterval: Math.min(5000, Math.max(50, requestTimeoutMs / 4)),
        keepAliveTimeout: 5000,
        maxHeaderSize
      },
      (request, response) => void this.respond(request, response)
    )
  }

  /** Begins to listen. Resolves to the URL for clients and the port. */
  async listen(): Promise<{ readonly url: string; readonly port: number }> {
    const { host, port, publicUrl } = this.settings
    this.server.listen({ host, port })
    await once(this.server, "listening")
    const { port: bound } = this.server.address() as AddressInfo
    this.places = placesOf(host, bound, publicUrl)
    const own = host.includes(":") ? `[${host}]` : host
    return { url: publicUrl?.origin ?? `http://${own}:${bound}`, port: bound }
  }

  /** Ends the event streams, then the connections. `isStopped` says whether a caller's runtime has stopped. */
  async close(isStopped: (caller: KnownCaller) => Promise<boolean>): Promise<void> {
    this.isClosing = true
    await this.streams.close(isStopped)
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()))
    this.server.closeIdleConnections()
    const cutting = setTimeout(() => this.server.closeAllConnections(), drainMs)
    await closed
    clearTimeout(cutting)
  }

  private async respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    for (const [name, value] of Object.entries(commonHeaders)) response.setHeader(name, value)
    try {
      const answer = await this.answer(request, response)
      if (answer !== undefined) await this.write(answer.response, response, answer.caller)
    } catch (error) {
      // A client that leaves in the middle of its request learns nothing, and needs no report.
      if (!(error instanceof RequestRefused) && !request.destroyed) this.report(error)
      this.problem(request, response, error)
    }
  }

  /** The answer to a request. Throws the refusal of one that does not pass. */
  private async answer(request: IncomingMessage, response: ServerResponse) {
    if (this.isClosing) throw refuse(503, "Closing", "This server is closing: connect again later.")
    const { places } = this
    const refusal = places === undefined ? undefined : check(request, places)
    if (places === undefined || refusal !== undefined) throw refusal
    const caller = await this.authenticate(request)
    if (caller.readOnly === true && request.method !== "GET")
      throw refuse(403, "ReadOnly", "This caller may read and change nothing.")
    const body = await this.bodyOf(request)
    const left = new AbortController()
    response.once("close", () => left.abort())
    const init: RequestInit = {
      method: request.method ?? "GET",
      headers: headersOf(request),
      signal: left.signal
    }
    const [host] = places.hosts
    const url = `http://${host}${request.url}`
    const web = new Request(url, body === undefined ? init : { ...init, body })
    return { caller, response: await this.handler(web, Context.make(CurrentCaller, caller)) }
  }

  private async authenticate(request: IncomingMessage): Promise<KnownCaller> {
    const token = bearerOf(request.headers.authorization)
    const caller = token === undefined ? undefined : await this.settings.authenticate(token)
    // Refused requests share one bucket, so that they take nothing from the callers.
    const waitMs = this.limiter.take(caller === undefined ? "" : keyOf(caller), performance.now())
    if (waitMs > 0)
      throw new RequestRefused({
        status: 429,
        reason: "RateLimited",
        problem: "Too many requests: wait as long as Retry-After says.",
        retryAfterMs: waitMs
      })
    if (caller === undefined)
      throw refuse(401, "TokenRefused", "Send the token of this server as a bearer token.")
    return caller
  }

  private async bodyOf(request: IncomingMessage): Promise<string | undefined> {
    if (request.method !== "POST") return undefined
    const { maxBodyBytes } = this.settings
    const tooLarge = () =>
      refuse(413, "BodyTooLarge", `The body of a request may have ${maxBodyBytes} bytes.`)
    if (Number(request.headers["content-length"]) > maxBodyBytes) throw tooLarge()
    const chunks: Array<Buffer> = []
    let length = 0
    for await (const chunk of request as AsyncIterable<Buffer>) {
      length += chunk.length
      if (length > maxBodyBytes) throw tooLarge()
      chunks.push(chunk)
    }
    return Buffer.concat(chunks).toString("utf8")
  }

  private async write(from: Response, to: ServerResponse, caller: KnownCaller): Promise<void> {
    const type = from.headers.get("content-type") ?? ""
    if (from.status >= 400 && !type.startsWith("application/json")) throw refusalOf(from.status)
    const isStream = type.startsWith("text/event-stream")
    const headers = Object.fromEntries(from.headers)
    if (!isStream || from.body === null) {
      to.writeHead(from.status, headers)
      to.end(new Uint8Array(await from.arrayBuffer()))
      return
    }
    if (!this.streams.hasRoom(keyOf(caller), keyOf)) {
      await from.body.cancel()
      throw refuse(429, "StreamsExhausted", "This caller has too many event streams open: close one.")
    }
    const { end, left } = this.streams.open(caller)
    to.once("close", () => left.abort())
    if (to.destroyed || this.isClosing) left.abort()
    to.writeHead(from.status, headers)
    try {
      await pump(from.body, to, left.signal, this.settings.heartbeatMs)
    } finally {
      to.end()
      end()
    }
  }

  private problem(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    if (response.headersSent || response.destroyed) return void response.destroy()
    const { body, status } = problemOf(error)
    const waitMs = error instanceof RequestRefused ? error.retryAfterMs : undefined
    const retry = waitMs === undefined ? {} : { "retry-after": String(Math.ceil(waitMs / 1000)) }
    // The rest of a body that was not read is not awaited.
    const close = request.complete ? {} : { connection: "close" }
    response.writeHead(status, { "content-type": "application/json", ...retry, ...close })
    response.end(JSON.stringify(body), () => {
      if (!request.complete) request.destroy()
    })
  }
}

/** The refusal for a response without a body: of the router, or of the check of parameters. */
const refusalOf = (status: number): RequestRefused => {
  if (status === 404) return refuse(404, "PathUnknown", "There is no such path: see /v1/openapi.json.")
  if (status < 500)
    return refuse(
      status,
      "ParametersInvalid",
      "A parameter of the path, the query or the headers does not fit."
    )
  return refuse(500, "Internal", "The server could not answer the request; its log says more.")
}

/** The key of a caller's limits. */
const keyOf = ({ principal, tenant }: KnownCaller): string =>
  JSON.stringify([
    tenant ?? null,
    typeof principal === "object" ? [principal.kind, principal.id] : (principal ?? null)
  ])

/** The headers that handlers read. The token is none of them. */
const headersOf = ({ headers }: IncomingMessage): Record<string, string> => {
  const read: Record<string, string> = {}
  for (const name of ["accept", "content-type", "last-event-id"]) {
    const value = headers[name]
    if (typeof value === "string") read[name] = value
  }
  return read
}

/** Writes a stream of whole messages as fast as the client reads it, with comments in the pauses. */
const pump = async (
  body: ReadableStream<Uint8Array>,
  to: ServerResponse,
  signal: AbortSignal,
  heartbeatMs: number
): Promise<void> => {
  const reader = body.getReader()
  const leave = () => void reader.cancel().catch(() => {})
  signal.addEventListener("abort", leave, { once: true })
  if (signal.aborted) leave()
  const beating = setInterval(() => {
    if (!to.writableNeedDrain && !to.writableEnded) to.write(": \n\n")
  }, heartbeatMs)
  try {
    while (!signal.aborted) {
      const { done, value } = await reader.read()
      if (done) return
      beating.refresh()
      if (!to.write(value) && !signal.aborted) await drained(to, signal)
    }
  } finally {
    clearInterval(beating)
    signal.removeEventListener("abort", leave)
  }
}

const drained = (to: ServerResponse, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const go = () => {
      to.off("drain", go)
      signal.removeEventListener("abort", go)
      resolve()
    }
    to.once("drain", go)
    signal.addEventListener("abort", go, { once: true })
  })
