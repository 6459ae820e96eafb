/**
 * Sends one request of a protocol and returns the HTTP response if its status is a success. Everything else is an error that states what
 * to do and contains no secret of the request.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { InvalidRequest, LoginRequired, type ModelError, NotAuthorized } from "../../ModelError.ts"
import type { ModelProfile } from "../../ModelProfile.ts"
import { knowCredential } from "../knownSecrets.ts"
import { changed, modelError } from "../modelError.ts"
import type { Protocol } from "../protocol.ts"
import { headLimitOf, headWithin } from "../timeLimits.ts"
import { connectionError, hostOf } from "./connectionError.ts"
import { requestIdOf, responseError, redactError } from "./responseError.ts"

/** A successful HTTP response. `shown` removes the secrets of the request from an error that is found in its body. */
export interface Sent {
  readonly response: HttpClientResponse.HttpClientResponse
  readonly shown: (error: ModelError) => ModelError
}

type AuthHeaders = Readonly<Record<string, Redacted.Redacted<string>>>

/** Sends the body. Closing the scope closes the connection. */
export const send = (
  http: HttpClient.HttpClient,
  protocol: Protocol,
  profile: ModelProfile,
  body: string,
  streaming: boolean
): Effect.Effect<Sent, ModelError, Scope.Scope> => {
  // Also closes the connection if the call is interrupted before the body is read.
  const client = HttpClient.withScope(http)
  const headLimit = headLimitOf(profile.timeouts ?? {}, streaming)

  const once = (refused?: AuthHeaders): Effect.Effect<Sent, ModelError, Scope.Scope> =>
    Effect.gen(function* () {
      const url = yield* address(profile, protocol)
      const given: AuthHeaders =
        profile.auth === undefined
          ? {}
          : yield* profile.auth.headers(
              refused === undefined ? { forced: false } : { forced: true, given: refused }
            )
      const secret: Record<string, string> = {}
      for (const [name, value] of Object.entries(given)) {
        secret[name] = Redacted.value(value)
        // A login has renewed its token, or a key was not known before.
        knowCredential("api-key", value)
      }
      const headers = {
        accept: streaming ? "text/event-stream" : "application/json",
        ...protocol.headers,
        ...profile.headers,
        ...secret
      }
      yield* checkHeaders(headers, profile)
      const secrets = secretsOf([...Object.values({ ...profile.headers, ...secret }), ...queryOf(url)])
      const request = HttpClientRequest.post(url, { headers }).pipe(
        HttpClientRequest.bodyText(body, "application/json")
      )
      const response = yield* client.execute(request).pipe(
        Effect.mapError((error) => redactError(connectionError(error, profile), secrets)),
        (head) => headWithin(head, headLimit, hostOf(profile)),
        withoutTracing
      )
      const requestId = requestIdOf(response.headers)
      const show = (error: ModelError) => redactError(error, secrets, requestId)
      if (response.status >= 200 && response.status < 300 && response.status !== 204) {
        return { response, shown: show }
      }
      const { headers: said, status } = response
      yield* Effect.annotateCurrentSpan("http.response.status_code", status)
      const read = yield* errorBody(response)
      const error = show(yield* responseError({ status, headers: said, body: read }, profile))
      if (status !== 401 || profile.auth?.canRefresh !== true) return yield* error
      if (refused === undefined) return yield* once(given)
      const { guidance = "Log in again." } = profile.auth
      const description = `The provider does not accept the login of ${profile.name}, although it was just renewed. ${guidance} It said: ${error.reason.description}`
      const reason = new LoginRequired({ profile: profile.name, description })
      return yield* changed(error, { reason, retryable: undefined })
    })

  // A span records what its effect returns, and a response refers to the request with its headers.
  return Effect.map(once(), (sent) => Redacted.make(sent)).pipe(
    Effect.withSpan("ModelClient.send", {
      kind: "client",
      attributes: {
        profile: profile.name,
        model: profile.model,
        protocol: profile.protocol,
        server: hostOf(profile)
      }
    }),
    Effect.map(Redacted.value)
  )
}

/** The profile's base URL with the protocol's path, before a query such as Azure's `?api-version=`. */
const address = (profile: ModelProfile, protocol: Protocol): Effect.Effect<string, ModelError> => {
  const url = URL.parse(profile.baseUrl)
  const refuse = (what: string) =>
    Effect.fail(modelError(new InvalidRequest({ description: `The base URL of ${profile.name} ${what}` })))
  if (url === null || !/^https?:$/.test(url.protocol)) {
    return refuse("is not an http or https address: set one such as https://api.openai.com/v1.")
  }
  if (url.username !== "" || url.password !== "") {
    return refuse("contains a user name or password: set them in auth or headers instead.")
  }
  url.pathname = url.pathname.replace(/\/+$/, "") + protocol.path
  return Effect.succeed(url.href)
}

/** Refuses invalid headers before sending: the HTTP client's own error would contain them. */
const checkHeaders = (headers: Readonly<Record<string, string>>, profile: ModelProfile) => {
  for (const [name, value] of Object.entries(headers)) {
    // RFC 9110, section 5.6.2.
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) {
      const description = `A header of ${profile.name} has a name that cannot be sent: look for blanks and line breaks in the names of its headers.`
      return Effect.fail(modelError(new InvalidRequest({ description })))
    }
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) {
      const description = `The ${name} header of ${profile.name} contains characters that cannot be sent: look for line breaks or quotes in the key.`
      return Effect.fail(modelError(new NotAuthorized({ description })))
    }
  }
  return Effect.void
}

/** The values that an error must not contain, also without a leading word such as `Bearer`. Longest first. */
const secretsOf = (values: ReadonlyArray<string>): ReadonlyArray<string> =>
  values
    .flatMap((value) => [value, value.replace(/^\w+ /, "")])
    .filter((value) => value.length >= 6)
    .sort((a, b) => b.length - a.length)

/** The values in an address's query, decoded and as sent. Some servers take their key there. */
const queryOf = (address: string): ReadonlyArray<string> => {
  const { search, searchParams } = new URL(address)
  const sent = search.slice(1).split("&")
  return [...searchParams.values(), ...sent.map((pair) => pair.slice(pair.indexOf("=") + 1))]
}

/**
 * Runs an HTTP request without following redirects and without a span of the HTTP client. After a redirect, `fetch` sends all headers
 * except `authorization`. The client's span would record the request's headers, and send our trace ids to the provider.
 */
export const withoutTracing = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.updateContext(effect, (context: Context.Context<R>) =>
    context.pipe(
      Context.add(FetchHttpClient.RequestInit, {
        ...Context.getOrUndefined(context, FetchHttpClient.RequestInit),
        redirect: "manual"
      }),
      Context.add(HttpClient.TracerDisabledWhen, () => true)
    )
  )

const largestError = 64 * 1024

/** Reads at most `limit` characters of a body. `text` returns what has arrived, also if `read` fails. */
export const readBeginning = (response: HttpClientResponse.HttpClientResponse, limit: number) => {
  const decoder = new TextDecoder()
  let text = ""
  const read = response.stream.pipe(
    Stream.takeWhile((bytes) => {
      text += decoder.decode(bytes, { stream: true })
      return text.length < limit
    }),
    Stream.runDrain
  )
  return { read, text: () => text.slice(0, limit) }
}

/** Reads the beginning of an error's body: at most 64 K characters, for at most 10 seconds. Returns what has arrived by then. */
const errorBody = (response: HttpClientResponse.HttpClientResponse): Effect.Effect<string> =>
  Effect.suspend(() => {
    const { read, text } = readBeginning(response, largestError)
    return read.pipe(Effect.timeoutOption("10 seconds"), Effect.ignore, Effect.map(text))
  })
