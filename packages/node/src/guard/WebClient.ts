/**
 * An HTTP client for requests whose URLs a model may have chosen.
 *
 * `WebGuard` judges each URL, each redirect and all addresses of each host. A name is resolved once per connection, and the connection goes
 * to exactly the addresses that were checked, so that a later answer of the name server has no effect. Each request has limits of time,
 * size and redirects. Headers that may be credentials are not sent to another origin. The environment's variables for proxies are ignored.
 *
 * @since 0.2.0
 */
import { Readable } from "node:stream"
import type { OptionsInvalid, WebAccess } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { openWeb } from "./internal/openWeb.ts"
import { RequestFailed } from "./internal/RequestFailed.ts"
import { type GuardedRequest, type GuardedResponse, sendGuarded } from "./internal/sendGuarded.ts"
import { type Options, problemOf } from "./internal/webOptions.ts"
import { UrlRefused, withoutCredentials } from "./WebGuard.ts"

export { RequestFailed } from "./internal/RequestFailed.ts"
export type { Options } from "./internal/webOptions.ts"

/**
 * Makes a guarded client. Its connections close with the scope.
 *
 * **Details**
 *
 * The client follows redirects itself, sets `host` and `accept-encoding`, and returns decompressed bodies. After a redirect to another
 * origin, it sends only headers that reveal nothing about the sender, such as `accept`. `timeout` includes reading the body.
 *
 * **Errors**
 *
 * - `OptionsInvalid` — an option is unknown or has an invalid value.
 *
 * A request fails with `HttpClientError`. The `cause` of its reason is `UrlRefused` if the guard refuses the URL or that of a redirect, and
 * otherwise {@link RequestFailed}.
 *
 * @category constructors
 * @since 0.2.0
 */
export const make = (
  options: Options = {}
): Effect.Effect<HttpClient.HttpClient, OptionsInvalid.OptionsInvalid, Scope.Scope> =>
  Effect.gen(function* () {
    const problem = problemOf("WebClient.make", options)
    if (problem !== undefined) return yield* problem
    const sending = yield* openWeb(options)
    return HttpClient.make((request, url, signal) =>
      Effect.gen(function* () {
        const body = yield* bodyOf(request)
        const headers = { ...request.headers, ...body.headers }
        const sent: GuardedRequest = { method: request.method, url, headers, body: body.content }
        const response = yield* Effect.tryPromise({
          try: () => sendGuarded(sending, sent, signal),
          catch: (cause) => failureOf(request, url, cause)
        })
        return yield* responseOf(request, response)
      })
    )
  })

/**
 * Provides a guarded client as Effect's `HttpClient`. See {@link make}.
 *
 * **Example** (Requesting a page with Effect's client)
 *
 * ```ts no-run it needs the web
 * import * as WebClient from "@fermata/node/guard/WebClient"
 * import { Effect } from "effect"
 * import { HttpClient } from "effect/http"
 *
 * const program = Effect.gen(function* () {
 *   const response = yield* HttpClient.get("https://example.com/")
 *   return yield* response.text
 * })
 * const text = await Effect.runPromise(Effect.provide(program, WebClient.layer({ deny: ["example.org"] })))
 * ```
 *
 * @category layers
 * @since 0.2.0
 */
export const layer = (options?: Options): Layer.Layer<HttpClient.HttpClient, OptionsInvalid.OptionsInvalid> =>
  Layer.effect(HttpClient.HttpClient, make(options))

/**
 * The guarded client of a program's tools, for the option `web` of `createFermata` and for the service `WebAccess`. Each handler that uses
 * `context.http` has connections of its own, which close with its call.
 *
 * **Example** (Refusing a domain in all tools)
 *
 * ```ts run
 * import { agent, createFermata, tool } from "@fermata/node"
 * import * as WebClient from "@fermata/node/guard/WebClient"
 * import { ScriptedModel } from "@fermata/node/testing"
 * import { Effect } from "effect"
 *
 * const ping = tool("ping", {
 *   handler: (_, { http }) =>
 *     Effect.gen(function* () {
 *       const response = yield* (yield* http).get("https://example.com/")
 *       return response.status
 *     })
 * })
 * await using fermata = await createFermata({
 *   agents: [agent("ops", { tools: [ping] })],
 *   model: ScriptedModel.make(["done"]).client,
 *   store: false,
 *   web: WebClient.access({ deny: ["example.org"] })
 * })
 * ```
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for an unknown option or an invalid value.
 *
 * @category constructors
 * @since 0.2.0
 */
export const access = (options: Options = {}): WebAccess.Shape => {
  const problem = problemOf("WebClient.access", options)
  if (problem !== undefined) throw problem
  return Effect.orDie(make(options))
}

/** The body of a request as it is sent, with the headers that describe it. */
const bodyOf = (
  request: HttpClientRequest.HttpClientRequest
): Effect.Effect<
  { readonly content: GuardedRequest["body"]; readonly headers?: Readonly<Record<string, string>> },
  HttpClientError.HttpClientError
> => {
  const { body } = request
  switch (body._tag) {
    case "Empty":
      return Effect.succeed({ content: undefined })
    case "Uint8Array":
      return Effect.succeed({ content: body.body })
    case "Stream":
      return Effect.map(Stream.toReadableStreamEffect(body.stream), (stream) => ({
        content: Readable.fromWeb(stream)
      }))
    case "FormData":
    case "Raw":
      return Effect.tryPromise({
        try: async () => {
          const encoded = new Response(
            (body._tag === "FormData" ? body.formData : body.body) as ConstructorParameters<
              typeof Response
            >[0]
          )
          const type = encoded.headers.get("content-type")
          const content = new Uint8Array(await encoded.arrayBuffer())
          return type === null ? { content } : { content, headers: { "content-type": type } }
        },
        catch: (cause) =>
          new HttpClientError.HttpClientError({ reason: new HttpClientError.EncodeError({ request, cause }) })
      })
  }
}

/** Headers about the body as it was before it was decoded. */
const ofEncoded = new Set(["content-encoding", "content-length"])

const responseOf = (
  request: HttpClientRequest.HttpClientRequest,
  { body, headers, status, url }: GuardedResponse
): Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError> => {
  const entries = Object.entries(headers).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value ?? ""]).map((each): [string, string] => [name, each])
  )
  const isEmpty = request.method === "HEAD" || [204, 205, 304].includes(status)
  return Effect.try({
    try: () => {
      const init = { status, headers: entries.filter(([name]) => !ofEncoded.has(name)) }
      const source = new Response(isEmpty ? null : ReadableStream.from(body), init)
      return HttpClientResponse.fromWeb(request, source)
    },
    catch: () => {
      const detail = `the status ${status}, or a header, is invalid`
      return failureOf(
        request,
        url,
        new RequestFailed({ url: withoutCredentials(url), reason: "malformed", detail })
      )
    }
  })
}

/** The request of the error has the URL without credentials: its message has the URL. */
const failureOf = (
  given: HttpClientRequest.HttpClientRequest,
  url: URL,
  cause: unknown
): HttpClientError.HttpClientError => {
  const request = HttpClientRequest.setUrl(given, withoutCredentials(url))
  const description =
    cause instanceof UrlRefused || cause instanceof RequestFailed ? cause.message : "aborted"
  return new HttpClientError.HttpClientError({
    reason: new HttpClientError.TransportError({ request, cause, description })
  })
}
