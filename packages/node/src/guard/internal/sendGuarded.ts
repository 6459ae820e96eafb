/**
 * Sends a request with its redirects, each of which the guard judges like the first URL, and returns the response with a limited body.
 */
import type { IncomingHttpHeaders } from "node:http"
import type { Readable } from "node:stream"
import type { Dispatcher } from "undici"
import { refusal, UrlRefused, type WebGuard, withoutCredentials } from "../WebGuard.ts"
import { acceptEncoding, BodyTooLarge, decodedBody, UnknownCoding } from "./decodedBody.ts"
import { RequestFailed } from "./RequestFailed.ts"
import type { Limits } from "./webOptions.ts"

export interface GuardedRequest {
  readonly method: string
  readonly url: string | URL
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body?: Uint8Array | string | Readable | undefined
}

export interface GuardedResponse {
  /** The URL of the response, after redirects. */
  readonly url: URL
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** The decoded body, which fails with `RequestFailed`. A reader that stops closes the connection. */
  readonly body: AsyncGenerator<Uint8Array, void, undefined>
}

export interface Sending {
  readonly guard: WebGuard
  readonly agent: Dispatcher
  readonly limits: Limits
  /** Whether a redirect is followed; otherwise the response is returned as it is. Default: each. */
  readonly follows?: (from: URL, to: URL) => boolean
}

/** Rejects with `UrlRefused` or `RequestFailed`, or with the reason of `signal` when it is aborted. */
export const sendGuarded = async (
  { agent, follows, guard, limits }: Sending,
  request: GuardedRequest,
  signal: AbortSignal
): Promise<GuardedResponse> => {
  const total = AbortSignal.timeout(limits.timeoutMs)
  const either = AbortSignal.any([signal, total])
  // The client rejects an aborted request only once it is connected.
  const aborted = new Promise<never>((_, reject) => {
    either.addEventListener("abort", () => reject(either.reason), { once: true })
  })
  aborted.catch(() => {})
  let { body, method } = request
  let headers = sentHeaders(request.headers)
  let target = request.url
  let from: URL | undefined
  for (let redirects = 0; ; redirects++) {
    const verdict = guard.checkUrl(target, from)
    if (verdict._tag === "refused")
      throw refusal(URL.parse(String(target), from?.href) ?? target, verdict.reason)
    const { url } = verdict.target
    const failed = (error: unknown) =>
      signal.aborted ? signal.reason : failureOf(error, url, total.aborted, limits)
    const requested = agent
      .request({
        origin: url.origin,
        path: url.pathname + url.search,
        method: method as Dispatcher.HttpMethod,
        headers,
        body: body ?? null,
        signal: either,
        headersTimeout: limits.idleTimeoutMs,
        bodyTimeout: limits.idleTimeoutMs
      })
      .then((response) => {
        // A body that is destroyed without a reader would end the process by an error event.
        response.body.on("error", () => {})
        return response
      })
    const response = await Promise.race([requested, aborted]).catch((error: unknown) => {
      throw failed(error)
    })
    const location = redirectOf(response)
    const next = location === undefined ? undefined : (URL.parse(location, url.href) ?? location)
    const isFollowed = next !== undefined && (typeof next === "string" || (follows?.(url, next) ?? true))
    if (!isFollowed) {
      const encoding = String(response.headers["content-encoding"] ?? "")
      return {
        url,
        status: response.statusCode,
        headers: response.headers,
        body: read(response.body, hasNoBody(method, response.statusCode) ? "" : encoding, limits, failed)
      }
    }
    response.body.destroy()
    const redirectFailed = (detail: string) =>
      new RequestFailed({ url: withoutCredentials(url), reason: "redirects", detail })
    if (redirects >= limits.maxRedirects) throw redirectFailed(`more than ${limits.maxRedirects}`)
    if (becomesGet(response.statusCode, method)) {
      method = method === "HEAD" ? "HEAD" : "GET"
      body = undefined
      headers = withHeaders(headers, (name) => !name.startsWith("content-"))
    } else if (body !== undefined && typeof body !== "string" && !(body instanceof Uint8Array)) {
      throw redirectFailed("the body is a stream, which cannot be sent twice")
    }
    if (typeof next === "string" || next.origin !== url.origin)
      headers = withHeaders(headers, (name) => keptAcross.has(name))
    target = next
    from = url
  }
}

/** Headers that say nothing about the sender. All others, such as `authorization` and `x-api-key`, may be credentials. */
const keptAcross = new Set([
  "accept",
  "accept-encoding",
  "accept-language",
  "cache-control",
  "content-type",
  "user-agent"
])

/** Headers that the connection determines. `host` would reach another site than the one that was checked. */
const own =
  /^(connection|content-length|expect|host|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade)$/

type Headers = Readonly<Record<string, string>>

const sentHeaders = (given: GuardedRequest["headers"]): Headers => {
  const headers: Record<string, string> = { "user-agent": "fermata" }
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined && !own.test(name)) headers[name] = value
  }
  return { ...headers, "accept-encoding": acceptEncoding }
}

const withHeaders = (headers: Headers, keeps: (name: string) => boolean): Headers =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => keeps(name)))

const redirectOf = ({ headers, statusCode }: Dispatcher.ResponseData): string | undefined => {
  const { location } = headers
  return [301, 302, 303, 307, 308].includes(statusCode) && typeof location === "string" ? location : undefined
}

/** As browsers do (Fetch standard, "HTTP-redirect fetch"). */
const becomesGet = (status: number, method: string): boolean =>
  status === 303
    ? method !== "GET" && method !== "HEAD"
    : (status === 301 || status === 302) && method === "POST"

const hasNoBody = (method: string, status: number): boolean =>
  method === "HEAD" || status === 204 || status === 205 || status === 304

async function* read(
  body: Readable,
  encoding: string,
  { maxBodySize }: Limits,
  failed: (error: unknown) => unknown
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    for await (const chunk of decodedBody(body, encoding, maxBodySize)) yield chunk as Uint8Array
  } catch (error) {
    throw failed(error)
  }
}

const failureOf = (
  error: unknown,
  url: URL,
  isOverTime: boolean,
  limits: Limits
): UrlRefused | RequestFailed => {
  // The connector knows the origin alone.
  if (error instanceof UrlRefused) return refusal(url, error.reason)
  const failure = (reason: RequestFailed["reason"], detail: string) =>
    new RequestFailed({ url: withoutCredentials(url), reason, detail })
  if (isOverTime) return failure("timedOut", `more than ${limits.timeoutMs} ms`)
  if (error instanceof BodyTooLarge)
    return failure("tooLarge", `a body of more than ${limits.maxBodySize} bytes`)
  if (error instanceof UnknownCoding) return failure("malformed", "an unknown content-encoding")
  const code = codeOf(error)
  if (code === "UND_ERR_HEADERS_OVERFLOW")
    return failure("tooLarge", `headers of more than ${limits.maxHeaderSize} bytes`)
  if (timeouts.includes(code))
    return failure("timedOut", `nothing was received for ${limits.idleTimeoutMs} ms`)
  return failure(invalid.test(code) ? "malformed" : "connection", code)
}

const timeouts = ["ETIMEDOUT", "UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT"]

/** Codes of undici, of its parser and of zlib. */
const invalid = /^(UND_ERR_(INVALID|NOT_SUPPORTED|REQ|RES)|HPE_|Z_|ERR__ERROR|ERR_BROTLI)/

/** The code of a system's error. Its message may name addresses and paths. */
const codeOf = (error: unknown): string => {
  if (error instanceof AggregateError) return codeOf(error.errors[0])
  if (error instanceof Error && "code" in error && typeof error.code === "string") return error.code
  return "unknown error"
}
