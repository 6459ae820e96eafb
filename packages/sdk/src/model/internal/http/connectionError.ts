/**
 * Describes a failed connection by its error code. The message of the cause is not used, since it may contain the request, with its key.
 */
import type * as HttpClientError from "effect/http/HttpClientError"
import { ConnectionLost, InvalidRequest, type ModelError } from "../../ModelError.ts"
import type { ModelProfile } from "../../ModelProfile.ts"
import { modelError } from "../modelError.ts"

/** The host of a profile's server, for messages. */
export const hostOf = ({ baseUrl, name }: ModelProfile): string => URL.parse(baseUrl)?.host ?? name

/** Converts an error of the HTTP client to a `ModelError`. */
export const connectionError = (
  error: HttpClientError.HttpClientError,
  profile: ModelProfile
): ModelError => {
  const where = hostOf(profile)
  if (error.reason._tag === "InvalidUrlError" || error.reason._tag === "EncodeError") {
    return modelError(new InvalidRequest({ description: `The request to ${where} cannot be sent.` }))
  }
  const code = codeOf(error.reason.cause)
  if (code !== undefined && /CERT|SELF_SIGNED|ERR_TLS|UNABLE_TO_/.test(code)) {
    const description = `The certificate of ${where} is not accepted (${code}): check the base URL, or give Node the authority that signed it.`
    return modelError(new ConnectionLost({ description }), { retryable: false })
  }
  if (code === "ERR_SSL_WRONG_VERSION_NUMBER") {
    const description = `The server at ${where} does not speak https: if it speaks http, begin the base URL with http://.`
    return modelError(new ConnectionLost({ description }), { retryable: false })
  }
  const known = code === undefined ? undefined : words[code]
  const why = known === undefined ? (code === undefined ? "" : ` (${code})`) : `: ${known} (${code})`
  return modelError(new ConnectionLost({ description: `The connection to ${where} failed${why}.` }))
}

const words: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there",
  ECONNRESET: "it was closed",
  EPIPE: "it was closed",
  UND_ERR_SOCKET: "it was closed",
  ENOTFOUND: "there is no such host",
  EAI_AGAIN: "the name could not be looked up",
  ETIMEDOUT: "the server did not answer",
  UND_ERR_CONNECT_TIMEOUT: "the server did not answer",
  UND_ERR_HEADERS_TIMEOUT: "the server did not answer",
  UND_ERR_BODY_TIMEOUT: "the server stopped sending",
  HTTPParserError: "the response is not HTTP, so check the base URL"
}

const codeOf = (cause: unknown): string | undefined => {
  for (let at = cause, depth = 0; typeof at === "object" && at !== null && depth < 5; depth++) {
    if ("code" in at && typeof at.code === "string" && /^[A-Z0-9_]{1,60}$/.test(at.code)) return at.code
    // Often without a code.
    if ("name" in at && at.name === "HTTPParserError") return at.name
    at = "cause" in at ? at.cause : undefined
  }
  return undefined
}
