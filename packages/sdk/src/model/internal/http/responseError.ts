/**
 * Converts an HTTP response with an error to a `ModelError`, from its status, headers and body. Adds a hint if the address is probably
 * wrong.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import { defined } from "../../../domain/internal/defined.ts"
import {
  InvalidRequest,
  InvalidResponse,
  type ModelError,
  ProviderFault,
  type Reason
} from "../../ModelError.ts"
import type { ModelProfile, ProtocolName } from "../../ModelProfile.ts"
import { parseJson } from "../fields.ts"
import { changed, described, modelError } from "../modelError.ts"
import { type ErrorFacts, reasonOf, speaksOfModel, speaksOfRequest } from "../providerErrors.ts"
import { retryAfter } from "./retrying.ts"

type Headers = Readonly<Record<string, string | undefined>>

/** Returns the error for a response. Never fails. */
export const responseError = (
  response: { readonly status: number; readonly headers: Headers; readonly body: string },
  profile: ModelProfile
): Effect.Effect<ModelError> =>
  Effect.gen(function* () {
    const { body, headers, status } = response
    const retryAfterMs = yield* retryAfter(headers)
    const now = yield* Clock.currentTimeMillis
    const facts: ErrorFacts = { status, now, ...defined({ retryAfterMs }) }
    const retryable = shouldRetry(headers) ?? (status < 400 ? false : undefined)
    return modelError(explain(reasonOf(parsed(body), facts), status, body, headers, profile), { retryable })
  }).pipe(
    Effect.catchDefect(() => {
      const description = `The provider answered with status ${response.status} and an unreadable body.`
      return Effect.succeed(modelError(new ProviderFault({ description })))
    })
  )

/** The provider's id of the request, unchecked. {@link redactError} drops an id that is malformed or contains a secret. */
export const requestIdOf = (headers: Headers): string | undefined => {
  const id = headers["x-request-id"] ?? headers["request-id"] ?? headers["x-amzn-requestid"]
  return id === "" ? undefined : id
}

/**
 * Returns the error in a form that may be shown: its description without the secrets that were sent, on one line of at most 500
 * characters, and with the provider's id of the request.
 */
export const redactError = (
  error: ModelError,
  secrets: ReadonlyArray<string>,
  requestId?: string
): ModelError => {
  const { reason } = error
  const id = [error.requestId, requestId].find(
    (id) => id !== undefined && /^[\w.:-]{1,200}$/.test(id) && !secrets.some((secret) => id.includes(secret))
  )
  return changed(error, { reason: described(reason, tidy(reason.description, secrets)), requestId: id })
}

const longestDescription = 500

/** White space, and characters that control a terminal or the direction of text. */
const invisible = /[\s\p{Cc}\p{Bidi_Control}]+/gu

/** Removes the secrets before cutting: a part of a secret is one, too. */
const tidy = (text: string, secrets: ReadonlyArray<string>): string => {
  let out = text
  for (const secret of secrets) out = out.replace(spellingsOf(secret), "[REDACTED:secret]")
  out = out.replace(invisible, " ").trim()
  return out.length <= longestDescription ? out : `${out.slice(0, longestDescription - 1)}…`
}

/** Matches the secret as sent, and as a server may repeat it: escaped for an address, JSON or HTML, or as base64. */
const spellingsOf = (secret: string): RegExp => {
  const letter = (char: string) =>
    /[a-z0-9]/i.test(char)
      ? char
      : `(?:\\\\?${escaped(char)}|(?:%[0-9a-f]{2})+|&#?\\w{1,8};|\\\\u[0-9a-f]{4})`
  const packed = Base64.encode(secret).replace(/=+$/, "")
  return new RegExp(`${[...secret].map(letter).join("")}|${escaped(packed)}`, "gi")
}

const escaped = (text: string): string => text.replaceAll(/[^a-z0-9]/gi, String.raw`\$&`)

/** Parses a body that looks like JSON. Any other body stays text. */
const parsed = (body: string): unknown => {
  const text = body.trim()
  return /^[{["]/.test(text) ? (parseJson(text) ?? text) : text
}

/** Reads `x-should-retry`. OpenAI's and Anthropic's own clients follow this header, too. */
export const shouldRetry = (headers: Headers): boolean | undefined => {
  const said = headers["x-should-retry"]
  return said === "true" ? true : said === "false" ? false : undefined
}

const explain = (
  reason: Reason,
  status: number,
  body: string,
  headers: Headers,
  profile: ModelProfile
): Reason => {
  if (reason._tag === "InvalidRequest" && (status === 404 || status === 405 || status === 501)) {
    const said = parsed(body)
    if (speaksOfModel(said) || (status === 404 && speaksOfRequest(said))) return reason
    return new InvalidRequest({ description: `${reason.description} ${addressHint(profile)}` })
  }
  if (status < 400) {
    return new InvalidResponse({
      description:
        status >= 300 && headers.location !== undefined
          ? `The server redirects the request to ${target(headers.location, profile)}. Redirects are not followed, because they would send the key there: set that address as the base URL of ${profile.name} if it is right.`
          : `The server answered with status ${status}, which is neither an answer nor an error.`
    })
  }
  return reason
}

const target = (location: string, profile: ModelProfile): string => {
  const url = URL.parse(location, profile.baseUrl)
  return url === null ? "another address" : url.origin
}

const paths: Readonly<Record<ProtocolName, string>> = {
  chat: "/chat/completions",
  responses: "/responses",
  messages: "/messages"
}

/** A hint on what to check when the address does not exist. */
const addressHint = ({ baseUrl, name, protocol }: ModelProfile): string => {
  const path = (URL.parse(baseUrl)?.pathname ?? "").replace(/\/+$/, "")
  if (/\/v\d+\/v\d+$/.test(path)) {
    return `The base URL of ${name} contains the version twice (${path}): remove one.`
  }
  if (path.endsWith(paths[protocol])) {
    return `The base URL of ${name} ends in ${paths[protocol]}, which is added to it: remove that.`
  }
  const others = Object.keys(paths).filter((name) => name !== protocol)
  const version = /\/v\d+/.test(path) ? "" : ` The base URL contains no version: most end in /v1.`
  return `The server does not know ${path}${paths[protocol]}: perhaps it speaks "${others.join('" or "')}" instead of "${protocol}"; see the protocol of ${name}.${version}`
}
