/**
 * Requests new tokens from an issuer with a refresh token (RFC 6749, section 6). The result distinguishes a refused refresh token, after
 * which the user has to log in again, from a fault of the issuer, which is an error.
 */
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as UrlParams from "effect/http/UrlParams"
import { ConnectionLost, type ModelError, ProviderFault } from "../../ModelError.ts"
import { fieldsOf, parseJson } from "../fields.ts"
import { invalid, modelError } from "../modelError.ts"
import { reasonOf } from "../providerErrors.ts"
import { redactError } from "./responseError.ts"
import { readBeginning, withoutTracing } from "./send.ts"

/** The issuer's response. `unreadable` is the error to use if `body` contains no token. */
type Renewed =
  | { readonly _tag: "renewed"; readonly body: unknown; readonly unreadable: ModelError }
  | { readonly _tag: "refused"; readonly why: string }

/** Requests new tokens from the issuer. */
export const renew = (
  http: HttpClient.HttpClient,
  options: {
    readonly tokenUrl: string
    readonly clientId: string
    readonly scope?: string
    readonly encoding?: "form" | "json"
    readonly refreshToken: string
  }
): Effect.Effect<Renewed, ModelError> =>
  Effect.gen(function* () {
    const { clientId, encoding = "form", refreshToken, scope, tokenUrl } = options
    const fields = {
      grant_type: "refresh_token",
      client_id: clientId,
      refresh_token: refreshToken,
      ...(scope === undefined ? {} : { scope })
    }
    const request = HttpClientRequest.post(tokenUrl, { headers: { accept: "application/json" } }).pipe(
      encoding === "json"
        ? HttpClientRequest.bodyText(JSON.stringify(fields), "application/json")
        : HttpClientRequest.bodyUrlParams(UrlParams.fromInput(fields))
    )
    const { status, text } = yield* http.execute(request).pipe(
      Effect.flatMap((response) =>
        Effect.map(textOf(response), (text) => ({ status: response.status, text }))
      ),
      Effect.timeout("30 seconds"),
      Effect.mapError(() =>
        modelError(new ConnectionLost({ description: "The issuer of the login could not be reached." }))
      ),
      withoutTracing
    )
    const body = parseJson(text)
    if (status >= 200 && status < 300) {
      const description = "The issuer of the login answered without an access token."
      return {
        _tag: "renewed",
        body,
        unreadable: invalid(description)
      }
    }
    const code = codeIn(body)
    if (code !== undefined && dead.has(code)) return { _tag: "refused", why: code }
    if (status === 401) return { _tag: "refused", why: code ?? "401" }
    const said = reasonOf(body, { status }).description
    const description = `The issuer of the login answered with status ${status}: ${said}`
    const retryable = status === 408 || status === 429 || status >= 500
    return yield* redactError(modelError(new ProviderFault({ description }), { retryable }), [refreshToken])
  })

/** The most characters of a response that are read. Tokens are much shorter; a longer response is cut off and not valid JSON. */
const largestAnswer = 1024 * 1024

const textOf = (
  response: HttpClientResponse.HttpClientResponse
): Effect.Effect<string, HttpClientError.HttpClientError> =>
  Effect.suspend(() => {
    const { read, text } = readBeginning(response, largestAnswer)
    return read.pipe(
      Effect.catch((error) => (error.reason._tag === "EmptyBodyError" ? Effect.void : Effect.fail(error))),
      Effect.map(text)
    )
  })

const dead = new Set([
  "invalid_grant",
  "refresh_token_expired",
  "refresh_token_reused",
  "refresh_token_invalidated"
])

/** `{"error":"invalid_grant"}` as in RFC 6749, or `{"error":{"code":"refresh_token_reused"}}`. */
const codeIn = (body: unknown): string | undefined => {
  const error = fieldsOf(body)?.error
  const code = fieldsOf(error)?.code ?? error
  return typeof code === "string" && /^[\w.-]{1,60}$/.test(code) ? code : undefined
}
